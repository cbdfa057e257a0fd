// The tables. Order is the order of help and of docs/reference/cli.md.
#include <array>

#include "difflet/base/options.h"

namespace difflet {
namespace {

using enum OptionType;
constexpr OptionEffect kCompile = OptionEffect::Compile;

constexpr std::array kCommands{
    CommandDecl{
        "download", "get a model from the Hugging Face hub",
        "Takes from the repository ID (org/name) what its pipeline needs, into the cache that "
        "huggingface_hub and other tools share, and prints the folder. What is there already, also "
        "from other tools, is not asked for again; what an interrupted download left is resumed. "
        "Every file is checked against the hash that the hub names. Reads HF_HOME, HF_HUB_CACHE, "
        "HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE and the proxy variables. With --json standard "
        "output "
        "carries events plan, progress, note, then done or error."},
    CommandDecl{
        "generate", "make pictures from a prompt",
        "The output's extension chooses the format: .png, .jpg, .jpeg or .webp. With --n above 1 "
        "the files are x-0.png, x-1.png, ... Each path is printed on standard output when the "
        "file is complete; prompt, seed, steps and the other parameters are embedded as text. "
        "With --json standard output carries one JSON object a line instead: events start, "
        "stage, step, output, then done or error. One generator draws the noise of all pictures of "
        "a call, "
        "as diffusers does. Ctrl-C stops within one step and leaves no partial file."},
    CommandDecl{
        "inspect", "show what is in a checkpoint and how it would run",
        "Lists the components of a diffusers folder, or of one component's folder, with class, "
        "parameters, bytes and planned memory. --graph prints the traced program of --component, "
        "--why the kernels that would run it and what was refused."},
    CommandDecl{
        "eval", "run one component on given tensors",
        "Inputs are named as the arguments of the original module's forward (VAE: decode's z), "
        "outputs as its results; floats are converted to the program's dtype, integers to I32, "
        "and float outputs are stored as F32. --model may hold the component in a folder of that "
        "name or be the component's folder itself. With --json the last line is "
        "{\"load_s\": ..., \"runs\": [{\"wall_s\": ..., \"cpu_s\": ...}], \"peak_rss_bytes\": "
        "...}: "
        "load_s includes what the first run takes beyond the median of all, cpu_s sums all "
        "threads."},
    CommandDecl{
        "tokenize", "turn lines of text into token ids",
        "Reads UTF-8 lines from standard input, split at \\n only, and prints one JSON list of ids "
        "for each, with special tokens, neither padded nor truncated; --pad prints what the "
        "pipeline feeds instead."},
    CommandDecl{
        "run", "download, compile and generate in one go",
        "What is there already is used: files in the hub's cache, artifacts in the store. "
        "--dry-run "
        "prints what would be downloaded and compiled, and how large it is, and does neither. The "
        "paths of the pictures are printed on standard output, all else on standard error; with "
        "--json standard output carries the events of download, compile and generate."},
    CommandDecl{
        "compile", "compile a model into the artifact store",
        "Compiles every component for the sizes of --shapes (or --width and --height) and packs "
        "its weights, once: generate, eval and a second compile with the same options use what is "
        "there. With --component and --inputs one component, for the shapes of given tensors. "
        "Each line names a component, its key and what was done."},
    CommandDecl{
        "verify", "compare a backend with the reference, block by block",
        "Runs the components (or --component) on the reference backend, and each of its blocks on "
        "--backend with the "
        "reference's values as inputs, and prints for each block the largest differences and where "
        "they are. Without --inputs the inputs are noise of a fixed seed. Ends with exit status 6 "
        "when a block differs by more than --tolerance."},
    CommandDecl{
        "bench roofline", "measure the machine's ceilings and how near a component comes to them",
        "Prints what the cores compute on registers and what each cache and the memory deliver, "
        "median and spread of windows in which no thread was descheduled. With --model (and "
        "--component, --inputs or a size) or --artifact runs that component, with noise of a fixed "
        "seed unless --inputs gives its inputs, and prints for each kind of kernel the operations, "
        "bytes and time, and its share of the least time that the ceilings allow. Operations are "
        "those of products; bytes are operands read once and results written once."},
    CommandDecl{
        "bench model", "write a synthetic FLUX.1 model of full width",
        "A complete diffusers folder with deterministic bf16 weights, the same bytes on every "
        "machine, "
        "and small tokenizers: any pipeline loads it, and its pictures are noise. FLUX.1-dev "
        "itself "
        "has 19 double and 38 single blocks, 24 T5 and 12 CLIP layers: 34 GB. A folder of the same "
        "recipe stays as it is; one of another recipe is replaced, and anything else is refused."},
    CommandDecl{
        "cache ls", "list the artifacts of the store",
        "One line for each artifact: key, component, model, shapes, dtype, backend and size."},
    CommandDecl{"cache models", "list the models of the hub's cache",
                "One line for each: size on disk, files, id, and its revisions. The cache is "
                "shared with other "
                "tools, so no command deletes anything there."},
    CommandDecl{
        "cache lookup", "say whether generate would have to compile, and what for",
        "Takes the options of generate that decide programs. One line for each component: the key "
        "and generation that would be used, or why there is none."},
    CommandDecl{
        "cache explain-key", "print every field that a key is made of",
        "Of the artifacts named by KEY, of those that --model and its options ask for, or, with "
        "--diff, only the fields in which two artifacts differ."},
    CommandDecl{
        "cache verify", "read everything in the store and compare sizes and hashes",
        "Only those named by KEY when there are any. Ends with exit status 6 when something is "
        "damaged."},
    CommandDecl{
        "cache rm", "delete artifacts by key",
        "What a running process uses stays, and is named. Weights go with the last artifact "
        "that uses them."},
    CommandDecl{"cache gc", "delete what nothing will use again",
                "Old generations, weights without an artifact, and what interrupted writers left. "
                "What a running process uses stays."},
    CommandDecl{"cache export", "write one artifact with its weights to a tar file", ""},
    CommandDecl{"cache import", "take artifacts out of tar files into the store",
                "Names, sizes, hashes and the manifest are checked before anything is kept."},
    CommandDecl{"clean", "delete the artifact store",
                "Touches only what the store owns: other files in its folder stay, and are named."},
    CommandDecl{
        "bench run", "measure engines side by side on pinned scenarios",
        "Each engine is a process that loads once and then answers requests in turns with the "
        "others, so "
        "that a ratio comes from pairs taken one right after the other; the clock is this "
        "program's. "
        "Engines: difflet, and each adapter NAME of --adapters, with options after a colon "
        "(diffusers:compile+huge, difflet:f32, openvino:w8a8, sdcpp:best). The first is what the "
        "others are compared with. A scenario that sweeps a field is measured at each of its "
        "values. Prints a table for each and keeps every sample in --output, which grows as it "
        "goes; an "
        "engine that cannot run here is named and left out. Ends with exit status 7 when one "
        "failed."},
    CommandDecl{
        "bench compare", "compare two results of bench run",
        "Takes two files, the old and the new one, and prints for each scenario and engine of both "
        "the "
        "ratio new / old of time, CPU time and memory, with the interval that holds it with 95 % "
        "confidence. Ends with exit status 5 when a whole interval lies above 1 + --bound. "
        "Scenarios "
        "of one name that measure different things are refused; another machine is noted."},
    CommandDecl{"bench worker", "answer requests of bench run (internal)",
                "The engine 'difflet' of bench run: reads commands from standard input and writes "
                "events to standard output, as the adapters of other engines do."},
    CommandDecl{"reference", "print a page of docs/reference/ as Markdown", ""},
};

constexpr std::array kOptions{
    OptionDecl{.name = "model",
               .type = Path,
               .help = "diffusers checkpoint folder, or org/name[@revision] of the hub's cache",
               .commands = "generate inspect eval tokenize compile cache-lookup cache-explain-key "
                           "verify bench-roofline",
               .required_by = "generate inspect eval tokenize compile verify cache-lookup",
               .effect = kCompile},
    OptionDecl{
        .name = "component",
        .fallback_note = "--model is the component's own folder",
        .help = "name of a component, a folder in --model",
        .commands =
            "inspect eval tokenize compile cache-lookup cache-explain-key verify bench-roofline",
        .effect = kCompile},
    OptionDecl{.name = "prompt",
               .help = "what the picture shows; may be empty",
               .commands = "run generate",
               .required_by = "run generate"},
    OptionDecl{.name = "negative-prompt",
               .fallback_note = "none; an empty one counts as given",
               .help = "what it must not show; counts only when --true-cfg-scale is above 1",
               .commands = "run generate"},
    OptionDecl{.name = "output",
               .type = Path,
               .help = "file to write; its folder must exist",
               .commands = "run generate eval cache-export bench-run",
               .required_by = "run generate eval cache-export bench-run"},
    OptionDecl{.name = "output",
               .type = Path,
               .help = "folder to write",
               .commands = "bench-model",
               .required_by = "bench-model"},
    OptionDecl{.name = "double",
               .type = Integer,
               .fallback = "2",
               .min = 0,
               .max = 1000,
               .help = "double blocks of the transformer",
               .commands = "bench-model"},
    OptionDecl{.name = "single",
               .type = Integer,
               .fallback = "4",
               .min = 0,
               .max = 1000,
               .help = "single blocks of the transformer",
               .commands = "bench-model"},
    OptionDecl{.name = "t5-layers",
               .type = Integer,
               .fallback = "4",
               .min = 1,
               .max = 1000,
               .help = "layers of the T5 encoder",
               .commands = "bench-model"},
    OptionDecl{.name = "clip-layers",
               .type = Integer,
               .fallback = "12",
               .min = 1,
               .max = 1000,
               .help = "layers of the CLIP text model",
               .commands = "bench-model"},
    OptionDecl{.name = "inputs",
               .type = Path,
               .help = "safetensors file with the inputs",
               .commands = "eval compile cache-lookup cache-explain-key verify bench-roofline",
               .required_by = "eval",
               .effect = kCompile},
    OptionDecl{.name = "steps",
               .type = Integer,
               .fallback = "28",
               .min = 1,
               .max = 100000,
               .help = "denoising steps, at most the scheduler's num_train_timesteps",
               .commands = "run generate"},
    OptionDecl{.name = "guidance",
               .type = Number,
               .fallback = "3.5",
               .min = 0,
               .max = 1000,
               .help = "guidance of a model that has it as an input (FLUX.1-dev)",
               .commands = "run generate"},
    OptionDecl{.name = "true-cfg-scale",
               .type = Number,
               .fallback = "1",
               .min = 0,
               .max = 1000,
               .help = "classifier-free guidance with the negative prompt, on when above 1",
               .commands = "run generate"},
    OptionDecl{.name = "seed",
               .type = Seed,
               .fallback = "0",
               .help = "seed of the noise, taken modulo 2^64 as torch's manual_seed does",
               .commands = "run generate"},
    OptionDecl{
        .name = "width",
        .type = Integer,
        .fallback_note = "sample_size of the VAE",
        .min = 1,
        .max = 65536,
        .help = "pixels; a multiple of 2 * the VAE's scale (16 for FLUX.1)",
        .commands =
            "run generate inspect compile cache-lookup cache-explain-key verify bench-roofline",
        .effect = kCompile},
    OptionDecl{
        .name = "height",
        .type = Integer,
        .fallback_note = "sample_size of the VAE",
        .min = 1,
        .max = 65536,
        .help = "pixels; a multiple of 2 * the VAE's scale (16 for FLUX.1)",
        .commands =
            "run generate inspect compile cache-lookup cache-explain-key verify bench-roofline",
        .effect = kCompile},
    OptionDecl{
        .name = "n",
        .type = Integer,
        .fallback = "1",
        .min = 1,
        .max = 1000000,
        .help = "number of pictures, drawn from one generator",
        .commands =
            "run generate inspect compile cache-lookup cache-explain-key verify bench-roofline",
        .effect = kCompile},
    OptionDecl{.name = "max-sequence-length",
               .type = Integer,
               .fallback = "512",
               .min = 1,
               .max = 512,
               .help = "tokens of the T5 prompt; longer text is cut with a warning",
               .commands = "run generate inspect tokenize compile cache-lookup cache-explain-key "
                           "verify bench-roofline",
               .effect = kCompile},
    OptionDecl{.name = "dtype",
               .fallback = "bf16",
               .choices = "bf16 f32",
               .help = "type of weights and arithmetic",
               .commands = "run generate inspect eval compile cache-lookup cache-explain-key "
                           "verify bench-roofline",
               .effect = kCompile},
    OptionDecl{.name = "variant",
               .fallback_note = "files without a variant",
               .help = "variant of the weight files, for example fp16",
               .commands = "run generate inspect eval compile cache-lookup cache-explain-key "
                           "verify download bench-roofline",
               .effect = kCompile},
    OptionDecl{.name = "revision",
               .fallback = "main",
               .help = "branch, tag or commit",
               .commands = "run download"},
    OptionDecl{.name = "backend",
               .fallback = "cpu",
               .help = "what runs the programs: cpu or reference",
               .commands = "run generate inspect eval compile cache-lookup cache-explain-key "
                           "verify bench-roofline",
               .effect = kCompile},
    OptionDecl{.name = "cpu-level",
               .fallback_note = "the best that the chip has",
               .choices = "scalar avx2 avx512 avx512bf16 amx",
               .help = "instruction set of the cpu backend's kernels",
               .commands = "run generate inspect eval compile cache-lookup cache-explain-key "
                           "verify bench-roofline",
               .effect = kCompile},
    OptionDecl{.name = "shapes",
               .fallback_note = "--width and --height",
               .help = "sizes of one artifact, WIDTHxHEIGHT,...; generate refuses another size",
               .commands = "run generate compile cache-lookup cache-explain-key",
               .effect = kCompile},
    OptionDecl{
        .name = "schedule-capacity",
        .type = Integer,
        .fallback = "32",
        .min = 1,
        .max = 1000,
        .help = "timesteps that one run of the schedule program takes; more run in chunks",
        .commands =
            "run generate eval inspect compile cache-lookup cache-explain-key bench-roofline",
        .effect = kCompile},
    OptionDecl{.name = "artifact",
               .fallback = "auto",
               .choices = "auto require off",
               .help = "auto: use a matching artifact, else compile in the process and say so; "
                       "require: refuse without one; off: do not look",
               .commands = "generate eval"},
    OptionDecl{.name = "cache-dir",
               .type = Path,
               .fallback_note = "$XDG_CACHE_HOME/difflet, else ~/.cache/difflet",
               .help = "folder of the artifact store",
               .commands =
                   "run generate eval compile cache-ls cache-lookup cache-explain-key "
                   "cache-verify cache-rm cache-gc cache-export cache-import clean bench-roofline"},
    OptionDecl{.name = "weights",
               .fallback = "auto",
               .choices = "auto map copy",
               .help =
                   "an artifact's weights: map shares them between processes, copy puts them on "
                   "huge pages, auto measures which ends sooner",
               .commands = "run generate eval"},
    OptionDecl{.name = "timings",
               .type = Flag,
               .help = "print on stderr where the time until the first step went",
               .commands = "run generate eval"},
    OptionDecl{.name = "threads",
               .type = Integer,
               .fallback = "0",
               .min = 0,
               .max = 1024,
               .help = "threads; 0 is one for each core that the process may use",
               .commands = "run generate inspect eval compile verify cache-lookup "
                           "cache-explain-key cache-verify bench-roofline"},
    OptionDecl{.name = "tolerance",
               .type = Number,
               .fallback_note = "1e-4 in f32, 2e-2 in bf16",
               .min = 0,
               .max = 1e6,
               .help = "largest difference of a block, relative to its largest value",
               .commands = "verify"},
    OptionDecl{.name = "graph",
               .type = Flag,
               .help = "print the traced program of --component",
               .commands = "inspect"},
    OptionDecl{.name = "why",
               .type = Flag,
               .help = "print which kernel runs each op of --component, and why",
               .commands = "inspect"},
    OptionDecl{.name = "repeat",
               .type = Integer,
               .fallback = "1",
               .min = 1,
               .max = 1000000,
               .help = "number of runs",
               .commands = "eval bench-roofline"},
    OptionDecl{.name = "artifact",
               .help = "key of an artifact, 16 hex digits or the first few",
               .commands = "bench-roofline"},
    OptionDecl{.name = "trace",
               .type = Path,
               .help = "file for the steps as Chrome trace events, which Perfetto shows",
               .commands = "bench-roofline"},
    OptionDecl{.name = "pad",
               .type = Flag,
               .help = "truncate and pad as the pipeline does",
               .commands = "tokenize"},
    OptionDecl{.name = "key",
               .help = "key of an artifact, 16 hex digits or the first few",
               .commands = "cache-explain-key cache-verify cache-rm cache-export",
               .required_by = "cache-rm cache-export",
               .positional = true},
    OptionDecl{
        .name = "id",
        .help = "repository of the hub, org/name; run also takes a folder and org/name@revision",
        .commands = "run download",
        .required_by = "run download",
        .positional = true},
    OptionDecl{.name = "file",
               .type = Path,
               .help = "tar file that cache export wrote",
               .commands = "cache-import",
               .required_by = "cache-import",
               .positional = true},
    OptionDecl{.name = "diff",
               .help = "two keys: print the fields in which they differ",
               .commands = "cache-explain-key",
               .values = 2},
    OptionDecl{.name = "dry-run",
               .type = Flag,
               .help = "print what would be deleted, and delete nothing",
               .commands = "run cache-rm cache-gc clean"},
    OptionDecl{
        .name = "json",
        .type = Flag,
        .help = "events or results as JSON lines",
        .commands =
            "run generate inspect eval compile verify cache-ls cache-lookup cache-explain-key "
            "cache-verify cache-rm cache-gc cache-export cache-import clean download cache-models "
            "bench-roofline"},
    OptionDecl{.name = "quiet",
               .type = Flag,
               .help = "no progress and no warnings on stderr",
               .commands = "run generate inspect eval tokenize compile verify cache-lookup "
                           "cache-explain-key download bench-model bench-run"},
    OptionDecl{.name = "scenario",
               .help =
                   "names of bench/scenarios, files (.json) or all, separated by commas; of bench "
                   "worker the file that bench run wrote",
               .commands = "bench-run bench-worker",
               .required_by = "bench-run bench-worker"},
    OptionDecl{.name = "engines",
               .fallback = "difflet",
               .help = "NAME[:OPTION[+OPTION ...]], separated by commas",
               .commands = "bench-run"},
    OptionDecl{.name = "threads",
               .fallback_note = "the scenario's",
               .help = "numbers of threads to measure with, separated by commas",
               .commands = "bench-run"},
    OptionDecl{.name = "pairs",
               .type = Integer,
               .fallback = "5",
               .min = 1,
               .max = 1000,
               .help = "requests of each engine that count; one before them does not",
               .commands = "bench-run"},
    OptionDecl{.name = "cold",
               .type = Flag,
               .help = "also measure new processes up to their first output, with a dropped page "
                       "cache (needs root) and with a hot one",
               .commands = "bench-run"},
    OptionDecl{.name = "starts",
               .type = Integer,
               .fallback = "3",
               .min = 1,
               .max = 100,
               .help = "new processes of --cold, of each kind",
               .commands = "bench-run"},
    OptionDecl{
        .name = "together",
        .type = Integer,
        .fallback = "4",
        .min = 2,
        .max = 64,
        .help = "engines that are loaded at once; more take turns in groups, each with the first "
                "engine",
        .commands = "bench-run"},
    OptionDecl{.name = "timeout",
               .type = Number,
               .fallback = "1800",
               .min = 1,
               .max = 1e6,
               .help = "seconds without a sign from an engine after which it counts as hanging",
               .commands = "bench-run"},
    OptionDecl{.name = "verify-outputs",
               .type = Flag,
               .help = "compare each engine's outputs with the first one's",
               .commands = "bench-run"},
    OptionDecl{.name = "work",
               .type = Path,
               .help =
                   "folder for synthetic models, artifacts, inputs, logs and adapters' files; kept "
                   "for the next run",
               .commands = "bench-run",
               .required_by = "bench-run"},
    OptionDecl{.name = "adapters",
               .type = Path,
               .fallback_note = "bench/adapters of the source folder",
               .help = "folder of the engines' adapters: NAME.py or programs NAME",
               .commands = "bench-run"},
    OptionDecl{.name = "python",
               .fallback = "python3",
               .help = "what runs the adapters that are Python files",
               .commands = "bench-run"},
    OptionDecl{.name = "sdcpp",
               .help = "programs of stable-diffusion.cpp: PATH for the engine sdcpp, or "
                       "NAME=PATH[,NAME=PATH ...] for sdcpp:NAME",
               .commands = "bench-run"},
    OptionDecl{.name = "results",
               .type = Path,
               .help = "two files that bench run wrote, the old one first",
               .commands = "bench-compare",
               .required_by = "bench-compare",
               .positional = true},
    OptionDecl{.name = "bound",
               .type = Number,
               .fallback = "0.05",
               .min = 0,
               .max = 100,
               .help = "how much slower or larger is no regression yet",
               .commands = "bench-compare"},
    OptionDecl{.name = "page",
               .choices = "cli errors",
               .help = "which page",
               .commands = "reference",
               .required_by = "reference"},
};

}  // namespace

std::span<const OptionDecl> options() { return kOptions; }
std::span<const CommandDecl> commands() { return kCommands; }

}  // namespace difflet
