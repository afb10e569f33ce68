#pragma once
// The status of a run: the launcher answers with it on the control socket, and `estrain status --json` prints it.
// Unknown fields are left out.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json/codec.h"
#include "core/base/json/fields.h"

namespace estrain::launch {

// A field that is present even without a value: null then.
template <typename T>
struct OrNull {
  std::optional<T> value;
};
template <typename T>
Json to_field(const OrNull<T>& field) {
  return field.value ? Json(*field.value) : Json();
}
template <typename T>
void from_field(const Json& json, OrNull<T>& field) {
  field.value.reset();
  if (!json.is_null()) codec::from_field(json, field.value.emplace());
}

// From this share on, waiting for data is pointed out to the user.
inline constexpr double kNotableDataWait = 0.1;

// The noise of a job's gradients, for a job with a changeable batch (run/launch/profiling/noise_meter.h).
struct NoiseStatus {
  double scale = 0;   // samples: a batch of this size has as much signal as noise
  int64_t steps = 0;  // measured

  ESTRAIN_FIELDS(scale, steps)
};

struct SlowWorker {
  double factor = 0;  // times its usual time of a mini-batch
  int64_t since_step = 0;

  ESTRAIN_FIELDS(factor, since_step)
};

struct WorkerStatus {
  int64_t id = 0, pid = -1;
  std::string device;
  EstRange ests;
  std::string log;  // path
  std::optional<double> seconds_per_mini_batch;
  std::optional<double> seconds_waiting_for_data;  // spent on waiting for data
  std::optional<SlowWorker> slow;

  // Returns the share of a mini-batch's time spent on waiting for data; nothing without a measurement.
  std::optional<double> data_wait() const {
    if (seconds_per_mini_batch.value_or(0) <= 0 || !seconds_waiting_for_data) return std::nullopt;
    return *seconds_waiting_for_data / *seconds_per_mini_batch;
  }

  ESTRAIN_FIELDS(id, pid, device, ests, log, seconds_per_mini_batch, seconds_waiting_for_data, slow)
};

// The plan in force, compared with measurements.
struct PlanStatus {
  double measured_step_seconds = 0;
  std::optional<double> estimated_step_seconds;
  std::optional<std::string> reason;

  ESTRAIN_FIELDS(measured_step_seconds, estimated_step_seconds, reason)
};

// A decision about the devices, and its reason.
struct DecisionStatus {
  int64_t step = 0;
  std::string what, reason;

  ESTRAIN_FIELDS(step, what, reason)
};

// A device found wrong by an audit.
struct WrongDevice {
  std::optional<std::string> device;
  std::optional<int64_t> worker, step, vouched_step;

  ESTRAIN_FIELDS(device, worker, step, vouched_step)
};

// A run without a launcher has the wrong devices alone.
struct AuditStatus {
  std::optional<int64_t> every, passed, newest_step;
  std::optional<double> share;  // of mini-batches that are computed twice
  std::optional<bool> blind;    // a device is alone of its kind
  std::vector<WrongDevice> wrong_devices;

  ESTRAIN_FIELDS(every, passed, newest_step, share, blind, wrong_devices)
};

// A host of a job over several. The launcher's own has no link.
struct HostStatus {
  std::string host;
  bool leads = false;
  int64_t workers = 0, ests = 0;
  std::string secrecy = "encrypted";
  std::optional<double> step_seconds;  // computing time of the host's slowest worker
  std::optional<double> exchange_seconds, round_trip_seconds, bytes_per_second;

  ESTRAIN_FIELDS(host, leads, workers, ests, secrecy, step_seconds, exchange_seconds, round_trip_seconds,
                 bytes_per_second)
};

struct RunStatus {
  bool ok = true;
  std::string name, model, run;
  // "starting", "training", "warming", "pausing", "recovering", "ending"; without a launcher "finished", "stopped",
  // "failed" or "not running"; with a launcher on another host sharing the directory, "elsewhere".
  std::string state;
  int64_t ests = 0;
  std::optional<std::string> error;  // of a failed run
  std::optional<int64_t> pid;        // of the launcher

  // Present where the launcher is elsewhere.
  std::optional<std::string> host;
  std::optional<OrNull<std::string>> slurm_job;
  std::optional<double> seconds_since_sign_of_life;

  std::optional<int64_t> step, total_steps, epoch;
  std::optional<OrNull<double>> loss, lr;  // null: not finite
  // Where the batch may be changed, the values in force: samples per EST, and the factor on the learning rates.
  std::optional<int64_t> batch;
  std::optional<double> lr_factor;
  std::optional<NoiseStatus> gradient_noise;
  std::optional<double> test_accuracy;
  std::optional<OrNull<int64_t>> last_checkpoint_step;
  std::optional<AuditStatus> audit;

  // Present only in a launcher's own answer.
  std::optional<int64_t> stage;
  std::optional<double> running_seconds, samples_per_second, seconds_left;
  std::optional<std::string> devices;  // "2 x cpu"
  std::optional<std::string> waits_for_room;
  std::optional<std::vector<std::string>> held;
  std::optional<PlanStatus> plan;
  std::optional<std::vector<DecisionStatus>> decisions;
  std::optional<std::vector<WorkerStatus>> workers;
  std::optional<std::vector<HostStatus>> hosts;  // of a job over several

  ESTRAIN_FIELDS(ok, name, model, run, state, ests, error, pid, host, slurm_job, seconds_since_sign_of_life, step,
                 total_steps, epoch, loss, lr, batch, lr_factor, gradient_noise, test_accuracy, last_checkpoint_step,
                 audit, stage, running_seconds, samples_per_second, seconds_left, devices, waits_for_room, held, plan,
                 decisions, workers, hosts)
};

}  // namespace estrain::launch
