#pragma once
// A record of the ring in shared memory: the results of a committed step or evaluation. Workers add to the record
// under construction; the last worker publishes the record (record_ring.h); the scribe drains the record to the run's
// files.
//
// Digests are sums modulo 2^64 (kernels/digest.h): workers add the parts of a tensor in any order.

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
  Epoch epoch;          // of the step's samples
  int64_t time_ns;      // monotonic, at the commit
  double lr;            // of the default parameter group
  double loss;          // tree mean of the ESTs' losses; of an evaluation: mean over its predictions
  double accuracy;      // evaluation only, 0 to 1
  int64_t predictions;  // evaluation only
  Nonfinite left_out;   // of a step whose update was left out: why
  // While the step is under way: set by a worker that sees a non-finite number, and read by the committing
  // worker.
  alignas(4) Nonfinite::Where suspect;
};

// For all workers, any time before the step is committed.
void mark_suspect(RecordHead& head, Nonfinite::Where where);

inline constexpr int64_t records_of_ring = 512;
uint64_t record_bytes(int64_t ests, int64_t digests);

// A view of the parts of a record.
struct RecordView {
  RecordHead* head;
  float* est_losses;               // [ests]
  std::atomic<uint64_t>* digests;  // [digests]
};

// A float in a word of a record.
void put_float(std::atomic<uint64_t>& word, float value);
float float_of_word(const std::atomic<uint64_t>& word);

// A view of the record at `start`.
RecordView view_record(std::byte* start, int64_t ests);

}  // namespace estrain::comm
