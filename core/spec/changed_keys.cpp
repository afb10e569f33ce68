#include "core/spec/defaults.h"
#include "core/spec/keys.h"
#include "core/spec/parse.h"

namespace estrain::spec {
namespace {

std::optional<std::string> effective(const Key<JobSpec>& key, const JobSpec& spec) {
  return all_hold(key.conditions, spec) ? key.write(spec) : std::nullopt;
}

// Where learning rates follow evaluations, what an evaluation finds is a part of the bits.
bool steers_schedule(const Key<JobSpec>& key, const JobSpec& spec) {
  return spec.schedule.name == ScheduleKind::plateau &&
         (key.name == "train.eval_every" || key.name == "train.eval_batch");
}

}  // namespace

std::vector<std::string> changed_keys(const JobSpec& before, const JobSpec& after) {
  const JobSpec was = with_defaults(before), is = with_defaults(after);
  std::vector<std::string> changed;
  for (const auto& key : job_keys()) {
    if ((key.defines_bits || steers_schedule(key, is)) && effective(key, was) != effective(key, is))
      changed.push_back(key.name);
  }
  return changed;
}

}  // namespace estrain::spec
