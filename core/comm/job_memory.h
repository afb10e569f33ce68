#pragma once
// The shared memory of a job on one host: one memfd, created by the launcher, mapped by workers and the scribe.
//
//   header | manifest | state copy 0 | state copy 1 | gradient slots | presence flags | norms | pulses | record ring |
//   evaluation results
//
// The state exists twice. Step t reads copy t mod 2 and writes copy (t+1) mod 2; one word, `committed`, makes the new
// copy the state. So a worker may be killed at any instruction and the last committed step stands whole, and weights
// being read by a backward pass are never the ones being written.
//
// Gradient slots hold the partial sums of the workers (reduction_tree.h): slot numbers are handed out per stage. There
// are N of them, the most that any placement needs; memory is only taken by those that were ever written.
//
// Concurrency: fields marked "layout" are written once, before `ready` is set. All others are atomics.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/base/ids.h"
#include "core/base/unique_fd.h"

namespace estrain::comm {

// What the process that built the model asks for. Sizes in bytes unless named otherwise.
struct MemoryPlan {
  std::string manifest;         // opaque text for whoever attaches later: the state's layout and facts of the job
  uint64_t state_bytes = 0;     // of one copy
  uint64_t gradient_bytes = 0;  // of one slot
  int64_t ests = 0;             // N
  int64_t parameters = 0;       // tensors that have gradients
  int64_t digests = 0;          // per step record
  int64_t evaluation_samples = 0;
  int64_t ring_records = 0;
};

// What a worker was last seen doing. Whoever waits is a victim of whoever computes for too long.
enum class Activity : uint32_t {
  idle,                // not in a stage, or setting it up
  computing,           // a mini-batch, an update
  evaluating,          // a batch of an evaluation
  reading,             // waits for data to be read
  meeting,             // waits for the other workers
  waiting_for_scribe,  // waits until a copy of the state or the record ring is free
};

// The signs of life of the worker of one rank, for the launcher to supervise; all times monotonic nanoseconds.
struct alignas(64) WorkerPulse {
  std::atomic<int64_t> beat_ns;       // when it last began or finished something
  std::atomic<Activity> activity;     // since then
  std::atomic<int64_t> computing_ns;  // this stage's time in mini-batches, without waiting
  std::atomic<int64_t> mini_batches;  // of this stage

  void beat(Activity now, int64_t ns) {
    beat_ns.store(ns, std::memory_order_relaxed);
    activity.store(now, std::memory_order_relaxed);
  }
};

// What is asked of the courier (host_meeting.h).
enum class HostAsk : uint32_t {
  nothing,
  sums,        // all partial sums of the host are written: the sum over all hosts
  commit,      // the step is whole on this host: whether it is on all
  evaluation,  // the host's batches of an evaluation are done: those of the others
};

struct BarrierWords {
  std::atomic<uint32_t> arrived;
  std::atomic<uint32_t> generation;
};

struct MemoryHeader {
  uint64_t version;  // of this layout
  // layout: offsets from the start of the mapping
  uint64_t total_bytes;
  uint64_t manifest, manifest_bytes;
  uint64_t state, state_bytes;
  uint64_t gradients, gradient_bytes;
  uint64_t presence, norms, pulses;
  uint64_t ring, record_bytes, ring_records;
  uint64_t evaluation;
  int64_t ests, parameters, digests, evaluation_samples;
  alignas(64) std::atomic<uint32_t> ready;  // 0 until everything above and the initial state stand; then 1
  // Build ids (core/base/build_id.h) of what the first worker runs, which all others must run; 0: nobody does yet.
  std::atomic<uint64_t> worker_build;  // program, worker library, LibTorch
  std::atomic<uint64_t> cuda_build;    // the parts of both for CUDA; workers on the CPU do not have them

  alignas(64) std::atomic<int64_t> committed;  // step t: its state lies in copy t mod 2
  // The newest step that is trained: the committed one, or a later one whose state lies in GPUs' memory alone. Its
  // record is out.
  std::atomic<int64_t> trained;
  // Step whose copy has been written to its end by a stage that shares the state; 0: none since repair().
  std::atomic<int64_t> whole;
  std::atomic<int64_t> shared_until;  // up to this step it does not, whatever the devices
  std::atomic<int64_t> save_step;     // the state that GPUs bring to shared memory now
  std::atomic<uint32_t> save_waits;   // 1: nobody goes on before it is there
  std::atomic<uint32_t> saved_parts;  // of it: workers whose part is there
  std::atomic<double> lr[2];          // of the update that made each copy; 0: none yet
  std::atomic<int64_t> evaluated;     // last step whose evaluation has been published; -1: none
  // Of the last commit, evaluation, trace, opening of a stage, or end of a wait for the scribe (monotonic).
  std::atomic<int64_t> progress_ns;
  // Since the devices changed; 0: none yet.
  std::atomic<int64_t> longest_step_ns;        // between two of them
  std::atomic<int64_t> longest_evaluation_ns;  // one batch of an evaluation
  std::atomic<int64_t> scribe_beat_ns;         // when the scribe last looked around (monotonic); 0: not yet
  // Steers the stage. The launcher asks; whoever commits a step answers, so that all workers agree.
  alignas(64) std::atomic<uint32_t> pause_request;
  std::atomic<int64_t> stage_end;         // step after which the workers leave their loop; -1: not decided
  std::atomic<int64_t> stopped_ns;        // when the stage's last step was committed (monotonic)
  std::atomic<uint32_t> abort;            // a worker died or hangs: leave the loop at once
  std::atomic<uint32_t> stage_started;    // workers that have begun their first mini-batch of the stage
  std::atomic<int64_t> stage_started_ns;  // when the last of them did (monotonic)
  alignas(64) BarrierWords gathered;      // all partial sums of the step are written
  alignas(64) BarrierWords summed;        // all gradients are summed, their norms known (only where norms are clipped)
  alignas(64) BarrierWords finished;      // all pieces are updated
  alignas(64) BarrierWords evaluated_by_all;  // all batches of an evaluation are done
  alignas(64) BarrierWords saved;             // the state of GPUs is in shared memory
  // Where the job has several hosts: what this host's workers ask of its courier.
  alignas(64) std::atomic<uint32_t> host_asked;  // how often
  std::atomic<uint32_t> host_answered;
  std::atomic<HostAsk> host_ask;
  std::atomic<int64_t> host_step;
  std::atomic<uint32_t> pause_agreed;  // with the last commit: the coordinator's pause_request
  std::atomic<int64_t> agreed;         // the last step that all hosts have whole, as far as this one knows; 0: none
  // How workers on GPUs find each other: set by one of them, once per stage.
  alignas(64) std::atomic<uint32_t> exchange_ready;
  std::array<std::byte, 128> exchange_id;
  // Pieces of work are claimed one by one; cleared by whoever commits.
  alignas(64) std::atomic<uint32_t> next_sum;
  alignas(64) std::atomic<uint32_t> next_update;
  // Step whose copy the scribe has yet to read, so that nobody may write that copy; -1: none. `releases` counts how
  // often it let go: what writers sleep on.
  alignas(64) std::atomic<int64_t> held_step;
  std::atomic<uint32_t> releases;
  // The record ring: sequence numbers of records published and drained.
  alignas(64) std::atomic<uint32_t> published;
  alignas(64) std::atomic<uint32_t> drained;
};

class JobMemory {
 public:
  // The launcher's: a memfd that holds only the header. Throws Fault::io.
  static UniqueFd create();
  // Maps what stands behind `fd`: the header alone while it is not ready, else everything. Throws Fault::mismatch where
  // another version of this program made it.
  explicit JobMemory(int fd);
  ~JobMemory();
  JobMemory(const JobMemory&) = delete;
  JobMemory& operator=(const JobMemory&) = delete;

  // The builder's: sizes the memory and maps it. State copies read as zero. Call set_ready() when the initial state is
  // in.
  void lay_out(const MemoryPlan& plan);
  void set_ready();
  // Whether the scribe has read what stands in the copy of step `step`.
  bool is_writable(int64_t step) const;
  // Before writing that copy: sleeps until it is. False on abort.
  bool wait_writable(int64_t step);
  // Keeps the state of step `step`, the committed one, from being overwritten until the scribe has read it; first
  // sleeps until an earlier hold is released. False on abort.
  bool hold(int64_t step);
  bool try_hold(int64_t step);  // the same without sleeping: false while an earlier hold stands
  void release_hold();

  // The launcher's, while no worker is in its loop: clears what steers a stage.
  void open_stage();
  // Makes all workers leave their loop after the mini-batch at hand.
  void abort_stage();
  // After a stage was aborted and nobody is in its loop: a step whose record is out but whose commit word was never
  // written is committed, a step that was under way leaves no trace. Returns how many trained steps are lost, and so
  // done again: 0 unless their state lay in a GPU's memory.
  int64_t repair();
  // Of the workers of a stage, one sets what the others wait for. False on abort.
  void set_exchange_id(const std::array<std::byte, 128>& id);
  bool wait_exchange_id(std::array<std::byte, 128>* id);
  // Waits until the builder is ready, and maps everything. False after `milliseconds`.
  bool wait_ready(int milliseconds);

  MemoryHeader& header() { return *reinterpret_cast<MemoryHeader*>(base_); }
  const MemoryHeader& header() const { return *reinterpret_cast<const MemoryHeader*>(base_); }

  std::string_view manifest() const;
  std::byte* state(int copy);
  std::byte* committed_state() { return state(static_cast<int>(header().committed.load() & 1)); }
  float* gradient_slot(int64_t slot);
  // One byte per parameter of a slot: 1 if some EST below reached the parameter in this step.
  uint8_t* presence(int64_t slot);
  float* norms();                      // [parameters]: of the summed gradients
  WorkerPulse& pulse(int64_t worker);  // [ests]: by rank in the stage
  std::byte* record(uint32_t sequence);
  float* evaluation_losses();     // [evaluation_samples]
  int32_t* evaluation_correct();  // [evaluation_samples]

  // Gives back the memory of gradient slots from `first` on.
  void release_gradient_slots(int64_t first);

 private:
  JobMemory(int fd, uint64_t version);
  void publish_agreed(int64_t step);
  void map(uint64_t bytes);

  int fd_;
  std::byte* base_ = nullptr;
  uint64_t mapped_ = 0;
};

}  // namespace estrain::comm
