#pragma once
// A worker inside the test's process or thread: everything that train::Stage and the parts of a stage need, without
// launcher and scribe.

#include <memory>
#include <optional>
#include <utility>

#include "core/engine/device/cpu.h"
#include "core/engine/est/gradient_hooks.h"
#include "core/engine/train/initial_state.h"
#include "core/engine/train/workplace/workplace.h"

namespace estrain::train {

class WorkerInProcess {
 public:
  // `plan`: builds the state of step 0 in a memory with this plan. Without a plan, the memory is another worker's or a
  // copy.
  WorkerInProcess(const spec::JobSpec& spec, int memory, std::optional<comm::MemoryPlan> plan = {},
                  std::unique_ptr<device::ComputeDevice> device = std::make_unique<device::CpuDevice>())
      : spec_(spec),
        device_(std::move(device)),
        data_(data::open(spec_.data, spec_.model.context, 0, spec_.model.classes)),
        job_(spec_, data_, plan.has_value()),
        memory_(memory),
        model_(job_.network(), job_.places(), built(plan), *device_),
        hooks_(job_.network().parameters(), *device_) {
    job_.network().model().train();
  }

  static comm::MemoryPlan plan_of(const spec::JobSpec& spec) {
    const data::DataPair data = data::open(spec.data, spec.model.context, 0, spec.model.classes);
    return TrainingJob(spec, data, false).memory_plan();
  }

  TrainingJob& job() { return job_; }
  comm::JobMemory& memory() { return memory_; }
  Workplace& place() { return place_; }

 private:
  comm::JobMemory& built(const std::optional<comm::MemoryPlan>& plan) {
    if (!plan) return memory_;
    memory_.lay_out(*plan);
    write_first_state(job_, memory_.state_of(Step(0)));
    memory_.set_ready();
    return memory_;
  }

  const spec::JobSpec spec_;
  const std::unique_ptr<device::ComputeDevice> device_;
  const data::DataPair data_;
  TrainingJob job_;
  comm::JobMemory memory_;
  BoundModel model_;
  est::GradientHooks hooks_;
  Workplace place_{*device_, job_, memory_, model_, hooks_, -1};
};

}  // namespace estrain::train
