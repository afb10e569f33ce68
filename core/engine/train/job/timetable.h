#pragma once
// A Timetable tells how long a job trains, and after which steps the job evaluates and saves.

#include <cstdint>

#include "core/base/ids.h"
#include "core/job/batches/batch_schedule.h"
#include "core/job/spec/job_spec.h"

namespace estrain::train {

class Timetable {
 public:
  Timetable(const spec::JobSpec& spec, const batches::BatchSchedule& batches, bool has_test_data)
      : spec_(spec), batches_(batches), has_test_data_(has_test_data) {}

  const batches::BatchSchedule& batches() const { return batches_; }
  int64_t total_steps() const;
  bool evaluates() const;  // after at least one step
  bool evaluates_after(Step step) const;
  bool saves_after(Step step) const;

 private:
  const spec::JobSpec& spec_;
  const batches::BatchSchedule batches_;
  const bool has_test_data_;
};

}  // namespace estrain::train
