#pragma once
// One record of a TensorBoard event file: an `Event` message (TensorFlow's event.proto, as far as scalars need it) in a
// TFRecord frame. Internal to this folder.
//
//   frame    length (8 bytes), masked CRC-32C of the length (4), the message, masked CRC-32C of the message (4)
//   message  wall_time 1: double; step 2: int64; file_version 3: string; summary 5: Summary; session_log 7: SessionLog
//   Summary  value 1, repeated: tag 1: string; simple_value 2: float
//   SessionLog  status 1: 1 = START: a reader forgets what it has seen from this step on

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace estrain::record {

struct Scalar {
  std::string_view tag;
  float value = 0;
};

// A framed message. `wall_time` is in seconds since 1970.
std::string version_frame(double wall_time);
std::string start_frame(double wall_time, int64_t step);
std::string scalar_frame(double wall_time, int64_t step, const std::vector<Scalar>& scalars);

// Parses the frame at the beginning of `bytes`, without its scalars' values. Nothing if it is truncated, fails its
// checks, or is another kind of message.
struct FoundFrame {
  size_t bytes = 0;  // of the whole frame
  int64_t step = 0;
  std::vector<std::string> tags;  // of its scalars; none for a version or a start
};
std::optional<FoundFrame> find_frame(std::string_view bytes);

}  // namespace estrain::record
