// The plain training loop that estrain is measured against: forward, backward, accumulate, torch::optim::SGD, on
// batches made in advance, in one process and with nothing else around it. Its environment has a
// worker's settings of malloc (bare_loop.py).
//
// usage: bare_loop CASE.json
// CASE: {"model": {"name", "layers", "heads", "width", "context"}, "shape": [channels, height, width] or [] for text,
//        "classes", "batch", "accumulate": mini-batches of a step}
// Prints a line when it is ready. Each line "WARM STEPS" on stdin runs so many steps, of which the last STEPS are
// timed, and prints their seconds. Ends with stdin.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/optim/sgd.h>

#include <iostream>

#include "core/base/clock.h"
#include "core/base/json/json.h"
#include "core/engine/model/zoo/build.h"

namespace estrain::model {
namespace {

constexpr int64_t kDistinctBatches = 8;

spec::ModelSection section_of(const Json& json) {
  spec::ModelSection section;
  section.name = json.at("name");
  section.layers = json.value("layers", section.layers);
  section.heads = json.value("heads", section.heads);
  section.width = json.value("width", section.width);
  section.context = json.value("context", section.context);
  return section;
}

DataShape shape_of(const std::vector<int64_t>& sizes, int64_t context) {
  if (sizes.empty()) return TokenShape{context};
  return ImageShape{sizes[0], sizes[1], sizes[2]};
}

MiniBatch random_batch(const Json& job, std::vector<int64_t> sizes, int64_t context) {
  const int64_t classes = job.at("classes"), size = job.at("batch");
  if (sizes.empty()) {
    const auto tokens = [&] { return torch::randint(classes, {size, context}, torch::kLong); };
    return {tokens(), tokens()};
  }
  sizes.insert(sizes.begin(), size);
  return {torch::randn(sizes), torch::randint(classes, {size}, torch::kLong)};
}

class Loop {
 public:
  explicit Loop(const Json& job)
      : accumulate_(job.at("accumulate")), model_(build(job)), optimizer_(model_->parameters(), options()) {
    const std::vector<int64_t> sizes = job.at("shape");
    for (int64_t i = 0; i < kDistinctBatches; ++i)
      batches_.push_back(random_batch(job, sizes, section_of(job.at("model")).context));
  }

  void run(int64_t steps) {
    for (int64_t i = 0; i < steps; ++i) step();
  }

 private:
  static std::shared_ptr<Model> build(const Json& job) {
    const spec::ModelSection section = section_of(job.at("model"));
    Initializer init = Initializer::draw(at::detail::createCPUGenerator(0));
    return build_model(section, 0.0, shape_of(job.at("shape"), section.context), job.at("classes"), init);
  }

  static torch::optim::SGDOptions options() { return torch::optim::SGDOptions(0.01).momentum(0.9); }

  void step() {
    optimizer_.zero_grad();
    for (int64_t i = 0; i < accumulate_; ++i) {
      torch::Tensor loss = model_->loss(batches_[next_++ % batches_.size()]);
      if (accumulate_ > 1) loss = loss / accumulate_;
      loss.backward();
      last_loss_ = loss.item<float>();
    }
    optimizer_.step();
  }

  const int64_t accumulate_;
  std::shared_ptr<Model> model_;
  torch::optim::SGD optimizer_;
  std::vector<MiniBatch> batches_;
  size_t next_ = 0;
  float last_loss_ = 0;
};

int serve(const std::string& text) {
  at::set_num_threads(1);
  at::set_num_interop_threads(1);
  Loop loop(parse_json(text, "case"));
  std::cout << "ready" << std::endl;
  for (int64_t warm, steps; std::cin >> warm >> steps;) {
    loop.run(warm);
    const int64_t begin = monotonic_ns();
    loop.run(steps);
    std::cout << seconds(monotonic_ns() - begin) << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace estrain::model

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: bare_loop CASE\n";
    return 2;
  }
  return estrain::model::serve(argv[1]);
}
