#include <doctest/doctest.h>

#include <functional>

#include "core/formats/program/program.h"
#include "core/formats/program/schema.h"
#include "tests/contains.h"
#include "tests/error_of.h"
#include "tests/program_file.h"

namespace estrain::program {
namespace {

using testing::call_of;
using testing::meta_of;
using testing::ProgramParts;
using testing::small_program;
using testing::tensor_argument;

Program read(const ProgramParts& parts) {
  const std::string file = parts.file();
  Program program = read_program(std::as_bytes(std::span(file)), "net.pt2");
  for (auto* list : {&program.parameters, &program.buffers, &program.constants})
    for (StoredTensor& tensor : *list) tensor.bytes = {};  // points into the file, which is deleted
  return program;
}

std::string complaint(const std::function<void(ProgramParts&)>& change, Fault fault = Fault::corrupt) {
  ProgramParts parts = small_program();
  change(parts);
  const Error error = error_of([&] { read(parts); });
  CHECK(error.fault() == fault);
  CHECK(!error.advice().empty());
  CHECK(error.message().starts_with("net.pt2: "));
  return error.message();
}

TEST_CASE("a program is read whole: tensors, inputs, calls with their places, outputs") {
  const Program program = read(small_program());
  CHECK(program.torch_version == "2.11.0+cpu");
  CHECK(program.modules == std::vector<std::string>{"layer", "layer.norm"});
  REQUIRE(program.parameters.size() == 2);
  CHECK(program.parameters[0].name == "layer.weight");
  CHECK(program.parameters[0].sizes == std::vector<int64_t>{2, 3});
  CHECK(program.parameters[0].requires_grad);
  REQUIRE(program.buffers.size() == 3);
  CHECK(program.buffers[2].type == ScalarType::i64);
  REQUIRE(program.inputs.size() == 1);
  CHECK(sizes_text(program.inputs[0].sizes) == "[s0, 3]");
  REQUIRE(program.calls.size() == 7);
  CHECK(program.calls[0].full_name() == "aten::linear");
  CHECK(program.calls[0].place() == "layer (net.py:7)");
  CHECK(program.calls[4].full_name() == "aten::sum.dim_IntList");
  CHECK(program.calls[1].place() == "net.py:7");
  CHECK(program.outputs == std::vector<int>{program.calls[6].results[0].values[0]});
  CHECK(program.ranges.at("s0").low == 2);
  CHECK_FALSE(program.ranges.at("s0").high.has_value());
  CHECK_FALSE(program.is_marked_training);
}

TEST_CASE("the values of a tensor are the file's bytes") {
  const std::string file = small_program().file();
  const Program program = read_program(std::as_bytes(std::span(file)), "net.pt2");
  float first = 0;
  std::memcpy(&first, program.parameters[1].bytes.data(), sizeof first);
  CHECK(first == 0.5f);
  CHECK(program.parameters[0].bytes.size() == 24);
}

TEST_CASE("tied weights are one tensor under two names") {
  ProgramParts parts = small_program();
  parts.add_stored("parameter", "again", "p_again", meta_of({2, 3}, 7, true), "");
  parts.weights["config"]["again"]["path_name"] = parts.weights["config"]["layer.weight"]["path_name"];
  const Program program = read(parts);
  REQUIRE(program.parameters.size() + program.buffers.size() == 6);
  const StoredTensor& again = program.parameters.back();
  CHECK(again.name == "again");
  CHECK(again.alias_of == "layer.weight");
  CHECK(again.value == program.parameters[0].value);
}

TEST_CASE("tensors that share only a part of their memory are refused by name") {
  const std::string text = complaint(
      [](ProgramParts& parts) {
        parts.add_stored("parameter", "part", "p_part", meta_of({3}, 7, true), "");
        parts.weights["config"]["part"]["path_name"] = parts.weights["config"]["layer.weight"]["path_name"];
        parts.weights["config"]["part"]["tensor_meta"]["storage_offset"] = testing::object_of("as_int", 2);
      },
      Fault::mismatch);
  CHECK(contains(text, "layer.weight and part, which share part of their memory"));
}

TEST_CASE("other versions are refused with torch's") {
  CHECK(contains(complaint([](ProgramParts& p) { p.model["schema_version"]["major"] = 9; }, Fault::mismatch),
                 "schema version 9, of torch 2.11.0+cpu"));
  CHECK(contains(complaint([](ProgramParts& p) { p.model["opset_version"]["aten"] = 11; }, Fault::mismatch),
                 "operator version 11"));
  CHECK(contains(complaint([](ProgramParts& p) { p.model["verifiers"] = Json::array({"ATEN"}); }, Fault::mismatch),
                 "kind ATEN, which cannot be trained"));
}

TEST_CASE("every field that is missing or of another type is named") {
  CHECK(contains(complaint([](ProgramParts& p) { p.model.erase("graph_module"); }), "lacks the field graph_module"));
  CHECK(contains(complaint([](ProgramParts& p) { p.nodes()[0].erase("target"); }), "lacks the field target"));
  CHECK(contains(complaint([](ProgramParts& p) { p.nodes() = 3; }), "nodes is not a list"));
  CHECK(contains(complaint([](ProgramParts& p) { p.nodes()[1]["inputs"][1]["arg"]["as_float"] = "x"; }),
                 "\"x\" is in place of a number"));
  CHECK(contains(complaint([](ProgramParts& p) { p.nodes()[0]["target"] = "torch.ops.aten"; }),
                 "not an operator's name"));
  CHECK(contains(complaint([](ProgramParts& p) { p.nodes()[0]["target"] = "os.system"; }, Fault::mismatch),
                 "the call of os.system"));
}

TEST_CASE("values are made once, before they are used") {
  CHECK(contains(complaint([](ProgramParts& p) { p.nodes()[1]["outputs"][0] = tensor_argument("linear"); }),
                 "value linear is produced twice"));
  CHECK(contains(complaint([](ProgramParts& p) { p.nodes()[0]["inputs"][0]["arg"] = tensor_argument("dropout"); }),
                 "value dropout is used before it is produced"));
  CHECK(contains(complaint([](ProgramParts& p) { p.set_output("nothing"); }), "value nothing is used"));
}

TEST_CASE("a stored tensor lies within its file") {
  const auto meta = [](ProgramParts& p) -> Json& { return p.weights["config"]["layer.weight"]["tensor_meta"]; };
  CHECK(contains(complaint([&](ProgramParts& p) { meta(p)["sizes"][0] = testing::object_of("as_int", 3); }),
                 "has room for 6"));
  CHECK(contains(complaint([&](ProgramParts& p) { meta(p)["storage_offset"] = testing::object_of("as_int", 1); }),
                 "has room for 6"));
  CHECK(contains(complaint([&](ProgramParts& p) { meta(p)["sizes"][0] = testing::object_of("as_int", -1); }),
                 "a size of -1"));
  CHECK(contains(complaint([&](ProgramParts& p) {
                   meta(p)["sizes"] = testing::sizes_of({int64_t{1} << 40, int64_t{1} << 23});
                   meta(p)["strides"] = testing::sizes_of({int64_t{1} << 23, 1});
                 }),
                 "more elements than can be counted"));
  CHECK(contains(complaint([&](ProgramParts& p) { meta(p)["sizes"] = Json::array({testing::object_of("as_int", 1)}); }),
                 "sizes and strides do not match"));
  CHECK(contains(
      complaint([&](ProgramParts& p) { meta(p)["strides"][0] = testing::object_of("as_int", 5); }, Fault::mismatch),
      "share memory or have gaps"));
  CHECK(contains(complaint([&](ProgramParts& p) { meta(p)["dtype"] = 30; }, Fault::mismatch), "element type 30"));
  CHECK(contains(
      complaint([&](ProgramParts& p) { p.weights["config"]["layer.weight"]["use_pickle"] = true; }, Fault::mismatch),
      "Python's pickle"));
  CHECK(contains(complaint([&](ProgramParts& p) { p.weights["config"].erase("layer.bias"); }),
                 "the values of layer.bias are missing"));
  CHECK(contains(complaint([&](ProgramParts& p) { p.weights["config"]["layer.weight"]["path_name"] = "../x"; }),
                 " is missing"));
}

Json with_grad_off(const Json& graph) {
  Json node = call_of("torch.ops.higher_order.wrap_with_set_grad_enabled",
                      {{"enabled", testing::object_of("as_bool", false)},
                       {"body", testing::object_of("as_graph", {{"name", "body"}, {"graph", graph}})},
                       {"0", tensor_argument("linear")}},
                      "inner");
  return node;
}

TEST_CASE("a graph within the graph is spread out, with its modes") {
  ProgramParts parts = small_program();
  const Json inner = {
      {"inputs", Json::array({tensor_argument("a")})},
      {"outputs", Json::array({tensor_argument("b")})},
      {"nodes", Json::array({call_of("torch.ops.aten.relu.default", {{"self", tensor_argument("a")}}, "b")})}};
  parts.nodes().insert(parts.nodes().begin() + 1, with_grad_off(inner));
  parts.nodes()[2]["inputs"][0]["arg"] = tensor_argument("inner");
  const Program program = read(parts);
  REQUIRE(program.calls.size() == 8);
  CHECK(program.calls[1].name == "aten::relu");
  CHECK(program.modes.at(program.calls[1].modes).grad == false);
  CHECK_FALSE(program.modes.at(program.calls[2].modes).grad.has_value());
  const int relu = program.calls[1].results[0].values[0];
  CHECK(std::get<ValueRef>(program.calls[2].arguments[0].second).number == relu);
}

TEST_CASE("a graph within the graph whose values do not match is refused") {
  const Json inner = {{"inputs", Json::array()}, {"outputs", Json::array()}, {"nodes", Json::array()}};
  CHECK(contains(complaint([&](ProgramParts& p) { p.nodes().push_back(with_grad_off(inner)); }), "too few values"));
  CHECK(contains(complaint(
                     [&](ProgramParts& p) {
                       p.nodes().push_back(with_grad_off(inner));
                       p.nodes().back()["target"] = "torch.ops.higher_order.cond";
                     },
                     Fault::mismatch),
                 "the inner graph of torch.ops.higher_order.cond"));
}

TEST_CASE("a tensor in another order than C's keeps its strides; one tied to it has the same") {
  ProgramParts parts = small_program();
  parts.weights["config"]["layer.weight"]["tensor_meta"]["strides"] = testing::sizes_of({1, 2});
  const Program program = read(parts);
  CHECK(program.parameters[0].strides == std::vector<int64_t>{1, 2});
  CHECK_FALSE(is_in_c_order(program.parameters[0]));
  CHECK(is_in_c_order(program.parameters[1]));
  CHECK(is_in_c_order({.name = "channels_last", .sizes = {8, 1, 3, 3}, .strides = {9, 1, 3, 1}}));
  const std::string text = complaint(
      [](ProgramParts& p) {
        p.add_stored("parameter", "turned", "p_turned", meta_of({2, 3}, 7, true), "");
        p.weights["config"]["turned"]["path_name"] = p.weights["config"]["layer.weight"]["path_name"];
        p.weights["config"]["turned"]["tensor_meta"]["strides"] = testing::sizes_of({1, 2});
      },
      Fault::mismatch);
  CHECK(contains(text, "layer.weight and turned, which share part of their memory"));
}

TEST_CASE(
    "torch.autocast for GPUs that is switched off is a mode of its own; switched on it is refused where there was "
    "none") {
  const auto with_autocast = [](const std::string& device, bool enabled) {
    return [=](ProgramParts& parts) {
      Json inner = {{"inputs", Json::array()}, {"outputs", Json::array()}, {"nodes", Json::array()}};
      Json node = call_of("torch.ops.higher_order.wrap_with_autocast",
                          {{"", testing::object_of("as_string", device)},
                           {"", testing::object_of("as_scalar_type", 13)},
                           {"", testing::object_of("as_bool", enabled)},
                           {"", testing::object_of("as_none", true)},
                           {"", testing::object_of("as_graph", {{"name", "body"}, {"graph", inner}})}},
                          "none");
      node["outputs"] = Json::array();
      parts.nodes().insert(parts.nodes().begin(), node);
    };
  };
  ProgramParts parts = small_program();
  with_autocast("cuda", false)(parts);
  const Program program = read(parts);
  REQUIRE(program.modes.size() == 2);
  CHECK(program.modes[1].other_autocast_off);
  CHECK_FALSE(program.modes[1].autocast.has_value());
  CHECK(contains(complaint(with_autocast("cuda", true), Fault::mismatch), "torch.autocast(\"cuda\")"));
  CHECK(contains(complaint(with_autocast("mps", false), Fault::mismatch), "torch.autocast(\"mps\")"));

  ProgramParts of_gpu = small_program();
  of_gpu.graph()["tensor_values"]["x"]["device"]["type"] = "cuda";
  with_autocast("cuda", true)(of_gpu);
  const Program exported_there = read(of_gpu);
  CHECK(exported_there.device == "cuda");
  CHECK(exported_there.modes[1].autocast.has_value());
  CHECK_FALSE(exported_there.modes[1].other_autocast_off);
}

TEST_CASE("what the export notes beside the program is read, and modules that a SyncBatchNorm calls from") {
  ProgramParts parts = small_program();
  CHECK(read(parts).synced.empty());
  parts.more = {{"extra/estrain.precision", "bf16"}, {"extra/estrain.notes", R"(["one", "two"])"}};
  parts.nodes()[0]["metadata"]["nn_module_stack"] =
      "L__self__,,net.Net;L__self___layer,layer,torch.nn.modules.batchnorm.SyncBatchNorm";
  const Program program = read(parts);
  CHECK(program.precision == "bf16");
  CHECK(program.notes == std::vector<std::string>{"one", "two"});
  CHECK(program.synced == std::vector<std::string>{"layer"});
  CHECK(contains(complaint([](ProgramParts& p) { p.more = {{"extra/estrain.notes", "{}"}}; }), "notes are not a list"));
}

TEST_CASE("the mark of an export in train() mode is seen") {
  ProgramParts parts = small_program();
  parts.more["extra/estrain.training"] = "yes";
  CHECK(read(parts).is_marked_training);
}

TEST_CASE("lines of the user's source are found below the library's") {
  CHECK(user_line("File \"/a/b.py\", line 12, in f\n    x") == "b.py:12");
  CHECK(user_line("File \"/a/b.py\", line 1, in f\n  File \"/a/c.py\", line 2, in g\n  File "
                  "\"/v/torch/nn/x.py\", line 3, in h") == "c.py:2");
  CHECK(user_line("").empty());
  CHECK(user_line("File \"torch/fx/x.py\", line 3, in h").empty());
  CHECK(user_line("File \"/a/b.py\", line ").ends_with(":"));
}

}  // namespace
}  // namespace estrain::program
