// What the commands have in common.
#pragma once

#include <future>
#include <memory>
#include <optional>
#include <string>

#include "difflet/base/context.h"
#include "difflet/base/options.h"
#include "difflet/tensor/dtype.h"

namespace difflet::cli {

void run_run(const OptionValues& options);
void run_generate(const OptionValues& options);
void run_inspect(const OptionValues& options);
void run_eval(const OptionValues& options);
void run_tokenize(const OptionValues& options);
void run_compile(const OptionValues& options);
void run_quantize(const OptionValues& options);
void run_verify(const OptionValues& options);
void run_bench_roofline(const OptionValues& options);
void run_bench_model(const OptionValues& options);
void run_clean(const OptionValues& options);
void run_cache_ls(const OptionValues& options);
void run_cache_lookup(const OptionValues& options);
void run_cache_explain_key(const OptionValues& options);
void run_cache_verify(const OptionValues& options);
void run_cache_rm(const OptionValues& options);
void run_cache_gc(const OptionValues& options);
void run_cache_export(const OptionValues& options);
void run_cache_import(const OptionValues& options);
void run_download(const OptionValues& options);
void run_cache_models(const OptionValues& options);
void run_bench_run(const OptionValues& options);
void run_bench_compare(const OptionValues& options);
void run_bench_worker(const OptionValues& options);
void run_reference(const OptionValues& options);

// Writes to standard output at once. Throws Unavailable (a closed pipe) or ResourceExhausted
// (disk).
void print(std::string_view text);
// Writes to standard error, where a failure has nobody left to tell: what it does not take is lost.
void print_message(std::string_view text) noexcept;
// Opens what the caller closed of descriptors 0, 1 and 2, so that no picture gets such a number and
// messages with it. Their use fails as before.
void reserve_standard_streams() noexcept;

LogLevel log_level(const OptionValues& options);
DType dtype_option(const OptionValues& options);

// The threads of --threads. Starting them takes milliseconds, so it begins in the background.
std::future<std::unique_ptr<ThreadPool>> start_threads(const OptionValues& options);

// Bytes that this process may still take: what the machine has free, within its cgroup's limit.
std::size_t available_memory();
// Largest resident size of this process so far.
std::size_t peak_memory();

// Seconds of wall clock and of CPU time of all threads since the process clock began.
struct Clock {
  double wall_s = 0, cpu_s = 0;
  static Clock now();
};

}  // namespace difflet::cli
