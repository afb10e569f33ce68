// Builds a model, trains it for two forward and backward passes, and writes every tensor on the way to a file, for
// model_bits.py to compare with PyTorch's.
//
// usage: model_dump CASE.json OUT
// CASE: {"model": {...}, "shape": [channels, height, width] or [features] or [], "classes", "batch", "seed",
//        "label_smoothing", "precision"}; an empty shape means text of model.context tokens.
// OUT: per tensor one line of JSON {"name", "dtype", "shape", "bytes"} and the raw bytes.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <fstream>
#include <iostream>
#include <sstream>

#include "core/base/json/json.h"
#include "core/engine/model/zoo/build.h"
#include "core/job/spec/enum_names.h"

namespace estrain::model {
namespace {

class Dump {
 public:
  explicit Dump(const std::string& path) : out_(path, std::ios::binary) {}

  void write(const std::string& name, const torch::Tensor& tensor) {
    const torch::Tensor plain = tensor.detach().contiguous();
    const Json header = {{"name", name},
                         {"dtype", std::string(c10::toString(plain.scalar_type()))},
                         {"shape", plain.sizes().vec()},
                         {"bytes", plain.nbytes()}};
    out_ << header.dump() << '\n';
    out_.write(static_cast<const char*>(plain.data_ptr()), static_cast<std::streamsize>(plain.nbytes()));
  }

 private:
  std::ofstream out_;
};

spec::ModelSection section_of(const Json& json) {
  spec::ModelSection section;
  section.name = json.at("name");
  section.hidden = json.value("hidden", section.hidden);
  if (json.contains("dropout")) section.dropout = json.at("dropout").get<double>();
  section.layers = json.value("layers", section.layers);
  section.heads = json.value("heads", section.heads);
  section.width = json.value("width", section.width);
  section.context = json.value("context", section.context);
  section.tied = json.value("tied", section.tied);
  return section;
}

DataShape shape_of(const std::vector<int64_t>& sizes, int64_t context) {
  if (sizes.empty()) return TokenShape{context};
  if (sizes.size() == 1) return VectorShape{sizes[0]};
  return ImageShape{sizes[0], sizes[1], sizes[2]};
}

MiniBatch batch_of(const Json& json, std::vector<int64_t> sizes, int64_t context) {
  const int64_t n = json.at("batch");
  const int64_t classes = json.at("classes");
  if (sizes.empty()) return {torch::randint(classes, {n, context}), torch::randint(classes, {n, context})};
  sizes.insert(sizes.begin(), n);
  return {torch::randn(sizes), torch::randint(classes, {n})};
}

void write_all(Dump& dump, const std::string& prefix,
               const std::vector<std::pair<std::string, torch::Tensor>>& tensors) {
  for (const auto& [name, tensor] : tensors) dump.write(prefix + "/" + name, tensor);
}

void write_gradients(Dump& dump, const std::string& prefix, const NamedTensors& tensors) {
  for (const auto& [name, parameter] : tensors.parameters) dump.write(prefix + "/" + name, parameter.grad());
}

void run(const Json& json, Dump& dump) {
  at::set_num_threads(1);
  const spec::ModelSection section = section_of(json.at("model"));
  const auto sizes = json.at("shape").get<std::vector<int64_t>>();
  const uint64_t seed = json.at("seed");
  Initializer init = Initializer::draw(at::detail::createCPUGenerator(seed));
  const auto model =
      build_model(section, json.at("label_smoothing"), shape_of(sizes, section.context), json.at("classes"), init);
  model->set_precision(spec::from_string<spec::Precision>(json.at("precision").get<std::string>()).value());
  const NamedTensors tensors = named_tensors(*model);
  write_all(dump, "parameter", tensors.parameters);
  write_all(dump, "buffer", tensors.buffers);
  for (const auto& alias : tensors.aliases) dump.write("alias/" + alias.name + "=" + alias.target, torch::zeros({0}));

  torch::manual_seed(seed + 1);
  for (const std::string pass : {"1", "2"}) {
    const MiniBatch batch = batch_of(json, sizes, section.context);
    dump.write("input" + pass, batch.input);
    dump.write("target" + pass, batch.target);
    for (const auto& [name, parameter] : tensors.parameters) parameter.mutable_grad().reset();
    const torch::Tensor loss = model->loss(batch);
    loss.backward();
    dump.write("loss" + pass, loss);
    write_gradients(dump, "gradient" + pass, tensors);
    write_all(dump, "buffer" + pass, tensors.buffers);
    dump.write("generator" + pass, at::globalContext().defaultGenerator(at::kCPU).get_state());
  }
  const MiniBatch batch = batch_of(json, sizes, section.context);
  const EvaluatedBatch evaluation = model->evaluate(batch);
  dump.write("input_evaluation", batch.input);
  dump.write("target_evaluation", batch.target);
  dump.write("evaluation/losses", evaluation.losses);
  dump.write("evaluation/correct", evaluation.correct);
}

}  // namespace
}  // namespace estrain::model

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::cerr << "usage: model_dump CASE.json OUT\n";
    return 2;
  }
  std::ostringstream text;
  text << std::ifstream(argv[1]).rdbuf();
  estrain::model::Dump dump(argv[2]);
  estrain::model::run(estrain::parse_json(text.str(), argv[1]), dump);
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
