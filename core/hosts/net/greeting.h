#pragma once
// The first message each way once TLS stands: each end tells its name, its run and its program, and compares those of
// the other. All hosts of a run have one key. So the handshake alone does not prove who is at the other end: somebody
// on the way may lead a connection elsewhere, even back to where it comes from (RFC 9257, section 4.1). The names and
// the run are part of the handshake (tls.h), and both ends compare them here.

#include <cstdint>
#include <string>
#include <string_view>

namespace estrain::net {

inline constexpr int64_t protocol_version = 7;  // of frames and their kinds
inline constexpr uint32_t most_greeting_bytes = 4096;

struct Greeting {
  int64_t protocol = protocol_version;
  std::string version;  // of estrain
  uint64_t build = 0;   // core/base/process/build_id.h: hosts of a job run one build, for its bits
  std::string host;     // the name by which device lists call it; empty: the launcher's host, or a command
  std::string to;       // of the side that connects: the name of the host that it wants to reach
  std::string purpose;  // what the connection is for: the words are those of its users
  std::string run;      // the name of the run; empty: not known yet
  int64_t term = 0;     // which coordinator of the run it knows (core/state/run_directory/term.h)
  bool clear = false;   // of the side that connects: large payloads go without encryption

  std::string to_json() const;
  // Throws Fault::corrupt.
  static Greeting from_json(std::string_view text);
};

// Throws Fault::mismatch where they cannot work together: another protocol, version or build.
void require_same_program(const Greeting& own, const Greeting& peer);
// Throw Fault::peer where the connection leads elsewhere than the side that connects meant.
void require_is_for_us(const Greeting& own, const Greeting& peer);  // on the side that listens
void require_is_whom_we_want(const Greeting& own, const Greeting& peer);

}  // namespace estrain::net
