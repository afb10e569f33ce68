// The interpreter that the test gives: its answers to calls use the operators, as host.py's do.
#include "core/engine/python/interpreter.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <doctest/doctest.h>

#include <functional>
#include <utility>

#include "core/base/error.h"
#include "core/engine/model/model.h"

namespace estrain::python {
namespace {

using Tensors = std::vector<torch::Tensor>;
using Names = std::vector<std::string>;

enum Duty {
  build_module,
  take_names,
  run_forward,
  run_backward,
  seed,
  load,
  store,
  tell,
  list_imported,
  keep_constants,
  eager,
  move_module
};  // DUTIES in host.py

// Calls an operator by its schema, as torch.ops does.
std::vector<c10::IValue> call(const char* name, std::vector<c10::IValue> arguments) {
  static const bool defined = (define_operators(), true);
  REQUIRE(defined);
  const auto found = c10::Dispatcher::singleton().findSchema({std::string("estrain::") + name, ""});
  REQUIRE(found.has_value());
  found->callBoxed(arguments);
  return arguments;
}

Tensors given() { return call("given", {})[0].toTensorVector(); }
void returned(const Tensors& tensors) { call("returned", {tensors}); }
void announce(const char* kind, const Names& names, const Tensors& tensors = {}) {
  call("announce", {std::string(kind), names, tensors});
}

// The test's part of Python, and the calls that have come.
std::function<void(int duty, int64_t argument)> python;
std::vector<std::pair<int, int64_t>> calls;

int answer(int duty, int64_t argument) {
  calls.emplace_back(duty, argument);
  try {
    if (python) python(duty, argument);
    return 0;
  } catch (const std::pair<std::string, std::string>& raised) {
    call("failed", {raised.first, raised.second});
    return 1;
  }
}

HostInterpreter interpreter(std::function<void(int, int64_t)> does) {
  call("names", {});  // defines the operators
  python = std::move(does);
  calls.clear();
  return HostInterpreter(answer, 48);
}

TEST_CASE("a module is what Python announces, and nothing of the one before") {
  const torch::Tensor weight = torch::ones({2, 3}), mean = torch::zeros({3}), mask = torch::zeros({1});
  HostInterpreter host = interpreter([&](int, int64_t) {
    announce("modules", {"", "linear"});
    announce("parameters", {"linear.weight"}, {weight});
    announce("buffers", {"norm.mean"}, {mean});
    announce("constants", {"mask"}, {mask});
    announce("arguments", {"x", "scale"});
    announce("required", {"x"});
    announce("by name", {"mode"});
    announce("any name", {"**"});
  });
  const model::PythonModule module = host.build(17);
  CHECK(calls == std::vector<std::pair<int, int64_t>>{{build_module, 17}});
  CHECK(module.modules == Names{"", "linear"});
  REQUIRE(module.parameters.size() == 1);
  CHECK(module.parameters[0].name == "linear.weight");
  CHECK(module.parameters[0].tensor.is_same(weight));
  REQUIRE(module.buffers.size() == 1);
  CHECK(module.buffers[0].tensor.is_same(mean));
  REQUIRE(module.constants.size() == 1);
  CHECK(module.constants[0].tensor.is_same(mask));
  REQUIRE(module.arguments.size() == 2);
  CHECK(module.arguments[0].is_required);
  CHECK(!module.arguments[1].is_required);
  CHECK(module.by_name == Names{"mode"});
  CHECK(module.takes_any_name);

  const model::PythonModule next = interpreter([&](int, int64_t) { announce("modules", {""}); }).build(1);
  CHECK(next.modules == Names{""});
  CHECK(next.parameters.empty());
  CHECK(next.arguments.empty());
  CHECK(!next.takes_any_name);
}

TEST_CASE("forward hands over its inputs and returns the outputs, once each") {
  HostInterpreter host = interpreter([&](int, int64_t) {
    Tensors inputs = given();
    returned({inputs[0] + inputs[1]});
  });
  const Tensors outputs = host.forward({torch::ones({2}), torch::full({2}, 3)}, true);
  REQUIRE(outputs.size() == 1);
  CHECK(outputs[0].equal(torch::full({2}, 4.0f)));
  CHECK(given().empty());
  python = nullptr;
  CHECK(host.forward({}, false).empty());
  CHECK(calls == std::vector<std::pair<int, int64_t>>{{run_forward, 1}, {run_forward, 0}});
}

TEST_CASE("the first backward pass tells which constants it wrote") {
  const torch::Tensor loss = torch::ones({});
  HostInterpreter host = interpreter([&](int, int64_t is_first) {
    CHECK(given()[0].is_same(loss));
    if (is_first == 1) announce("written", {"counter"});
  });
  CHECK(host.first_backward(loss) == Names{"counter"});
  host.backward(loss);
  CHECK(given().empty());
  CHECK(calls == std::vector<std::pair<int, int64_t>>{{run_backward, 1}, {run_backward, 0}});
}

TEST_CASE("the modules that have been imported are those that Python announces now") {
  Names imported = {"parts.py", "sub/more.py"};
  HostInterpreter host = interpreter([&](int duty, int64_t) {
    if (duty == list_imported) announce("imported", imported);
  });
  CHECK(host.imported() == imported);
  imported.clear();
  CHECK(host.imported().empty());
}

TEST_CASE("a module moves to a GPU by its number") {
  HostInterpreter host = interpreter([](int, int64_t) {});
  host.move_to({c10::kCUDA, 3});
  CHECK(calls == std::vector<std::pair<int, int64_t>>{{move_module, 3}});
}

TEST_CASE("the guard runs forward and backward, and no other call") {
  HostInterpreter host = interpreter([](int, int64_t) {});
  std::vector<size_t> guarded;  // numbers of calls
  host.guard_calls([&](const std::function<void()>& run) {
    guarded.push_back(calls.size());
    run();
    if (calls.size() == 3) throw Error(Fault::spec, "left changed");
  });
  host.forward({}, true);
  host.seed_streams(5);
  CHECK_THROWS_AS(host.backward(torch::ones({})), Error);
  CHECK(calls.size() == 3);
  CHECK(guarded == std::vector<size_t>{0, 2});
}

TEST_CASE("inputs go by name or by position as the interpreter is told") {
  Names names;
  HostInterpreter host = interpreter([&](int, int64_t argument) {
    if (argument < 0) return;
    const std::vector<c10::IValue> answers = call("names", {});
    for (const c10::IValue& name : answers[0].toListRef()) names.push_back(name.toStringRef());
  });
  host.pass_by_name({"tokens", "mask"});
  host.pass_by_position();
  CHECK(names == Names{"tokens", "mask"});
  CHECK(calls == std::vector<std::pair<int, int64_t>>{{take_names, 2}, {take_names, -1}});
}

TEST_CASE("random streams are seeded, loaded and stored by the address of their state") {
  std::byte state[48] = {};
  HostInterpreter host = interpreter([&](int duty, int64_t argument) {
    if (duty == store) *reinterpret_cast<std::byte*>(argument) = std::byte{7};
  });
  CHECK(host.stream_bytes() == 48);
  host.seed_streams(UINT64_C(0xFFFF'FFFF'FFFF'FFFF));
  host.load_streams(state);
  host.store_streams(state);
  host.tell_modules(true);
  CHECK(state[0] == std::byte{7});
  const auto at = reinterpret_cast<int64_t>(state);
  CHECK(calls == std::vector<std::pair<int, int64_t>>{{seed, -1}, {load, at}, {store, at}, {tell, 1}});
}

TEST_CASE("an exception of the user's code is an error of the spec, with the traceback; a refusal has none") {
  const auto raise = [](const char* exception, const char* traceback) {
    return [=](int, int64_t) { throw std::pair<std::string, std::string>(exception, traceback); };
  };
  try {
    interpreter(raise("ValueError: no", "net.py, line 3")).build(1);
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::spec);
    CHECK(error.message() == "the model's Python code raised ValueError: no\nnet.py, line 3");
  }
  HostInterpreter host = interpreter(raise("forward returned None without a tensor", ""));
  CHECK_THROWS_WITH_AS(host.forward({}, true), "forward returned None without a tensor", Error);
}

TEST_CASE("the module that is being entered is the block that operators are counted for") {
  call("entering", {std::string("encoder.0")});
  CHECK(model::current_block() == "encoder.0");
  call("entering", {std::string("encoder.1")});
  CHECK(model::current_block() == "encoder.1");
  model::set_current_block("");
}

}  // namespace
}  // namespace estrain::python
