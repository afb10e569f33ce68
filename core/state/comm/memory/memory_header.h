#pragma once
// The first page of a job's shared memory: the places of all parts, and the words by which processes steer each other.
//
// The fields above `ready` are written once, before `ready` is set. All further fields are atomics, except the ids of
// exchanges and the changes of the batch: each is written before its word of readiness or their number is set. Only
// core/state/comm touches the words. The header named above a group of words (here, or in core/state/comm/meetings) has
// an object that defines the meaning of the words and the order of their stores, and says why a process may end between
// any two stores.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/job/batches/batch_change.h"

namespace estrain::comm {

// A meeting of all workers (barrier.h).
struct BarrierWords {
  std::atomic<uint32_t> arrived;
  std::atomic<uint32_t> generation;
};

// What a worker has folded in the step under way (sum_progress.h).
struct alignas(64) FoldedWord {
  std::atomic<uint32_t> parameters;  // whose gradients
  std::atomic<uint32_t> factors;     // written: of the worker's first EST, then of the second, …
};

struct MemoryHeader {
  uint64_t version;  // of this layout (job_memory.h)
  // The layout: offsets of parts from the start of the mapping; sizes in bytes, and numbers, as in MemoryPlan.
  uint64_t total_bytes;
  uint64_t manifest, manifest_bytes;
  uint64_t state, state_bytes;         // bytes of each of the two copies
  uint64_t gradients, gradient_bytes;  // bytes of each of `ests` slots
  uint64_t presence, norms, row_marks, row_mark_words, pulses, folded;
  uint64_t ring, record_bytes, ring_records;  // bytes of a record; number of records
  uint64_t evaluation;
  uint64_t audit, audit_words;
  int64_t ests, parameters, digests, evaluation_samples, evaluation_columns, evaluation_numbers;
  alignas(64) std::atomic<uint32_t> ready;  // 0 until everything above and the initial state stand; then 1
  // Build ids (core/base/process/build_id.h) of the first worker, required of all others (job_memory.h); 0: none yet.
  std::atomic<uint64_t> worker_build;  // program, worker library, LibTorch
  std::atomic<uint64_t> cuda_build;    // estrain's and LibTorch's libraries for CUDA; workers on the CPU have neither

  // commit_word.h: CommitWord
  alignas(64) std::atomic<int64_t> committed;
  std::atomic<int64_t> trained;
  std::atomic<int64_t> whole;
  std::atomic<int64_t> shared_until;
  // commit_word.h: SaveRequest
  std::atomic<int64_t> save_step;
  std::atomic<uint32_t> save_waits;
  std::atomic<uint32_t> saved_parts;
  // commit_word.h: CommitWord
  std::atomic<double> lr[2];
  std::atomic<int64_t> evaluated;
  // pulse.h: WorkClock
  std::atomic<int64_t> progress_ns;
  std::atomic<int64_t> longest_step_ns;
  std::atomic<int64_t> longest_evaluation_ns;
  std::atomic<int64_t> scribe_beat_ns;
  // job_memory.h: StageGate
  alignas(64) std::atomic<uint32_t> pause_request;
  std::atomic<int64_t> stage_end;
  std::atomic<int64_t> stopped_ns;
  std::atomic<uint32_t> abort;
  std::atomic<uint32_t> stage_started;
  std::atomic<int64_t> stage_started_ns;
  // barrier.h: MeetingPlaces
  alignas(64) BarrierWords gathered;
  alignas(64) BarrierWords summed;
  alignas(64) BarrierWords multiplied;
  alignas(64) BarrierWords finished;
  alignas(64) BarrierWords evaluated_by_all;
  alignas(64) BarrierWords saved;
  alignas(64) BarrierWords audited;
  // host_meeting.h
  alignas(64) std::atomic<uint32_t> host_asked;
  std::atomic<uint32_t> host_answered;
  std::atomic<uint32_t> host_ask;
  std::atomic<int64_t> host_step;
  std::atomic<uint32_t> pause_agreed;
  std::atomic<int64_t> agreed;
  // sum_progress.h
  alignas(64) std::atomic<uint32_t> summed_from;
  std::atomic<uint32_t> factors_arrived;
  // barrier.h: MeetingPlaces
  alignas(64) std::atomic<uint32_t> exchange_ready;
  std::array<std::byte, 128> exchange_id;
  alignas(64) std::atomic<uint32_t> next_sum;
  alignas(64) std::atomic<uint32_t> next_update;
  alignas(64) std::atomic<uint32_t> next_factor;
  // audit_board.h
  alignas(64) std::atomic<int64_t> audits;
  std::atomic<int64_t> audited_step;
  std::atomic<int64_t> audit_step;
  std::atomic<uint32_t> audit_request;
  std::atomic<int64_t> audit_damage;
  // commit_word.h: StateHold
  alignas(64) std::atomic<int64_t> held_step;
  std::atomic<uint32_t> releases;
  // record_ring.h
  alignas(64) std::atomic<uint32_t> published;
  alignas(64) std::atomic<uint32_t> drained;
  // barrier.h: MeetingPlaces, the exchange of the next stage
  alignas(64) std::atomic<uint32_t> exchange_asked;
  std::atomic<uint32_t> next_exchange_ready;
  std::array<std::byte, 128> next_exchange_id;
  // job_memory.h: RecordedChanges
  alignas(64) std::atomic<uint32_t> num_changes;
  std::array<batches::BatchChange, 64> changes;
};

}  // namespace estrain::comm
