#pragma once
// The first message each way once TLS stands: each end tells its name and its program, and compares those of the other.

#include <cstdint>
#include <string>
#include <string_view>

namespace estrain::net {

inline constexpr int64_t protocol_version = 6;  // of frames and their kinds
inline constexpr uint32_t most_greeting_bytes = 4096;

struct Greeting {
  int64_t protocol = protocol_version;
  std::string version;  // of estrain
  uint64_t build = 0;   // core/base/process/build_id.h: hosts of a job run one build, for its bits
  std::string host;     // the name by which device lists call it
  std::string purpose;  // what the connection is for: the words are those of its users
  std::string run;      // which run it is about
  int64_t term = 0;     // which coordinator of the run it knows (core/launch/directory/term.h)
  bool clear = false;   // of the side that connects: large payloads go without encryption

  std::string to_json() const;
  // Throws Fault::corrupt.
  static Greeting from_json(std::string_view text);
};

// Throws Fault::mismatch where they cannot work together: another protocol, version or build.
void require_same_program(const Greeting& own, const Greeting& peer);

}  // namespace estrain::net
