#include "difflet/backends/bands/executable.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "difflet/base/error.h"

namespace difflet::bands {

using graph::NodeId;
using runtime::CompiledProgram;
using runtime::Port;
using runtime::StepTime;

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Bytes of one value, whoever owns them.
struct Place {
  std::byte* data = nullptr;
  std::shared_ptr<const void> owner;
};

// Rows of a value as a tensor: in place where they lie together, else a copy.
HostTensor read_rows(const KeptValue& value, const Place& place, RowRange rows) {
  const std::size_t row = value.row_bytes();
  const graph::Type type = value.of(rows.size());
  const std::size_t first = static_cast<std::size_t>(rows.first) * row;
  const std::size_t bytes = static_cast<std::size_t>(rows.size()) * row;
  if (value.outer() == 1) {
    return {type.dtype, type.shape, {place.data + first, bytes}, place.owner};
  }
  HostTensor part(type.dtype, type.shape);
  std::byte* to = part.mutable_bytes().data();
  const std::size_t all = static_cast<std::size_t>(value.rows.count) * row;
  for (std::int64_t i = 0; i < value.outer(); ++i) {
    const auto n = static_cast<std::size_t>(i);
    std::memcpy(to + n * bytes, place.data + n * all + first, bytes);
  }
  return part;
}

void write_rows(const KeptValue& value, const Place& place, RowRange rows, const HostTensor& part) {
  const std::size_t row = value.row_bytes();
  const std::size_t bytes = static_cast<std::size_t>(rows.size()) * row;
  const std::size_t all = static_cast<std::size_t>(value.rows.count) * row;
  for (std::int64_t i = 0; i < value.outer(); ++i) {
    const auto n = static_cast<std::size_t>(i);
    std::memcpy(place.data + n * all + static_cast<std::size_t>(rows.first) * row,
                part.bytes().data() + n * bytes, bytes);
  }
}

// Statistics of a picture from those of its bands, by Chan's update, in f64: GroupStatistics gives more than
// f32 of each, so that the whole's are what they would be without bands.
class Statistics {
 public:
  void add(const HostTensor& band, std::int64_t rows) {
    const auto parts = band.as<float>();
    shape_ = band.shape();
    moments_.resize(parts.size() / 4);
    const auto n = static_cast<double>(rows);
    const double both = rows_ + n;
    for (std::size_t i = 0; i < moments_.size(); ++i) {
      const float* part = &parts[i * 4];
      const double mean = static_cast<double>(part[0]) + static_cast<double>(part[2]);
      const double variance = static_cast<double>(part[1]) + static_cast<double>(part[3]);
      Moments& m = moments_[i];
      const double delta = mean - m.mean;
      m.mean += delta * n / both;
      m.deviations += variance * n + delta * delta * rows_ * n / both;
    }
    rows_ = both;
  }
  // f32 [B, groups, 4]
  HostTensor whole() const {
    HostTensor out(DType::F32, shape_);
    const auto parts = out.mutable_as<float>();
    for (std::size_t i = 0; i < moments_.size(); ++i) {
      put(moments_[i].mean, &parts[i * 4]);
      put(moments_[i].deviations / rows_, &parts[i * 4 + 1]);
    }
    return out;
  }

 private:
  // Squared deviations are summed in units of rows.
  struct Moments {
    double mean = 0, deviations = 0;
  };
  static void put(double value, float* part) {
    part[0] = static_cast<float>(value);
    part[2] = static_cast<float>(value - static_cast<double>(part[0]));
  }

  Shape shape_;
  std::vector<Moments> moments_;  // of each group of each picture
  double rows_ = 0;
};

}  // namespace

// One run of the bundle.
class BandExecutable::Run {
 public:
  Run(BandExecutable& executable, const HostTensor& input)
      : e_(executable), bundle_(executable.bundle_), start_(std::chrono::steady_clock::now()) {
    std::size_t most = 0;
    for (std::size_t i = 0; i < bundle_.legs.size(); ++i) {
      most = std::max(most, place_of(bundle_, i).bytes);
    }
    block_ = std::make_shared<HugeBuffer>(most);
    // Only read.
    auto* data = const_cast<std::byte*>(input.bytes().data());
    places_[bundle_.legs.front().from] = {data, std::make_shared<HostTensor>(input)};
  }

  HostTensor run() {
    for (std::size_t i = 0; i < bundle_.legs.size(); ++i) {
      run_leg(i);
    }
    return std::move(*output_);
  }

 private:
  void run_leg(std::size_t i) {
    const BandLeg& leg = bundle_.legs[i];
    const LegPlace place = place_of(bundle_, i);
    const bool last = i + 1 == bundle_.legs.size();
    if (i > 0) {
      std::byte*& from = places_.at(leg.from).data;
      const std::size_t bytes = bundle_.values.at(leg.from).bytes();
      std::memmove(block_->data() + place.from, from, bytes);
      from = block_->data() + place.from;
    }
    for (const BandPass& pass : leg.passes) {
      if (!pass.statistics) {
        places_[pass.node] = make_place(leg, pass.node, last);
      }
      run_pass(pass);
    }
    const NodeId input = bundle_.legs.front().from;
    std::erase_if(places_, [&](const auto& p) { return p.first != input && p.first != leg.to; });
    statistics_.clear();
    if (!last) {
      block_->discard(bundle_.values.at(leg.to).bytes());
    }
  }

  Place make_place(const BandLeg& leg, NodeId node, bool last) {
    const KeptValue& value = bundle_.values.at(node);
    if (node != leg.to) {
      const auto own = std::make_shared<HugeBuffer>(value.bytes());
      return {own->data(), own};
    }
    if (last) {
      output_.emplace(value.type.dtype, value.type.shape);
      return {output_->mutable_bytes().data(), nullptr};
    }
    return {block_->data(), block_};
  }

  void run_pass(const BandPass& pass) {
    std::map<std::string, HostTensor> carried;
    std::optional<std::size_t> loaded;
    std::unique_ptr<runtime::Executable> executable;
    for (const BandRun& run : pass.runs) {
      const CompiledProgram& program = bundle_.programs[run.program];
      if (loaded != run.program) {
        executable.reset();
        executable = e_.inner_->load(program, e_.weights_, e_.context_, e_.options_);
        loaded = run.program;
      }
      std::vector<HostTensor> inputs = inputs_of(program, run, carried);
      carried.clear();
      const double begin = seconds_since(start_);
      std::vector<HostTensor> outputs = executable->run(inputs);
      inputs.clear();
      add_times(run.program, executable->profile(), begin);
      require(outputs.size() == program.outputs.size(), "a band with another number of outputs");
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (program.outputs[i].name != "band") {
          carried.emplace(program.outputs[i].name, std::move(outputs[i]));
        } else if (pass.statistics) {
          statistics_[pass.node].add(outputs[i], run.rows.size());
        } else {
          write_rows(bundle_.values.at(pass.node), places_.at(pass.node), run.rows, outputs[i]);
        }
      }
    }
  }

  std::vector<HostTensor> inputs_of(const CompiledProgram& program, const BandRun& run,
                                    std::map<std::string, HostTensor>& carried) const {
    std::vector<HostTensor> inputs;
    std::size_t k = 0;
    for (const Port& port : program.inputs) {
      const PortName name = parse_port(port.name);
      if (name.kind == "value") {
        const KeptValue& value = bundle_.values.at(name.node);
        const std::int64_t rows = port.type.shape[value.rows.axis] / value.rows.unit;
        const std::int64_t first = run.first[k++];
        inputs.push_back(read_rows(value, places_.at(name.node), {first, first + rows}));
      } else if (name.kind == "statistics") {
        inputs.push_back(statistics_.at(name.node).whole());
      } else {
        inputs.push_back(std::move(carried.at(port.name)));
      }
    }
    return inputs;
  }

  // Sums up what the steps of a program take in all its runs.
  void add_times(std::size_t program, std::vector<StepTime> steps, double begin) {
    std::vector<StepTime>& sums = e_.times_[program];
    for (StepTime& step : steps) {
      step.start_s += begin;
    }
    if (sums.empty()) {
      sums = std::move(steps);
      return;
    }
    for (std::size_t i = 0; i < std::min(sums.size(), steps.size()); ++i) {
      sums[i].seconds += steps[i].seconds;
      sums[i].flops += steps[i].flops;
      sums[i].bytes += steps[i].bytes;
    }
  }

  BandExecutable& e_;
  const Bundle& bundle_;
  std::chrono::steady_clock::time_point start_;
  std::shared_ptr<HugeBuffer> block_;  // of `from` and `to`
  std::map<NodeId, Place> places_;
  std::map<NodeId, Statistics> statistics_;
  std::optional<HostTensor> output_;
};

BandExecutable::BandExecutable(const CompiledProgram& program, Bundle bundle,
                               const runtime::MemoryReport& memory, Weights weights,
                               const runtime::Backend& inner, const Context& context,
                               const runtime::BackendOptions& options)
    : name_(program.name),
      input_(program.inputs.front()),
      bundle_(std::move(bundle)),
      memory_(memory),
      weights_(std::move(weights)),
      inner_(&inner),
      context_(context),
      options_(options) {}

std::vector<HostTensor> BandExecutable::run(const std::vector<HostTensor>& inputs) {
  check(inputs.size() == 1, ErrorCode::InvalidArgument, "program '{}' takes 1 inputs, not {}",
        name_, inputs.size());
  const graph::Type given{inputs[0].dtype(), inputs[0].shape()};
  check(given == input_.type, ErrorCode::InvalidArgument,
        "input '{}' of program '{}' must be {}, not {}", input_.name, name_, input_.type.str(),
        given.str());
  times_.clear();
  std::vector<HostTensor> outputs;
  outputs.push_back(Run(*this, inputs[0]).run());
  return outputs;
}

std::vector<std::string> BandExecutable::explain() const {
  Context context = context_;
  return lines_of(bundle_, *inner_, context, options_);
}

std::vector<StepTime> BandExecutable::profile() const {
  std::vector<StepTime> all;
  for (const auto& [program, steps] : times_) {
    all.insert(all.end(), steps.begin(), steps.end());
  }
  std::ranges::stable_sort(all, {}, &StepTime::start_s);
  return all;
}

std::vector<std::string> lines_of(const Bundle& bundle, const runtime::Backend& inner,
                                  Context& context, const runtime::BackendOptions& options) {
  std::vector<std::string> lines{"in bands of rows: " + bundle.summary};
  for (std::size_t i = 0; i < bundle.programs.size(); ++i) {
    for (const std::string& line : inner.explain(bundle.programs[i], context, options)) {
      lines.push_back(fmt::format("band {}: {}", i, line));
    }
  }
  return lines;
}

}  // namespace difflet::bands
