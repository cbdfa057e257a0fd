#include "difflet/compile/component.h"

#include <set>

#include "difflet/base/error.h"
#include "difflet/base/json.h"
#include "difflet/compile/quantized_weights.h"
#include "difflet/compile/stored_int8_weights.h"
#include "difflet/models/registry.h"

namespace difflet::compile {
namespace {

// The name under which the checkpoint keeps the parameter, or nothing. transformers 5 saves text
// encoders without the "text_model." prefix.
std::optional<std::string> find_name(const io::Checkpoint& checkpoint,
                                     const graph::ParamDecl& param) {
  constexpr std::string_view kTextModel = "text_model.";
  std::vector<std::string> names{param.name};
  if (param.name.starts_with(kTextModel)) {
    names.push_back(param.name.substr(kTextModel.size()));
  }
  names.insert(names.end(), param.aliases.begin(), param.aliases.end());
  for (const std::string& name : names) {
    if (checkpoint.has(name)) {
      return name;
    }
  }
  return std::nullopt;
}

// The shape without trailing axes of extent 1 beyond `rank`.
Shape squeezed(const Shape& shape, std::size_t rank) {
  std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().end());
  while (dims.size() > rank && dims.back() == 1) {
    dims.pop_back();
  }
  return Shape(dims);
}

constexpr std::size_t kShown = 20;  // problems listed in one message

}  // namespace

ComponentFolder ComponentFolder::open(const std::filesystem::path& folder,
                                      const std::string& class_name, const std::string& variant,
                                      Log& log) {
  ComponentFolder c;
  c.path_ = folder;
  check(std::filesystem::is_directory(folder), ErrorCode::NotFound,
        "{}: component folder not found", folder.string());
  const std::filesystem::path config_path = folder / "config.json";
  Json config = read_json_file(config_path);
  c.class_name_ =
      class_name.empty() ? models::component_class(config, config_path.string()) : class_name;
  models::check_component_class(config, config_path.string(), c.class_name_);
  models::ConfigReader reader(config, config_path.string());
  c.model_ = models::make_component(c.class_name_, reader);
  reader.ignore({kQuantConfigField});
  for (const std::string& key : reader.unknown()) {
    log.warn("{}: unknown field '{}' is ignored", config_path.string(), key);
  }
  c.checkpoint_ = io::Checkpoint::open(folder, variant);
  auto stored = read_quant_config(config, config_path.string(), *c.model_);
  c.quant_ = stored ? *std::move(stored) : ComponentQuant{};
  add_float_layers(c.quant_, *c.model_, c.checkpoint_);
  return c;
}

QuantSubject ComponentFolder::quant_subject() const noexcept {
  return {class_name_, model_.get(), &checkpoint_, &quant_};
}

void ComponentFolder::quantise(const QuantRequest& request) {
  quant_ = requested_layers(quant_, request, path_.string());
}

void quantise(std::span<ComponentFolder* const> folders, const QuantRequest& request) {
  if (request.empty()) {
    return;
  }
  std::vector<QuantSubject> subjects;
  subjects.reserve(folders.size());
  for (const ComponentFolder* folder : folders) {
    subjects.push_back(folder->quant_subject());
  }
  check_quant_request(subjects, request);
  for (ComponentFolder* folder : folders) {
    folder->quantise(request);
  }
}

graph::Graph ComponentFolder::trace_float(const models::ShapeMap& inputs, DType dtype,
                                          const spmd::Mesh& mesh) const {
  graph::Graph g = model_->trace(inputs, dtype, mesh);
  if (!quant_.stored) {
    check_parameters(g);
  }
  return g;
}

graph::Graph ComponentFolder::trace(const models::ShapeMap& inputs, DType dtype,
                                    const spmd::Mesh& mesh) const {
  graph::Graph floats = trace_float(inputs, dtype, mesh);
  const LinearQuantPlan plan = quant_.plan();
  if (plan.empty() && !quant_.stored) {
    return floats;
  }
  const auto quantised = [&] {
    try {
      return graph::passes::quantize_linear(floats, plan);
    } catch (Error& e) {
      e.add_context(path_.string());
      throw;
    }
  };
  graph::Graph g = quantised();
  if (quant_.stored) {
    check_parameters(g);  // names the folder itself
  }
  return g;
}

std::unique_ptr<runtime::WeightSource> ComponentFolder::weights(
    ThreadPool& threads, std::function<void()> check_stop) const {
  LinearQuantPlan plan = quant_.plan();
  if (quant_.stored) {
    return std::make_unique<StoredInt8Weights>(checkpoint_, plan, std::move(check_stop));
  }
  if (plan.empty()) {
    return std::make_unique<CheckpointWeights>(checkpoint_, std::move(check_stop));
  }
  return std::make_unique<QuantizedWeights>(checkpoint_, std::move(plan), threads,
                                            std::move(check_stop));
}

void ComponentFolder::check_parameters(const graph::Graph& graph) const {
  std::vector<std::string> problems;
  std::set<std::string> used;
  const std::set<std::string, std::less<>> stored =
      quant_.stored ? stored_int8_names(quant_.plan()) : std::set<std::string, std::less<>>{};
  for (const graph::ParamDecl& param : graph.params()) {
    const auto name = find_name(checkpoint_, param);
    if (!name) {
      problems.push_back(fmt::format("missing '{}' {}", param.name, param.shape.str()));
      continue;
    }
    used.insert(*name);
    const io::TensorEntry& entry = checkpoint_.entry(*name);
    const bool exact = stored.contains(param.name);  // as difflet quantize writes it
    if (exact ? entry.dtype != param.dtype : !is_float(entry.dtype)) {
      const std::string_view wanted = param.dtype == DType::I8 ? "I8" : "F32";
      problems.push_back(fmt::format("'{}' in {} is {}, not {}", *name,
                                     checkpoint_.file_of(*name).filename().string(),
                                     dtype_name(entry.dtype), exact ? wanted : "F32, F16 or BF16"));
    }
    if ((exact ? entry.shape : squeezed(entry.shape, param.shape.rank())) != param.shape) {
      problems.push_back(fmt::format("'{}' in {} is {}, the config asks for {}", *name,
                                     checkpoint_.file_of(*name).filename().string(),
                                     entry.shape.str(), param.shape.str()));
    }
  }
  for (const std::string& name : checkpoint_.names()) {
    if (!used.contains(name) && !model_->ignores(name)) {
      problems.push_back(fmt::format("unexpected '{}' {} in {}", name,
                                     checkpoint_.entry(name).shape.str(),
                                     checkpoint_.file_of(name).filename().string()));
    }
  }
  if (problems.empty()) {
    return;
  }
  const std::size_t count = problems.size();
  if (count > kShown) {
    problems.resize(kShown);
    problems.push_back(fmt::format("and {} more", count - kShown));
  }
  fail(ErrorCode::DataLoss, "{}: the weights do not fit {}: {}", path_.string(), class_name_,
       fmt::join(problems, "; "));
}

HostTensor CheckpointWeights::whole(const graph::ParamDecl& param) const {
  if (check_stop_) {
    check_stop_();
  }
  const auto name = find_name(*checkpoint_, param);
  check(name.has_value(), ErrorCode::DataLoss, "tensor '{}' is missing", param.name);
  return checkpoint_->tensor(*name).reshaped(param.shape);
}

void CheckpointWeights::done(const graph::ParamDecl& param) const {
  if (const auto name = find_name(*checkpoint_, param)) {
    checkpoint_->release(*name);
  }
}

}  // namespace difflet::compile
