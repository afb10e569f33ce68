#include "core/state/record/scribe.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "core/base/clock.h"
#include "core/base/files/file_lock.h"
#include "core/base/files/poll_set.h"
#include "core/base/files/run_files.h"
#include "core/job/spec/defaults.h"
#include "core/state/checkpoint/state/manifest.h"
#include "core/state/comm/job_memory.h"
#include "core/state/comm/meetings/bell.h"
#include "core/state/comm/stage_control.h"
#include "core/state/record/logs/fingerprints.h"
#include "core/state/record/logs/metrics.h"
#include "core/state/record/logs/openmetrics.h"
#include "core/state/record/record_reader.h"
#include "core/state/record/saver.h"
#include "core/state/record/scribe_log.h"
#include "core/state/record/tensorboard/tensorboard.h"

namespace estrain::record {
namespace {

constexpr auto kDrain = 100ms;
constexpr auto kFirstPause = std::chrono::milliseconds(100), kLongestPause = std::chrono::milliseconds(2000);
constexpr auto kPatienceWithLock = 2s;         // a launcher that looks for this scribe holds the lock meanwhile
constexpr int64_t kAtOnce = INT64_C(1) << 62;  // a monotonic time at which everything is due

// A sign of life for the launcher.
void beat(comm::JobMemory& memory) { memory.clock().beat_scribe(monotonic_ns()); }

class Scribe {
 public:
  Scribe(ScribeSetup& setup, comm::JobMemory& memory)
      : setup_(setup),
        memory_(memory),
        manifest_(checkpoint::Manifest::from_json(memory.manifest())),
        fingerprints_(open_fingerprints()),
        metrics_(open_metrics()),
        open_metrics_(open_openmetrics()),
        saver_(setup.spec, setup.run, manifest_, [&memory] { beat(memory); }),
        best_(setup.spec.checkpoint.best, spec::improves_by_falling(setup.spec.train, setup.spec.checkpoint.best)),
        newest_(setup.from_step) {
    take_up_best();
  }

  std::optional<Step> run() {
    open_tensorboard_if_there_is_room();
    for (;;) {
      // Send on the messages for which the launcher had no room: it may be waiting for the last message.
      const bool keeps = !setup_.launcher.flush();
      const auto events = static_cast<short>(keeps ? POLLIN | POLLOUT : POLLIN);
      pollfd polled[2] = {{setup_.launcher.descriptor(), events, 0}, {setup_.doorbell, POLLIN, 0}};
      poll_within(polled, kDrain);
      if (polled[1].revents != 0) {
        uint64_t rings = 0;
        [[maybe_unused]] const ssize_t got = ::read(setup_.doorbell, &rings, sizeof rings);
      }
      beat(memory_);
      drain_or_wait();
      save_held_state();
      show_how_it_stands(monotonic_ns());
      if ((polled[0].revents & ~POLLOUT) == 0 || obey()) continue;
      return launcher_is_gone_ ? std::optional(saver_.last_saved()) : std::nullopt;
    }
  }

 private:
  std::unique_ptr<FingerprintWriter> open_fingerprints() {
    if (!setup_.spec.logging.fingerprints) return nullptr;
    beat(memory_);
    return std::make_unique<FingerprintWriter>(RunFiles(setup_.run).fingerprints(), manifest_.digest_names,
                                               Step(setup_.from_step));
  }

  MetricsWriter open_metrics() {
    beat(memory_);
    return {RunFiles(setup_.run).metrics(), Step(setup_.from_step)};
  }

  // Takes up the run's earlier evaluations.
  void take_up_best() {
    if (setup_.spec.checkpoint.best == "none") return;
    beat(memory_);
    for (const EvaluationRecord& evaluation : read_metrics(metrics_.path()).evaluations) best_.take(evaluation);
    if (best_.step()) saver_.keep_best(*best_.step());
  }

  // Returns null if tensorboard is off. If a file could not begin for lack of room, the scribe tries again with each
  // record, and records wait as for the other files.
  TensorboardWriter* tensorboard() {
    if (setup_.spec.logging.tensorboard && !tensorboard_) {
      beat(memory_);
      tensorboard_ = std::make_unique<TensorboardWriter>(RunFiles(setup_.run).tensorboard(), metrics_);
    }
    return tensorboard_.get();
  }

  void open_tensorboard_if_there_is_room() {
    try {
      tensorboard();
    } catch (const Error& error) {
      if (error.fault() != Fault::io) throw;
    }
  }

  std::unique_ptr<OpenMetricsWriter> open_openmetrics() const {
    if (!setup_.spec.logging.openmetrics) return nullptr;
    return std::make_unique<OpenMetricsWriter>(setup_.run, setup_.spec.job.name);
  }

  void tell(const ScribeReport& message) {
    const std::lock_guard lock(telling_);
    setup_.launcher.send(message);
  }

  // Tells the outcome of a checkpoint, in the saver's thread, and wakes the loop for the next checkpoint.
  void report_save(const SaveOutcome& done) {
    std::visit([this](const auto& outcome) { tell(outcome); }, done);
    comm::ring(setup_.doorbell);
  }

  // On a full disk, records stay in the ring until the disk has space; once the ring is full, training waits. False:
  // the disk is full.
  bool drain_or_wait() {
    try {
      drain();
      disk_is_full_ = false;
    } catch (const Error& error) {
      if (error.fault() != Fault::io) throw;
      if (!disk_is_full_) complain(WriteFailed{error.message()});
      disk_is_full_ = true;
    }
    return !disk_is_full_;
  }

  // Complains to the launcher; without a launcher, to the log.
  template <typename Complaint>
  void complain(const Complaint& complaint) {
    if (launcher_is_gone_)
      write_log(complaint.error);
    else
      tell(complaint);
  }

  // Writes the records published since the last call. Throws Fault::io; the next call writes the remaining records. An
  // evaluation is told once, so its record is drained before the records behind it are written.
  void drain() {
    comm::RecordRing ring = memory_.ring();
    const uint32_t published = ring.published();
    take_changes();
    std::vector<StepRecord> steps;
    std::vector<Skipped> left_out;
    Step newest = newest_;
    int64_t newest_ns = newest_ns_;
    const auto drain_to = [&](uint32_t sequence) {
      newest_ = newest;
      newest_ns_ = newest_ns;
      ring.drain_to(sequence);
      for (const Skipped& skipped : std::exchange(left_out, {})) tell(skipped);
    };
    for (uint32_t next = ring.drained(); next != published; ++next) {
      const comm::RecordView view = ring.at(next);
      if (view.head->kind == comm::RecordKind::step) {
        // Trained again, with the same bits, since the step's state was lost with a GPU's memory.
        if (view.head->step <= newest) continue;
        newest = view.head->step;
        steps.push_back(reader_.read_step(view, std::exchange(newest_ns, view.head->time_ns)));
        if (steps.back().left_out) left_out.push_back(reader_.why_left_out(*view.head));
        continue;
      }
      write_steps(steps);
      const EvaluationRecord evaluation = reader_.read_evaluation(view);
      if (tensorboard() != nullptr) tensorboard()->append(evaluation);
      metrics_.append(evaluation);
      drain_to(next + 1);
      if (best_.take(evaluation)) saver_.keep_best(evaluation.step);
      point_best();
      if (open_metrics_) open_metrics_->note(evaluation);
      tell(Evaluated{evaluation.step, std::isfinite(evaluation.loss) ? std::optional(evaluation.loss) : std::nullopt,
                     evaluation.predictions == 0 ? std::nullopt : std::optional(evaluation.accuracy),
                     values_of(evaluation)});
    }
    write_steps(steps);
    drain_to(published);
  }

  // Takes the changes of the batch that published records have behind them.
  void take_changes() {
    manifest_.batches.changes = setup_.spec.elastic.changes;
    for (const batches::BatchChange& change : memory_.batch_changes().all())
      batches::add_change(manifest_.batches.changes, change);
  }

  // Nothing depends on this file: a full or slow disk only delays the file.
  void show_how_it_stands(int64_t now_ns) {
    if (!open_metrics_) return;
    try {
      open_metrics_->write_if_due(monotonic_time(now_ns));
      shows_ = true;
    } catch (const Error& error) {
      if (std::exchange(shows_, false)) write_log("warning: " + error.message());
    }
  }

  void write_steps(std::vector<StepRecord>& steps) {
    if (steps.empty()) return;
    if (fingerprints_) fingerprints_->append(steps);
    if (tensorboard() != nullptr) tensorboard()->append(steps);
    metrics_.append(steps);
    if (open_metrics_) open_metrics_->note(steps.back());
    steps.clear();
  }

  Saver::StateToSave source_of(Step step) {
    Saver::StateToSave source{
        memory_.state_of(step), step, memory_.commit().lr(step), {}, memory_.batch_changes().all()};
    std::erase_if(source.changes, [step](const batches::BatchChange& change) { return change.after >= step.value; });
    if (const auto record = memory_.ring().find(step)) {
      for (size_t i = 0; i < manifest_.digest_names.size(); ++i) source.digests.push_back(record->digests[i].load());
    }
    return source;
  }

  // A worker or the launcher has put a hold on a committed copy: copies the state and releases the hold, once the
  // previous snapshot is written. The records up to the state, published before the hold, go to their files first.
  void save_held_state() {
    const std::optional<Step> held = memory_.hold().held();
    if (!held || saver_.busy()) return;
    if (*held == saver_.last_saved()) return memory_.hold().release();
    drain_or_wait();
    saver_.save(
        source_of(*held), [this] { memory_.hold().release(); }, [this](const SaveOutcome& done) { report_save(done); });
  }

  // Saves the committed state, while no worker can be writing the other copy's successor: all are idle or dead. False:
  // the state could not be written.
  bool save_committed_state() {
    const Step step = memory_.commit().committed();
    if (step == saver_.last_saved()) return true;
    SaveOutcome outcome;
    saver_.save(
        source_of(step), [] {}, [&outcome](const SaveOutcome& done) { outcome = done; });
    saver_.wait();
    if (step == saver_.last_saved()) return true;
    if (const auto* failed = std::get_if<SaveFailed>(&outcome)) complain(*failed);
    return false;
  }

  // Without a launcher: throws Fault::usage if another launcher has the run.
  void keep_lock() {
    const std::string path = RunFiles(setup_.run).lock_file();
    if (is_file_at(setup_.lock.get(), path)) return;
    try {
      for (const MonotonicTime deadline = MonotonicClock::now() + kPatienceWithLock;
           !lock_file_at(path, setup_.lock);) {
        if (MonotonicClock::now() >= deadline)
          throw Error::make(Fault::usage, "{}: its file `lock` was deleted, and another launcher has taken the run",
                            setup_.run)
              .advise("the state of the launcher that has ended is not saved; delete no file of a run that is at work");
        std::this_thread::sleep_for(20ms);
      }
    } catch (const Error& error) {
      if (error.fault() != Fault::io) throw;  // else there is no room for the file, or no run directory
    }
  }

  // Saves without a launcher, when only the scribe has the committed state: waits for space as long as the run
  // directory exists, holding the directory's lock, and shows the wait in the scribe's process name.
  void save_what_is_left() {
    launcher_is_gone_ = true;
    keep_lock();
    saver_.wait();
    save_held_state();
    saver_.wait();
    std::chrono::milliseconds pause = kFirstPause;
    for (;;) {
      const bool recorded = drain_or_wait(), saved = save_committed_state();
      show_how_it_stands(kAtOnce);
      if (recorded && saved) return point_best();
      if (!std::filesystem::exists(RunFiles(setup_.run).lock_file()))
        throw Error::make(Fault::io, "{} is gone, so the state is lost", setup_.run);
      ::prctl(PR_SET_NAME, kWaitingScribe);
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, kLongestPause);
    }
  }

  // Tells whether an exit now would lose records of steps before a checkpoint: a resume does not repeat these
  // steps.
  bool records_would_be_lost() const {
    comm::RecordRing ring = memory_.ring();
    return ring.waiting() > 0 && ring.at(ring.drained()).head->step <= saver_.last_saved();
  }

  // The checkpoint may be written before its evaluation is known, or after.
  void point_best() {
    if (saver_.busy()) return;
    try {
      saver_.point_best();
    } catch (const Error& error) {
      write_log("warning: " + error.message());
    }
  }

  // The launcher has nothing more to save. Throws Fault::io if the disk is full and a resume will repeat the steps, or
  // the launcher gives the records up.
  void finish() {
    bool is_given_up = false;  // by a second order to finish
    while (!is_given_up && (saver_.busy() || (!drain_or_wait() && records_would_be_lost()))) {
      beat(memory_);
      ScribeOrder order;
      const comm::Received received = setup_.launcher.receive(&order, kDrain);
      if (received == comm::Received::closed) return save_what_is_left();
      is_given_up = received == comm::Received::message;
    }
    saver_.wait();
    drain();
    point_best();
    show_how_it_stands(kAtOnce);
  }

  // Obeys an order. False: the scribe must exit.
  bool obey() {
    ScribeOrder order;
    switch (setup_.launcher.receive(&order, 0ms)) {
      case comm::Received::nothing:
        return true;
      case comm::Received::closed:
        wait_for_dead_workers();
        comm::StageControl(memory_).repair();
        save_what_is_left();
        return false;
      case comm::Received::message:
        break;
    }
    if (std::holds_alternative<FinishFiles>(order)) {
      finish();
      return false;
    }
    save_held_state();
    if (std::get<SaveState>(order).step == saver_.last_saved()) tell(Saved{.step = saver_.last_saved()});
    return true;
  }

  // The launcher has ended and its workers end with it (PR_SET_PDEATHSIG): after this time no worker writes.
  void wait_for_dead_workers() {
    comm::StageControl(memory_).abort();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }

  ScribeSetup& setup_;
  comm::JobMemory& memory_;
  checkpoint::Manifest manifest_;
  const RecordReader reader_{manifest_, memory_.ests()};
  std::unique_ptr<FingerprintWriter> fingerprints_;
  MetricsWriter metrics_;
  std::unique_ptr<TensorboardWriter> tensorboard_;  // tensorboard()
  std::unique_ptr<OpenMetricsWriter> open_metrics_;
  Saver saver_;
  BestEvaluation best_;
  std::mutex telling_;
  Step newest_;            // the newest step whose record was written
  int64_t newest_ns_ = 0;  // the time of its record; 0: not known
  bool disk_is_full_ = false, launcher_is_gone_ = false;
  bool shows_ = true;  // whether metrics.prom could be written
};

enum class Wait { stands, finish, launcher_gone };

Wait wait_for_state(comm::JobMemory& memory, ScribesOwnChannel& launcher) {
  for (;;) {
    beat(memory);
    if (memory.wait_ready(kDrain)) return Wait::stands;
    ScribeOrder order;
    const comm::Received received = launcher.receive(&order, 0ms);
    if (received == comm::Received::closed) return Wait::launcher_gone;
    if (received == comm::Received::message && std::holds_alternative<FinishFiles>(order)) return Wait::finish;
  }
}

}  // namespace

std::optional<Step> run_scribe(ScribeSetup& setup) {
  comm::JobMemory memory(setup.memory);
  switch (wait_for_state(memory, setup.launcher)) {
    case Wait::finish:
      return std::nullopt;
    case Wait::launcher_gone:
      return Step(setup.from_step);
    case Wait::stands:
      break;
  }
  return Scribe(setup, memory).run();
}

}  // namespace estrain::record
