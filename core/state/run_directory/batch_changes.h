#pragma once
// Changes of a job's batch size and learning rates in its change log, changes.jsonl (core/state/record/FORMAT.md). The
// log counts: a run that goes on takes them from there, and job.toml repeats them, so that it describes the whole job.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/job/spec/job_spec.h"
#include "core/state/run_directory/run_directory.h"

namespace estrain::run_directory {

using BatchChanges = std::vector<batches::BatchChange>;

// The changes in a log, in the order of their steps. Lines of other changes, and damaged ones, are passed over.
BatchChanges batch_changes_in(std::string_view log);

// `log` with these changes of the batch in place of its own. Lines that `log` or `former` has of them keep their text.
std::string with_batch_changes(std::string_view log, const BatchChanges& changes, std::string_view former = "");

// The change in force for the steps after `step`: the last one up to it, or the spec as it began.
batches::BatchChange in_force(const spec::JobSpec& spec, Step step);

// Whether the batch size and the factor are those in force after the change's step already.
bool is_in_force(const spec::JobSpec& spec, const batches::BatchChange& change);

// The change after `step` to this batch size and factor; what is absent stays as it is in force.
batches::BatchChange changed(const spec::JobSpec& spec, Step step, std::optional<int64_t> batch,
                             std::optional<double> lr_factor);

// Adds one in place of another after the same step. `changes` stay in order.
void add_change(BatchChanges& changes, const batches::BatchChange& change);

// Throws Fault::usage unless the job allows changes of its batch.
void require_changeable(const spec::JobSpec& spec);

// Makes a change of the run's job durable: in changes.jsonl, then in job.toml with the rest of `spec`. Nobody trains,
// and the lock is held. Throws Fault::io.
void record_batch_change(const RunDirectory& directory, spec::JobSpec spec, const batches::BatchChange& change);

// "mini-batches of 64 samples, learning rates times 2".
std::string in_words(const batches::BatchChange& change);

}  // namespace estrain::run_directory
