#pragma once
// One record of the ring in shared memory: the results of a step or of an evaluation, once it is committed. Workers
// add their parts to the record under construction; the last one publishes it (record_ring.h); the scribe drains it to
// the run's files.
//
// Digests are sums modulo 2^64 (kernels/digest.h), so workers add the parts of a tensor in any order.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/ids.h"
#include "core/state/comm/records/nonfinite.h"

namespace estrain::comm {

enum class RecordKind : uint32_t { step, evaluation };

struct RecordHead {
  RecordKind kind;
  Step step;            // the state's step: 1 after the first update
  Epoch epoch;          // that the step's samples belong to
  int64_t time_ns;      // monotonic, at the commit
  double lr;            // of the default parameter group
  double loss;          // tree mean of the ESTs' losses; of an evaluation: mean over its predictions
  double accuracy;      // evaluation only, 0 to 1
  int64_t predictions;  // evaluation only
  Nonfinite left_out;   // of a step whose update was left out: why
  // While the step is under way: set by a worker that sees a number that is not finite, and read by the one that
  // commits.
  alignas(4) Nonfinite::Where suspect;
};

// By any worker, at any time before the step is committed.
void mark_suspect(RecordHead& head, Nonfinite::Where where);

inline constexpr int64_t records_of_ring = 512;
uint64_t record_bytes(int64_t ests, int64_t digests);

// A view of one record's parts.
struct RecordView {
  RecordHead* head;
  float* est_losses;               // [ests]
  std::atomic<uint64_t>* digests;  // [digests]
};

// A view of the record at `start`.
RecordView view_record(std::byte* start, int64_t ests);

}  // namespace estrain::comm
