// Writes a transformer folder of FLUX.1's full width (3072, 24 heads) with any number of blocks and
// deterministic random bf16 weights, in the layout of a diffusers checkpoint: config.json, shards of
// about 2 GB and their index; beside it the inputs of one step for `difflet eval`.
//
//   synthetic_checkpoint --output DIR [--double N] [--single N] [--tokens N] [--text N]
//
// DIR/transformer/ is the component, DIR/inputs.safetensors the inputs.
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "bench/random_weights.h"

#include "difflet/base/error.h"
#include "difflet/base/file.h"
#include "difflet/base/json.h"
#include "difflet/io/safetensors.h"
#include "difflet/models/flux/transformer.h"

namespace {

using namespace difflet;  // NOLINT(google-build-using-namespace): a program, not a header
namespace fs = std::filesystem;

struct Options {
  std::int64_t doubles = 2, singles = 4, tokens = 1024, text = 512;
  fs::path output;
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string key = argv[i];
    const std::string value = argv[i + 1];
    const std::map<std::string, std::int64_t*> numbers{{"--double", &o.doubles},
                                                       {"--single", &o.singles},
                                                       {"--tokens", &o.tokens},
                                                       {"--text", &o.text}};
    const auto number = numbers.find(key);
    check(number != numbers.end() || key == "--output", ErrorCode::InvalidArgument,
          "unknown option {}", key);
    if (number != numbers.end()) {
      *number->second = std::strtoll(value.c_str(), nullptr, 10);
    } else {
      o.output = value;
    }
  }
  check(!o.output.empty(), ErrorCode::InvalidArgument, "--output is missing");
  return o;
}

void write_json(const fs::path& path, const Json& json) {
  const std::string text = json.dump(2) + "\n";
  write_file_atomic(path, std::as_bytes(std::span(text)));
}

Json config_json(const flux::Config& c) {
  return {{"_class_name", "FluxTransformer2DModel"},
          {"_diffusers_version", "0.42.1"},
          {"attention_head_dim", c.attention_head_dim},
          {"axes_dims_rope", c.axes_dims_rope},
          {"guidance_embeds", c.guidance_embeds},
          {"in_channels", c.in_channels},
          {"joint_attention_dim", c.joint_attention_dim},
          {"num_attention_heads", c.num_attention_heads},
          {"num_layers", c.num_layers},
          {"num_single_layers", c.num_single_layers},
          {"patch_size", c.patch_size},
          {"pooled_projection_dim", c.pooled_projection_dim}};
}

// Shards are written as soon as they are full, so that memory stays small.
void write_weights(const graph::Graph& graph, const fs::path& folder) {
  constexpr std::size_t kShardBytes = std::size_t{2} << 30U;
  std::vector<std::vector<graph::ParamDecl>> shards(1);
  std::size_t bytes = 0;
  std::size_t total = 0;
  for (const graph::ParamDecl& param : graph.params()) {
    const auto size = static_cast<std::size_t>(param.shape.elements()) * dtype_bytes(param.dtype);
    if (bytes + size > kShardBytes && !shards.back().empty()) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(param);
    bytes += size;
    total += size;
  }
  Json map = Json::object();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name =
        fmt::format("diffusion_pytorch_model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    std::map<std::string, HostTensor> tensors;
    for (const graph::ParamDecl& param : shards[i]) {
      tensors.emplace(param.name, bench::random_weight(param.name, param.dtype, param.shape));
      map[param.name] = name;
    }
    io::write_safetensors(folder / name, tensors, {{"format", "pt"}});
  }
  write_json(folder / "diffusion_pytorch_model.safetensors.index.json",
             {{"metadata", {{"total_size", total}}}, {"weight_map", map}});
}

HostTensor positions(std::int64_t tokens, std::int64_t width) {
  HostTensor t(DType::F32, Shape{tokens, 3});
  for (std::int64_t i = 0; i < tokens; ++i) {
    const std::int64_t row = i / width;
    t.mutable_as<float>()[static_cast<std::size_t>(3 * i + 1)] = static_cast<float>(row);
    t.mutable_as<float>()[static_cast<std::size_t>(3 * i + 2)] = static_cast<float>(i % width);
  }
  return t;
}

int run(const Options& o) {
  flux::Config config;
  config.num_layers = o.doubles;
  config.num_single_layers = o.singles;
  const models::ShapeMap shapes{
      {"hidden_states", Shape{1, o.tokens, config.in_channels}},
      {"encoder_hidden_states", Shape{1, o.text, config.joint_attention_dim}},
      {"pooled_projections", Shape{1, config.pooled_projection_dim}},
      {"timestep", Shape{1}},
      {"img_ids", Shape{o.tokens, 3}},
      {"txt_ids", Shape{o.text, 3}}};
  const fs::path folder = o.output / "transformer";
  fs::create_directories(folder);
  write_json(folder / "config.json", config_json(config));
  write_weights(flux::Transformer(config).trace(shapes, DType::BF16, {}), folder);
  const auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(o.tokens)));
  io::write_safetensors(
      o.output / "inputs.safetensors",
      {{"hidden_states", bench::random_tensor(shapes.at("hidden_states"), 1)},
       {"encoder_hidden_states", bench::random_tensor(shapes.at("encoder_hidden_states"), 2)},
       {"pooled_projections", bench::random_tensor(shapes.at("pooled_projections"), 3)},
       {"timestep", HostTensor::from(Shape{1}, std::vector<float>{0.75F})},
       {"img_ids", positions(o.tokens, std::max<std::int64_t>(1, side))},
       {"txt_ids", HostTensor(DType::F32, Shape{o.text, 3})}});
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const difflet::Error& e) {
    fmt::print(stderr, "synthetic_checkpoint: {}\n", e.message());
    return difflet::exit_status(e.code());
  }
}
