#pragma once
// The messages of a look at an agent (look_answer.h), and of the measurement of a link (link_meter.h), which also runs
// between couriers. A connection's two ends: the asking process and the agent.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/json/fields.h"

namespace estrain::hosts {

// The measurement.
struct Ping : codec::NoFields {
  static constexpr std::string_view name = "ping";
};
struct Pong : codec::NoFields {  // the answer to Ping
  static constexpr std::string_view name = "pong";
};
struct BulkSent : codec::NoFields {  // follows the frames of the kind `bulk`
  static constexpr std::string_view name = "bulk_sent";
};
struct BulkReceived {  // the answer to BulkSent
  static constexpr std::string_view name = "bulk_received";
  uint64_t bytes = 0;

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(bytes)
};

// The look.
struct AskFacts : codec::NoFields {
  static constexpr std::string_view name = "facts";
};
struct HostFacts {  // the answer to AskFacts
  static constexpr std::string_view name = "host_facts";
  int64_t cores = 1;
  double clock = 0;  // seconds since 1970

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(cores, clock)
};
struct AskData {
  static constexpr std::string_view name = "data";
  std::string spec;  // TOML

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(spec)
};
struct DataDigest {
  std::string what;
  uint64_t size = 0, digest = 0;

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(what, size, digest)
};
struct DataDigests {  // an answer to AskData
  static constexpr std::string_view name = "data_digests";
  std::vector<DataDigest> files;

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(files)
};
struct NoData {  // an answer to AskData: a file cannot be read
  static constexpr std::string_view name = "no_data";
  std::string error, advice;

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(error, advice)
};

using MeterMessage = std::variant<Ping, Pong, BulkSent, BulkReceived>;
using LookQuestion = std::variant<AskFacts, AskData, Ping, BulkSent>;
using LookReply = std::variant<HostFacts, DataDigests, NoData, Pong, BulkReceived>;

}  // namespace estrain::hosts
