#pragma once
// The events of events.jsonl, sorted by name: one table for the reference and `estrain help`. A test compares the names
// with the sources that write events.

#include <string_view>

namespace estrain::record {

struct EventName {
  std::string_view name;
  std::string_view meaning;  // with fields of the event: in words, or their names in back-quotes
};

inline constexpr EventName event_names[] = {
    {"agent_joined", "an agent has joined by the launcher's address: `host`, `address` (where it listens itself)"},
    {"allocation", "under Slurm: cores, memory, time left, who says so, which start it is"},
    {"batch_changed", "the batch size and learning rates are others after `step`: `batch`, `lr_factor`"},
    {"checkpoint", "a checkpoint is complete: `step`, `path`"},
    {"checkpoint_failed",
     "a checkpoint could not be written: `step`, `error`; `damaged`: the state had changed in memory"},
    {"checkpoint_skipped", "a damaged checkpoint was passed over by a resume: `path`, `why`"},
    {"data_accepted", "data files that had changed, accepted by a resume: `step`, `what`"},
    {"decision", "of the planner: `what`, and the `reason`"},
    {"determinism", "what \"auto\" was decided to mean: `chosen`, `reason`"},
    {"device_lost", "a device is not used any more: `step`, `device`, `cause`"},
    {"factors",
     "in this stage hosts send factors of gradients in place of sums, if `parameters` is above 0: `parameters`, "
     "`gradient_bytes`, and the `bytes` of an EST's factors; large parameters that go as sums: `without_factors` (a "
     "host has found none), `too_large` (half of the bytes of sums, or more), `too_slow` (to multiply)"},
    {"failed", "the run ended by an error: `step`, `fault`, `error`, `advice`"},
    {"fault",
     "a process was lost: worker, device, ESTs, step, process, log; cause, class, evidence, advice and whether it is "
     "tried again; seconds from its last sign of life"},
    {"faults", "all faults of a launch, at its end"},
    {"finished", "all steps are done, or the job ended `early` by early_stop: `step`, `early`"},
    {"first_step", "`seconds` from the launcher's start to the first step"},
    {"gone_back",
     "an audit found something wrong at `step`, and the run goes back: `from` (the checkpoint that it continues from), "
     "`set_aside` (steps of later checkpoints), `cause`"},
    {"host_lost", "another host is gone, or silent: `step`, `host`, `why`"},
    {"left_out",
     "a sample cannot be read, and is left out by `data.skip_bad`: `step`, `set`, `sample` (its number in the data), "
     "`why`"},
    {"not_listening", "the launcher's host cannot listen for agents that join: `at`, `why`; it is tried again"},
    {"rebalance", "ESTs moved between the workers that are there: as `resize`"},
    {"reclaimed", "`seconds` until the devices that were asked for were free"},
    {"records_damaged",
     "a file of records was put aside when the run continued after `step`: `path`, `kept_as`, `why`"},
    {"recovered",
     "from which fault; seconds from the last sign of life to the next step; committed steps that were redone"},
    {"refused_connection",
     "a host without the run's key, with another build, or under a name that is taken, came to an agent or to the "
     "launcher's address, once a minute at most: `host`, `connections` since the last such line, `from` and `why` of "
     "the newest"},
    {"resize", "from and to which devices, ESTs of each, why, what it cost, the step time that the plan promises"},
    {"resize_failed",
     "a resize was given up, and the job continues as it was, or a new device was lost before its first step: `step`, "
     "`devices`, `error`"},
    {"schedule_changed", "a resume asked for another schedule of the steps after `step`: `what`"},
    {"skipped", "a step without an update: `why`, and the `rank` and `tensor` to blame"},
    {"slow_worker", "a worker became slow: seconds per mini-batch, against the usual, since which step"},
    {"spec_restored", "a run continued with the spec of the checkpoint `from`, as job.toml could not be used: `why`"},
    {"stage",
     "device set, the ranges of ESTs and who sums their gradients, the GPUs, the host or several, from a step on"},
    {"stage_speed",
     "of a stage that ends: steps counted, their seconds, what of a step was exchange, and of each worker its "
     "mini-batches and the seconds spent computing them; first steps, evaluations and warming are left out"},
    {"stalled", "all workers waited for each other, the stage began anew: `step`, `seconds`"},
    {"start", "a launcher began: `step`, `devices`, `pid`"},
    {"state_received",
     "a host was sent the state of `step`: `host`, `bytes` from each host (\"\": the launcher's, if it has no name)"},
    {"stopped", "the run was stopped with a checkpoint: `step`, `why`"},
    {"takeover",
     "another host has taken the lost coordinator's place: `host`, `step`, `devices`, whether its state was `saved` as "
     "a "
     "checkpoint, `seconds` since the loss"},
    {"worker_at_speed", "a slow worker is as fast as the others again"},
    {"write_failed", "the scribe waits for room on the disk, or for a file: `error`"},
};

}  // namespace estrain::record
