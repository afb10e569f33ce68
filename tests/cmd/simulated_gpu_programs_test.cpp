// Exported programs on simulated GPUs (tests/simulated_gpu): each small program has one thing that ties a program to
// the device of its export.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <functional>

#include "core/base/files/files.h"
#include "job.h"
#include "run_files.h"
#include "setting.h"
#include "tests/program_file.h"

namespace estrain::testing {
namespace {

constexpr int kFloat = 7, kBfloat16 = 13;  // of the schema
const Words kD2OnAll = {"--set", "job.determinism=D2", "--allow-mixed"};

Json number(const char* kind, const Json& value) { return object_of(kind, value); }
Json device(const std::string& type) { return object_of("as_device", {{"type", type}, {"index", nullptr}}); }

// Values named "linear", of x [s0, 24], for programs that go on from there and end with "loss".
class Program {
 public:
  explicit Program(std::string of_device = "cpu") : device_(std::move(of_device)) {
    std::vector<float> weights;
    for (int i = 0; i < 576; ++i) weights.push_back(static_cast<float>(i * 37 % 101 - 50) / 200);
    parts_.add_stored("parameter", "layer.weight", "p_weight", meta_of({24, 24}, kFloat, true), raw(weights));
    Json input = meta_of({1, 24});
    input["sizes"][0] = object_of("as_expr", object_of("expr_str", "Symbol('s0', positive=True, integer=True)"));
    input["device"]["type"] = device_;
    parts_.add_input("x", input);
    call("linear", "linear.default", {{"input", tensor_argument("x")}, {"weight", tensor_argument("p_weight")}});
  }

  Program& call(const std::string& result, const std::string& op, const std::vector<Given>& inputs) {
    nodes_->push_back(call_of("torch.ops.aten." + op, inputs, result));
    return *this;
  }
  Program& of_two(const std::string& result, const std::string& op, const std::string& a, const std::string& b) {
    return call(result, op + ".Tensor", {{"self", tensor_argument(a)}, {"other", tensor_argument(b)}});
  }
  Program& view(const std::string& result, const std::string& of, const std::vector<int64_t>& sizes) {
    return call(result, "view.default", {{"self", tensor_argument(of)}, {"size", number("as_ints", sizes)}});
  }
  Program& require(const std::string& value, int type) {
    call("", "_assert_tensor_metadata.default",
         {{"a", tensor_argument(value)}, {"dtype", number("as_scalar_type", type)}, {"device", device(device_)}});
    nodes_->back()["outputs"] = Json::array();
    return *this;
  }
  Program& add_constant(const std::string& name, const std::string& value, const std::vector<float>& values) {
    parts_.add_constant(name, value, meta_of({static_cast<int64_t>(values.size())}), raw(values));
    return *this;
  }
  Program& add_buffer_outside_the_state(const std::string& name, const std::string& value,
                                        const std::vector<float>& values) {
    parts_.add_stored("buffer", name, value, meta_of({static_cast<int64_t>(values.size())}), raw(values));
    for (Json& spec : parts_.signature()["input_specs"])
      if (spec.contains("buffer")) spec["buffer"]["persistent"] = false;
    return *this;
  }
  // A parameter that no call reads.
  Program& add_unreached_parameter(const std::string& name, const std::string& value,
                                   const std::vector<float>& values) {
    parts_.add_stored("parameter", name, value, meta_of({static_cast<int64_t>(values.size())}, kFloat, true),
                      raw(values));
    return *this;
  }
  // The calls of `body` are in the block; its value `result` leaves it.
  Program& in_autocast(const std::string& of_device, bool enabled, const std::string& taken, const std::string& result,
                       const std::function<void(Program&)>& body) {
    Json inner = {{"inputs", Json::array({tensor_argument(taken)})},
                  {"outputs", Json::array({tensor_argument(result)})},
                  {"nodes", Json::array()}};
    Json* const outside = nodes_;
    nodes_ = &inner["nodes"];
    body(*this);
    nodes_ = outside;
    Json node = call_of("torch.ops.higher_order.wrap_with_autocast",
                        {{"", number("as_string", of_device)},
                         {"", number("as_scalar_type", kBfloat16)},
                         {"", number("as_bool", enabled)},
                         {"", number("as_none", true)},
                         {"", object_of("as_graph", {{"name", "body"}, {"graph", inner}})},
                         {"", tensor_argument(taken)}},
                        result);
    nodes_->push_back(node);
    return *this;
  }
  // Attention of two heads of four numbers over three tokens: "attended" [s0, 2, 3, 4] is in memory by heads on a CPU
  // and by tokens on a GPU.
  Program& attend() {
    view("heads", "linear", {-1, 2, 3, 4});
    call("seen", "scaled_dot_product_attention.default",
         {{"query", tensor_argument("heads")}, {"key", tensor_argument("heads")}, {"value", tensor_argument("heads")}});
    return of_two("attended", "add", "seen", "seen");
  }
  Program& set_strides(const std::string& value, const std::vector<int64_t>& strides) {
    Json meta = meta_of(std::vector<int64_t>(strides.size(), 2));
    meta["strides"] = sizes_of(strides);
    parts_.graph()["tensor_values"][value] = meta;
    return *this;
  }
  std::string file(const std::string& last) {
    of_two("squared", "mul", last, last);
    call("loss", "mean.default", {{"self", tensor_argument("squared")}});
    parts_.set_output("loss");
    return parts_.file();
  }

 private:
  std::string device_;
  ProgramParts parts_ = empty_program();
  Json* nodes_ = &parts_.nodes();
};

const std::vector<float> kTwentyFour = {1, -1, 0.5f, 0.25f, 2, 1, 1, -0.5f, 1, 1, 0.125f, 1,
                                        3, 1,  1,    -2,    1, 1, 4, 1,     1, 1, 0.75f,  1};

// Programs made where the device of the export was `of_device`.
std::string program_with_all(const std::string& of_device) {
  Program program(of_device);
  program.add_constant("scale", "c_scale", kTwentyFour).add_buffer_outside_the_state("shift", "b_shift", kTwentyFour);
  program.set_strides("linear", {24, 1});
  program.call("places", "arange.default", {{"end", number("as_int", 24)}, {"device", device(of_device)}});
  program.of_two("moved", "add", "linear", "places");
  program.call("copied", "lift_fresh_copy.default", {{"self", tensor_argument("c_scale")}});
  program.of_two("scaled", "mul", "moved", "copied").of_two("shifted", "add", "scaled", "b_shift");
  program.call("first", "as_strided.default",
               {{"self", tensor_argument("linear")},
                {"size", number("as_ints", Json::array({24}))},
                {"stride", number("as_ints", Json::array({1}))}});
  program.of_two("more", "add", "shifted", "first");
  program.call("sent", "to.dtype_layout",  // Tensor.cpu()
               {{"self", tensor_argument("more")},
                {"dtype", number("as_scalar_type", kFloat)},
                {"layout", number("as_layout", 7)},
                {"device", device(of_device)}});
  program.require("sent", kFloat);
  program.call(
      "dropped", "dropout.default",
      {{"input", tensor_argument("sent")}, {"p", number("as_float", 0.25)}, {"train", number("as_bool", true)}});
  return program.file("dropped");
}

struct Trained {
  ScratchFolder folder;
  std::string spec;

  explicit Trained(const std::string& program) {
    const std::string path = folder.write("net.pt2", program);
    spec = folder.write(
        "job.toml", "job = { name = \"program\", seed = 21, ests = 2 }\n[model]\nname = \"program\"\nfile = \"" + path +
                        "\"\n[data]\nformat = \"synthetic\"\nshape = [24]\nsamples = 64\nbatch = 4\n[optimizer]\n"
                        "name = \"sgd\"\nlr = 0.001\nmomentum = 0.5\n[train]\nsteps = 6\neval_every = 3\n");
  }
  std::string on(const std::string& devices, const Words& more = {}) const {
    return train_on(folder, spec, devices, more);
  }
  // Trains a program that must fail on these devices.
  Ended refused_on(const std::string& devices) const {
    Ended ended = estrain({"train", spec, "--run", folder / "refused", "--devices", devices});
    INFO(ended.shown());
    CHECK(ended.code != 0);
    CHECK(ended.says("net.py:7"));
    return ended;
  }
};

TEST_CASE("a build without CUDA says so" * doctest::skip(has_simulated_gpus())) {
  fmt::print("skipped: this build has no simulated GPUs\n");
}

TEST_SUITE_BEGIN("simulated GPU" * doctest::skip(!has_simulated_gpus()));

TEST_CASE("devices, constants and buffers of a program are the GPU's: at D2 it has the CPU's bits") {
  const Trained trained(program_with_all("cpu"));
  const std::string on_cpu = trained.on("cpu", kD2OnAll);
  CHECK(difference(on_cpu, trained.on("cuda:0", kD2OnAll)).text == "");
  CHECK(difference(on_cpu, trained.on("cuda:0,cpu", kD2OnAll)).text == "");
}

TEST_CASE("a program exported on a GPU trains on a CPU, and has the bits of one exported on a CPU") {
  const Trained of_cpu(program_with_all("cpu")), of_gpu(program_with_all("cuda"));
  const std::string reference = of_cpu.on("cpu", kD2OnAll);
  for (const char* devices : {"cpu", "cuda:0"}) {
    CAPTURE(devices);
    const std::string run = of_gpu.on(devices, kD2OnAll);
    CHECK(difference(reference, run).text == "");
  }
}

TEST_CASE("at D1 a program on GPUs has no trace of their number, nor of a replayed pass") {
  const Trained trained(program_with_all("cpu"));
  const std::string one = trained.on("cuda:0");
  CHECK(difference(one, trained.on("cuda:0,cuda:1")).text == "");
  const std::string replayed = trained.on("cuda:0", {"--set", "job.cuda_graphs=auto"});
  CHECK(difference(one, replayed).text == "");
  CHECK(read_file(replayed + "/worker-0.log").find("not captured") == std::string::npos);
}

// With weight decay and momentum, an update would show.
TEST_CASE("a parameter that no EST reaches stays as it is, on any number of GPUs") {
  Program program;
  program.add_unreached_parameter("aside", "p_aside", std::vector<float>(700, 0.5f));
  const Trained trained(program.file("linear"));
  for (const char* clipped : {"train.clip_grad_norm=0", "train.clip_grad_norm=0.01"}) {
    CAPTURE(clipped);
    const Words more = with(kD2OnAll, {"--set", "optimizer.weight_decay=0.1", "--set", clipped});
    const std::string on_cpu = trained.on("cpu", more);
    for (const char* devices : {"cuda:0", "cuda:0,cuda:1"}) {
      CAPTURE(devices);
      const std::string on_gpus = trained.on(devices, more);
      CHECK(difference(on_cpu, on_gpus).text == "");
      const std::string last = fmt::format("/checkpoints/step-{:09}.h5", checkpoint_steps(on_cpu).back());
      CHECK(checkpoint_difference(on_cpu + last, on_gpus + last) == "");
    }
  }
}

TEST_CASE("averages of the weights are kept where a program trains on GPUs, too") {
  const Trained trained(program_with_all("cpu"));
  const Words averaged = with(kD2OnAll, {"--set", "ema.decay=0.5"});
  const std::string on_cpu = trained.on("cpu", averaged);
  for (const char* devices : {"cuda:0", "cuda:0,cuda:1"}) {
    CAPTURE(devices);
    CHECK(difference(on_cpu, trained.on(devices, averaged)).text == "");
  }
}

TEST_CASE("a view of attention's result runs as a reshape on a GPU") {
  Program program;
  program.attend().view("flat", "attended", {-1, 24});
  const Trained trained(program.file("flat"));
  trained.on("cpu");
  CHECK(difference(trained.on("cuda:0"), trained.on("cuda:0,cuda:1")).text == "");
  CHECK(difference(trained.on("cpu", kD2OnAll), trained.on("cuda:0", kD2OnAll)).text == "");
}

TEST_CASE("a view that a later call writes through must stay a view: a GPU refuses it by its line") {
  Program program;
  program.attend().view("flat", "attended", {-1, 24});
  program.call("written", "add_.Tensor", {{"self", tensor_argument("attended")}, {"other", number("as_float", 1)}});
  const Trained trained(program.file("flat"));
  trained.on("cpu");
  CHECK(trained.refused_on("cuda:0").says("view size is not compatible"));
}

TEST_CASE("a write through a value that shares the memory, though its operator does not say so, counts, too") {
  Program program;
  program.attend().call("same", "type_as.default",
                        {{"self", tensor_argument("attended")}, {"other", tensor_argument("x")}});
  program.view("flat", "attended", {-1, 24});
  program.call("written", "add_.Tensor", {{"self", tensor_argument("same")}, {"other", number("as_float", 1)}});
  const Trained trained(program.file("flat"));
  trained.on("cpu");
  CHECK(trained.refused_on("cuda:0").says("view size is not compatible"));
}

TEST_CASE("einsum may return its operand: a write through it counts") {
  Program program;
  program.attend().call("same", "einsum.default",
                        {{"equation", number("as_string", "abcd->abcd")},
                         {"tensors", {{"as_tensors", Json::array({{{"name", "attended"}}})}}}});
  program.view("flat", "attended", {-1, 24});
  program.call("written", "add_.Tensor", {{"self", tensor_argument("same")}, {"other", number("as_float", 1)}});
  const Trained trained(program.file("flat"));
  trained.on("cpu");
  CHECK(trained.refused_on("cuda:0").says("view size is not compatible"));
}

TEST_CASE("as_strided of a tensor that a GPU has in another order than the export is refused by its line") {
  Program program;
  program.attend().set_strides("attended", {24, 12, 4, 1});
  program.call("first", "as_strided.default",
               {{"self", tensor_argument("attended")},
                {"size", number("as_ints", Json::array({24}))},
                {"stride", number("as_ints", Json::array({1}))}});
  const Trained trained(program.file("first"));
  trained.on("cpu");
  CHECK(trained.refused_on("cuda:0").says("in another order in memory than at the export"));
}

// The program itself checks the types.
TEST_CASE("torch.autocast for the device of the export acts on a GPU; for a GPU that was not there, it is off") {
  const auto in_block = [](Program& program, const std::string& of, bool enabled, int type) {
    program.in_autocast(of, enabled, "x", "product", [&](Program& body) {
      body.call("product", "linear.default", {{"input", tensor_argument("x")}, {"weight", tensor_argument("x")}});
      body.require("product", type);
    });
    program.call("wide", "sum.default", {{"self", tensor_argument("product")}});
    return program.of_two("all", "add", "linear", "wide").file("all");
  };
  Program in_bf16, of_gpu("cuda"), off;
  Trained(in_block(in_bf16, "cpu", true, kBfloat16)).on("cuda:0");
  const Trained exported_there(in_block(of_gpu, "cuda", true, kBfloat16));
  exported_there.on("cuda:0");
  exported_there.on("cpu");
  Trained(in_block(off, "cuda", false, kFloat)).on("cuda:0", {"--set", "job.precision=bf16"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace estrain::testing
