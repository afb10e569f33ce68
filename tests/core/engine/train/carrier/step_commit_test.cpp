#include "core/engine/train/carrier/step_commit.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "core/job/spec/parsing/parse.h"
#include "tests/core/engine/train/worker_in_process.h"

namespace estrain::train {
namespace {

struct Committing {
  spec::JobSpec spec = spec::parse_text(
      "[job]\nests = 3\n[model]\nname = \"mlp\"\nhidden = [5]\n[data]\nformat = \"synthetic\"\nshape = [7]\n"
      "samples = 64\nbatch = 2\n[optimizer]\nlr = 0.5\n[schedule]\nname = \"step\"\nperiod = 2\nunit = \"step\"\n"
      "gamma = 0.5\n[train]\nsteps = 9\n[checkpoint]\nevery = 2\n",
      "test");
  UniqueFd fd = comm::JobMemory::create();
  WorkerInProcess worker{spec, fd.get(), WorkerInProcess::plan_of(spec)};
  comm::JobMemory& memory = worker.memory();
  StageOrder order{WorkerRank(0), {{VirtualRank(0), VirtualRank(3)}}};

  StepCommit commit() { return {worker.place(), order}; }
  comm::RecordView lose(float a, float b, float c) {
    const comm::RecordView record = memory.ring().pending();
    record.est_losses[0] = a;
    record.est_losses[1] = b;
    record.est_losses[2] = c;
    return record;
  }
};

TEST_CASE("the loss on record is summed by the tree of the gradients, of losses that are each divided first") {
  Committing job;
  const float third = 1.0f / 3;
  const float large = 0x1p24f;  // whose neighbour is large + 2
  const comm::RecordView record = job.lose(3 * large, 3, 3);
  CHECK(job.commit().complete(Step(4)) == 0.125);
  REQUIRE(3 * large * third == large);
  REQUIRE(3 * third == 1);
  CHECK(record.head->loss == large);  // (large + 1) + 1, not large + (1 + 1)
  CHECK(record.head->step == Step(5));
  CHECK(record.head->lr == 0.125);  // of the update that makes it: halved twice
  CHECK(record.head->kind == comm::RecordKind::step);
}

TEST_CASE("every NaN is recorded as one, whatever its sign and payload") {
  Committing job;
  const float other = std::bit_cast<float>(0xffc12345u), one = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::bit_cast<uint32_t>(one_nan(other)) == std::bit_cast<uint32_t>(one));
  CHECK(std::bit_cast<uint32_t>(one_nan(-0.0f)) == 0x80000000u);
  const comm::RecordView record = job.lose(1, other, 1);
  job.commit().complete(Step(0));
  CHECK(std::bit_cast<uint64_t>(record.head->loss) == std::bit_cast<uint64_t>(static_cast<double>(one)));
}

TEST_CASE("a step is finite if all losses are and nobody suspects a result") {
  Committing job;
  job.lose(1, 2, 3);
  CHECK(job.commit().is_finite());
  job.lose(1, 2, std::numeric_limits<float>::infinity());
  CHECK_FALSE(job.commit().is_finite());
  job.lose(std::nanf(""), 2, 3);
  CHECK_FALSE(job.commit().is_finite());
  const comm::RecordView record = job.lose(1, 2, 3);
  comm::mark_suspect(*record.head, comm::Nonfinite::Where::gradient);
  CHECK_FALSE(job.commit().is_finite());
}

TEST_CASE("a committed step that is saved is held for the scribe, where one reads what this host holds") {
  Committing job;
  const auto settles = [&job](int64_t step) {
    job.commit().settle(Step(step));
    const auto held = job.memory.hold().held();
    job.memory.hold().release();
    return held;
  };
  job.memory.commit().commit(Step(2));
  CHECK(settles(2) == Step(2));
  CHECK_FALSE(settles(4));  // it stands in a GPU's memory, and is not committed yet
  job.order.beyond = StageOrder::Beyond{1, 0, 2, false};
  CHECK_FALSE(settles(2));
  job.order.beyond->records = true;
  CHECK(settles(2) == Step(2));
  job.memory.commit().commit(Step(3));
  CHECK_FALSE(settles(3));  // checkpoint.every = 2
}

TEST_CASE("a stage that is to pause ends after the step that is committed next, on one host by the gate") {
  Committing job;
  job.memory.commit().commit(Step(3));
  job.commit().settle(Step(3));
  CHECK_FALSE(job.memory.gate().ends_after(Step(3)));
  job.memory.gate().ask_pause();
  job.commit().settle(Step(4));  // not committed
  CHECK_FALSE(job.memory.gate().ends_after(Step(4)));
  job.order.beyond = StageOrder::Beyond{1, 0, 2, true};
  job.commit().settle(Step(3));  // all hosts have to agree
  CHECK_FALSE(job.memory.gate().ends_after(Step(3)));
  job.order.beyond.reset();
  job.commit().settle(Step(3));
  CHECK(job.memory.gate().ends_after(Step(3)));
}

}  // namespace
}  // namespace estrain::train
