#include "core/engine/model/exported/exported.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/nll_loss_nd.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>

#include "core/engine/model/block_watch.h"
#include "tests/contains.h"
#include "tests/error_of.h"
#include "tests/program_file.h"

namespace estrain::model {
namespace {

using testing::call_of;
using testing::meta_of;
using testing::object_of;
using testing::program_of_two_layers;
using testing::ProgramParts;
using testing::raw;
using testing::small_program;
using testing::tensor_argument;

const DataShape kVectors = VectorShape{3};

spec::ModelSection section(spec::Loss loss = spec::Loss::output) {
  spec::ModelSection model;
  model.name = "program";
  model.file = "net.pt2";
  model.eval_file = "net-eval.pt2";
  model.loss = loss;
  return model;
}

std::shared_ptr<Exported> build(const ProgramParts& parts, const DataShape& shape = kVectors,
                                const spec::ModelSection& model = section(), const std::string& evaluation = "") {
  const std::string file = parts.file();
  return build_program({model, std::as_bytes(std::span(file)), std::as_bytes(std::span(evaluation)), 0}, shape, true);
}

std::string complaint(const std::function<void(ProgramParts&)>& change, Fault fault,
                      const DataShape& shape = kVectors) {
  ProgramParts parts = small_program();
  change(parts);
  const Error error = error_of([&] { build(parts, shape); });
  INFO(error.message());
  CHECK(error.fault() == fault);
  CHECK(!error.advice().empty());
  return error.message();
}

MiniBatch some_batch(int64_t samples = 4) {
  torch::manual_seed(3);
  return {torch::randn({samples, 3}), torch::arange(samples).remainder(2)};
}

// Two results: dropout's linear layer and its norm.
ProgramParts program_with_logits() {
  ProgramParts parts = small_program();
  parts.set_output("norm");
  return parts;
}

TEST_CASE("a program computes what its calls say: loss, gradients, buffers, with the same random numbers") {
  const auto model = build(small_program());
  const NamedTensors named = named_tensors(*model);
  REQUIRE(named.parameters.size() == 2);
  CHECK(named.parameters[0].first == "layer.weight");
  CHECK(named.parameters[1].first == "layer.bias");
  REQUIRE(named.buffers.size() == 3);
  CHECK(named.buffers[0].first == "layer.norm.running_mean");

  const MiniBatch batch = some_batch();
  torch::manual_seed(8);
  const torch::Tensor loss = model->loss(batch);
  loss.backward();

  torch::Tensor weight = torch::tensor({{1.f, 2.f, 3.f}, {-1.f, 0.5f, 0.25f}}).requires_grad_(true);
  torch::Tensor bias = torch::tensor({0.5f, -0.5f}).requires_grad_(true);
  torch::Tensor mean = torch::tensor({0.f, 1.f}), var = torch::tensor({1.f, 4.f});
  torch::manual_seed(8);
  const torch::Tensor normed = at::batch_norm(at::dropout(at::linear(batch.input, weight, bias), 0.5, true), {}, {},
                                              mean, var, true, 0.1, 1e-5, false);
  const torch::Tensor expected = (normed * batch.input.sum(1, true)).mean();
  expected.backward();
  CHECK(torch::equal(loss, expected));
  CHECK(torch::equal(named.parameters[0].second.grad(), weight.grad()));
  CHECK(torch::equal(named.parameters[1].second.grad(), bias.grad()));
  CHECK(torch::equal(named.buffers[0].second, mean));
  CHECK(torch::equal(named.buffers[1].second, var));
  CHECK(named.buffers[2].second.item<int64_t>() == 1);
}

std::vector<int64_t> strides_of(const torch::Tensor& tensor) { return tensor.strides().vec(); }

// The weight as `weight.t()` of a module: file and calls have it in Fortran's order.
ProgramParts program_with_turned_weight() {
  ProgramParts parts = small_program();
  parts.weights["config"]["layer.weight"]["tensor_meta"]["strides"] = testing::sizes_of({1, 2});
  parts.files["data/weights/weight_0"] = raw<float>({1, -1, 2, 0.5f, 3, 0.25f});
  return parts;
}

TEST_CASE("a tensor in another order than C's has C order in the state, and its own in the calls") {
  const auto model = build(program_with_turned_weight()), plain = build(small_program());
  const NamedTensors named = named_tensors(*model);
  const torch::Tensor& weight = named.parameters[0].second;
  CHECK(strides_of(weight) == std::vector<int64_t>{3, 1});
  CHECK(torch::equal(weight, named_tensors(*plain).parameters[0].second));
  CHECK(model->gradient_strides(weight) == std::vector<int64_t>{1, 2});
  CHECK(model->gradient_strides(named.parameters[1].second).empty());
  for (int pass = 0; pass < 2; ++pass) {
    CAPTURE(pass);
    const MiniBatch batch = some_batch();
    torch::manual_seed(8);
    const torch::Tensor loss = model->loss(batch);
    loss.backward();
    torch::manual_seed(8);
    const torch::Tensor expected = plain->loss(batch);
    expected.backward();
    CHECK(torch::allclose(loss, expected));
    CHECK(torch::allclose(weight.grad(), named_tensors(*plain).parameters[0].second.grad()));
    CHECK(strides_of(weight.grad()) == std::vector<int64_t>{3, 1});
  }
  // What an operator gets: a program that returns a view of the weight shows its strides.
  ProgramParts shown = program_with_turned_weight();
  shown.nodes().push_back(call_of("torch.ops.aten.alias.default", {{"self", tensor_argument("p_weight")}}, "seen"));
  shown.nodes().push_back(call_of("torch.ops.aten.stride.int",
                                  {{"self", tensor_argument("seen")}, {"dim", object_of("as_int", 1)}}, "step"));
  shown.nodes().back()["outputs"] = Json::array({object_of("as_sym_int", object_of("as_name", "step"))});
  shown.nodes().push_back(call_of(
      "torch.ops.aten.mul.Scalar",
      {{"self", tensor_argument("mean")}, {"other", object_of("as_sym_int", object_of("as_name", "step"))}}, "scaled"));
  shown.set_output("scaled");
  torch::manual_seed(8);
  const float ours = build(shown)->loss(some_batch()).item<float>();
  torch::manual_seed(8);
  // Of operands in other orders, some processors' products round otherwise.
  CHECK(ours == doctest::Approx(2 * plain->loss(some_batch()).item<float>()));
}

TEST_CASE("channels_last strides of a dimension of one entry stay with a tensor that is in C order") {
  ProgramParts parts = small_program();
  parts.add_stored("parameter", "kernel", "p_kernel", meta_of({8, 1, 3, 3}, 7, true), raw(std::vector<float>(72, 1)));
  parts.weights["config"]["kernel"]["tensor_meta"]["strides"] = testing::sizes_of({9, 1, 3, 1});
  const auto model = build(parts);
  const torch::Tensor kernel = model->named_parameters()["kernel"];
  CHECK(strides_of(kernel) == std::vector<int64_t>{9, 1, 3, 1});
  CHECK(kernel.suggest_memory_format() == at::MemoryFormat::ChannelsLast);
  CHECK(model->gradient_strides(kernel).empty());
}

TEST_CASE("a weight in another order that autocast would cast twice is refused; so is a buffer that is written") {
  ProgramParts twice = program_with_turned_weight();
  twice.nodes()[5]["inputs"][1]["arg"] = tensor_argument("again");
  Json again = twice.nodes()[0];
  again["outputs"] = Json::array({tensor_argument("again")});
  twice.nodes().insert(twice.nodes().begin() + 1, again);
  const auto model = build(twice);
  torch::manual_seed(8);
  CHECK(std::isfinite(model->loss(some_batch()).item<float>()));
  model->set_precision(spec::Precision::bf16);
  const Error error = error_of([&] { model->loss(some_batch()); });
  CHECK(contains(error.message(), "layer.weight is used more than once under autocast"));
  CHECK(contains(error.advice(), "model.name = \"python\""));

  ProgramParts buffer = small_program();
  buffer.add_stored("buffer", "seen", "b_seen", meta_of({2, 3}), raw<float>({1, 2, 3, 4, 5, 6}));
  buffer.weights["config"]["seen"]["tensor_meta"]["strides"] = testing::sizes_of({1, 2});
  build(buffer);
  buffer.nodes().push_back(call_of("torch.ops.aten.add_.Scalar",
                                   {{"self", tensor_argument("b_seen")}, {"other", object_of("as_int", 1)}}, "added"));
  CHECK(contains(error_of([&] { build(buffer); }).message(), "writes to its buffer seen, which is not in C order"));
}

TEST_CASE("a program that was exported for one precision is refused at the other") {
  for (const auto& [made, set, is_fine] : {std::tuple("bf16", spec::Precision::bf16, true),
                                           {"bf16", spec::Precision::fp32, false},
                                           {"fp32", spec::Precision::bf16, false},
                                           {"fp32", spec::Precision::fp32, true}}) {
    CAPTURE(made);
    ProgramParts parts = small_program();
    parts.more["extra/estrain.precision"] = made;
    const std::string file = parts.file();
    const spec::ModelSection model = section();
    const ProgramFiles files{model, std::as_bytes(std::span(file)), {}, 0, set};
    if (is_fine) {
      CHECK(build_program(files, kVectors, true) != nullptr);
      continue;
    }
    const Error error = error_of([&] { build_program(files, kVectors, true); });
    CHECK(error.fault() == Fault::spec);
    CHECK(contains(error.message(), std::string("net.pt2: exported for ") + made));
  }
}

TEST_CASE("what a program computes otherwise than its user may think is told") {
  ProgramParts parts = small_program();
  parts.more["extra/estrain.notes"] = R"(["net.py:3 calls all_gather"])";
  parts.nodes()[0]["metadata"]["nn_module_stack"] =
      "L__self__,,net.Net;L__self___layer,layer,torch.nn.modules.batchnorm.SyncBatchNorm";
  const std::vector<std::string> notes = build(parts)->notes();
  REQUIRE(notes.size() == 2);
  CHECK(notes[0] == "net.py:3 calls all_gather");
  CHECK(contains(notes[1], "layer is a SyncBatchNorm"));
  CHECK(build(small_program())->notes().empty());
}

TEST_CASE("buffers of booleans and of int32 are part of the state") {
  ProgramParts parts = small_program();
  parts.add_stored("buffer", "seen", "b_seen", meta_of({3}, 12), std::string("\1\0\1", 3));
  parts.add_stored("buffer", "count", "b_count32", meta_of({2}, 4), raw<int32_t>({7, -1}));
  parts.nodes().push_back(call_of("torch.ops.aten.add_.Scalar",
                                  {{"self", tensor_argument("b_count32")}, {"other", object_of("as_int", 1)}}, "more"));
  const auto model = build(parts);
  const auto buffers = model->named_buffers();
  CHECK(torch::equal(buffers["seen"], torch::tensor({true, false, true})));
  model->loss(some_batch());
  CHECK(torch::equal(buffers["count"], torch::tensor({8, 0}, torch::kInt)));
}

TEST_CASE("it computes with the registered tensors, wherever their memory is") {
  const auto model = build(small_program());
  const MiniBatch batch = some_batch();
  const auto loss = [&] {
    torch::manual_seed(1);
    return model->loss(batch).item<float>();
  };
  torch::Tensor weight = model->named_parameters()["layer.weight"];
  const float before = loss();
  weight.set_data(torch::zeros({2, 3}));
  CHECK(loss() != before);
}

TEST_CASE("an evaluation without a program of its own: dropout off, batch norm by its statistics, nothing changed") {
  const auto model = build(program_with_logits(), kVectors, section(spec::Loss::cross_entropy));
  const MiniBatch batch = some_batch();
  CHECK(model->predictions_per_sample() == 1);
  const torch::Tensor weight = model->named_parameters()["layer.weight"].detach();
  const torch::Tensor bias = model->named_parameters()["layer.bias"].detach();
  torch::Tensor mean = torch::tensor({0.f, 1.f}), var = torch::tensor({1.f, 4.f});
  const torch::Tensor logits =
      at::batch_norm(at::linear(batch.input, weight, bias), {}, {}, mean, var, false, 0.1, 1e-5, false);
  const EvaluatedBatch evaluation = model->evaluate(batch);
  CHECK(torch::equal(evaluation.losses, at::cross_entropy_loss(logits, batch.target, {}, at::Reduction::None)));
  CHECK(torch::equal(evaluation.correct, logits.argmax(1).eq(batch.target).to(torch::kLong)));
  CHECK(torch::equal(model->named_buffers()["layer.norm.running_mean"], mean));
  CHECK(model->named_buffers()["layer.norm.num_batches_tracked"].item<int64_t>() == 0);
}

// The scores of two classes in three places: [n, 2, 3].
ProgramParts program_with_places() {
  ProgramParts parts = small_program();
  const auto unsqueezed = [](const char* of, int64_t dim, const char* name) {
    return call_of("torch.ops.aten.unsqueeze.default",
                   {{"self", tensor_argument(of)}, {"dim", object_of("as_int", dim)}}, name);
  };
  parts.nodes().push_back(unsqueezed("norm", 2, "classes"));
  parts.nodes().push_back(unsqueezed("x", 1, "places"));
  parts.nodes().push_back(call_of("torch.ops.aten.mul.Tensor",
                                  {{"self", tensor_argument("classes")}, {"other", tensor_argument("places")}}, "all"));
  parts.set_output("all");
  return parts;
}

// Evaluates the samples in mini-batches of 3, 3 and 1, as a job does.
struct EvaluatedSet {
  double loss = 0;  // the mean over predictions, or without any over samples
  int64_t correct = 0, predictions = 0;
  std::vector<double> columns{};  // their sums
};
EvaluatedSet evaluated(Exported& model, const torch::Tensor& input, const torch::Tensor& target) {
  EvaluatedSet all;
  for (int64_t first = 0; first < input.size(0); first += 3) {
    const int64_t samples = std::min<int64_t>(3, input.size(0) - first);
    MiniBatch batch;
    batch.fields = {input.narrow(0, first, samples), target.narrow(0, first, samples)};
    const EvaluatedBatch part = model.evaluate(batch);
    all.loss += part.losses.to(torch::kDouble).sum().item<double>();
    all.correct += part.correct.sum().item<int64_t>();
    all.predictions += part.counted.sum().item<int64_t>();
    all.columns.resize(part.columns.size());
    for (size_t c = 0; c < part.columns.size(); ++c) all.columns[c] += part.columns[c].sum().item<double>();
  }
  const double each = static_cast<double>(model.predictions_per_sample());
  all.loss /= each == 0 ? static_cast<double>(input.size(0)) : static_cast<double>(all.predictions) / each;
  return all;
}

struct EvaluationCase {
  spec::Loss loss;
  torch::Tensor target;
  program::ScalarType type;
  std::vector<int64_t> dims;
  int64_t predictions;  // of all samples
};

TEST_CASE("an evaluation's loss and accuracy are PyTorch's of all samples at once, whatever the target is") {
  torch::manual_seed(5);
  const int64_t samples = 7;
  const torch::Tensor input = torch::randn({samples, 3});
  const torch::Tensor some = torch::tensor({0, 1, -100, 1, -100, -100, 0}, torch::kLong);
  torch::Tensor places = torch::randint(2, {samples, 3}, torch::kLong);
  places[0].fill_(-100);
  places[4][1] = places[6][0] = -100;
  const torch::Tensor soft = torch::softmax(torch::randn({samples, 2}), 1);
  const torch::Tensor soft_places = torch::softmax(torch::randn({samples, 2, 3}), 1);
  const torch::Tensor smoothed = torch::randint(2, {samples, 2}, torch::kLong).to(torch::kFloat) * 0.9 + 0.05;
  using enum spec::Loss;
  using program::ScalarType;
  const EvaluationCase cases[] = {
      {cross_entropy, some, ScalarType::i64, {}, 4},
      {cross_entropy, some.to(torch::kChar), ScalarType::i8, {}, 4},
      {nll, some, ScalarType::i64, {}, 4},
      {cross_entropy, places, ScalarType::i64, {3}, 16},
      {nll, places, ScalarType::i64, {3}, 16},
      {cross_entropy, soft, ScalarType::f32, {2}, 7},
      {cross_entropy, soft.to(torch::kDouble), ScalarType::f64, {2}, 7},
      {cross_entropy, soft.to(torch::kHalf), ScalarType::f16, {2}, 7},
      {cross_entropy, soft_places, ScalarType::f32, {2, 3}, 21},
      {bce_with_logits, smoothed, ScalarType::f32, {2}, 14},
      {mse, soft, ScalarType::f32, {2}, 0},
  };
  for (const EvaluationCase& wanted : cases) {
    CAPTURE(static_cast<int>(wanted.loss));
    CAPTURE(static_cast<int>(wanted.type));
    CAPTURE(wanted.dims.size());
    const bool has_places = !wanted.dims.empty() && wanted.dims.back() == 3;
    spec::ModelSection model_section = section(wanted.loss);
    model_section.loss_target = "kind";
    const NamedShape shape{{{"x", ScalarType::f32, {3}}, {"kind", wanted.type, wanted.dims}}};
    const auto model = build(has_places ? program_with_places() : program_with_logits(), shape, model_section);
    const bool scores = wanted.loss == cross_entropy || wanted.loss == nll;
    if (scores) model->want_metrics({.top_k = {1}});
    const EvaluatedSet found = evaluated(*model, input, wanted.target);

    const auto named = model->named_parameters();
    const torch::NoGradGuard no_graph;
    torch::Tensor output =
        at::batch_norm(at::linear(input, named["layer.weight"], named["layer.bias"]), {}, {}, torch::tensor({0.f, 1.f}),
                       torch::tensor({1.f, 4.f}), false, 0.1, 1e-5, false);
    if (has_places) output = output.unsqueeze(2) * input.unsqueeze(1);
    const torch::Tensor target =
        scores && !wanted.target.is_floating_point() ? wanted.target.to(torch::kLong) : wanted.target.to(torch::kFloat);
    torch::Tensor loss, hits;
    if (wanted.loss == cross_entropy) loss = at::cross_entropy_loss(output, target);
    if (wanted.loss == nll) loss = at::nll_loss_nd(output, target);
    if (wanted.loss == mse) loss = at::mse_loss(output, target);
    if (wanted.loss == bce_with_logits) loss = at::binary_cross_entropy_with_logits(output, target);
    if (scores) hits = output.argmax(1).eq(target.is_floating_point() ? target.argmax(1) : target);
    if (wanted.loss == bce_with_logits) hits = output.gt(0).eq(target.gt(0.5));
    CHECK(found.loss == doctest::Approx(loss.item<double>()).epsilon(1e-5));
    CHECK(found.predictions == wanted.predictions);
    CHECK(found.correct == (hits.defined() ? hits.sum().item<int64_t>() : 0));
    if (scores) CHECK(found.columns == std::vector<double>{static_cast<double>(found.correct)});
  }
}

TEST_CASE("a loss of the program is evaluated by mini-batches, without an accuracy") {
  const auto model = build(small_program());
  const EvaluatedBatch evaluation = model->evaluate(some_batch());
  CHECK(model->predictions_per_sample() == 0);
  CHECK(evaluation.losses.size(0) == 4);
  CHECK(torch::equal(evaluation.losses[0], evaluation.losses[3]));
}

TEST_CASE("a target whose sizes do not fit the output is refused with both, and what to return") {
  const auto refusal = [](const ProgramParts& parts, spec::Loss loss, const torch::Tensor& target) {
    MiniBatch batch = some_batch();
    batch.target = target;
    const auto model = build(parts, kVectors, section(loss));
    const Error error = error_of([&] { model->loss(batch); });
    CHECK(error.fault() == Fault::spec);
    CHECK(error_of([&] { model->evaluate(batch); }).message() == error.message());
    return error.message() + "; " + error.advice();
  };
  const torch::Tensor classes = torch::zeros({4}, torch::kLong);
  for (const spec::Loss loss : {spec::Loss::mse, spec::Loss::bce_with_logits})
    CHECK(contains(refusal(program_with_logits(), loss, classes), "[4, 2], the target [4]; both must have the same"));
  CHECK(
      build(program_with_logits(), kVectors, section(spec::Loss::nll))->loss({some_batch().input, classes}).defined());
  CHECK(contains(refusal(program_with_logits(), spec::Loss::cross_entropy, torch::zeros({4, 2}, torch::kLong)),
                 "the target [4, 2]; probabilities of classes must not be of whole numbers; store them as float32"));
  CHECK(contains(refusal(program_with_logits(), spec::Loss::cross_entropy, torch::zeros({4})),
                 "the target [4]; a target that is not of whole numbers is the probabilities of all classes; store "
                 "classes as integers"));
  CHECK(contains(refusal(program_with_logits(), spec::Loss::nll, torch::zeros({4, 2})),
                 "the target [4, 2]; and it is not of whole numbers, as classes are; store the classes as integers"));
  CHECK(contains(refusal(program_with_logits(), spec::Loss::nll, torch::zeros({4, 2}, torch::kLong)),
                 "the target [4, 2]; the second dimension of the output must be that of the classes"));
  ProgramParts classes_last = program_with_logits();
  classes_last.nodes().push_back(call_of("torch.ops.aten.unsqueeze.default",
                                         {{"self", tensor_argument("norm")}, {"dim", object_of("as_int", 1)}}, "all"));
  classes_last.set_output("all");
  CHECK(contains(refusal(classes_last, spec::Loss::cross_entropy, torch::zeros({4, 1}, torch::kLong)),
                 "[4, 1, 2], the target [4, 1]; the second dimension of the output must be that of the classes; return "
                 "logits.transpose(1, -1)"));
}

TEST_CASE("what cannot be frozen is refused when it is evaluated, with the user's line") {
  ProgramParts parts = small_program();
  parts.nodes()[1] = call_of("torch.ops.aten.bernoulli.default", {{"input", tensor_argument("linear")}}, "dropout");
  parts.nodes()[1]["inputs"][0]["name"] = "self";
  const auto model = build(parts);
  const Error error = error_of([&] { model->evaluate(some_batch()); });
  CHECK(error_of([&] { model->require_evaluation(); }).message() == error.message());
  CHECK(error.fault() == Fault::spec);
  CHECK(contains(error.message(), "aten::bernoulli at net.py:7 draws random numbers"));
  CHECK(contains(error.advice(), "model.eval_file"));
}

TEST_CASE("an evaluation program has the trained weights, and must be of the same model") {
  ProgramParts parts = program_with_logits();
  parts.nodes()[1]["inputs"][2]["arg"] = object_of("as_bool", false);
  parts.nodes()[3]["inputs"][5]["arg"] = object_of("as_bool", false);
  parts.nodes().erase(parts.nodes().begin() + 2);
  const auto model = build(program_with_logits(), kVectors, section(spec::Loss::cross_entropy), parts.file());
  const float before = model->evaluate(some_batch()).losses.sum().item<float>();
  {
    const torch::NoGradGuard no_grad;
    model->named_parameters()["layer.weight"].mul_(3);
  }
  CHECK(model->evaluate(some_batch()).losses.sum().item<float>() != before);
  const auto refused = [&](const ProgramParts& evaluation) {
    return error_of(
               [&] { build(program_with_logits(), kVectors, section(spec::Loss::cross_entropy), evaluation.file()); })
        .message();
  };
  parts.add_stored("parameter", "more", "p_more", meta_of({1}, 7, true), raw<float>({1}));
  CHECK(contains(refused(parts), "net-eval.pt2: its more differs from that of net.pt2"));
  CHECK(contains(refused(program_with_logits()), "exported in train() mode"));
}

TEST_CASE("named arrays go to the inputs of their names, widened where that keeps every value") {
  ProgramParts parts = small_program();
  Json meta = meta_of({1}, 12);
  meta["sizes"][0] = object_of("as_expr", object_of("expr_str", "Symbol('s0', positive=True, integer=True)"));
  parts.add_input("keep", meta);
  parts.nodes().push_back(call_of("torch.ops.aten.any.default", {{"self", tensor_argument("keep")}}, "any"));
  parts.nodes().push_back(call_of("torch.ops.aten.mul.Tensor",
                                  {{"self", tensor_argument("mean")}, {"other", tensor_argument("any")}}, "all"));
  parts.set_output("all");
  using Field = NamedShape::NamedField;
  const auto shape = [](program::ScalarType type) {
    return NamedShape{{Field{"keep", type, {}}, Field{"other", program::ScalarType::i64, {}},
                       Field{"x", program::ScalarType::f32, {3}}}};
  };
  const auto model = build(parts, shape(program::ScalarType::u8));
  MiniBatch batch;
  batch.fields = {torch::zeros({4}, torch::kByte), torch::zeros({4}, torch::kLong), torch::randn({4, 3})};
  CHECK(model->loss(batch).item<float>() == 0);
  batch.fields[0] += 1;
  CHECK(model->loss(batch).item<float>() != 0);
  CHECK(contains(error_of([&] { build(parts, shape(program::ScalarType::f32)); }).message(),
                 "the program's input keep is bool, the array of that name is float32"));
  NamedShape without = shape(program::ScalarType::u8);
  without.fields.erase(without.fields.begin());
  CHECK(contains(error_of([&] { build(parts, without); }).message(),
                 "input keep is not an array of the data, which has"));
}

TEST_CASE("data of other shapes are refused with both shapes") {
  CHECK(contains(complaint([](ProgramParts&) {}, Fault::spec, VectorShape{4}),
                 "the program's input x is [s0, 3], a sample of the data is [batch, 4]"));
  CHECK(contains(complaint([](ProgramParts&) {}, Fault::spec, ImageShape{1, 3, 1}), "is [batch, 1, 3, 1]"));
  CHECK(contains(complaint([](ProgramParts&) {}, Fault::spec, TokenShape{3}),
                 "is float32, a sample of the data is int64"));
  const auto fixed = [](ProgramParts& p) { p.graph()["tensor_values"]["x"]["sizes"][0] = object_of("as_int", 8); };
  CHECK(contains(complaint(fixed, Fault::spec), "takes only mini-batches of 8 samples"));
}

TEST_CASE("a mini-batch outside of the program's range, or with one value per channel, is refused") {
  ProgramParts parts = small_program();
  parts.model["range_constraints"]["s0"] = {{"min_val", 4}, {"max_val", 6}};
  const auto model = build(parts);
  for (const int64_t samples : {3, 7}) {
    CAPTURE(samples);
    CHECK(contains(error_of([&] { model->loss(some_batch(samples)); }).message(), "mini-batches of 4 to 6 samples"));
  }
  CHECK(error_of([&] { build(small_program())->loss(some_batch(1)); }).fault() == Fault::spec);
}

TEST_CASE("files that cannot be trained from are refused by name") {
  CHECK(contains(complaint([](ProgramParts& p) { p.model["torch_version"] = "2.9.1"; }, Fault::mismatch),
                 "exported by torch 2.9.1; this estrain is built with LibTorch 2."));
  const auto nan = [](ProgramParts& p) { p.files["data/weights/weight_1"] = raw<float>({1, NAN}); };
  CHECK(contains(complaint(nan, Fault::corrupt), "parameter layer.bias holds nan at element 1"));
  const auto eval = [](ProgramParts& p) {
    p.nodes()[1]["inputs"][2]["arg"] = object_of("as_bool", false);
    p.nodes()[3]["inputs"][5]["arg"] = object_of("as_bool", false);
  };
  CHECK(contains(complaint(eval, Fault::spec), "exported in eval() mode"));
  ProgramParts marked = small_program();
  eval(marked);
  marked.more["extra/estrain.training"] = "yes";
  CHECK_NOTHROW(build(marked));
  const auto half = [](ProgramParts& p) { p.weights["config"]["layer.bias"]["tensor_meta"]["dtype"] = 6; };
  CHECK(contains(complaint(half, Fault::mismatch), "parameter layer.bias is float16"));
  const auto writes = [](ProgramParts& p) { p.nodes()[2]["inputs"][0]["arg"] = tensor_argument("p_bias"); };
  CHECK(contains(complaint(writes, Fault::mismatch), "writes to its parameter layer.bias"));
  const auto counts = [](ProgramParts& p) {
    p.add_constant("calls", "c_calls", meta_of({}), raw<float>({0}));
    p.nodes()[2]["inputs"][0]["arg"] = tensor_argument("c_calls");
  };
  CHECK(contains(complaint(counts, Fault::mismatch), "writes to its constant calls"));
  const auto name = [](ProgramParts& p) { p.model["graph_module"]["module_call_graph"][1]["fqn"] = "a..b"; };
  CHECK(contains(complaint(name, Fault::corrupt), "\"a..b\" is not the name of a module or tensor"));
}

TEST_CASE("operators and arguments that this LibTorch does not have are refused with the user's line") {
  const auto target = [](const char* word) { return [word](ProgramParts& p) { p.nodes()[0]["target"] = word; }; };
  CHECK(contains(complaint(target("torch.ops.aten.lineal.default"), Fault::mismatch),
                 "aten::lineal at layer (net.py:7): this LibTorch has no such operator"));
  CHECK(contains(complaint(target("torch.ops.mine.linear.default"), Fault::mismatch),
                 "a library other than PyTorch's ATen"));
  CHECK(contains(complaint(target("torch.ops.aten.from_file.default"), Fault::mismatch), "effects beyond tensors"));
  const auto named = [](const char* word) {
    return [word](ProgramParts& p) { p.nodes()[0]["inputs"][2]["name"] = word; };
  };
  CHECK(contains(complaint(named("bias2"), Fault::mismatch), "it has no argument bias2"));
  CHECK(contains(complaint(named("input"), Fault::mismatch), "its argument input is given twice"));
  const auto text = [](ProgramParts& p) { p.nodes()[1]["inputs"][1]["arg"] = object_of("as_string", "x"); };
  CHECK(contains(complaint(text, Fault::mismatch), "its argument p is of the wrong kind"));
}

TEST_CASE("what goes wrong in a call is told with its place") {
  ProgramParts parts = small_program();
  parts.nodes()[0]["inputs"][2]["arg"] = tensor_argument("x");
  const auto model = build(parts);
  const Error error = error_of([&] { model->loss(some_batch()); });
  CHECK(error.fault() == Fault::mismatch);
  CHECK(error.message().starts_with("aten::linear at layer (net.py:7): "));
  CHECK(current_block().empty());
}

// The names of the blocks that a training pass tells of.
std::vector<std::string> told_blocks(const ProgramParts& parts) {
  const auto model = build(parts);
  std::vector<std::string> names;
  const BlockWatch watch([&](std::string_view name, const torch::Tensor& activation) {
    names.emplace_back(name);
    return activation;
  });
  model->loss(some_batch());
  return names;
}

TEST_CASE("a watch is told of the blocks in training, and its leaves take the places of the activations") {
  const auto model = build(program_of_two_layers({}, "second"));
  const NamedTensors named = named_tensors(*model);
  const torch::Tensor first = named.parameters.at(0).second, second = named.parameters.at(2).second;
  REQUIRE(named.parameters[2].first == "layer.norm.weight");
  const MiniBatch batch = some_batch();
  model->loss(batch).backward();
  const torch::Tensor expected_first = first.grad().clone(), expected_second = second.grad().clone();
  first.mutable_grad().reset();
  second.mutable_grad().reset();

  std::vector<std::string> names;
  torch::Tensor end, begin, loss;
  {
    const BlockWatch watch([&](std::string_view name, const torch::Tensor& activation) {
      names.emplace_back(name);
      if (!activation.defined()) return activation;
      end = activation;
      begin = activation.detach().requires_grad_(true);
      return begin;
    });
    loss = model->loss(batch);
    CHECK(names == std::vector<std::string>{"layer", "layer.norm"});
    model->evaluate(batch);
    CHECK(names.size() == 2);
  }
  loss.backward();
  CHECK_FALSE(first.grad().defined());
  CHECK(torch::equal(second.grad(), expected_second));
  end.backward(begin.grad());
  CHECK(torch::equal(first.grad(), expected_first));
  model->loss(batch);
  CHECK(names.size() == 2);
}

TEST_CASE("blocks follow what the operators' schemas say of memory and random numbers") {
  const auto both = [](const char* target, const char* self, const char* other) {
    return call_of(target, {{"self", tensor_argument(self)}, {"other", tensor_argument(other)}}, "both");
  };
  const std::vector<std::string> two = {"layer", "layer.norm"}, one = {"layer"};
  CHECK(told_blocks(program_of_two_layers({both("torch.ops.aten.add.Tensor", "relu_", "second")}, "both")) == two);
  // Behind the cut, the sum would be written to the activation.
  CHECK(told_blocks(program_of_two_layers({both("torch.ops.aten.add_.Tensor", "relu_", "second")}, "both")) == one);

  for (const bool draws : {false, true}) {
    CAPTURE(draws);
    ProgramParts parts = program_of_two_layers({both("torch.ops.aten.mul.Tensor", "second", "x_sum")}, "both");
    ProgramParts small = small_program();
    Json dropout = small.nodes()[1], sum = small.nodes()[4];
    dropout["inputs"][0]["arg"] = tensor_argument("x");
    sum["inputs"][0]["arg"] = tensor_argument(draws ? "dropout" : "x");
    parts.nodes().insert(parts.nodes().begin(), sum);
    if (draws) parts.nodes().insert(parts.nodes().begin(), dropout);
    CHECK(told_blocks(parts) == (draws ? one : two));
  }
  // Batch norm's statistics and its count of mini-batches stay in their block; without parameters the norm is no block.
  CHECK(told_blocks(small_program()) == one);
}

TEST_CASE("a frozen parameter is registered as such") {
  ProgramParts parts = small_program();
  parts.weights["config"]["layer.bias"]["tensor_meta"]["requires_grad"] = false;
  const auto model = build(parts);
  CHECK_FALSE(model->named_parameters()["layer.bias"].requires_grad());
  model->loss(some_batch()).backward();
  CHECK_FALSE(model->named_parameters()["layer.bias"].grad().defined());
}

}  // namespace
}  // namespace estrain::model
