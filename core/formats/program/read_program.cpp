#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/formats/program/program.h"
#include "core/formats/program/schema.h"
#include "core/formats/program/zip.h"

namespace estrain::program {
namespace {

constexpr int64_t kSchemaVersion = 8;  // the schema version's major part
constexpr int64_t kAtenVersion = 10;   // of ATen's operators
constexpr std::string_view kInnerGraph = "torch.ops.higher_order.", kOperator = "torch.ops.",
                           kArithmetic[] = {"_operator.", "math.", "torch.sym_"};

Json json_member(const ZipArchive& archive, const std::string& name) {
  const ZipArchive::Bytes bytes = archive.member(name);
  return parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, name);
}

// Names of the values of a graph, by number.
class Scope {
 public:
  void define(const std::string& name, int number) {
    if (!numbers_.emplace(name, number).second) throw damaged_program("value " + name + " is produced twice");
  }
  int operator[](const std::string& name) const {
    const auto found = numbers_.find(name);
    if (found == numbers_.end()) throw damaged_program("value " + name + " is used before it is produced");
    return found->second;
  }

 private:
  std::map<std::string, int> numbers_;
};

// Returns the name of a value: n in {"as_tensor": {"name": n}} or {"as_sym_int": {"as_name": n}}. Returns nothing for a
// constant.
std::optional<std::string> name_of(const Json& argument) {
  const auto [kind, value] = one_of(argument);
  if (kind == "as_tensor") return text(field(value, "name"));
  if (kind != "as_sym_int" && kind != "as_sym_float" && kind != "as_sym_bool")
    throw unknown_in_program(fmt::format("a value of kind {}", kind));
  const auto [inner, name] = one_of(value);
  return inner == "as_name" ? std::optional(text(name)) : std::nullopt;
}

template <typename T, typename Read>
std::vector<T> list_of(const Json& values, Read read) {
  if (!values.is_array()) throw damaged_program("something else in place of a list");
  std::vector<T> list;
  for (const Json& value : values) list.push_back(read(value));
  return list;
}

Argument scalar_argument(std::string_view kind, const Json& value) {
  if (kind == "as_int") return whole(value);
  if (kind == "as_float") return number(value);
  return truth(value);
}

// Reads {"as_name": n} or {"as_int": 3}.
Argument symbolic_argument(const Json& value, const Scope& scope) {
  const auto [kind, inner] = one_of(value);
  if (kind == "as_name") return ValueRef{scope[text(inner)]};
  return scalar_argument(kind, inner);
}

Item item_of(const Json& value, const Scope& scope) {
  const auto [kind, inner] = one_of(value);
  if (kind == "as_none") return None{};
  if (kind == "as_tensor") return ValueRef{scope[text(field(inner, "name"))]};
  if (kind == "as_name") return ValueRef{scope[text(inner)]};
  if (kind == "as_int") return whole(inner);
  throw unknown_in_program(fmt::format("a list with a member of kind {}", kind));
}

std::string device_from(const Json& value) {
  const std::string& type = text(field(value, "type"));
  if (type != "cpu" && type != "cuda") throw unknown_in_program(fmt::format("a tensor on a device of kind {}", type));
  return type;
}

Argument argument_of(const Json& argument, const Scope& scope) {
  const auto [kind, value] = one_of(argument);
  if (kind == "as_none") return None{};
  if (kind == "as_tensor") return ValueRef{scope[text(field(value, "name"))]};
  if (kind == "as_optional_tensor") return argument_of(value, scope);
  if (kind == "as_tensors")
    return list_of<Item>(value, [&](const Json& item) { return ValueRef{scope[text(field(item, "name"))]}; });
  if (kind == "as_optional_tensors" || kind == "as_sym_ints")
    return list_of<Item>(value, [&](const Json& item) { return item_of(item, scope); });
  if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") return symbolic_argument(value, scope);
  if (kind == "as_int" || kind == "as_float" || kind == "as_bool") return scalar_argument(kind, value);
  if (kind == "as_ints") return list_of<int64_t>(value, whole);
  if (kind == "as_floats") return list_of<double>(value, number);
  if (kind == "as_bools") return list_of<bool>(value, truth);
  if (kind == "as_string") return text(value);
  if (kind == "as_scalar_type") return type_from(value);
  if (kind == "as_layout") return Layout{whole(value)};
  if (kind == "as_memory_format") return MemoryFormat{whole(value)};
  if (kind == "as_device") return DeviceArgument{device_from(value)};
  throw unknown_in_program(fmt::format("an argument of kind {}", kind));
}

std::string metadata(const Json& node, const char* name) {
  const Json& all = field(node, "metadata");
  const auto found = all.is_object() ? all.find(name) : all.end();
  return found != all.end() && found->is_string() ? found->get<std::string>() : "";
}

class Reader {
 public:
  Reader(std::span<const std::byte> file, const std::string& path) : archive_(file) { program_.path = path; }

  Program read() {
    folder_ = archive_.common_folder();
    const Json model = json_member(archive_, folder_ + "models/model.json");
    check_versions(model);
    weights_ = config("data/weights/", "model_weights_config.json");
    constants_ = config("data/constants/", "model_constants_config.json");
    read_marks();
    const Json& module = field(model, "graph_module");
    const Json& graph = field(module, "graph");
    read_modules(list_field(module, "module_call_graph"));
    read_ranges(field(model, "range_constraints"));
    program_.modes.emplace_back();
    Scope scope;
    for (const Json& input : list_field(field(module, "signature"), "input_specs")) read_input(input, graph, scope);
    read_calls(graph, scope, 0);
    read_outputs(graph, list_field(field(module, "signature"), "output_specs"), scope);
    return std::move(program_);
  }

 private:
  void check_versions(const Json& model);
  void read_marks();
  void read_modules(const Json& calls);
  void read_ranges(const Json& constraints);
  Json config(const char* folder, const char* name) const;
  void read_input(const Json& input, const Json& graph, Scope& scope);
  void read_user_input(const Json& argument, const Json& graph, Scope& scope);
  StoredTensor stored_tensor(const std::string& name) const;
  const StoredTensor* sharing_memory(const StoredTensor& tensor) const;
  void add_stored(std::vector<StoredTensor>& to, const Json& spec, const char* name_field, Scope& scope);
  void read_calls(const Json& graph, Scope& scope, size_t modes);
  void read_call(const Json& graph, const Json& node, Scope& scope, size_t modes);
  void read_inner_graph(const Json& node, Scope& scope, size_t modes);
  Error other_autocast(const std::string& device) const;
  void read_autocast(const Json& inputs, Modes& inner);
  void read_strides(const Json& graph, const Json& node, Call& call) const;
  Call::Result read_result(const Json& output, Scope& scope);
  void read_outputs(const Json& graph, const Json& roles, const Scope& scope);
  int new_value(const std::string& name, Scope& scope) {
    scope.define(name, program_.values);
    return program_.values++;
  }

  ZipArchive archive_;
  std::string folder_;
  Json weights_, constants_;
  std::set<std::string> names_;                        // of all stored tensors
  std::map<const std::byte*, StoredTensor> by_place_;  // tensors with their own memory
  int64_t autocasts_ = 0;
  Program program_;
};

void Reader::check_versions(const Json& model) {
  const int64_t major = whole(field(field(model, "schema_version"), "major"));
  const Json& version = field(model, "torch_version");
  program_.torch_version = version.is_string() ? version.get<std::string>() : "?";
  const auto refused = [&](const std::string& what) {
    return Error::make(Fault::mismatch, "{}, of torch {}: not supported", what, program_.torch_version)
        .advise("export the model again with the PyTorch release that this estrain is built with");
  };
  if (major != kSchemaVersion) throw refused(fmt::format("a program of schema version {}", major));
  const int64_t aten = whole(field(field(model, "opset_version"), "aten"));
  if (aten != kAtenVersion) throw refused(fmt::format("a program of operator version {}", aten));
  for (const Json& verifier : list_field(model, "verifiers"))
    if (text(verifier) != "TRAINING")
      throw Error::make(Fault::mismatch, "a program of the kind {}, which cannot be trained", text(verifier))
          .advise("save the result of torch.export.export, without run_decompositions()");
}

// Reads the marks that `estrain export` puts beside the program.
void Reader::read_marks() {
  const std::string marks = folder_ + "extra/estrain.";
  program_.is_marked_training = archive_.contains(marks + "training");
  if (archive_.contains(marks + "precision")) {
    const ZipArchive::Bytes word = archive_.member(marks + "precision");
    program_.precision.assign(reinterpret_cast<const char*>(word.data()), word.size());
  }
  if (archive_.contains(marks + "logged")) {
    const Json logged = json_member(archive_, marks + "logged");
    if (!logged.is_array()) throw damaged_program("the names of its outputs are not a list");
    program_.logged.emplace();
    for (const Json& name : logged) program_.logged->push_back(text(name));
  }
  if (!archive_.contains(marks + "notes")) return;
  const Json notes = json_member(archive_, marks + "notes");
  if (!notes.is_array()) throw damaged_program("its notes are not a list");
  for (const Json& note : notes) program_.notes.push_back(text(note));
}

void Reader::read_modules(const Json& calls) {
  for (const Json& call : calls) {
    const std::string& name = text(field(call, "fqn"));
    if (!name.empty() && name.find('@') == std::string::npos) program_.modules.push_back(name);
  }
}

void Reader::read_ranges(const Json& constraints) {
  if (!constraints.is_object()) throw damaged_program("range_constraints is not an object");
  for (const auto& [symbol, constraint] : constraints.items()) {
    const Json &low = field(constraint, "min_val"), &high = field(constraint, "max_val");
    Range range;
    if (!low.is_null()) range.low = whole(low);
    if (!high.is_null()) range.high = whole(high);
    program_.ranges.emplace(symbol, range);
  }
}

Json Reader::config(const char* folder, const char* name) const {
  const std::string path = folder_ + folder + name;
  const Json all = json_member(archive_, path);
  const Json& table = field(all, "config");
  if (!table.is_object()) throw damaged_program(path + ": config is not an object");
  return table;
}

StoredTensor Reader::stored_tensor(const std::string& name) const {
  const bool is_weight = weights_.contains(name);
  if (!is_weight && !constants_.contains(name)) throw damaged_program("the values of " + name + " are missing");
  const Json& entry = (is_weight ? weights_ : constants_)[name];
  const Json& pickled = field(entry, "use_pickle");
  if (!pickled.is_null() && truth(pickled))
    throw unknown_in_program(name + " is saved by Python's pickle: a tensor of a custom class, or on another device");
  const StoredMeta meta = stored_meta_from(field(entry, "tensor_meta"), name);
  const std::string& file = text(field(entry, "path_name"));
  StoredTensor tensor{.name = name,
                      .type = meta.type,
                      .sizes = meta.sizes,
                      .strides = meta.strides,
                      .requires_grad = meta.requires_grad};
  if (meta.elements == 0) return tensor;
  const auto content = archive_.member(folder_ + (is_weight ? "data/weights/" : "data/constants/") + file);
  const uint64_t room = content.size() / type_size(meta.type), offset = static_cast<uint64_t>(meta.offset);
  if (offset > room || meta.elements > room - offset)
    throw damaged_program(fmt::format("{}: {} elements of {}, but {} has room for {}", name, meta.elements,
                                      type_name(meta.type), file, room));
  tensor.bytes = content.subspan(offset * type_size(meta.type), meta.elements * type_size(meta.type));
  return tensor;
}

// Tied weights are a single tensor under two names. Different tensors with shared memory are not supported.
void Reader::add_stored(std::vector<StoredTensor>& to, const Json& spec, const char* name_field, Scope& scope) {
  StoredTensor tensor = stored_tensor(text(field(spec, name_field)));
  if (!names_.insert(tensor.name).second) throw damaged_program(tensor.name + " occurs twice");
  if (const StoredTensor* other = sharing_memory(tensor)) {
    if (other->bytes.data() != tensor.bytes.data() || other->sizes != tensor.sizes ||
        other->strides != tensor.strides || other->type != tensor.type)
      throw unknown_in_program(fmt::format("{} and {}, which share part of their memory", other->name, tensor.name));
    tensor.alias_of = other->name;
    tensor.value = other->value;
  }
  const std::string& value = text(field(field(spec, "arg"), "name"));
  if (tensor.alias_of.empty()) {
    tensor.value = new_value(value, scope);
    if (!tensor.bytes.empty()) by_place_.emplace(tensor.bytes.data(), tensor);
  } else {
    scope.define(value, tensor.value);
  }
  to.push_back(std::move(tensor));
}

const StoredTensor* Reader::sharing_memory(const StoredTensor& tensor) const {
  if (tensor.bytes.empty()) return nullptr;
  const std::byte* end = tensor.bytes.data() + tensor.bytes.size();
  const auto behind = by_place_.lower_bound(end);  // all tensors before this position begin before `tensor` ends
  if (behind == by_place_.begin()) return nullptr;
  const StoredTensor& last = std::prev(behind)->second;
  return last.bytes.data() + last.bytes.size() > tensor.bytes.data() ? &last : nullptr;
}

void Reader::read_user_input(const Json& argument, const Json& graph, Scope& scope) {
  const auto [kind, value] = one_of(argument);
  if (kind == "as_none") return;
  if (kind != "as_tensor") throw unknown_in_program(fmt::format("an input that is not a tensor, but {}", kind));
  UserInput input;
  input.name = text(field(value, "name"));
  const Json& meta = field(field(graph, "tensor_values"), input.name.c_str());
  input.type = type_from(field(meta, "dtype"));
  for (const Json& size : list_field(meta, "sizes")) input.sizes.push_back(size_from(size));
  input.value = new_value(input.name, scope);
  if (program_.inputs.empty()) program_.device = device_from(field(meta, "device"));
  program_.inputs.push_back(std::move(input));
}

void Reader::read_input(const Json& input, const Json& graph, Scope& scope) {
  const auto [kind, spec] = one_of(input);
  if (kind == "user_input") {
    read_user_input(field(spec, "arg"), graph, scope);
  } else if (kind == "parameter") {
    add_stored(program_.parameters, spec, "parameter_name", scope);
  } else if (kind == "buffer") {
    add_stored(program_.buffers, spec, "buffer_name", scope);
    program_.buffers.back().persistent = truth(field(spec, "persistent"));
  } else if (kind == "tensor_constant") {
    add_stored(program_.constants, spec, "tensor_constant_name", scope);
  } else if (kind != "constant_input") {  // a constant_input is a constant in the calls
    throw unknown_in_program(fmt::format("an input of kind {}", kind));
  }
}

void Reader::read_calls(const Json& graph, Scope& scope, size_t modes) {
  for (const Json& node : list_field(graph, "nodes")) {
    if (text(field(node, "target")).starts_with(kInnerGraph)) {
      read_inner_graph(node, scope, modes);
    } else {
      read_call(graph, node, scope, modes);
    }
  }
}

// "torch.ops.aten.add.Tensor" -> "aten::add", "Tensor"
void set_operator(Call& call, const std::string& target) {
  const std::string_view name = std::string_view(target).substr(kOperator.size());
  const size_t first = name.find('.'), second = first == std::string_view::npos ? first : name.find('.', first + 1);
  if (second == std::string_view::npos) throw damaged_program(target + " is not an operator's name");
  call.name = fmt::format("{}::{}", name.substr(0, first), name.substr(first + 1, second - first - 1));
  call.overload = name.substr(second + 1);
  if (call.overload == "default") call.overload.clear();
}

void set_target(Call& call, const std::string& target) {
  for (const std::string_view prefix : kArithmetic) {
    if (!target.starts_with(prefix)) continue;
    call.is_arithmetic = true;
    call.name = target.substr(prefix == "torch.sym_" ? 6 : prefix.size());
    return;
  }
  if (!target.starts_with(kOperator)) throw unknown_in_program("the call of " + target);
  set_operator(call, target);
}

// Reads where the elements of the operand were in memory.
void Reader::read_strides(const Json& graph, const Json& node, Call& call) const {
  const Json& inputs = list_field(node, "inputs");
  if (inputs.empty()) return;
  const auto [kind, value] = one_of(field(inputs[0], "arg"));
  if (kind != "as_tensor") return;
  const Json& meta = field(field(graph, "tensor_values"), text(field(value, "name")).c_str());
  call.strides.emplace();
  for (const Json& stride : list_field(meta, "strides")) call.strides->push_back(size_from(stride));
  call.offset = size_from(field(meta, "storage_offset"));
}

void Reader::read_call(const Json& graph, const Json& node, Scope& scope, size_t modes) {
  Call call;
  set_target(call, text(field(node, "target")));
  call.modes = modes;
  call.line = user_line(metadata(node, "stack_trace"));
  const ModuleEntry module = module_of(metadata(node, "nn_module_stack"));
  call.module = module.name;
  if (std::ranges::find(program_.modules, call.module) == program_.modules.end()) call.module.clear();
  const bool is_known = std::ranges::find(program_.synced, module.name) != program_.synced.end();
  if (module.type.ends_with("SyncBatchNorm") && !is_known) program_.synced.push_back(module.name);
  for (const Json& input : list_field(node, "inputs"))
    call.arguments.emplace_back(text(field(input, "name")), argument_of(field(input, "arg"), scope));
  for (const Json& output : list_field(node, "outputs")) call.results.push_back(read_result(output, scope));
  if (call.name.starts_with("aten::as_strided")) read_strides(graph, node, call);
  program_.calls.push_back(std::move(call));
}

Call::Result Reader::read_result(const Json& output, Scope& scope) {
  const auto [kind, value] = one_of(output);
  if (kind == "as_none") return {};
  if (kind == "as_optional_tensor") return read_result(value, scope);
  if (kind == "as_tensors")
    return {true, list_of<int>(value, [&](const Json& item) { return new_value(text(field(item, "name")), scope); })};
  const std::optional<std::string> name = name_of(output);
  return name ? Call::Result{false, {new_value(*name, scope)}} : Call::Result{};
}

const Json& inner_argument(const Json& inputs, size_t at, const char* kind) {
  if (at >= inputs.size()) throw damaged_program("an inner graph lacks an argument");
  const auto [found, value] = one_of(field(inputs[at], "arg"));
  if (found != kind) throw unknown_in_program(fmt::format("an inner graph whose argument {} is {}", at, found));
  return value;
}

Error Reader::other_autocast(const std::string& device) const {
  return unknown_in_program(fmt::format("torch.autocast(\"{}\") in a program exported on {}", device, program_.device))
      .advise("leave it out of the module: job.precision = \"bf16\" computes as torch.autocast does, on every device");
}

void Reader::read_autocast(const Json& inputs, Modes& inner) {
  const std::string& device = text(inner_argument(inputs, 0, "as_string"));
  const bool enabled = truth(inner_argument(inputs, 2, "as_bool"));
  if (inputs.size() < 4) throw damaged_program("torch.autocast lacks an argument");
  if (device != program_.device) {
    if (enabled || (device != "cpu" && device != "cuda")) throw other_autocast(device);
    inner.other_autocast_off = true;
    return;
  }
  const auto cache = one_of(field(inputs[3], "arg"));
  inner.autocast = Modes::Autocast{enabled, type_from(inner_argument(inputs, 1, "as_scalar_type")),
                                   cache.first != "as_bool" || truth(cache.second),
                                   inner.autocast ? inner.autocast->outermost : autocasts_++};
  inner.other_autocast_off = false;
}

// Reads `with torch.no_grad()` and `with torch.autocast(...)`: a graph that is called with values and returns values.
void Reader::read_inner_graph(const Json& node, Scope& scope, size_t modes) {
  const std::string& target = text(field(node, "target"));
  const Json& inputs = list_field(node, "inputs");
  Modes inner = program_.modes.at(modes);
  size_t at = 0;
  if (target == "torch.ops.higher_order.wrap_with_set_grad_enabled") {
    inner.grad = truth(inner_argument(inputs, 0, "as_bool")), at = 1;
  } else if (target == "torch.ops.higher_order.wrap_with_autocast") {
    read_autocast(inputs, inner);
    at = 4;
  } else {
    throw unknown_in_program("the inner graph of " + target);
  }
  program_.modes.push_back(inner);
  const size_t inner_modes = program_.modes.size() - 1;
  const Json& graph = field(inner_argument(inputs, at, "as_graph"), "graph");
  const Json &taken = list_field(graph, "inputs"), &given = list_field(graph, "outputs");
  const Json& outputs = list_field(node, "outputs");
  if (taken.size() != inputs.size() - at - 1)
    throw damaged_program("an inner graph receives too few values, or too many");
  Scope inner_scope;
  for (size_t i = 0; i < taken.size(); ++i) {
    const std::optional<std::string> name = name_of(taken[i]), outer = name_of(field(inputs[at + 1 + i], "arg"));
    if (!name || !outer) throw unknown_in_program("a constant passed to an inner graph");
    inner_scope.define(*name, scope[*outer]);
  }
  read_calls(graph, inner_scope, inner_modes);
  if (given.size() != outputs.size()) throw damaged_program("an inner graph returns too few values, or too many");
  for (size_t i = 0; i < given.size(); ++i) {
    const std::optional<std::string> name = name_of(given[i]), outer = name_of(outputs[i]);
    if (name && outer) scope.define(*outer, inner_scope[*name]);
  }
}

// Nothing trains by these sizes, so an unusual description is no mistake of the file.
std::optional<std::vector<SymInt>> sizes_told(const Json& graph, const std::string& name) {
  const auto metas = graph.find("tensor_values");
  if (metas == graph.end() || !metas->is_object() || !metas->contains(name)) return std::nullopt;
  const Json& meta = metas->at(name);
  if (!meta.is_object() || !meta.contains("sizes") || !meta.at("sizes").is_array()) return std::nullopt;
  std::vector<SymInt> sizes;
  for (const Json& size : meta.at("sizes")) {
    const bool is_number = size.is_object() && size.contains("as_int") && size.at("as_int").is_number_integer();
    sizes.push_back(is_number ? SymInt{size.at("as_int").get<int64_t>()} : SymInt{0, "?"});
  }
  return sizes;
}

void Reader::read_outputs(const Json& graph, const Json& roles, const Scope& scope) {
  const Json& outputs = list_field(graph, "outputs");
  if (outputs.size() != roles.size()) throw damaged_program("outputs and their roles do not match");
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto [role, spec] = one_of(roles[i]);
    const auto [kind, value] = one_of(outputs[i]);
    if (role == "user_output" || role == "loss_output") {
      if (kind != "as_tensor") continue;
      const std::string& name = text(field(value, "name"));
      if (program_.outputs.empty()) program_.first_output = sizes_told(graph, name);
      program_.outputs.push_back(scope[name]);
    } else if (role == "buffer_mutation") {
      const std::string& name = text(field(spec, "buffer_name"));
      if (std::ranges::find(program_.buffers, name, &StoredTensor::name) == program_.buffers.end())
        throw damaged_program("it changes a buffer " + name + ", which it does not have");
      program_.mutations.emplace_back(name, scope[text(field(field(spec, "arg"), "name"))]);
    } else {
      throw unknown_in_program(fmt::format("a program that returns a {}", role));
    }
  }
  if (program_.outputs.empty()) throw damaged_program("it returns no tensor");
}

}  // namespace

Program read_program(std::span<const std::byte> file, const std::string& path) {
  return with_context(path, [&] {
    try {
      return Reader(file, path).read();
    } catch (const nlohmann::json::exception& error) {
      throw damaged_program(error.what());
    }
  });
}

}  // namespace estrain::program
