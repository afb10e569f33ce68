// A module in Python as a model, with an interpreter that stands in for Python: which of the data's tensors forward
// gets, what becomes of parameters, buffers and constants, and what is refused. tests/cmd/python_test.cpp has Python.

#include "core/engine/model/python/python_model.h"

#include <doctest/doctest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "tests/error_of.h"

namespace estrain::model {
namespace {

using Strings = std::vector<std::string>;

// The module's forward: the sum of weight * x over all inputs. In training it adds 1 to its buffer and to its constant.
class PretendPython : public Interpreter {
 public:
  std::vector<std::string> kept;
  PretendPython() {
    module.modules = {"body"};
    module.parameters = {{"body.weight", torch::full({3}, 2.0f, torch::requires_grad())}};
    module.buffers = {{"body.seen", torch::zeros({})}};
    module.constants = {{"scale", torch::ones({})}, {"body.fixed", torch::ones({2})}};
    module.arguments = {{"x", true}, {"y", false}};
  }

  PythonModule build(uint64_t seed) override {
    seed_of_build = seed;
    return module;
  }
  void move_to(c10::Device gpu) override { moved_to.push_back(gpu.str()); }
  void guard_calls(Guard) override {}
  void pass_by_name(const Strings& names) override { names_passed = names; }
  void pass_by_position() override { by_position = true; }
  std::vector<torch::Tensor> forward(const std::vector<torch::Tensor>& inputs, bool trains) override {
    inputs_seen = inputs;
    const torch::NoGradGuard no_graph;
    module.buffers[0].tensor.add_(1);
    if (trains) module.constants[0].tensor.add_(1);
    const at::AutoGradMode graph(true);
    torch::Tensor loss = torch::zeros({});
    for (const torch::Tensor& input : inputs) loss = loss + (module.parameters[0].tensor * input).sum();
    return {loss};
  }
  void backward(const torch::Tensor& loss) override { loss.backward(); }
  Strings first_backward(const torch::Tensor& loss) override {
    loss.backward();
    return {"scale"};
  }
  Strings calls_to_ranks() override { return {"net.py:7 calls is_initialized"}; }
  void keep(const std::vector<std::string>& constants) override { kept = constants; }
  void run_eagerly(bool) override {}
  void tell_modules(bool) override {}
  Strings imported() override { return {}; }
  size_t stream_bytes() const override { return 0; }
  void seed_streams(uint64_t) override {}
  void load_streams(const std::byte*) override {}
  void store_streams(std::byte*) override {}

  PythonModule module;
  Strings moved_to;
  uint64_t seed_of_build = 0;
  Strings names_passed;
  bool by_position = false;
  std::vector<torch::Tensor> inputs_seen;
};

NamedShape arrays(const Strings& names) {
  NamedShape shape;
  for (const std::string& name : names) shape.fields.push_back({name, program::ScalarType::f32, {3}});
  return shape;
}

std::shared_ptr<PythonModel> built(PretendPython& python, const DataShape& shape,
                                   spec::Loss loss = spec::Loss::output) {
  spec::ModelSection section;
  section.loss = loss;
  return build_python_model(section, 0, shape, python, 17);
}

std::string refusal(PretendPython& python, const DataShape& shape, Fault fault) {
  const Error error = error_of([&] { built(python, shape); });
  CHECK(error.fault() == fault);
  return error.message();
}

Strings names_of(const std::vector<std::pair<std::string, torch::Tensor>>& tensors) {
  Strings names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

TEST_CASE("parameters and buffers are Python's own tensors under Python's names; constants are neither") {
  PretendPython python;
  const auto model = built(python, VectorShape{3});
  CHECK(python.seed_of_build == 17);
  const NamedTensors tensors = named_tensors(*model);
  CHECK(names_of(tensors.parameters) == Strings{"body.weight"});
  CHECK(names_of(tensors.buffers) == Strings{"body.seen"});
  CHECK(tensors.parameters[0].second.data_ptr() == python.module.parameters[0].tensor.data_ptr());
}

TEST_CASE("named arrays go to the arguments of their names, in the order of the data; others are left") {
  PretendPython python;
  const auto model = built(python, arrays({"y", "other", "x"}));
  CHECK(python.names_passed == Strings{"y", "x"});
  const MiniBatch batch{{}, {}, {torch::full({2, 3}, 1.0f), torch::full({2, 3}, 10.0f), torch::full({2, 3}, 100.0f)}};
  CHECK(model->loss(batch).item<float>() == 2 * 6 * 101);
  REQUIRE(python.inputs_seen.size() == 2);
  CHECK(python.inputs_seen[0].data_ptr() != batch.fields[0].data_ptr());  // a copy, which forward may keep

  python.module.by_name = {"other"};
  built(python, arrays({"y", "other", "x"}));
  CHECK(python.names_passed == Strings{"y", "other", "x"});
  python.module.by_name = {};
  python.module.takes_any_name = true;
  built(python, arrays({"x", "more"}));
  CHECK(python.names_passed == Strings{"x", "more"});
}

TEST_CASE("an argument without an array, and arrays without an argument, are refused by name") {
  PretendPython python;
  CHECK(refusal(python, arrays({"y", "z"}), Fault::spec) ==
        "model: forward's argument x is no array of the data, which are y, z");
  python.module.arguments[0].is_required = false;
  CHECK(refusal(python, arrays({"z"}), Fault::spec) == "model: forward takes none of the data's arrays");
}

TEST_CASE("samples go to the first argument, and labels to the second where forward needs or wants them") {
  PretendPython python;
  const MiniBatch batch{torch::full({2, 3}, 1.0f), torch::full({2, 1}, 10.0f)};
  CHECK(built(python, VectorShape{3})->loss(batch).item<float>() == 2 * 6 * 11);  // its loss is its own
  CHECK(python.by_position);
  const auto outside = built(python, VectorShape{3}, spec::Loss::mse);
  (void)error_of([&] { (void)outside->loss({batch.input, torch::zeros({2})}); });  // the sizes do not fit
  CHECK(python.inputs_seen.size() == 1);
  python.module.arguments[1].is_required = true;
  const auto needed = built(python, VectorShape{3}, spec::Loss::mse);
  (void)error_of([&] { (void)needed->loss({batch.input, torch::zeros({2, 1})}); });
  CHECK(python.inputs_seen.size() == 2);

  python.module.arguments.push_back({"mask", true});
  CHECK(refusal(python, VectorShape{3}, Fault::spec) ==
        "model: forward needs mask too, but the data have two tensors, samples and labels");
  python.module.arguments.clear();
  CHECK(refusal(python, VectorShape{3}, Fault::spec) == "model: forward takes no tensor");
}

TEST_CASE("after the first mini-batch buffers are as before, and a constant that it wrote is a buffer") {
  PretendPython python;
  const auto model = built(python, VectorShape{3});
  const MiniBatch batch{torch::ones({2, 3}), torch::ones({2, 1})};
  model->try_out(batch, true);
  CHECK(names_of(named_tensors(*model).buffers) == Strings{"scale", "body.seen"});
  CHECK(python.module.buffers[0].tensor.item<float>() == 0);
  CHECK(python.module.constants[0].tensor.item<float>() == 1);
}

TEST_CASE("tensors that the state cannot hold are refused by name") {
  const auto refused = [](auto&& change) {
    PretendPython python;
    change(python.module);
    return refusal(python, VectorShape{3}, Fault::mismatch);
  };
  CHECK(refused([](PythonModule& m) {
          m.parameters[0].tensor = torch::zeros({3, 2}).t();
        }) == "model: parameter body.weight is not contiguous, which the state's memory is");
  CHECK(refused([](PythonModule& m) {
          m.parameters[0].tensor = torch::zeros({3}, torch::kDouble);
        }).starts_with("model: parameter body.weight"));
  CHECK(refused([](PythonModule& m) {
          m.buffers[0].tensor = torch::zeros({3, 2}).t();
        }).starts_with("model: buffer body.seen is not contiguous"));
  CHECK(refused([](PythonModule& m) { m.modules[0] = "body\n"; }).find("no name that a checkpoint can hold") !=
        std::string::npos);
}

TEST_CASE("a parameter that the module leaves behind is refused by name; on the CPU nothing moves") {
  PretendPython python;
  const auto model = built(python, VectorShape{3});
  model->move_to(c10::kCPU);
  CHECK(python.moved_to.empty());
  const Error error = error_of([&] { model->move_to({c10::kCUDA, 2}); });
  CHECK(error.fault() == Fault::mismatch);
  CHECK(error.message() == "parameter body.weight is on cpu after the module's to(\"cuda:2\")");
  CHECK(python.moved_to == Strings{"cuda:2"});
}

}  // namespace
}  // namespace estrain::model
