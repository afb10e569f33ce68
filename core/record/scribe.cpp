#include "core/record/scribe.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "core/base/clock.h"
#include "core/base/files.h"
#include "core/checkpoint/directory.h"
#include "core/checkpoint/manifest.h"
#include "core/comm/futex.h"
#include "core/comm/job_memory.h"
#include "core/comm/step_record.h"
#include "core/record/fingerprints.h"
#include "core/record/metrics.h"
#include "core/spec/parse.h"

namespace estrain::record {
namespace {

constexpr int kDrainMilliseconds = 100;
constexpr size_t kAlignment = 4096;

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Snapshot = std::unique_ptr<std::byte, FreeMemory>;

// Writes one snapshot after another in a thread of its own.
class Saver {
 public:
  Saver(const spec::JobSpec& spec, const std::string& run, const checkpoint::Manifest& manifest)
      : spec_(spec), run_(run), manifest_(manifest), directory_(run + "/checkpoints") {
    directory_.remove_stale_temporaries();
  }
  ~Saver() { wait(); }

  int64_t last_saved() const { return last_saved_; }
  void wait() {
    if (thread_.joinable()) thread_.join();
  }

  // Copies the state out, calls `copied`, then writes it behind the caller's back; `done` gets what became of it, in
  // the saver's thread.
  void save(const std::byte* state, int64_t step, double lr, const std::function<void()>& copied,
            std::function<void(Json)> done) {
    wait();
    const size_t bytes = (manifest_.layout.bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (!snapshot_) snapshot_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes)));
    if (!snapshot_) throw Error::make(Fault::infeasible, "no memory for a copy of the state ({} bytes)", bytes);
    std::memcpy(snapshot_.get(), state, manifest_.layout.bytes);
    copied();
    thread_ = std::thread([this, step, lr, done = std::move(done)] { done(write(step, lr)); });
  }

 private:
  Json write(int64_t step, double lr) {
    const int64_t begin = monotonic_ns();
    try {
      directory_.publish(manifest_.layout, snapshot_.get(), meta(step, lr));
      directory_.prune(spec_.checkpoint.keep);
    } catch (const Error& error) {
      return {{"say", "save_failed"}, {"step", step}, {"error", error.message()}, {"advice", error.advice()}};
    }
    last_saved_ = step;
    return {{"say", "saved"},
            {"step", step},
            {"seconds", seconds(monotonic_ns() - begin)},
            {"bytes", manifest_.layout.bytes}};
  }

  checkpoint::CheckpointMeta meta(int64_t step, double lr) const {
    checkpoint::CheckpointMeta meta;
    meta.estrain_version = ESTRAIN_VERSION;
    meta.step = Step(step);
    meta.epoch = Epoch(manifest_.epoch_at(step));
    meta.samples = manifest_.samples_at(step);
    meta.ests = spec_.job.ests;
    meta.lr = lr;
    meta.spec = spec::to_toml(spec_);
    meta.changes = read_file_if_present(run_ + "/changes.jsonl").value_or("");
    meta.cpu = manifest_.processor;
    stage_history(meta);
    return meta;
  }

  // From the launcher's events: what the job ran on so far.
  void stage_history(checkpoint::CheckpointMeta& meta) const {
    Json stages = Json::array();
    const std::string events = read_file_if_present(run_ + "/events.jsonl").value_or("");
    for (size_t begin = 0, end; (end = events.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const Json line = Json::parse(events.substr(begin, end - begin), nullptr, false);
      if (line.is_object() && line.value("event", "") == "stage") stages.push_back(line);
    }
    if (!stages.empty()) {
      for (const Json& device : stages.back().value("devices", Json::array()))
        meta.devices += (meta.devices.empty() ? "" : ",") + device.get<std::string>();
    }
    meta.stages = stages.dump();
  }

  const spec::JobSpec& spec_;
  const std::string run_;
  const checkpoint::Manifest& manifest_;
  const checkpoint::CheckpointDirectory directory_;
  Snapshot snapshot_;
  std::thread thread_;
  std::atomic<int64_t> last_saved_{-1};
};

class Scribe {
 public:
  Scribe(ScribeSetup& setup, comm::JobMemory& memory)
      : setup_(setup),
        memory_(memory),
        manifest_(checkpoint::Manifest::from_json(memory.manifest())),
        fingerprints_(setup.spec.logging.fingerprints
                          ? std::make_unique<FingerprintWriter>(setup.run + "/fingerprints", manifest_.digest_names,
                                                                Step(setup.from_step))
                          : nullptr),
        metrics_(setup.run + "/metrics.jsonl", Step(setup.from_step)),
        saver_(setup.spec, setup.run, manifest_) {}

  void run() {
    for (;;) {
      pollfd polled[2] = {{setup_.launcher.descriptor(), POLLIN, 0}, {setup_.doorbell, POLLIN, 0}};
      ::poll(polled, 2, kDrainMilliseconds);
      if (polled[1].revents != 0) {
        uint64_t rings = 0;
        [[maybe_unused]] const ssize_t got = ::read(setup_.doorbell, &rings, sizeof rings);
      }
      drain();
      save_held_state();
      if (polled[0].revents != 0 && !obey()) return;
    }
  }

 private:
  void tell(const Json& message) {
    const std::lock_guard lock(telling_);
    setup_.launcher.send(message);
  }

  // Writes what was published since the last call.
  void drain() {
    comm::MemoryHeader& header = memory_.header();
    const uint32_t published = header.published.load();
    uint32_t next = header.drained.load();
    std::vector<StepRecord> steps;
    for (; next != published; ++next) {
      const comm::RecordView view = comm::view_record(memory_, next);
      if (view.head->kind == comm::RecordKind::step) {
        steps.push_back(read_step(view));
        continue;
      }
      write_steps(steps);
      const EvaluationRecord evaluation{Step(view.head->step), view.head->loss, view.head->accuracy,
                                        view.head->predictions};
      metrics_.append(evaluation);
      tell({{"say", "evaluated"},
            {"step", evaluation.step.value},
            {"loss", evaluation.loss},
            {"accuracy", evaluation.accuracy}});
    }
    write_steps(steps);
    header.drained.store(published);
    comm::futex_wake_all(header.drained);
  }

  StepRecord read_step(const comm::RecordView& view) {
    StepRecord record;
    record.step = Step(view.head->step);
    record.epoch = Epoch(view.head->epoch);
    record.lr = lr_ = view.head->lr;
    record.loss = static_cast<float>(view.head->loss);
    record.est_losses.assign(view.est_losses, view.est_losses + memory_.header().ests);
    for (int64_t i = 0; i < memory_.header().digests; ++i) record.digests.push_back(view.digests[i].load());
    const double step_seconds = last_time_ns_ > 0 ? seconds(view.head->time_ns - last_time_ns_) : 0;
    const double samples =
        static_cast<double>(manifest_.samples_per_epoch) / static_cast<double>(manifest_.batches_per_epoch);
    record.samples_per_second = step_seconds > 0 ? samples / step_seconds : 0;
    last_time_ns_ = view.head->time_ns;
    return record;
  }

  void write_steps(std::vector<StepRecord>& steps) {
    if (steps.empty()) return;
    if (fingerprints_) fingerprints_->append(steps);
    metrics_.append(steps);
    steps.clear();
  }

  // A worker or the launcher has put a hold on a committed copy: it is copied out and let go.
  void save_held_state() {
    const int64_t held = memory_.header().held_step.load();
    if (held < 0) return;
    if (held == saver_.last_saved()) return memory_.release_hold();
    saver_.save(
        memory_.state(static_cast<int>(held & 1)), held, lr_, [this] { memory_.release_hold(); },
        [this](const Json& done) { tell(done); });
  }

  // The committed state, while no worker can be writing the other copy's successor: all are idle or dead.
  void save_committed_state() {
    const int64_t step = memory_.header().committed.load();
    if (memory_.header().held_step.load() >= 0) save_held_state();
    saver_.wait();
    if (step == saver_.last_saved()) return;
    saver_.save(
        memory_.state(static_cast<int>(step & 1)), step, lr_, [] {}, [this](const Json& done) { tell(done); });
  }

  // False: it is time to end.
  bool obey() {
    Json message;
    switch (setup_.launcher.receive(&message, 0)) {
      case comm::MessageSocket::Received::nothing:
        return true;
      case comm::MessageSocket::Received::closed:
        wait_for_dead_workers();
        drain();
        save_committed_state();
        saver_.wait();
        return false;
      case comm::MessageSocket::Received::message:
        break;
    }
    if (message.value("do", "") == "finish") {
      saver_.wait();
      drain();
      return false;
    }
    if (memory_.header().held_step.load() >= 0) save_held_state();
    if (message.value("step", INT64_C(-1)) == saver_.last_saved()) {
      tell({{"say", "saved"}, {"step", saver_.last_saved()}, {"seconds", 0}, {"bytes", 0}});
    }
    return true;
  }

  // The launcher is gone and its workers die with it (PR_SET_PDEATHSIG): within this time nobody writes any more.
  void wait_for_dead_workers() {
    memory_.header().abort.store(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }

  ScribeSetup& setup_;
  comm::JobMemory& memory_;
  const checkpoint::Manifest manifest_;
  std::unique_ptr<FingerprintWriter> fingerprints_;
  MetricsWriter metrics_;
  Saver saver_;
  std::mutex telling_;
  int64_t last_time_ns_ = 0;
  double lr_ = 0;
};

// False: the launcher is gone before there was any state.
bool wait_for_state(comm::JobMemory& memory, comm::MessageSocket& launcher) {
  while (!memory.wait_ready(kDrainMilliseconds)) {
    Json message;
    const auto received = launcher.receive(&message, 0);
    if (received == comm::MessageSocket::Received::closed) return false;
    if (received == comm::MessageSocket::Received::message && message.value("do", "") == "finish") return false;
  }
  return true;
}

}  // namespace

void run_scribe(ScribeSetup& setup) {
  comm::JobMemory memory(setup.memory);
  if (!wait_for_state(memory, setup.launcher)) return;
  Scribe(setup, memory).run();
}

}  // namespace estrain::record
