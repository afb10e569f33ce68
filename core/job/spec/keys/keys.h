#pragma once
// The table of all keys. Parsing, checking, the resolved spec, the reference and the messages go by this table.

#include <string>
#include <string_view>
#include <vector>

#include "core/job/spec/keys/key.h"

namespace estrain::spec {

// In the order of documentation, with the keys of each table together.
const std::vector<SpecKey<JobSpec>>& job_keys();

// The keys of an [[optimizer.groups]]; their conditions refer to the whole spec.
const std::vector<SpecKey<OptimizerGroup>>& group_keys();

// The keys of an [[elastic.changes]].
const std::vector<SpecKey<batches::BatchChange>>& change_keys();

// Returns the key called `name`, or null.
const SpecKey<JobSpec>* find_key(std::string_view name);

// "data.batch" -> "data", "batch".
std::string_view table_of(std::string_view name);
std::string_view leaf_of(std::string_view name);

// " Only for optimizer.name "sgd"." for each condition.
std::string only_for(const std::vector<Condition>& conditions);

// Returns whether a key with this condition belongs to `spec`.
bool holds(const Condition& condition, const JobSpec& spec);
bool all_hold(const std::vector<Condition>& conditions, const JobSpec& spec);

}  // namespace estrain::spec
