#include "core/engine/python/interpreter.h"

#include <torch/library.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/engine/model/model.h"

namespace estrain::python {
namespace {

// In the order of DUTIES in host.py.
enum Duty : int {
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
};

using Tensors = std::vector<torch::Tensor>;
using Names = std::vector<std::string>;

// Holds the values passed by a call and its answer. A process has one Crossing, just as operators exist once in a
// process; only the main thread uses the Crossing.
struct Crossing {
  Tensors given, returned;
  Names names;
  std::map<std::string, std::pair<Names, Tensors>> announced;
  std::string exception, traceback;
  std::set<std::string> modules;  // entered modules, never removed
};

Crossing& crossing() {
  static Crossing the_crossing;
  return the_crossing;
}

Error users_error() {
  const Crossing& at = crossing();
  if (at.traceback.empty()) return Error(Fault::spec, at.exception).advise("change the model's Python code");
  return Error::make(Fault::spec, "the model's Python code raised {}\n{}", at.exception, at.traceback)
      .advise("correct the code; the traceback shows the line")
      .caused_by("user_code");
}

std::vector<model::PythonModule::Named> named(const std::string& kind) {
  auto& [names, tensors] = crossing().announced[kind];
  std::vector<model::PythonModule::Named> all;
  for (size_t i = 0; i < names.size(); ++i) all.push_back({names[i], tensors.at(i)});
  return all;
}

const Names& names_of(const std::string& kind) { return crossing().announced[kind].first; }

}  // namespace

void define_operators() {
  static torch::Library library(torch::Library::DEF, "estrain", std::nullopt, __FILE__, __LINE__);
  library.def("given() -> Tensor[]", [] { return crossing().given; });
  library.def("returned(Tensor[] tensors) -> ()", [](Tensors tensors) { crossing().returned = std::move(tensors); });
  library.def("names() -> str[]", [] { return crossing().names; });
  library.def("announce(str kind, str[] names, Tensor[] tensors) -> ()",
              [](const std::string& kind, Names names, Tensors tensors) {
                crossing().announced[kind] = {std::move(names), std::move(tensors)};
              });
  library.def("entering(str module) -> ()", [](std::string module) {
    model::set_current_block(*crossing().modules.insert(std::move(module)).first);
  });
  library.def("failed(str exception, str traceback) -> ()", [](std::string exception, std::string traceback) {
    crossing().exception = std::move(exception);
    crossing().traceback = std::move(traceback);
  });
}

void HostInterpreter::ask(int duty, int64_t argument) {
  if (call_(duty, argument) != 0) throw users_error();
}

model::PythonModule HostInterpreter::build(uint64_t seed) {
  ask(build_module, static_cast<int64_t>(seed));
  model::PythonModule module;
  module.modules = names_of("modules");
  module.parameters = named("parameters");
  module.buffers = named("buffers");
  module.constants = named("constants");
  module.kept_elsewhere = names_of("kept elsewhere");
  const Names& required = names_of("required");
  for (const std::string& name : names_of("arguments"))
    module.arguments.push_back({name, std::ranges::find(required, name) != required.end()});
  module.by_name = names_of("by name");
  module.takes_any_name = !names_of("any name").empty();
  module.synced = names_of("synced");
  crossing().announced.clear();
  return module;
}

void HostInterpreter::move_to(c10::Device gpu) { ask(move_module, gpu.index()); }

void HostInterpreter::pass_by_name(const std::vector<std::string>& names) {
  crossing().names = names;
  ask(take_names, static_cast<int64_t>(names.size()));
}

void HostInterpreter::pass_by_position() { ask(take_names, -1); }

std::vector<torch::Tensor> HostInterpreter::forward(const std::vector<torch::Tensor>& inputs, bool trains) {
  crossing().given = inputs;
  guard_([&] { ask(run_forward, trains ? 1 : 0); });
  crossing().given.clear();
  return std::exchange(crossing().returned, {});
}

void HostInterpreter::run_backward_of(const torch::Tensor& loss, bool is_first) {
  crossing().given = {loss};
  guard_([&] { ask(run_backward, is_first ? 1 : 0); });
  crossing().given.clear();
}

void HostInterpreter::backward(const torch::Tensor& loss) { run_backward_of(loss, false); }

std::vector<std::string> HostInterpreter::first_backward(const torch::Tensor& loss) {
  run_backward_of(loss, true);
  return names_of("written");
}

std::vector<std::string> HostInterpreter::imported() {
  ask(list_imported, 0);
  return names_of("imported");
}

std::vector<std::string> HostInterpreter::calls_to_ranks() { return names_of("calls to ranks"); }

void HostInterpreter::keep(const std::vector<std::string>& constants) {
  const Names names = std::exchange(crossing().names, constants);
  ask(keep_constants, 0);
  crossing().names = names;
}

void HostInterpreter::run_eagerly(bool eagerly) { ask(eager, eagerly ? 1 : 0); }

void HostInterpreter::tell_modules(bool tells) { ask(tell, tells ? 1 : 0); }

void HostInterpreter::seed_streams(uint64_t value) { ask(seed, static_cast<int64_t>(value)); }

void HostInterpreter::load_streams(const std::byte* state) { ask(load, reinterpret_cast<int64_t>(state)); }

void HostInterpreter::store_streams(std::byte* state) { ask(store, reinterpret_cast<int64_t>(state)); }

}  // namespace estrain::python
