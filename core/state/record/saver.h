#pragma once
// Writes checkpoints one after another in a separate thread, in parallel with the scribe's other work; chooses the best
// checkpoint, and notes the stages for a checkpoint. Where memory has no room for a copy of the state, the saver writes
// the state from where it lies, and training waits for the file.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/files/disk.h"
#include "core/base/json/json.h"
#include "core/job/resources/machine_limits.h"
#include "core/job/spec/job_spec.h"
#include "core/state/checkpoint/directory.h"
#include "core/state/checkpoint/state/manifest.h"
#include "core/state/record/logs/step_record.h"
#include "core/state/record/scribe_messages.h"

namespace estrain::record {

// Finds the best evaluation of a run so far, by checkpoint.best: the first among equals.
class BestEvaluation {
 public:
  BestEvaluation(std::string by, bool falls) : by_(std::move(by)), falls_(falls) {}

  // Returns true if the evaluation is the best now. NaN never is; without predictions an evaluation has no accuracy,
  // and an evaluation on record from before a metric was asked for lacks the metric.
  bool take(const EvaluationRecord& evaluation);

  std::optional<Step> step() const { return step_; }

 private:
  std::string by_;
  bool falls_;  // the metric gets better by falling
  std::optional<Step> step_;
  double value_ = 0;
};

// A StageHistory is the history of a job's devices for its checkpoints: the "stage" lines of events.jsonl.
//
// A job may have 60,000 stages: the first few and the newest are kept, and the stages in between are counted. The file
// is read once; each call of `follow` reads only new lines.
class StageHistory {
 public:
  static constexpr size_t kFirst = 10, kNewest = 1000;
  static constexpr size_t kMostBytes = size_t{1} << 20;  // limit for the newest, as text

  explicit StageHistory(std::string events) : path_(std::move(events)) {}

  // Reads new lines. Skips damaged lines and other events. Throws Fault::io.
  void follow();

  // A JSON list of the lines, oldest first. In place of omitted stages is {"event": "stages_left_out", "count",
  // "step"}, with the step of the first.
  std::string to_json() const;
  // The devices of the newest stage: "cpu,cpu:avx2".
  const std::string& devices() const { return devices_; }

 private:
  void add(const Json& stage);
  void leave_out_oldest();

  std::string path_;
  uint64_t read_ = 0;  // bytes of the file
  std::vector<std::string> first_;
  std::deque<std::string> newest_;
  std::deque<int64_t> steps_;  // of the newest
  size_t bytes_ = 0;           // of the newest
  int64_t left_out_ = 0, left_out_step_ = 0;
  std::string devices_;
};

// Copies `bytes` in pieces of at most `piece` bytes, and calls `after_each` behind each of them: the copy of a large
// state takes longer than the launcher waits for a sign of life.
void copy_in_pieces(std::byte* to, const std::byte* from, size_t bytes, size_t piece,
                    const std::function<void()>& after_each);

class Saver {
 public:
  // `beat`: a sign of life, while a state is copied. The disk must outlive the object. `room`: bytes of memory that are
  // free.
  Saver(
      const spec::JobSpec& spec, const std::string& run, const checkpoint::Manifest& manifest,
      std::function<void()> beat, Disk& disk = real_disk(),
      std::function<uint64_t()> room = [] { return resources::memory_room(); });
  ~Saver() { wait(); }

  Step last_saved() const { return last_saved_; }
  bool busy() const { return busy_; }
  void wait() {
    if (thread_.joinable()) thread_.join();
  }

  struct StateToSave {
    const std::byte* state;
    Step step;
    double lr = 0;
    std::vector<uint64_t> digests;  // on record of this state (Manifest::digest_names); empty: no record
    std::vector<batches::BatchChange> changes = {};  // of the batch, since the launch and before this step
  };
  // Copies the state out, calls `copied`, then writes the copy in the background; `done` gets the outcome, in the
  // saver's thread if a thread can be started. Without a copy, writes the state itself in the background, and calls
  // `copied` in the saver's thread behind that. The saver does not write a state that differs from its record, and
  // syncs the records in the run's files before it publishes the checkpoint.
  void save(const StateToSave& source, const std::function<void()>& copied,
            const std::function<void(SaveOutcome)>& done);

  // Keeps the checkpoint of `step`, the best evaluation so far, and `best` points at the checkpoint. Any thread.
  void keep_best(Step step) { best_ = step; }
  // Points `best` at its checkpoint, if the checkpoint exists. Call this while no save is under way.
  void point_best() const;

 private:
  struct FreeSnapshot {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  // Returns whether there is a snapshot now.
  bool take_snapshot(const std::byte* state);
  SaveOutcome write(const StateToSave& source, checkpoint::CheckpointMeta meta);
  // A resume from the checkpoint does not repeat the steps of these records. A missing file is passed over.
  void sync_records() const;
  std::optional<std::string> damaged_tensor(const StateToSave& source) const;
  checkpoint::CheckpointMeta meta(const StateToSave& source) const;
  // Adds the content of the run's files. Keeps the earlier content if a file cannot be read any more: the state comes
  // first.
  void add_files(checkpoint::CheckpointMeta& meta);

  const spec::JobSpec& spec_;
  const std::string run_;
  const checkpoint::Manifest& manifest_;
  const std::function<void()> beat_;
  Disk& disk_;
  const std::function<uint64_t()> room_;
  checkpoint::CheckpointDirectory directory_;
  StageHistory stages_;
  std::string changes_;
  std::unique_ptr<std::byte, FreeSnapshot> snapshot_;
  std::thread thread_;
  std::atomic<Step> last_saved_{Step(-1)};
  std::atomic<Step> best_{Step(-1)};  // -1: none
  std::atomic<bool> busy_{false};     // a state is being written
};

}  // namespace estrain::record
