#include "core/engine/model/zoo/build.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "tests/core/engine/model/sample_jobs.h"

namespace estrain::model {
namespace {

// check_model's message and advice, or "" without an error.
std::string complaint(const spec::ModelSection& section, const DataShape& shape, int64_t classes = 10) {
  try {
    check_model(section, shape, classes);
    return "";
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::spec);
    CHECK_FALSE(error.advice().empty());
    return error.message() + " | " + error.advice();
  }
}

bool says(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

TEST_CASE("every model of the zoo passes its check") {
  for (const std::string name : kZooNames) CHECK(complaint(section_of(name), shape_for(name)) == "");
  CHECK(complaint(section_of("mlp"), VectorShape{20}) == "");
}

TEST_CASE("an unknown model is named, with the nearest one") {
  const std::string text = complaint(section_of("resnet81"), ImageShape{3, 32, 32});
  CHECK(says(text, "no model \"resnet81\""));
  CHECK(says(text, "did you mean \"resnet18\"?"));
  CHECK(says(complaint(section_of("transformer"), TokenShape{8}), "models are \"mlp\", \"lenet\""));
}

TEST_CASE("the smallest image that a model takes is the smallest it is said to take") {
  const auto forward = [](const std::string& name, int64_t pixels) {
    Initializer init = Initializer::skip();  // only sizes matter
    const auto model = build_model(section_of(name), 0, ImageShape{1, pixels, pixels}, 10, init);
    return model->forward(torch::zeros({2, 1, pixels, pixels}));
  };
  CHECK(forward("lenet", 16).size(1) == 10);
  CHECK(forward("resnet18", 1).size(1) == 10);
  CHECK(forward("vgg11", 32).size(1) == 10);
  CHECK(says(complaint(section_of("lenet"), ImageShape{1, 15, 28}), "takes images of 16 x 16 pixels or more"));
  CHECK(says(complaint(section_of("lenet"), ImageShape{1, 10, 10}), "set data.resize = [16, 16]"));
  CHECK(says(complaint(section_of("vgg11"), ImageShape{3, 8, 8}), "takes images of 32 x 32 pixels or more"));
  CHECK(says(complaint(section_of("vgg19"), ImageShape{3, 32, 31}), "32 x 31 pixels with 3 channels"));
}

TEST_CASE("a model is told from data that it cannot read") {
  CHECK(says(complaint(section_of("gpt"), ImageShape{3, 32, 32}), "gpt reads text"));
  CHECK(says(complaint(section_of("mlp"), TokenShape{64}), "set model.name = \"gpt\""));
  CHECK(says(complaint(section_of("resnet18"), VectorShape{20}), "the data are vectors of 20"));
}

TEST_CASE("sizes that make no model are refused") {
  auto gpt = section_of("gpt");
  gpt.heads = 3;
  CHECK(says(complaint(gpt, TokenShape{64}), "3 heads do not divide a width of 64"));
  CHECK(says(complaint(section_of("gpt"), TokenShape{65}), "set model.context to 65 or more"));
  gpt.heads = 0;
  CHECK(says(complaint(gpt, TokenShape{64}), "heads = 0"));
  auto mlp = section_of("mlp");
  mlp.hidden = {16, 0};
  CHECK(says(complaint(mlp, VectorShape{20}), "a layer of width 0"));
  CHECK(says(complaint(section_of("mlp"), VectorShape{20}, 0), "0 classes"));
}

TEST_CASE("a model that no memory holds is infeasible") {
  auto mlp = section_of("mlp");
  mlp.hidden = {int64_t{1} << 40};
  try {
    build_sample(mlp, Initializer::skip());
    FAIL("built");
  } catch (const Error& error) {
    INFO(error.message());
    CHECK(error.fault() == Fault::infeasible);
    CHECK(says(error.message(), "build model mlp: "));
  }
}

TEST_CASE("skipping leaves the generator untouched, drawing advances it") {
  at::Generator generator = at::detail::createCPUGenerator(5);
  const torch::Tensor before = generator.get_state();
  for (const std::string name : kZooNames) build_sample(section_of(name), Initializer::skip());
  CHECK(generator.get_state().equal(before));
  build_sample(section_of("lenet"), Initializer::draw(generator));
  CHECK_FALSE(generator.get_state().equal(before));
}

TEST_CASE("a tied head is listed once and named as an alias") {
  const auto tied = named_tensors(*build_sample(section_of("gpt"), Initializer::skip()));
  REQUIRE(tied.aliases.size() == 1);
  CHECK(tied.aliases[0].name == "head.weight");
  CHECK(tied.aliases[0].target == "token.weight");
  CHECK(tied.parameters.front().first == "token.weight");
  CHECK(tied.parameters.back().first == "norm.bias");

  auto section = section_of("gpt");
  section.tied = false;
  const auto untied = named_tensors(*build_sample(section, Initializer::skip()));
  CHECK(untied.aliases.empty());
  CHECK(untied.parameters.back().first == "head.weight");
  CHECK(untied.parameters.size() == tied.parameters.size() + 1);
}

TEST_CASE("dropout falls back on each model's default") {
  const auto draws = [](const std::string& name, std::optional<double> dropout) {
    auto section = section_of(name);
    section.dropout = dropout;
    const auto model = build_sample(section, seeded(1));
    const MiniBatch batch = batch_for(name);
    at::NoGradGuard no_grad;
    return !model->loss(batch).equal(model->loss(batch));
  };
  CHECK_FALSE(draws("mlp", std::nullopt));
  CHECK(draws("mlp", 0.5));
  CHECK(draws("gpt", std::nullopt));
  CHECK_FALSE(draws("gpt", 0.0));
}

TEST_CASE("blocks are the layers in order, and together the forward pass") {
  const auto model = build_sample(section_of("resnet18"), seeded(1));
  std::vector<std::string> names;
  for (const ModelBlock& block : model->blocks()) names.push_back(block.name);
  CHECK(names == std::vector<std::string>{"stem", "layer1.0", "layer1.1", "layer2.0", "layer2.1", "layer3.0",
                                          "layer3.1", "layer4.0", "layer4.1", "head"});
  model->eval();
  const MiniBatch batch = batch_for("resnet18");
  torch::Tensor x = batch.input;
  for (const ModelBlock& block : model->blocks()) x = block.forward(x);
  CHECK(x.equal(model->forward(batch.input)));
}

}  // namespace
}  // namespace estrain::model
