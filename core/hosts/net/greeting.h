#pragma once
// The first message each way once TLS stands: each end tells the name, run and program of its side, and compares the
// peer's greeting. All hosts of a run have one key. So the handshake alone does not prove the peer's identity: an
// attacker on the way may lead a connection elsewhere, even back to its own host (RFC 9257, section 4.1). The names and
// the run are part of the handshake (tls.h), and both ends compare names and run here.

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/json/fields.h"

namespace estrain::net {

inline constexpr uint32_t most_greeting_bytes = 4096;

struct Greeting {
  std::string version;  // of estrain
  uint64_t build = 0;   // core/base/process/build_id.h: hosts of a job run one build, for equal bits
  std::string host;     // the host's name in device lists; empty: the launcher's host, or a command
  std::string to;       // of the connecting side: the name of the wanted host
  std::string purpose;  // the purpose of the connection, in the words of its users
  std::string run;      // the name of the run; empty: not known yet
  int64_t term = 0;     // the term of the run known to this end (core/state/run_directory/term.h)
  bool clear = false;   // of the connecting side: large payloads go without encryption

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(version, build, host, to, purpose, run, term, clear)

  std::string to_json() const;
  // Throws Fault::corrupt.
  static Greeting from_json(std::string_view text);
};

// Throws Fault::mismatch where they cannot work together: another version or build.
void require_same_program(const Greeting& own, const Greeting& peer);
// Both throw Fault::peer if the connection leads elsewhere than the connecting side meant.
void require_is_for_us(const Greeting& own, const Greeting& peer);  // on the listening side
void require_is_whom_we_want(const Greeting& own, const Greeting& peer);

}  // namespace estrain::net
