#pragma once
// The Dispatcher's orders to the pool's daemon, which answers an order about a job by the event (event.h) named there.
// In JSON an action is a message of core/base/json/codec.h.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/json/fields.h"
#include "core/planning/dispatch/ends/ends.h"
#include "core/planning/dispatch/state.h"

namespace estrain::dispatch {

// Look for reasons why the job cannot run. Answered by Checked.
struct CheckJob {
  static constexpr std::string_view name = "check_job";
  JobId job = 0;
  ESTRAIN_FIELDS(job)
};

// Start the job's launcher, or resume the job from its checkpoint. Answered by TrainingBegan, or JobEnded.
struct StartJob {
  static constexpr std::string_view name = "start_job";
  JobId job = 0;
  std::vector<std::string> devices = {};  // names, as in Slot
  std::string home = {};                  // the host of the new launcher; empty: the daemon's own host
  ESTRAIN_FIELDS(job, devices, home)
};

// Give the job free devices, and take others back in the same change. A job that weighs offers may decline devices
// where nothing is taken back. Answered by DevicesChanged, with the devices then held.
struct GrowJob {
  static constexpr std::string_view name = "grow_job";
  JobId job = 0;
  std::vector<std::string> added = {};
  std::vector<std::string> all = {};  // the job's devices after the change
  std::vector<std::string> given_back = {};
  ESTRAIN_FIELDS(job, added, all, given_back)
};

// Take these devices back. Answered by DevicesChanged.
struct ShrinkJob {
  static constexpr std::string_view name = "shrink_job";
  JobId job = 0;
  std::vector<std::string> given_back = {};
  double within = 0;  // s for the job to let go
  ESTRAIN_FIELDS(job, given_back, within)
};

// Train with another batch from the next step on, with learning rates scaled for that batch. Answered by BatchInForce
// and DevicesChanged, or BatchRefused.
struct ChangeBatch {
  static constexpr std::string_view name = "change_batch";
  JobId job = 0;
  int64_t batch = 0;     // samples per EST and step
  double lr_factor = 0;  // on the learning rates of the job's schedule
  ESTRAIN_FIELDS(job, batch, lr_factor)
};

// Stop the job with a checkpoint. Answered by JobEnded.
struct StopJob {
  static constexpr std::string_view name = "stop_job";
  JobId job = 0;
  std::vector<std::string> devices = {};  // all devices of the job
  double within = 0;                      // s for the job to let go
  ESTRAIN_FIELDS(job, devices, within)
};

// Kill the job's launcher now: the job has not let go of devices in time, or does not answer. Answered by JobEnded.
struct KillJob {
  static constexpr std::string_view name = "kill_job";
  JobId job = 0;
  ESTRAIN_FIELDS(job)
};

// Tell the client of a Withdrawal that the devices are free. Client 0: nobody waits.
struct Released {
  static constexpr std::string_view name = "released";
  ClientId client = 0;
  std::vector<std::string> devices = {};
  double seconds = 0;  // from the request to the release
  ESTRAIN_FIELDS(client, devices, seconds)
};

// Keep an end of a job for the tables of failures. A WriteHistory tells the same to the reader of the history.
struct KeepEnd {
  static constexpr std::string_view name = "keep_end";
  JobEnd end;
  ESTRAIN_FIELDS(end)
};

// Write a line of the history: the news of a job or of the pool, and the reason.
struct WriteHistory {
  static constexpr std::string_view name = "note";
  JobId job = 0;        // 0: of the pool
  std::string what;     // "submitted", "devices", "started", "batch", "ended", …
  int64_t devices = 0;  // number meant for the job from now on; for the pool: concerned
  std::string reason;
  std::vector<std::string> names = {};  // of the pool's devices; for a job, the devices' groups: "nodeB/cuda" twice
  // The number in the reason: how long the job stood still ("changed"), had trained before ("trains"), or may take to
  // let go ("take", "remove"). Nothing: the reason has no such number.
  std::optional<double> seconds = {};
  ESTRAIN_FIELDS(job, what, devices, reason, names, seconds)
};
WriteHistory note_of(const Job& job, std::string what, std::string reason);  // with the job's target as devices

// Reasons that count seconds. The sentence of a reason is made here from the number, and nowhere else. A line of the
// history in the pool's database keeps the sentence alone, and gives the number back by seconds_in().
enum class Counted {
  stood_still,    // "it stood still for 0.125 s", of "changed"
  began_earlier,  // "its first step began 0.125 s earlier", of "trains"
  within,         // "within 2 s", of "take" and "remove"
};
std::string sentence(Counted counted, double seconds);
std::optional<double> seconds_in(Counted counted, std::string_view reason);  // nothing: the reason is another sentence
WriteHistory note_of(const Job& job, std::string what, Counted counted, double seconds);

using Action = std::variant<CheckJob, StartJob, GrowJob, ShrinkJob, ChangeBatch, StopJob, KillJob, Released, KeepEnd,
                            WriteHistory>;

JobId job_of(const Action& action);  // 0: of the pool

}  // namespace estrain::dispatch
