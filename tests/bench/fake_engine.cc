// An engine of the benchmark protocol that computes nothing; the scenario's options choose how it errs.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

#include <fmt/format.h>

#include "difflet/base/json.h"
#include "difflet/io/safetensors.h"

namespace {

using difflet::Json;

double cpu_s = 0.25;  // made up; never goes back
bool tells_time = false;
double ahead_s = 0;  // by which the clock is wrong

void send(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

void pair(const char* event, const char* name) {
  cpu_s += 0.25;
  Json json{{"event", event}, {"name", name}, {"cpu_s", cpu_s}};
  if (tells_time) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    json["clock_s"] = std::chrono::duration<double>(now).count() + ahead_s;
  }
  send(json.dump());
}

void run(bool steps) {
  pair("begin", "run");
  pair("begin", "decode");
  for (int i = 0; steps && i < 3; ++i) {
    cpu_s += 1;
    send(fmt::format(R"({{"event":"step","index":{},"cpu_s":{}}})", i, cpu_s));
  }
  pair("end", "decode");
  send(
      R"({"event":"output","name":"sample","shape":[1,2],"finite":true,"min":0,"max":1,"mean":0.5})");
  pair("end", "run");
}

// What the option words of this engine do.
void misbehave(const Json& options, const char* when) {
  const auto is = [&](const char* word) {
    return options.contains(std::string(word) + "-" + when);
  };
  if (is("die")) {
    std::fputs("fake: no such luck\n", stderr);
    std::exit(9);
  }
  if (is("crash")) {
    std::abort();
  }
  if (is("garbage")) {
    send("Loading checkpoint shards: 100%");
  }
  if (is("unsupported")) {
    send(R"({"event":"error","kind":"unsupported","message":"this chip has no flux capacitor"})");
    std::exit(1);
  }
  if (is("fail")) {
    send(R"({"event":"error","kind":"failed","message":"out of luck"})");
    std::exit(1);
  }
  if (is("hang")) {
    ::sleep(600);
  }
  if (is("fast")) {
    tells_time = true;
    ahead_s = 1000;
  }
  if (is("unordered")) {
    pair("end", "run");
  }
  if (is("long")) {
    send(std::string(3U << 20U, 'x'));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 || std::strcmp(argv[1], "--scenario") != 0) {
    return 2;
  }
  const Json scenario = difflet::read_json_file(argv[2]);
  const Json& options = scenario.at("options");
  tells_time = options.contains("clock");
  misbehave(options, "early");
  send(R"({"event":"hello","engine":"fake","versions":{"fake":"1"},"options":{}})");
  pair("begin", "load");
  pair("end", "load");
  send(R"({"event":"ready"})");
  int runs = 0;
  for (std::string line; std::getline(std::cin, line);) {
    const std::string what = difflet::parse_json(line, "command").at("do").get<std::string>();
    if (what == "run") {
      if (++runs > 1) {
        misbehave(options, "late");
      }
      run(options.contains("steps"));
    } else if (what == "save") {
      const std::string path = difflet::parse_json(line, "command").at("path").get<std::string>();
      difflet::io::write_safetensors(
          path, {{"sample", difflet::HostTensor(difflet::DType::F32, {1, 2})}});
      send(R"({"event":"saved"})");
    } else {
      return 0;
    }
  }
  return 0;
}
