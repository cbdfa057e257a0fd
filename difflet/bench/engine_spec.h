// Engines by name: a program and its options, "diffusers:compile+huge".
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/base/json.h"
#include "difflet/bench/scenario.h"

namespace difflet::bench {

struct EngineSpec {
  std::string name;     // as given
  std::string program;  // before the colon
  Json options = Json::object();
};

// NAME[:OPTION[+OPTION ...]]. Throws InvalidArgument for what is not of that form.
EngineSpec parse_engine(std::string_view text);
// Comma-separated, no name twice.
std::vector<EngineSpec> parse_engines(std::string_view text);

// Where engines are.
struct EnginePlaces {
  std::filesystem::path difflet;   // this program
  std::filesystem::path adapters;  // folder of NAME.py or of executables NAME
  std::string python = "python3";
  // stable-diffusion.cpp by variant: "sdcpp:best" is the program binaries["best"], "sdcpp" that of "".
  std::map<std::string, std::string> binaries;
};

// PATH or NAME=PATH[,NAME=PATH ...]. Throws InvalidArgument.
std::map<std::string, std::string> parse_binaries(std::string_view text);

// The words that start an engine, without --scenario; sets options that places decide. Throws
// InvalidArgument for an engine that nobody knows, with the nearest name.
std::vector<std::string> engine_command(EngineSpec& engine, const EnginePlaces& places);
// All names that engine_command() takes.
std::vector<std::string> known_programs(const EnginePlaces& places);

}  // namespace difflet::bench
