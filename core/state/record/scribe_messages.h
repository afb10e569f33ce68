#pragma once
// Messages between the launcher and the scribe.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/ids.h"
#include "core/base/json/fields.h"
#include "core/state/comm/messages/channel.h"
#include "core/state/comm/messages/failed.h"

namespace estrain::record {

// Make a checkpoint of the state of `step`, which is held (state/comm/memory/commit_word.h).
struct SaveState {
  static constexpr std::string_view name = "save";
  Step step;
  ESTRAIN_FIELDS(step)
};

// Write the remaining records, and end.
struct FinishFiles {
  static constexpr std::string_view name = "finish";
  template <typename Self, typename Visit>
  static void fields(Self&, Visit&&) {}
};

struct Saved {
  static constexpr std::string_view name = "saved";
  Step step;
  double seconds = 0;
  uint64_t bytes = 0;
  ESTRAIN_FIELDS(step, seconds, bytes)
};

struct SaveFailed {
  static constexpr std::string_view name = "save_failed";
  Step step;
  std::string error, advice;
  bool damaged = false;        // the state in memory has changed since its writing: later steps may be wrong
  bool no_room = false;        // the disk is full, or a quota
  uint64_t missing_bytes = 0;  // bytes still needed; 0: not known
  ESTRAIN_FIELDS(step, error, advice, damaged, no_room, missing_bytes)
};

struct MetricValue {
  std::string name;  // "top5"
  double value = 0;
  ESTRAIN_FIELDS(name, value)
};

// An evaluation is on record. Empty: the loss is not finite, the model makes no predictions that are right or wrong.
struct Evaluated {
  static constexpr std::string_view name = "evaluated";
  Step step;
  std::optional<double> loss, accuracy;
  std::vector<MetricValue> metrics;  // further metrics
  ESTRAIN_FIELDS(step, loss, accuracy, metrics)
};

// A step without an update is on record, with the EST and the tensor to blame, if known.
struct Skipped {
  static constexpr std::string_view name = "skipped";
  Step step;
  std::string why;
  std::optional<int64_t> rank;
  std::optional<std::string> tensor;
  ESTRAIN_FIELDS(step, why, rank, tensor)
};

// Records cannot be written, and wait in memory.
struct WriteFailed {
  static constexpr std::string_view name = "write_failed";
  std::string error;
  ESTRAIN_FIELDS(error)
};

using ScribeOrder = std::variant<SaveState, FinishFiles>;
using ScribeReport = std::variant<Saved, SaveFailed, Evaluated, Skipped, WriteFailed, comm::Failed>;
using SaveOutcome = std::variant<Saved, SaveFailed>;
using ScribeChannel = comm::Channel<ScribeOrder, ScribeReport>;      // the launcher's end
using ScribesOwnChannel = comm::Channel<ScribeReport, ScribeOrder>;  // the scribe's

}  // namespace estrain::record
