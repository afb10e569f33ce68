#pragma once
// A worker in this process, of a job with an evaluation after every second step.

#include <string>

#include "core/job/spec/parsing/parse.h"
#include "tests/core/engine/train/worker_in_process.h"

namespace estrain::train {

struct EvaluatedWorker {
  spec::JobSpec spec;
  UniqueFd fd = comm::JobMemory::create();
  WorkerInProcess worker;
  comm::JobMemory& memory = worker.memory();

  // `rest`: further keys of [train], and further TOML.
  explicit EvaluatedWorker(const std::string& rest = "", int64_t classes = 3)
      : spec(spec::parse_text(
            "[job]\nests = 2\n[model]\nname = \"mlp\"\nhidden = [5]\nclasses = " + std::to_string(classes) +
                "\n[data]\nformat = \"synthetic\"\n"
                "shape = [7]\nsamples = 96\nbatch = 2\n[train]\nsteps = 99\neval_every = 2\neval_batch = 7\n" +
                rest,
            "test")),
        worker(spec, fd.get(), WorkerInProcess::plan_of(spec)) {
    worker.place().model.read_parameters_of(Step(0));
  }

  // Every sample of the test set has this loss, and is right or not. The evaluation is of `step`.
  void evaluate(Step step, float loss, bool right) {
    const comm::EvaluationResults results = memory.evaluation();
    for (int64_t i = 0; i < worker.job().samples().evaluated(); ++i) {
      results.losses[i] = loss;
      results.correct[i] = right ? 1 : 0;
      results.counted[i] = 1;
    }
    memory.commit().note_evaluated(step);
  }
  std::byte* state(int64_t step) { return memory.state_of(Step(step)); }
};

}  // namespace estrain::train
