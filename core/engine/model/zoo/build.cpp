#include "core/engine/model/zoo/build.h"

#include <array>

#include "core/engine/model/torch_error.h"
#include "core/engine/model/zoo/gpt.h"
#include "core/engine/model/zoo/resnet.h"
#include "core/engine/model/zoo/sequential.h"
#include "core/job/spec/keys/closest.h"

namespace estrain::model {
namespace {

struct Request {
  const spec::ModelSection& section;
  double label_smoothing;
  const DataShape& shape;
  int64_t classes;
  Initializer& init;
};

const ImageShape& image(const Request& request) { return std::get<ImageShape>(request.shape); }

int64_t features(const DataShape& shape) {
  if (const auto* vector = std::get_if<VectorShape>(&shape)) return vector->features;
  const auto& pixels = std::get<ImageShape>(shape);
  return pixels.channels * pixels.height * pixels.width;
}

std::shared_ptr<Model> make_mlp(const Request& r) {
  const MlpOptions options{.features = features(r.shape),
                           .hidden = r.section.hidden,
                           .classes = r.classes,
                           .dropout = r.section.dropout.value_or(0)};
  return std::make_shared<Mlp>(r.init, options, r.label_smoothing);
}

std::shared_ptr<Model> make_lenet(const Request& r) {
  return std::make_shared<LeNet>(r.init, image(r), r.classes, r.label_smoothing);
}

template <ResNetDepth depth>
std::shared_ptr<Model> make_resnet(const Request& r) {
  const ResNetOptions options{.depth = depth, .channels = image(r).channels, .classes = r.classes};
  return std::make_shared<ResNet>(r.init, options, r.label_smoothing);
}

template <VggDepth depth>
std::shared_ptr<Model> make_vgg(const Request& r) {
  const VggOptions options{
      .depth = depth, .channels = image(r).channels, .classes = r.classes, .dropout = r.section.dropout.value_or(0.5)};
  return std::make_shared<Vgg>(r.init, options, r.label_smoothing);
}

std::shared_ptr<Model> make_gpt(const Request& r) {
  const GptOptions options{.vocabulary = r.classes,
                           .context = r.section.context,
                           .layers = r.section.layers,
                           .heads = r.section.heads,
                           .width = r.section.width,
                           .dropout = r.section.dropout.value_or(0.1),
                           .tied = r.section.tied};
  return std::make_shared<Gpt>(r.init, options, r.label_smoothing);
}

enum class Takes { images, images_or_vectors, tokens };

struct ZooEntry {
  std::string_view name;
  Takes takes;
  int64_t smallest_image;  // pixels, height and width
  std::shared_ptr<Model> (*make)(const Request&);
};

constexpr std::array kZoo = {
    ZooEntry{"mlp", Takes::images_or_vectors, 1, make_mlp},
    ZooEntry{"lenet", Takes::images, LeNet::kSmallestImage, make_lenet},
    ZooEntry{"resnet18", Takes::images, 1, make_resnet<ResNetDepth::resnet18>},
    ZooEntry{"resnet34", Takes::images, 1, make_resnet<ResNetDepth::resnet34>},
    ZooEntry{"resnet50", Takes::images, 1, make_resnet<ResNetDepth::resnet50>},
    ZooEntry{"vgg11", Takes::images, Vgg::kSmallestImage, make_vgg<VggDepth::vgg11>},
    ZooEntry{"vgg19", Takes::images, Vgg::kSmallestImage, make_vgg<VggDepth::vgg19>},
    ZooEntry{"gpt", Takes::tokens, 0, make_gpt},
};

const ZooEntry& find(const std::string& name) {
  std::vector<std::string> names;
  for (const ZooEntry& entry : kZoo) {
    if (entry.name == name) return entry;
    names.emplace_back(entry.name);
  }
  const auto meant = spec::closest(name, names);
  throw Error::make(Fault::spec, "model.name: there is no model \"{}\"", name)
      .advise((meant ? fmt::format("did you mean \"{}\"? ", *meant) : "") + "models are " + spec::quoted_list(names));
}

std::string describe(const DataShape& shape) {
  if (const auto* tokens = std::get_if<TokenShape>(&shape)) {
    return fmt::format("sequences of {} tokens", tokens->context);
  }
  if (const auto* vector = std::get_if<VectorShape>(&shape)) return fmt::format("vectors of {}", vector->features);
  if (std::holds_alternative<NamedShape>(shape)) return "named arrays";
  const auto& pixels = std::get<ImageShape>(shape);
  return fmt::format("images of {} x {} pixels with {} channels", pixels.height, pixels.width, pixels.channels);
}

void check_kind_of_data(const ZooEntry& entry, const DataShape& shape) {
  const bool is_image = std::holds_alternative<ImageShape>(shape);
  const bool is_text = std::holds_alternative<TokenShape>(shape);
  if (entry.takes == Takes::tokens && !is_text) {
    throw Error::make(Fault::spec, "model.name: {} reads text, but the data are {}", entry.name, describe(shape))
        .advise("set data.format = \"text\", or choose a model for such data: mlp, or for images lenet or resnet18");
  }
  if (entry.takes != Takes::tokens && is_text) {
    throw Error::make(Fault::spec, "model.name: {} does not read text, but the data are {}", entry.name,
                      describe(shape))
        .advise("set model.name = \"gpt\"");
  }
  if (std::holds_alternative<NamedShape>(shape)) {
    throw Error::make(Fault::spec, "model.name: {} takes no named arrays", entry.name)
        .advise("such data are for model.name = \"program\"");
  }
  if (entry.takes == Takes::images && !is_image) {
    throw Error::make(Fault::spec, "model.name: {} takes images, but the data are {}", entry.name, describe(shape))
        .advise("set model.name = \"mlp\", or give data of [channels, height, width]");
  }
}

void check_image_size(const ZooEntry& entry, const ImageShape& pixels) {
  const int64_t smallest = entry.smallest_image;
  if (pixels.height >= smallest && pixels.width >= smallest) return;
  throw Error::make(Fault::spec, "model.name: {} takes images of {} x {} pixels or more, but the data are {}",
                    entry.name, smallest, smallest, describe(pixels))
      .advise(fmt::format("set data.resize = [{}, {}], or choose mlp or resnet18, which take images of any size",
                          smallest, smallest));
}

void check_gpt(const spec::ModelSection& section, const TokenShape& tokens) {
  if (section.layers < 1 || section.heads < 1 || section.width < 1) {
    throw Error::make(Fault::spec, "model: gpt with layers = {}, heads = {}, width = {}", section.layers, section.heads,
                      section.width)
        .advise("set each of them to 1 or more");
  }
  if (section.width % section.heads != 0) {
    throw Error::make(Fault::spec, "model.heads: {} heads do not divide a width of {}", section.heads, section.width)
        .advise("set model.width to a multiple of model.heads");
  }
  if (tokens.context < 1 || tokens.context > section.context) {
    throw Error::make(Fault::spec, "model.context: gpt takes sequences of 1 to {} tokens, but the data are {}",
                      section.context, describe(tokens))
        .advise(fmt::format("set model.context to {} or more", tokens.context));
  }
}

void check_mlp(const spec::ModelSection& section) {
  for (const int64_t width : section.hidden) {
    if (width < 1) throw Error::make(Fault::spec, "model.hidden: a layer of width {}", width).advise("use 1 or more");
  }
}

}  // namespace

void check_model(const spec::ModelSection& section, const DataShape& shape, int64_t classes) {
  const ZooEntry& entry = find(section.name);
  check_kind_of_data(entry, shape);
  if (classes < 1) {
    throw Error::make(Fault::spec, "model.classes: {} classes", classes).advise("set model.classes to 1 or more");
  }
  if (const auto* pixels = std::get_if<ImageShape>(&shape)) check_image_size(entry, *pixels);
  if (const auto* tokens = std::get_if<TokenShape>(&shape)) check_gpt(section, *tokens);
  if (entry.takes == Takes::images_or_vectors) check_mlp(section);
}

std::shared_ptr<Model> build_model(const spec::ModelSection& section, double label_smoothing, const DataShape& shape,
                                   int64_t classes, Initializer& init) {
  check_model(section, shape, classes);
  const Request request{section, label_smoothing, shape, classes, init};
  return with_context("build model " + section.name,
                      [&] { return translating_torch_errors([&] { return find(section.name).make(request); }); });
}

}  // namespace estrain::model
