// The table of commands. Order is the order of help and of docs/reference/cli.md.
#include <array>

#include "difflet/base/options.h"

namespace difflet {
namespace {

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
        "quantize", "write a model with int8 weights",
        "Makes a folder of --output that generate, compile and the others load as any model: the "
        "denoiser's and the T5 encoder's layers as int8, what decides too much (modulation, "
        "embedders, norms, final layers) and all else as it is; large files that stay the same are "
        "hard links. w8a8 evens out columns of activations that are far larger than others "
        "(SmoothQuant), from what layers see while prompts run (--calibration), or one component "
        "while --inputs run. Layers that were seen running are measured, and one whose relative "
        "error is over 2e-2 (w8a16) or 5e-2 (w8a8) keeps its weight and is listed. compile --quant "
        "and generate --quant do the same in one go without calibration: neither smoothed nor "
        "measured. An "
        "existing folder is not overwritten; after Ctrl-C or a failure nothing is left. With "
        "--json "
        "standard output carries events stage, step, component, output, then done or error."},
    CommandDecl{
        "verify", "compare a backend with the reference, block by block",
        "Runs the components (or --component) on the reference backend, and each of its blocks on "
        "--backend with the "
        "reference's values as inputs, and prints for each block the largest differences and where "
        "they are. Without --inputs the inputs are noise of a fixed seed. Ends with exit status 6 "
        "when a block differs by more than --tolerance. "
        "With --quant or --quantized it tells instead what int8 weights cost: the error of each "
        "layer "
        "on the activations of real runs (--prompt, the first questions of --judge, or two prompts "
        "of "
        "its own; of --component on --inputs or noise), then how close pictures or results are to "
        "those without int8 weights, and with --judge how many show what was asked for. Ends with "
        "exit "
        "status 6 below --least-psnr or --least-cosine, or when more than two hits are lost."},
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

}  // namespace

std::span<const CommandDecl> commands() { return kCommands; }

}  // namespace difflet
