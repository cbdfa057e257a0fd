// The tables. Order is the order of help and of docs/reference/cli.md.
#include <array>

#include "difflet/base/options.h"

namespace difflet {
namespace {

using enum OptionType;
constexpr OptionEffect kCompile = OptionEffect::Compile;

constexpr std::array kCommands{
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
    CommandDecl{"reference", "print a page of docs/reference/ as Markdown", ""},
};

constexpr std::array kOptions{
    OptionDecl{.name = "model",
               .type = Path,
               .help = "diffusers checkpoint folder",
               .commands = "generate inspect eval tokenize",
               .required_by = "generate inspect eval tokenize",
               .effect = kCompile},
    OptionDecl{.name = "component",
               .fallback_note = "--model is the component's own folder",
               .help = "name of a component, a folder in --model",
               .commands = "inspect eval tokenize",
               .effect = kCompile},
    OptionDecl{.name = "prompt",
               .help = "what the picture shows; may be empty",
               .commands = "generate",
               .required_by = "generate"},
    OptionDecl{.name = "negative-prompt",
               .fallback_note = "none; an empty one counts as given",
               .help = "what it must not show; counts only when --true-cfg-scale is above 1",
               .commands = "generate"},
    OptionDecl{.name = "output",
               .type = Path,
               .help = "file to write; its folder must exist",
               .commands = "generate eval",
               .required_by = "generate eval"},
    OptionDecl{.name = "inputs",
               .type = Path,
               .help = "safetensors file with the inputs",
               .commands = "eval",
               .required_by = "eval"},
    OptionDecl{.name = "steps",
               .type = Integer,
               .fallback = "28",
               .min = 1,
               .max = 100000,
               .help = "denoising steps, at most the scheduler's num_train_timesteps",
               .commands = "generate"},
    OptionDecl{.name = "guidance",
               .type = Number,
               .fallback = "3.5",
               .min = 0,
               .max = 1000,
               .help = "guidance of a model that has it as an input (FLUX.1-dev)",
               .commands = "generate"},
    OptionDecl{.name = "true-cfg-scale",
               .type = Number,
               .fallback = "1",
               .min = 0,
               .max = 1000,
               .help = "classifier-free guidance with the negative prompt, on when above 1",
               .commands = "generate"},
    OptionDecl{.name = "seed",
               .type = Seed,
               .fallback = "0",
               .help = "seed of the noise, taken modulo 2^64 as torch's manual_seed does",
               .commands = "generate"},
    OptionDecl{.name = "width",
               .type = Integer,
               .fallback_note = "sample_size of the VAE",
               .min = 1,
               .max = 65536,
               .help = "pixels; a multiple of 2 * the VAE's scale (16 for FLUX.1)",
               .commands = "generate inspect",
               .effect = kCompile},
    OptionDecl{.name = "height",
               .type = Integer,
               .fallback_note = "sample_size of the VAE",
               .min = 1,
               .max = 65536,
               .help = "pixels; a multiple of 2 * the VAE's scale (16 for FLUX.1)",
               .commands = "generate inspect",
               .effect = kCompile},
    OptionDecl{.name = "n",
               .type = Integer,
               .fallback = "1",
               .min = 1,
               .max = 1000000,
               .help = "number of pictures, drawn from one generator",
               .commands = "generate inspect",
               .effect = kCompile},
    OptionDecl{.name = "max-sequence-length",
               .type = Integer,
               .fallback = "512",
               .min = 1,
               .max = 512,
               .help = "tokens of the T5 prompt; longer text is cut with a warning",
               .commands = "generate inspect tokenize",
               .effect = kCompile},
    OptionDecl{.name = "dtype",
               .fallback = "bf16",
               .choices = "bf16 f32",
               .help = "type of weights and arithmetic",
               .commands = "generate inspect eval",
               .effect = kCompile},
    OptionDecl{.name = "variant",
               .fallback_note = "files without a variant",
               .help = "variant of the weight files, for example fp16",
               .commands = "generate inspect eval",
               .effect = kCompile},
    OptionDecl{.name = "backend",
               .fallback = "cpu",
               .help = "what runs the programs: cpu or reference",
               .commands = "generate inspect eval",
               .effect = kCompile},
    OptionDecl{.name = "cpu-level",
               .fallback_note = "the best that the chip has",
               .choices = "scalar avx2 avx512 avx512bf16",
               .help = "instruction set of the cpu backend's kernels",
               .commands = "generate inspect eval",
               .effect = kCompile},
    OptionDecl{.name = "threads",
               .type = Integer,
               .fallback = "0",
               .min = 0,
               .max = 1024,
               .help = "threads; 0 is one for each core that the process may use",
               .commands = "generate inspect eval"},
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
               .commands = "eval"},
    OptionDecl{.name = "pad",
               .type = Flag,
               .help = "truncate and pad as the pipeline does",
               .commands = "tokenize"},
    OptionDecl{.name = "json",
               .type = Flag,
               .help = "events or results as JSON lines",
               .commands = "generate inspect eval"},
    OptionDecl{.name = "quiet",
               .type = Flag,
               .help = "no progress and no warnings on stderr",
               .commands = "generate inspect eval tokenize"},
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
