#pragma once
// Changes of a job's batch size and learning rates in its change log, changes.jsonl (core/state/record/FORMAT.md). The
// log counts: a resumed run takes the changes from the log. job.toml repeats the changes, to describe the whole job.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/job/batches/batch_schedule.h"
#include "core/job/spec/job_spec.h"
#include "core/state/run_directory/run_directory.h"

namespace estrain::run_directory {

using BatchChanges = std::vector<batches::BatchChange>;

// Returns the changes in a log, in the order of their steps. Skips lines of other changes, and damaged lines.
BatchChanges batch_changes_in(std::string_view log);

// Returns `log` with these batch changes in place of its own. A change already in `log` or `former` keeps its text.
std::string with_batch_changes(std::string_view log, const BatchChanges& changes, std::string_view former = "");

// Returns the change in force for the steps after `step`: the last change up to `step`, or the spec's first values.
batches::BatchChange in_force(const spec::JobSpec& spec, Step step);

// Tells whether the batch size and the factor are in force after the change's step already.
bool is_in_force(const spec::JobSpec& spec, const batches::BatchChange& change);

// Returns the change after `step` to this batch size and factor; an absent value stays in force.
batches::BatchChange changed(const spec::JobSpec& spec, Step step, std::optional<int64_t> batch,
                             std::optional<double> lr_factor);

// Throws Fault::infeasible if a step after the change would have mini-batches of one sample. `schedule`: of the job
// before the change. `one_sample_error`: why the model refuses such a mini-batch; empty: it does not.
void require_trainable(const spec::JobSpec& spec, batches::BatchSchedule schedule, const batches::BatchChange& change,
                       const std::string& one_sample_error);

// Throws Fault::usage unless the job allows changes of its batch.
void require_changeable(const spec::JobSpec& spec);

// Makes a change of the run's job durable: in changes.jsonl, then in job.toml with the rest of `spec`. Meanwhile no
// worker trains, and the lock is held. Throws Fault::io.
void record_batch_change(const RunDirectory& directory, spec::JobSpec spec, const batches::BatchChange& change);

// "mini-batches of 64 samples, learning rates times 2".
std::string in_words(const batches::BatchChange& change);

}  // namespace estrain::run_directory
