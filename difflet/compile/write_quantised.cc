#include "difflet/compile/write_quantised.h"

#include <map>
#include <utility>

#include "difflet/base/error.h"
#include "difflet/base/json.h"
#include "difflet/compile/int8_weight.h"

namespace difflet::compile {
namespace {

using graph::passes::int8_name;
using graph::passes::scale_name;
using graph::passes::smooth_name;

// The int8 form of weight [N, K].
std::vector<io::TensorDecl> int8_tensors(const std::string& weight, const Shape& shape,
                                         const graph::passes::LinearQuant& quant) {
  std::vector<io::TensorDecl> tensors{{int8_name(weight), DType::I8, shape},
                                      {scale_name(weight), DType::F32, Shape{shape[0]}}};
  if (quant.smooth) {
    tensors.push_back({smooth_name(weight), DType::F32, Shape{shape[1]}});
  }
  return tensors;
}

std::uint64_t bytes_of(const std::vector<io::TensorDecl>& tensors) {
  std::uint64_t bytes = 0;
  for (const io::TensorDecl& tensor : tensors) {
    bytes += tensor.bytes();
  }
  return bytes;
}

// Names of the tensors to be written, in their float form.
std::vector<std::string> kept_names(const ComponentFolder& folder) {
  std::vector<std::string> names = folder.checkpoint().names();
  std::erase_if(names, [&](const std::string& name) { return folder.model().ignores(name); });
  return names;
}

// diffusers and transformers look for other names.
std::string stem_of(const io::Checkpoint& checkpoint, const std::string& tensor) {
  const std::string file = checkpoint.file_of(tensor).filename().string();
  return file.starts_with("model") ? "model" : "diffusion_pytorch_model";
}

void write_config(const ComponentFolder& folder, const ComponentQuant& quant,
                  const std::filesystem::path& output) {
  Json config = read_json_file(folder.path() / "config.json");
  config[kQuantConfigField] = quant_config(quant);
  const std::string text = config.dump(2) + "\n";
  write_file_atomic(output / "config.json", std::as_bytes(std::span(text)));
}

void put_int8(io::CheckpointWriter& writer, const std::string& weight, const HostTensor& floats,
              const graph::passes::LinearQuant& quant, const SmoothVectors& vectors,
              ThreadPool& threads) {
  std::span<const float> smooth;
  if (quant.smooth) {
    const auto found = vectors.find(weight);
    check(found != vectors.end(), ErrorCode::InvalidArgument,
          "there is no smoothing vector for '{}': it takes calibration", weight);
    smooth = found->second;
    writer.put(smooth_name(weight),
               HostTensor::from(Shape{static_cast<std::int64_t>(smooth.size())}, smooth));
  }
  const Int8Weight made = quantise_weight(weight, floats, smooth, threads);
  writer.put(int8_name(weight), made.values);
  writer.put(scale_name(weight), made.scale);
}

}  // namespace

std::vector<io::TensorDecl> quantised_tensors(const ComponentFolder& folder,
                                              const LinearQuantPlan& plan) {
  std::vector<io::TensorDecl> tensors;
  for (const std::string& name : kept_names(folder)) {
    const io::TensorEntry& entry = folder.checkpoint().entry(name);
    if (const auto planned = plan.find(name); planned != plan.end()) {
      for (io::TensorDecl& tensor : int8_tensors(name, entry.shape, planned->second)) {
        tensors.push_back(std::move(tensor));
      }
    } else {
      tensors.push_back({name, entry.dtype, entry.shape});
    }
  }
  return tensors;
}

void write_quantised(const ComponentFolder& folder, const ComponentQuant& quant,
                     const SmoothVectors& smooth, const std::string& variant,
                     const std::filesystem::path& output, ThreadPool& threads,
                     const std::function<void(std::size_t, std::size_t)>& progress) {
  require(!folder.quant().stored, "a folder of float weights is quantised");
  const LinearQuantPlan plan = quant.plan();
  const io::Checkpoint& checkpoint = folder.checkpoint();
  const std::vector<std::string> names = kept_names(folder);
  check(!names.empty(), ErrorCode::DataLoss, "{}: there are no weights", folder.path().string());
  io::CheckpointWriter writer(output, {stem_of(checkpoint, names.front()), variant},
                              quantised_tensors(folder, plan));
  for (std::size_t i = 0; i < names.size(); ++i) {
    progress(i, names.size());
    const HostTensor floats = checkpoint.tensor(names[i]);
    if (const auto planned = plan.find(names[i]); planned != plan.end()) {
      naming_file(checkpoint, names[i],
                  [&] { put_int8(writer, names[i], floats, planned->second, smooth, threads); });
    } else {
      writer.put(names[i], floats);
    }
    checkpoint.release(names[i]);
  }
  progress(names.size(), names.size());
  writer.finish();
  write_config(folder, quant, output);
}

std::vector<GroupSize> group_sizes(const ComponentQuant& quant, const io::Checkpoint& floats) {
  std::map<std::string, GroupSize> groups;
  const LinearQuantPlan plan = quant.plan();
  for (const auto& [weight, layer] : quant.layers) {
    const io::TensorEntry& entry = floats.entry(weight);
    const std::uint64_t before = entry.end - entry.begin;
    const auto planned = plan.find(weight);
    GroupSize& size = groups[layer.group];
    size.group = layer.group;
    ++size.layers;
    size.kept += planned == plan.end() ? 1 : 0;
    size.before += before;
    size.after += planned == plan.end()
                      ? before
                      : bytes_of(int8_tensors(weight, entry.shape, planned->second));
  }
  std::vector<GroupSize> sizes;
  sizes.reserve(groups.size());
  for (auto& [name, size] : groups) {
    sizes.push_back(std::move(size));
  }
  return sizes;
}

}  // namespace difflet::compile
