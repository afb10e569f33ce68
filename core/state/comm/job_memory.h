#pragma once
// The shared memory of a job on one host: one memfd, created by the launcher, mapped by workers and the scribe.
//
//   header | manifest | state copy 0 | state copy 1 | gradient slots | presence flags | norms | row marks | pulses |
//   folded | record ring | evaluation results | digests of audits
//
// The state exists twice. Step t reads copy t mod 2 and writes copy (t+1) mod 2; a word makes the new copy the state
// (commit_word.h). A worker may therefore be killed at any instruction and the last committed step stays whole, and a
// backward pass never reads weights during their writing.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/files/unique_fd.h"
#include "core/base/ids.h"
#include "core/job/batches/batch_change.h"
#include "core/state/comm/meetings/barrier.h"
#include "core/state/comm/meetings/host_meeting.h"
#include "core/state/comm/meetings/sum_progress.h"
#include "core/state/comm/memory/audit_board.h"
#include "core/state/comm/memory/commit_word.h"
#include "core/state/comm/memory/memory_header.h"
#include "core/state/comm/memory/pulse.h"
#include "core/state/comm/memory/record_ring.h"

namespace estrain::comm {

// A SharedMapping is a mapping of a file in memory shared by processes. The mapping can grow.
class SharedMapping {
 public:
  // Creates a file in memory of `bytes` bytes. Throws Fault::io.
  static UniqueFd create(uint64_t bytes);

  // Maps the first `bytes` of `fd`, which the caller keeps open. Throws Fault::io, as do map() and resize().
  SharedMapping(int fd, uint64_t bytes);
  ~SharedMapping();
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;

  // Maps `bytes` bytes in place of the earlier mapping; addresses change.
  void map(uint64_t bytes);
  // Makes the file `bytes` long, and maps all of the file.
  void resize(uint64_t bytes);
  // Gives memory [begin, end) back; the memory reads as zero from now on.
  void release(uint64_t begin, uint64_t end);

  uint64_t bytes() const { return bytes_; }
  template <typename T>
  T* at(uint64_t offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }

 private:
  void unmap();

  int fd_;
  std::byte* base_ = nullptr;
  uint64_t bytes_ = 0;
};

// The BuildWords name the build of the program of a run's workers. The first worker states the build, and all later
// workers must have the same: if the program or LibTorch was replaced while the job ran, a new worker may compute other
// bits.
class BuildWords {
 public:
  explicit BuildWords(MemoryHeader& words) : words_(words) {}

  // Tells whether a worker of build `own` may join. 0: the worker lacks the part, and may.
  bool admits_program(uint64_t own) { return admits(words_.worker_build, own); }  // program, worker library, LibTorch
  bool admits_cuda(uint64_t own) { return admits(words_.cuda_build, own); }       // the parts of both for CUDA

 private:
  static bool admits(std::atomic<uint64_t>& of_run, uint64_t own) {
    uint64_t first = 0;
    return own == 0 || of_run.compare_exchange_strong(first, own) || first == own;
  }

  MemoryHeader& words_;
};

// The RecordedChanges are the changes of the job's batch since the launch, as on record in the run directory. The
// manifest and the spec that processes were given have the changes before. The launcher adds a change while no worker
// is in its loop, and tells all changes to the workers of a stage: a record of a step behind a change is published
// after the change.
class RecordedChanges {
 public:
  explicit RecordedChanges(MemoryHeader& words) : words_(words) {}

  bool has_room() const { return words_.num_changes.load() < words_.changes.size(); }
  // The list must have room.
  void add(const batches::BatchChange& change);
  // Returns the changes in the order of their recording: a later change counts in place of one after the same step.
  std::vector<batches::BatchChange> all() const;

 private:
  MemoryHeader& words_;
};

// Steers a stage, the time from one change of workers to the next. The launcher asks for the stage's end; the
// committing worker answers, and all workers leave their loop after the same step.
//
//   open -> (workers note that they have begun) -> ask_pause -> end_after(t) -> all have left
//                                              \-> abort: all leave at once, the step under way is done again
//
// 1. Only the last worker to arrive at a step's meeting calls end_after(), before any worker continues.
// 2. Every sleeper looks at `aborted` now and then.
// All accesses are sequentially consistent.
class StageGate {
 public:
  explicit StageGate(MemoryHeader& words) : words_(words) {}

  // The launcher's.
  void ask_pause() { words_.pause_request.store(1); }
  // Workers in their loop for the first mini-batch of the stage, and the arrival of the last worker (monotonic ns).
  uint32_t started() const { return words_.stage_started.load(); }
  int64_t started_ns() const { return words_.stage_started_ns.load(); }
  // When the stage's last step was committed (monotonic ns).
  int64_t stopped_ns() const { return words_.stopped_ns.load(); }

  // The workers'.
  void note_started(int64_t now_ns) {
    words_.stage_started_ns.store(now_ns);
    words_.stage_started.fetch_add(1);
  }
  bool pause_asked() const { return words_.pause_request.load() != 0; }
  void end_after(Step step, int64_t now_ns) {
    words_.stopped_ns.store(now_ns);
    words_.stage_end.store(step.value);
  }
  bool ends_after(Step step) const { return words_.stage_end.load() == step.value; }

  // Everybody's: a worker was lost or hangs, or the stage is aborted for another reason.
  bool aborted() const { return words_.abort.load() != 0; }
  const std::atomic<uint32_t>& abort_word() const { return words_.abort; }

 private:
  friend class StageControl;  // opens and aborts the stage, for all words at once
  void open();
  void abort() { words_.abort.store(1); }

  MemoryHeader& words_;
};

// Whether an EST below a partial sum reached the parameter in this step, and what the parameter's place then holds: all
// elements of the sum, or the rows of a table that may differ from zero (core/engine/train/shared/row_sums.h).
inline constexpr uint8_t kAbsent = 0, kWhole = 1, kByRows = 2;

// A partial sum of the gradients of all parameters.
struct GradientSlot {
  float* values;
  uint8_t* presence;  // [parameters]: kAbsent, kWhole or kByRows
};

// The GradientSlots are the gradients of a step: slots of partial sums (sums/reduction_tree.h), and norms of the summed
// gradients. Slot numbers are assigned per stage. The memory has as many slots as ESTs, the most for any placement;
// only written slots take memory.
class GradientSlots {
 public:
  GradientSlots(SharedMapping& memory, const MemoryHeader& words) : memory_(memory), words_(words) {}

  GradientSlot operator[](int64_t slot) const;
  float* norms() const { return memory_.at<float>(words_.norms); }  // [parameters]: of the summed gradients
  // Gives back the memory of slots [first, end); these slots read as zero from now on.
  void release(int64_t first, int64_t end);

 private:
  SharedMapping& memory_;
  const MemoryHeader& words_;
};

// The sizes asked for by the process which built the model. Sizes in bytes unless named otherwise.
struct MemoryPlan {
  std::string manifest;         // opaque text for processes that attach later: the state's layout and facts of the job
  uint64_t state_bytes = 0;     // of one copy
  uint64_t gradient_bytes = 0;  // of one slot
  int64_t ests = 0;             // N
  int64_t parameters = 0;       // tensors with gradients
  uint64_t row_mark_words = 0;  // of a worker's marks of a step's gradients (JobMemory::row_marks())
  int64_t digests = 0;          // per step record
  int64_t evaluation_samples = 0;
  int64_t evaluation_columns = 0;  // further numbers of each sample
  int64_t evaluation_numbers = 0;  // of the whole set
  int64_t ring_records = 0;
  int64_t audit_words = 0;  // of a row of the audit board

  // Returns the bytes of an evaluation's results: the numbers of the whole set, three numbers of each sample, and the
  // sample's columns.
  uint64_t evaluation_bytes() const {
    return static_cast<uint64_t>(evaluation_numbers) * sizeof(double) +
           static_cast<uint64_t>(evaluation_samples) * static_cast<uint64_t>(3 + evaluation_columns) * 4;
  }
};

// The results of the newest evaluation: for each sample of the test set, and for the whole set.
struct EvaluationResults {
  int64_t samples, num_columns;
  float* losses;     // [samples]
  int32_t* correct;  // [samples]: right predictions
  int32_t* counted;  // [samples]: predictions with a target
  float* columns;    // [num_columns, samples]
  double* numbers;   // [MemoryPlan::evaluation_numbers]

  float* column(int64_t index) const { return columns + index * samples; }
};

class JobMemory {
 public:
  // For the launcher: creates a memfd with only the header. Throws Fault::io.
  static UniqueFd create();
  // Maps the memory behind `fd`: only the header while the memory is not ready, else everything. Throws Fault::mismatch
  // if another version of this program made the memory.
  explicit JobMemory(int fd);

  // For the builder: sizes and maps the memory. State copies read as zero. Call set_ready() once the initial state is
  // written.
  void lay_out(const MemoryPlan& plan);
  void set_ready();
  bool is_ready() const { return words().ready.load() != 0; }
  // Waits until the builder is ready, and maps everything. False after `patience`.
  bool wait_ready(std::chrono::milliseconds patience);

  // The protocols by which processes share the memory.
  CommitWord commit() const { return CommitWord(words()); }
  StageGate gate() const { return StageGate(words()); }
  StateHold hold() const { return StateHold(words()); }
  SaveRequest save_request() const { return SaveRequest(words()); }
  RecordRing ring() const { return RecordRing(words()); }
  WorkClock clock() const { return WorkClock(words()); }
  MeetingPlaces meetings() const { return MeetingPlaces(words()); }
  HostMeeting hosts() const { return HostMeeting(words()); }
  SumProgress sums() const { return {words(), memory_.at<FoldedWord>(words().folded)}; }
  AuditBoard audits() const { return {words(), memory_.at<uint64_t>(words().audit)}; }
  BuildWords builds() const { return BuildWords(words()); }
  RecordedChanges batch_changes() const { return RecordedChanges(words()); }
  WorkerPulse& pulse(WorkerRank worker) const;

  // The contents.
  std::string_view manifest() const;
  int64_t ests() const { return words().ests; }
  std::byte* state_of(Step step) const;
  GradientSlots gradients() { return {memory_, words()}; }
  // Returns a worker's marks of the gradients of the step after `step` [MemoryPlan::row_mark_words]; the marks of two
  // steps before are overwritten (engine/train/shared/row_marks.h).
  uint64_t* row_marks(WorkerRank worker, Step step) const;
  EvaluationResults evaluation() const;

 private:
  friend struct MemoryWords;  // of tests
  JobMemory(int fd, uint64_t version);
  MemoryHeader& words() const { return *memory_.at<MemoryHeader>(0); }

  SharedMapping memory_;
};

}  // namespace estrain::comm
