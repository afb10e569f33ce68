#pragma once
// A small handwritten exported program in the format of torch.export.save: linear, dropout, batch norm of the result,
// and a mean as the loss. Tests change the JSON.

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "core/base/json/json.h"
#include "tests/zip_file.h"

namespace estrain::testing {

inline Json object_of(const std::string& name, const Json& value) {
  Json object = Json::object();
  object[name] = value;
  return object;
}

inline Json tensor_argument(const std::string& name) { return {{"as_tensor", {{"name", name}}}}; }

inline Json sizes_of(const std::vector<int64_t>& sizes) {
  Json list = Json::array();
  for (const int64_t size : sizes) list.push_back(object_of("as_int", size));
  return list;
}

inline Json meta_of(const std::vector<int64_t>& sizes, int64_t type = 7, bool requires_grad = false) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[d];
  return {{"dtype", type},
          {"sizes", sizes_of(sizes)},
          {"requires_grad", requires_grad},
          {"device", {{"type", "cpu"}, {"index", nullptr}}},
          {"strides", sizes_of(strides)},
          {"storage_offset", {{"as_int", 0}}},
          {"layout", 7}};
}

struct Given {
  std::string name;
  Json argument;
};

inline Json call_of(const std::string& target, const std::vector<Given>& inputs, const std::string& output,
                    const std::string& module = "") {
  Json node = {{"target", target}, {"inputs", Json::array()}, {"outputs", Json::array({tensor_argument(output)})}};
  for (const Given& input : inputs)
    node["inputs"].push_back({{"name", input.name}, {"arg", input.argument}, {"kind", 1}});
  node["metadata"] = {{"stack_trace",
                       "File \"/home/user/net.py\", line 7, in forward\n    x\n  File "
                       "\"/venv/lib/torch/nn/modules/linear.py\", line 134, in forward\n    y"},
                      {"nn_module_stack", "L__self__,,net.Net;L__self__" + module + "," + module + ",Linear"}};
  node["is_hop_single_tensor_return"] = nullptr;
  node["name"] = output;
  return node;
}

// The parts of a .pt2 file.
struct ProgramParts {
  Json model, weights, constants = {{"config", Json::object()}};
  std::map<std::string, std::string> files;  // of data/weights and data/constants
  std::map<std::string, std::string> more;   // further members

  Json& graph() { return model["graph_module"]["graph"]; }
  Json& nodes() { return graph()["nodes"]; }
  Json& signature() { return model["graph_module"]["signature"]; }

  void add_stored(const std::string& kind, const std::string& name, const std::string& value, const Json& meta,
                  const std::string& bytes) {
    const std::string file = "weight_" + std::to_string(files.size());
    weights["config"][name] = {
        {"path_name", file}, {"is_param", kind == "parameter"}, {"use_pickle", false}, {"tensor_meta", meta}};
    files["data/weights/" + file] = bytes;
    Json spec = {{"arg", {{"name", value}}}, {kind + "_name", name}};
    if (kind == "buffer") spec["persistent"] = true;
    Json& specs = signature()["input_specs"];
    specs.insert(specs.begin() + static_cast<long>(weights["config"].size() - 1), object_of(kind, spec));
  }
  void add_constant(const std::string& name, const std::string& value, const Json& meta, const std::string& bytes) {
    constants["config"][name] = {
        {"path_name", name}, {"is_param", false}, {"use_pickle", false}, {"tensor_meta", meta}};
    files["data/constants/" + name] = bytes;
    Json& specs = signature()["input_specs"];
    specs.insert(specs.begin(),
                 object_of("tensor_constant", {{"arg", {{"name", value}}}, {"tensor_constant_name", name}}));
  }
  void add_input(const std::string& name, const Json& meta) {
    graph()["tensor_values"][name] = meta;
    signature()["input_specs"].push_back(object_of("user_input", object_of("arg", tensor_argument(name))));
  }
  void set_output(const std::string& name) { set_outputs({name}); }
  void set_outputs(const std::vector<std::string>& names) {
    graph()["outputs"] = signature()["output_specs"] = Json::array();
    for (const std::string& name : names) {
      graph()["outputs"].push_back(tensor_argument(name));
      signature()["output_specs"].push_back(object_of("user_output", object_of("arg", tensor_argument(name))));
    }
  }

  std::string file() const {
    std::vector<std::pair<std::string, std::string>> members = {
        {"net/models/model.json", model.dump()},
        {"net/data/weights/model_weights_config.json", weights.dump()},
        {"net/data/constants/model_constants_config.json", constants.dump()}};
    for (const auto& [name, bytes] : files) members.emplace_back("net/" + name, bytes);
    for (const auto& [name, bytes] : more) members.emplace_back("net/" + name, bytes);
    return zip_of(members);
  }
};

template <typename T>
std::string raw(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

inline ProgramParts empty_program() {
  ProgramParts parts;
  parts.model = {{"graph_module",
                  {{"graph",
                    {{"inputs", Json::array()},
                     {"outputs", Json::array()},
                     {"nodes", Json::array()},
                     {"tensor_values", Json::object()},
                     {"sym_int_values", Json::object()}}},
                   {"signature", {{"input_specs", Json::array()}, {"output_specs", Json::array()}}},
                   {"module_call_graph", Json::array({{{"fqn", ""}}, {{"fqn", "layer"}}, {{"fqn", "layer.norm"}}})}}},
                 {"opset_version", {{"aten", 10}}},
                 {"range_constraints", {{"s0", {{"min_val", 2}, {"max_val", nullptr}}}}},
                 {"schema_version", {{"major", 8}, {"minor", 17}}},
                 {"verifiers", Json::array({"TRAINING"})},
                 {"torch_version", "2.11.0+cpu"}};
  parts.weights = {{"config", Json::object()}};
  return parts;
}

// x [s0, 3] -> linear to 2, dropout of a half, batch norm, mean.
inline ProgramParts small_program() {
  ProgramParts parts = empty_program();
  parts.add_stored("parameter", "layer.weight", "p_weight", meta_of({2, 3}, 7, true),
                   raw<float>({1, 2, 3, -1, 0.5f, 0.25f}));
  parts.add_stored("parameter", "layer.bias", "p_bias", meta_of({2}, 7, true), raw<float>({0.5f, -0.5f}));
  parts.add_stored("buffer", "layer.norm.running_mean", "b_mean", meta_of({2}), raw<float>({0, 1}));
  parts.add_stored("buffer", "layer.norm.running_var", "b_var", meta_of({2}), raw<float>({1, 4}));
  parts.add_stored("buffer", "layer.norm.num_batches_tracked", "b_count", meta_of({}, 5), raw<int64_t>({0}));
  Json input = meta_of({1, 3});
  input["sizes"][0] = object_of("as_expr", object_of("expr_str", "Symbol('s0', positive=True, integer=True)"));
  parts.add_input("x", input);
  const auto number = [](const char* kind, const Json& value) { return object_of(kind, value); };
  parts.nodes() = {
      call_of("torch.ops.aten.linear.default",
              {{"input", tensor_argument("x")},
               {"weight", tensor_argument("p_weight")},
               {"bias", tensor_argument("p_bias")}},
              "linear", "layer"),
      call_of(
          "torch.ops.aten.dropout.default",
          {{"input", tensor_argument("linear")}, {"p", number("as_float", 0.5)}, {"train", number("as_bool", true)}},
          "dropout"),
      call_of("torch.ops.aten.add_.Tensor", {{"self", tensor_argument("b_count")}, {"other", number("as_int", 1)}},
              "add_", "layer.norm"),
      call_of("torch.ops.aten.batch_norm.default",
              {{"input", tensor_argument("dropout")},
               {"weight", number("as_none", true)},
               {"bias", number("as_none", true)},
               {"running_mean", tensor_argument("b_mean")},
               {"running_var", tensor_argument("b_var")},
               {"training", number("as_bool", true)},
               {"momentum", number("as_float", 0.1)},
               {"eps", number("as_float", 1e-5)},
               {"cudnn_enabled", number("as_bool", false)}},
              "norm", "layer.norm"),
      call_of("torch.ops.aten.mul.Tensor", {{"self", tensor_argument("norm")}, {"other", tensor_argument("x_sum")}},
              "mul"),
      call_of("torch.ops.aten.mean.default", {{"self", tensor_argument("mul")}}, "mean")};
  parts.nodes().insert(parts.nodes().begin() + 4, call_of("torch.ops.aten.sum.dim_IntList",
                                                          {{"self", tensor_argument("x")},
                                                           {"dim", number("as_ints", Json::array({1}))},
                                                           {"keepdim", number("as_bool", true)}},
                                                          "x_sum"));
  parts.set_output("mean");
  return parts;
}

// linear ("layer"), ReLU in place, linear ("layer.norm"), and what follows; the loss is the mean of `last`.
inline ProgramParts program_of_two_layers(const std::vector<Json>& more = {}, const std::string& last = "second") {
  ProgramParts parts = small_program();
  parts.add_stored("parameter", "layer.norm.weight", "p_second", meta_of({2, 2}, 7, true),
                   raw<float>({1, 0.5f, -1, 2}));
  const Json first = parts.nodes()[0];
  parts.nodes() = {first, call_of("torch.ops.aten.relu_.default", {{"self", tensor_argument("linear")}}, "relu_"),
                   call_of("torch.ops.aten.linear.default",
                           {{"input", tensor_argument("relu_")},
                            {"weight", tensor_argument("p_second")},
                            {"bias", object_of("as_none", true)}},
                           "second", "layer.norm")};
  for (const Json& call : more) parts.nodes().push_back(call);
  parts.nodes().push_back(call_of("torch.ops.aten.mean.default", {{"self", tensor_argument(last)}}, "mean"));
  return parts;
}

}  // namespace estrain::testing
