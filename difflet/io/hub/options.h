// What the hub's client is told; nothing below the command line reads the environment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace difflet::io::hub {

// How a snapshot refers to its blobs.
enum class LinkMode : std::uint8_t {
  Links,  // symbolic links; files where the file system refuses links
  Files,  // always files, as huggingface_hub places them where there are no links
};

struct HubOptions {
  std::filesystem::path cache;                      // holds models--ORG--NAME/
  std::string endpoint = "https://huggingface.co";  // without a slash at its end
  std::string token;                                // empty: none
  std::string http_proxy, https_proxy, no_proxy;    // as curl takes them; empty: none
  std::filesystem::path ca_bundle;                  // PEM certificates; empty: the system's
  std::string user_agent = "difflet";
  bool offline = false;
  LinkMode links = LinkMode::Links;
  std::size_t connections = 8;  // files at once
  int attempts = 6;             // of one request, as long as they bring next to nothing
  double first_delay_s = 1;     // before the second attempt; doubles up to max_delay_s
  double max_delay_s = 16;
  double max_retry_after_s = 300;  // a server that asks for more is not waited for
  double connect_timeout_s = 15;
  double stall_timeout_s = 30;  // at almost no bytes
};

// Asked often and from the thread that works; true: end with Cancelled, keeping what can be resumed.
using StopRequest = std::function<bool()>;
// A line for the user: a retry, a wait for another process.
using Note = std::function<void(const std::string&)>;

}  // namespace difflet::io::hub
