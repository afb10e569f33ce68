#pragma once
// How long a job trains, and after which steps it evaluates and saves.

#include <cstdint>

#include "core/base/ids.h"
#include "core/spec/job_spec.h"

namespace estrain::train {

class Timetable {
 public:
  Timetable(const spec::JobSpec& spec, int64_t batches_per_epoch, bool has_test_data)
      : spec_(spec), batches_per_epoch_(batches_per_epoch), has_test_data_(has_test_data) {}

  int64_t batches_per_epoch() const { return batches_per_epoch_; }
  int64_t total_steps() const;
  bool evaluates() const;  // after any step
  bool evaluates_after(Step step) const;
  bool saves_after(Step step) const;

 private:
  const spec::JobSpec& spec_;
  const int64_t batches_per_epoch_;
  const bool has_test_data_;
};

}  // namespace estrain::train
