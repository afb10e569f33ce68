#include "core/engine/train/workplace/resident_state.h"

#include <doctest/doctest.h>

#include <chrono>
#include <utility>
#include <vector>

#include "core/job/spec/parsing/parse.h"
#include "tests/core/engine/train/worker_in_process.h"

namespace estrain::train {
namespace {

using namespace std::chrono_literals;

TEST_CASE("the state is saved every 2 s, less often where a save takes long, at least once a minute") {
  CHECK(time_between_saves(0ns) == 2s);
  CHECK(time_between_saves(40ms) == 2s);
  CHECK(time_between_saves(100ms) == 5s);
  CHECK(time_between_saves(1200ms) == 60s);
  CHECK(time_between_saves(100s) == 60s);
  CHECK(time_between_saves(std::chrono::nanoseconds::max()) == 60s);
}

TEST_CASE("regions of the state that only padding parts are copied as one") {
  const auto regions = joined({{640, 10}, {0, 100}, {128, 64}, {256, 64}, {320, 8}});
  REQUIRE(regions.size() == 3);
  CHECK(regions[0].offset == 0);
  CHECK(regions[0].bytes == 192);
  CHECK(regions[1].offset == 256);  // after 64 bytes of other data
  CHECK(regions[1].bytes == 72);
  CHECK(regions[2].offset == 640);
  CHECK(regions[2].bytes == 10);
  CHECK(joined({}).empty());
}

// Copies as late as allowed.
class LateCopies : public device::CpuDevice {
 public:
  void download(const at::Tensor& values, std::byte* host, std::function<void()> then) override {
    late_.emplace_back([values, host] { std::memcpy(host, values.const_data_ptr(), values.nbytes()); });
    late_.push_back(std::move(then));
  }
  void defer(std::function<void()> action) override { late_.push_back(std::move(action)); }
  void await_downloads() override { finish(); }
  at::Tensor mapped_memory(size_t bytes) override {
    mapped_bytes += bytes;
    return CpuDevice::mapped_memory(bytes);
  }
  void finish() override {
    for (const auto& action : std::exchange(late_, {})) action();
  }

  size_t mapped_bytes = 0;

 private:
  std::vector<std::function<void()>> late_;
};

struct StateInMemory {
  const spec::JobSpec spec = spec::parse_text(
      "[job]\nests = 1\n[model]\nname = \"mlp\"\nhidden = [5]\n[data]\nformat = \"synthetic\"\nshape = [7]\n"
      "samples = 64\nbatch = 2\n[optimizer]\nname = \"adamw\"\n[train]\nsteps = 9\n",
      "test");
  const UniqueFd fd = comm::JobMemory::create();
  WorkerInProcess worker{spec, fd.get(), WorkerInProcess::plan_of(spec), std::make_unique<LateCopies>()};
  const StatePlaces& places = worker.job().places();

  StateRegion region_of(const ParameterPiece& piece, size_t k) const {
    return {places.optimizer.slot_offset(piece.parameter, k) + piece.begin * sizeof(float), piece.size * sizeof(float)};
  }
  ResidentState open(const std::vector<StateRegion>& slots, spec::StateMemory slot_memory = spec::StateMemory::device) {
    const auto bytes = static_cast<int64_t>(places.model.parameters_bytes());
    return {places, worker.memory(), worker.place().device, at::empty({bytes}, at::kByte), joined(slots), slot_memory};
  }
  size_t mapped_bytes() { return dynamic_cast<LateCopies&>(worker.place().device).mapped_bytes; }
};

TEST_CASE("a resident state has all parameters, and of the slots those that it was told to keep") {
  StateInMemory made;
  std::byte* const committed = made.worker.memory().state_of(Step(0));
  const ParameterPiece kept = {1, 2, 3};
  for (size_t i = 0; i < 3; ++i) made.places.optimizer.slot(committed, 1, 1)[2 + i] = static_cast<float>(10 + i);
  const ResidentState state = made.open({made.region_of(kept, 1)});
  for (size_t i = 0; i < made.places.model.num_parameters(); ++i)
    CHECK(state.parameter({i, 0, 1})[0] == made.places.model.parameter(committed, i)[0]);
  for (size_t i = 0; i < 3; ++i) CHECK(state.slot(kept, 1)[i] == static_cast<float>(10 + i));
  CHECK_THROWS_WITH(state.slot({0, 0, 1}, 0), "an optimizer slot of another worker");
}

void check_save(spec::StateMemory slot_memory) {
  StateInMemory made;
  const ParameterPiece piece = {0, 0, made.places.model.elements(0)};
  ResidentState state = made.open({made.region_of(piece, 0)}, slot_memory);
  CHECK((made.mapped_bytes() >= piece.size * sizeof(float)) == (slot_memory == spec::StateMemory::host));
  *state.parameter(piece) = 1;
  *state.slot(piece, 0) = 2;
  const SavedPart part{.regions = {{0, made.places.model.parameters_bytes()}, state.slots().front()},
                       .ests = made.places.ests.all()};
  state.require_awaited();
  REQUIRE(state.save(Step(1), 0.1, part));
  CHECK_THROWS_WITH(state.require_awaited(), "an update in the place of a state that is being saved");
  state.await_save();
  state.require_awaited();
  *state.parameter(piece) = -1;  // the next step's update
  *state.slot(piece, 0) = -1;
  made.worker.place().device.finish();
  std::byte* const saved = made.worker.memory().state_of(Step(1));
  CHECK(made.worker.memory().commit().committed() == Step(1));
  CHECK(*made.places.model.parameter(saved, 0) == 1);
  CHECK(*made.places.optimizer.slot(saved, 0, 0) == 2);
}

TEST_CASE("an update in place waits for the copies of a save: the saved step is whole, whatever follows") {
  check_save(spec::StateMemory::device);
  check_save(spec::StateMemory::host);
}

}  // namespace
}  // namespace estrain::train
