// What the components of a pipeline are run with, kept for measurements on real activations.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/pipelines/observer.h"

namespace difflet::pipelines {

// Passes everything on to another observer.
class InputRecorder : public Observer {
 public:
  // Keeps of each request, for each of `components`, at most `kept` runs: the first, the last of `steps`
  // and others spread evenly between them. (Encoders have one run, the denoiser one for each step.)
  // `next` must outlive this.
  InputRecorder(std::set<std::string, std::less<>> components, std::int64_t steps,
                std::int64_t kept, Observer& next);

  // Before a request: false keeps nothing of it.
  void begin_request(bool keep);
  // By component, in order of the runs.
  const std::map<std::string, std::vector<compile::NamedTensors>, std::less<>>& inputs() const& {
    return inputs_;
  }

  void stage_begin(std::string_view name) override { next_->stage_begin(name); }
  void stage_end(std::string_view name, double seconds) override {
    next_->stage_end(name, seconds);
  }
  void step(std::int64_t done, std::int64_t total, double seconds) override {
    next_->step(done, total, seconds);
  }
  void tensor(std::string_view name, const HostTensor& value) override {
    next_->tensor(name, value);
  }
  void component_inputs(std::string_view component, const compile::NamedTensors& inputs) override;
  void check_stop() override { next_->check_stop(); }

 private:
  std::set<std::string, std::less<>> components_;
  std::set<std::int64_t> wanted_;  // runs of a request
  Observer* next_;
  bool keep_ = true;                                       // of this request
  std::map<std::string, std::int64_t, std::less<>> runs_;  // of this request
  std::map<std::string, std::vector<compile::NamedTensors>, std::less<>> inputs_;
};

}  // namespace difflet::pipelines
