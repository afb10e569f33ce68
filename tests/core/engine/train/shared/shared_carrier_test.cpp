#include "core/engine/train/shared/shared_carrier.h"

#include <ATen/ops/zeros.h>
#include <doctest/doctest.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace estrain::train {
namespace {

// From that many elements on the courier is woken.
constexpr int64_t kWorthIt = 32 << 10;

TEST_CASE("a parameter counts as folded once all behind it are, and the courier is woken for what is worth it") {
  checkpoint::StateLayout layout;
  model::NamedTensors tensors;
  for (const int64_t elements : {int64_t{10}, int64_t{20}, int64_t{1}, kWorthIt - 31, int64_t{30}})
    tensors.parameters.emplace_back("p" + std::to_string(elements), at::zeros({elements}));
  const ModelPlaces places(tensors, layout);
  const UniqueFd fd = comm::JobMemory::create();
  comm::JobMemory memory(fd.get());
  comm::MemoryPlan plan;
  plan.manifest = "the manifest";
  plan.state_bytes = plan.gradient_bytes = 64;
  plan.ests = 2;
  plan.parameters = 5;
  plan.digests = plan.ring_records = 4;
  memory.lay_out(plan);
  const UniqueFd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const auto has_rung = [&] {
    uint64_t rung = 0;
    return ::read(bell.get(), &rung, sizeof rung) > 0;
  };
  memory.sums().begin_step(2);
  memory.sums().note_folded(WorkerRank(0), 5);  // the other worker is done

  FoldProgress progress(places, memory, WorkerRank(1), bell.get());
  for (int step = 0; step < 2; ++step) {
    progress.begin_step();
    progress.note(4);
    CHECK(memory.sums().folded_by_all(2) == 1);
    CHECK(!has_rung());
    progress.note(0);
    CHECK(memory.sums().folded_by_all(2) == 1);
    progress.note(3);
    CHECK(memory.sums().folded_by_all(2) == 2);
    CHECK(!has_rung());  // one element is missing, and the step before has left none
    progress.note(2);
    CHECK(memory.sums().folded_by_all(2) == 3);
    CHECK(has_rung());
    progress.note(1);
    CHECK(memory.sums().folded_by_all(2) == 5);
    CHECK(!has_rung());  // the workers' request does
  }
}

}  // namespace
}  // namespace estrain::train
