#include "core/engine/train/state/state_places.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/engine/est/generator.h"
#include "core/state/checkpoint/state/est_streams.h"

namespace estrain::train {
namespace {

using checkpoint::DType;
using checkpoint::Role;
using checkpoint::StateLayout;
using checkpoint::StateTensor;

model::NamedTensors two_parameters() {
  model::NamedTensors tensors;
  tensors.parameters = {{"weight", torch::zeros({30, 50})}, {"bias", torch::zeros({3})}};
  tensors.buffers = {{"mean", torch::zeros({7})}, {"batches", torch::zeros({}, torch::kLong)}};
  tensors.aliases = {{"head.weight", "weight"}};
  return tensors;
}

// Memory for one copy of a state.
struct Copy {
  explicit Copy(const StateLayout& layout) : bytes(layout.bytes + 64) {}
  std::byte* base() { return bytes.data() + (64 - reinterpret_cast<uintptr_t>(bytes.data()) % 64) % 64; }
  std::vector<std::byte> bytes;
};

const StateTensor& tensor_of(const StateLayout& layout, Role role, const std::string& name, std::string_view slot) {
  for (const StateTensor& tensor : layout.tensors) {
    if (tensor.role == role && tensor.name == name && tensor.slot == slot) return tensor;
  }
  throw Error(Fault::bug, "no such tensor: " + name);
}

int64_t distance(const void* from, const void* to) {
  return static_cast<const std::byte*>(to) - static_cast<const std::byte*>(from);
}

TEST_CASE("parameters stand at the start of a copy, buffers behind them, where the layout says") {
  StateLayout layout;
  const ModelPlaces places(two_parameters(), layout);
  Copy copy(layout);
  std::byte* base = copy.base();
  REQUIRE(places.num_parameters() == 2);
  CHECK(places.elements(0) == 1500);
  CHECK(places.elements(1) == 3);
  CHECK(distance(base, places.parameters(base)) == 0);
  CHECK(distance(base, places.parameter(base, 1)) ==
        static_cast<int64_t>(tensor_of(layout, Role::parameter, "bias", "").offset));
  CHECK(places.gradient_offset(0) == 0);
  CHECK(places.parameter(base, 0) + places.gradient_offset(1) == places.parameter(base, 1));
  CHECK(places.parameters_bytes() == tensor_of(layout, Role::parameter, "bias", "").offset + 3 * sizeof(float));

  REQUIRE(places.num_buffers() == 2);
  const uint64_t mean = tensor_of(layout, Role::buffer, "mean", "").offset;
  const uint64_t batches = tensor_of(layout, Role::buffer, "batches", "").offset;
  CHECK(places.buffers_offset() == mean);
  CHECK(distance(base, places.buffers(base)) == static_cast<int64_t>(mean));
  CHECK(distance(base, places.buffer(base, 1)) == static_cast<int64_t>(batches));
  CHECK(places.buffer_offset(1) == batches - mean);
  CHECK(places.buffer_bytes(0) == 28);
  CHECK(places.buffer_bytes(1) == 8);
  CHECK(places.buffers_bytes() == batches + 8 - mean);
  CHECK(mean >= places.parameters_bytes());
}

TEST_CASE("the layout of a model has its types, shapes and tied names; a type that no checkpoint holds is refused") {
  StateLayout layout;
  model::NamedTensors tensors = two_parameters();
  const ModelPlaces places(tensors, layout);
  CHECK(tensor_of(layout, Role::parameter, "weight", "").shape == std::vector<int64_t>{30, 50});
  CHECK(tensor_of(layout, Role::buffer, "batches", "").dtype == DType::i64);
  REQUIRE(layout.aliases.size() == 1);
  CHECK(layout.aliases[0].name == "head.weight");
  CHECK(layout.aliases[0].target == "weight");
  StateLayout more;
  tensors.buffers.emplace_back("count", torch::zeros({2}, torch::kInt));
  tensors.buffers.emplace_back("flags", torch::zeros({3}, torch::kBool));
  const ModelPlaces with_more(tensors, more);
  CHECK(tensor_of(more, Role::buffer, "count", "").dtype == DType::i32);
  CHECK(tensor_of(more, Role::buffer, "flags", "").dtype == DType::u8);
  CHECK(with_more.buffer_bytes(with_more.num_buffers() - 1) == 3);
  tensors.buffers.emplace_back("half", torch::zeros({2}, torch::kHalf));
  CHECK_THROWS_WITH_AS(ModelPlaces(tensors, layout), doctest::Contains("buffer half has a type"), Error);
}

OptimizerPlaces adam_places(const model::NamedTensors& tensors, StateLayout& layout) {
  spec::OptimizerSection section;
  section.name = spec::OptimizerKind::adam;
  const optim::Optimizer optimizer(section, optim::resolve_groups(section, {"weight", "bias"}));
  return {optimizer, tensors, layout};
}

TEST_CASE("each parameter has its slots and a count of its updates") {
  StateLayout layout;
  const OptimizerPlaces places = adam_places(two_parameters(), layout);
  Copy copy(layout);
  REQUIRE(places.num_slots(1) == 2);
  CHECK(distance(copy.base(), places.slot(copy.base(), 0, 0)) ==
        static_cast<int64_t>(tensor_of(layout, Role::optimizer, "weight", "exp_avg").offset));
  CHECK(distance(copy.base(), places.slot(copy.base(), 1, 1)) ==
        static_cast<int64_t>(tensor_of(layout, Role::optimizer, "bias", "exp_avg_sq").offset));
  CHECK(tensor_of(layout, Role::optimizer, "weight", "exp_avg").shape == std::vector<int64_t>{30, 50});
  CHECK(tensor_of(layout, Role::optimizer, "weight", "exp_avg").dtype == DType::f32);
  CHECK(distance(copy.base(), places.updates(copy.base(), 1)) ==
        static_cast<int64_t>(tensor_of(layout, Role::optimizer, "bias", optim::step_slot).offset));
}

TEST_CASE("a slot may have other sizes than its parameter") {
  StateLayout layout;
  spec::OptimizerSection section;
  section.name = spec::OptimizerKind::adafactor;
  const optim::Optimizer optimizer(section, optim::resolve_groups(section, {"weight", "bias"}));
  const OptimizerPlaces places(optimizer, two_parameters(), layout);
  CHECK(places.slot_sizes(0, 0) == std::vector<int64_t>{30, 1});
  CHECK(places.slot_sizes(0, 1) == std::vector<int64_t>{1, 50});
  CHECK(places.slot_elements(0, 1) == 50);
  CHECK(places.slot_elements(1, 0) == 3);
  CHECK(tensor_of(layout, Role::optimizer, "weight", "col_var").shape == std::vector<int64_t>{1, 50});
}

TEST_CASE("an update counts for a parameter that some EST reached, and for no other") {
  StateLayout layout;
  const OptimizerPlaces places = adam_places(two_parameters(), layout);
  Copy before(layout), after(layout);
  *places.updates(before.base(), 0) = 4;
  *places.updates(before.base(), 1) = 9;
  places.count_update(before.base(), after.base(), 0, true);
  places.count_update(before.base(), after.base(), 1, false);
  CHECK(*places.updates(after.base(), 0) == 5);
  CHECK(*places.updates(after.base(), 1) == 9);
  Copy third(layout);
  places.copy_updates(third.base(), after.base());
  CHECK(*places.updates(third.base(), 0) == 5);
  CHECK(*places.updates(third.base(), 1) == 9);
}

TEST_CASE("an EST has a place for each random stream that the job has, and for its last loss") {
  for (const bool cuda : {false, true}) {
    for (const size_t python : {size_t{0}, size_t{40}}) {
      CAPTURE(cuda);
      CAPTURE(python);
      StateLayout layout;
      const EstPlaces places(3, {.cuda = cuda, .python_bytes = python}, layout);
      Copy copy(layout);
      std::byte* base = copy.base();
      CHECK(places.all().size() == 3);
      CHECK(places.has_cuda_streams() == cuda);
      CHECK(places.python_bytes() == python);
      const auto offset = [&](std::string_view slot) {
        return static_cast<int64_t>(tensor_of(layout, Role::est, "2", slot).offset);
      };
      const VirtualRank last(2);
      CHECK(distance(base, places.generator(base, last)) == offset(checkpoint::generator_slot));
      CHECK(distance(base, places.last_loss(base, last)) == offset("loss"));
      CHECK(tensor_of(layout, Role::est, "2", checkpoint::generator_slot).bytes() == est::generator_state_bytes());
      if (cuda) CHECK(distance(base, places.cuda_generator(base, last)) == offset(checkpoint::cuda_generator_slot));
      if (!cuda) CHECK_THROWS_AS(offset(checkpoint::cuda_generator_slot), Error);
      if (python > 0) CHECK(distance(base, places.python_streams(base, last)) == offset(checkpoint::python_slot));
      if (python == 0) CHECK_THROWS_AS(offset(checkpoint::python_slot), Error);
    }
  }
}

spec::JobSpec spec_by_evaluations() {
  spec::JobSpec spec;
  spec.schedule.name = spec::ScheduleKind::plateau;
  spec.early_stop.patience = 2;
  return spec;
}

TEST_CASE("the memory of a plateau is written, copied and read back, and leaves that of the early stop alone") {
  StateLayout layout;
  const MetricPlaces places(spec_by_evaluations(), 2, true, layout);
  Copy first(layout), second(layout);
  places.early_stop(first.base())[0] = 0.5;
  places.early_stop(first.base())[1] = 3;
  places.write_plateau(first.base(), {{0.25, 1, 2}, {0.1, 0.01}});
  places.copy_plateau(second.base(), first.base());
  const MetricPlaces::Plateau read = places.read_plateau(second.base());
  CHECK(read.state.best == 0.25);
  CHECK(read.state.bad == 1);
  CHECK(read.state.cooldown == 2);
  CHECK(read.rates == std::vector<double>{0.1, 0.01});
  CHECK(places.first_rate(second.base()) == 0.1);
  CHECK(places.early_stop(first.base())[0] == 0.5);
  CHECK(places.early_stop(first.base())[1] == 3);
  CHECK(places.early_stop(second.base())[0] == 0);
}

TEST_CASE("a job has places for evaluations only if it goes by them, and is refused where it evaluates nothing") {
  StateLayout layout;
  const MetricPlaces none(spec::JobSpec(), 1, true, layout);
  CHECK(!none.has_plateau());
  CHECK(!none.has_early_stop());
  CHECK(layout.bytes == 0);
  spec::JobSpec spec = spec_by_evaluations();
  CHECK_THROWS_WITH_AS(MetricPlaces(spec, 1, false, layout), doctest::Contains("schedule.name: plateau"), Error);
  spec.schedule.name = spec::JobSpec().schedule.name;
  CHECK_THROWS_WITH_AS(MetricPlaces(spec, 1, false, layout), doctest::Contains("early_stop.patience"), Error);
}

TEST_CASE("averages lie relative to each other as the parameters do") {
  StateLayout layout;
  const model::NamedTensors tensors = two_parameters();
  const ModelPlaces model(tensors, layout);
  const AveragePlaces averages(tensors, layout);
  Copy copy(layout);
  std::byte* base = copy.base();
  CHECK(averages.are_kept());
  CHECK(!AveragePlaces().are_kept());
  CHECK(averages.average(base, 1) - averages.average(base, 0) == model.parameter(base, 1) - model.parameter(base, 0));
  CHECK(distance(averages.averages(base), averages.average(base, 0)) == 0);
  CHECK(distance(base, averages.average(base, 0)) >= static_cast<int64_t>(model.buffers_offset()));
}

}  // namespace
}  // namespace estrain::train
