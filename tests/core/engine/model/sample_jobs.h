#pragma once
// Small jobs for every model of the zoo.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>

#include <string>

#include "core/engine/model/zoo/build.h"

namespace estrain::model {

inline constexpr const char* kZooNames[] = {"mlp",      "lenet", "resnet18", "resnet34",
                                            "resnet50", "vgg11", "vgg19",    "gpt"};

inline spec::ModelSection section_of(const std::string& name) {
  spec::ModelSection section;
  section.name = name;
  return section;
}

inline DataShape shape_for(const std::string& name) {
  if (name == "gpt") return TokenShape{64};
  if (name == "mlp" || name == "lenet") return ImageShape{1, 28, 28};
  return ImageShape{3, 32, 32};
}

inline int64_t classes_for(const std::string& name) { return name == "gpt" ? 256 : 10; }

inline std::shared_ptr<Model> build_sample(const spec::ModelSection& section, Initializer init,
                                           double label_smoothing = 0) {
  at::set_num_threads(1);
  return build_model(section, label_smoothing, shape_for(section.name), classes_for(section.name), init);
}

inline Initializer seeded(uint64_t seed) { return Initializer::draw(at::detail::createCPUGenerator(seed)); }

// Draws two samples from torch's default generator, seeded by this function.
inline MiniBatch batch_for(const std::string& name) {
  torch::manual_seed(99);
  if (name == "gpt") return {torch::randint(256, {2, 64}), torch::randint(256, {2, 64})};
  const auto image = std::get<ImageShape>(shape_for(name));
  return {torch::randn({2, image.channels, image.height, image.width}), torch::randint(10, {2})};
}

}  // namespace estrain::model
