#include "core/job/spec/data_formats.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/formats/toml/literal.h"
#include "core/job/spec/enum_names.h"

namespace estrain::spec {
namespace {

constexpr const char* kGpt = R"(name = "gpt"
layers = 4
heads = 4
width = 128
context = 128             # tokens of a sequence; tokens are bytes
# dropout = 0.1
)";

constexpr const char* kTokenGpt = R"(name = "gpt"
layers = 4
heads = 4
width = 128
context = 128             # tokens of a sequence
classes = 50304           # the size of the vocabulary; GPT-2's has 50257 tokens
# dropout = 0.1
)";

constexpr const char* kLenet = R"(name = "lenet"            # or mlp, resnet18, resnet34, resnet50, vgg11, vgg19
)";

constexpr const char* kResnet = R"(name = "resnet18"         # or resnet34, resnet50, vgg11, vgg19, mlp, lenet
)";

constexpr const char* kProgram = R"(name = "program"          # yours: `estrain export` writes the files
file = "net.pt2"          # forward takes images, boxes and labels, and returns its loss
eval_file = "net-eval.pt2"
)";

constexpr const char* kImages =
    R"(# mean = [0.5]            # per channel, on the [0, 1] scale: subtracted from pixels …
# std = [0.25]            # … which are then divided by this
# pad = 4                 # augmentation: zero pixels on each side,
# crop = [32, 32]         # a random cut of this size,
# flip = false            # and mirroring left-right
)";

constexpr const char* kPhotos =
    R"(resize = [{}]            # evaluation: the shorter side; from its centre comes
crop = [{}, {}]         # the size that the model sees
scale = [0.08, 1.0]       # training: fraction of the area that is cut out at random and scaled to that size
flip = true               # and mirrored left-right
{}readers = 0               # 0: as many threads as decoding needs
)";

constexpr const char* kColours = "mean = [0.485, 0.456, 0.406]\nstd = [0.229, 0.224, 0.225]\n";
constexpr const char* kGreys = "channels = 1              # all images must be grey\nmean = [0.449]\nstd = [0.226]\n";

constexpr const char* kVoc =
    R"(list = "train"            # ImageSets/Main/train.txt
test_list = "val"
# names = ["cat", "dog"]  # the classes, if they are not VOC's twenty
# boxes = 56              # the most in a picture
resize = [{}, {}]       # what the model sees
flip = true               # mirrored left-right, boxes too
mean = [0.485, 0.456, 0.406]
std = [0.229, 0.224, 0.225]
readers = 0               # as many threads as it takes to decode
)";

constexpr const char* kPython =
    R"(# test_file = "data.py:evaluation"    # instead of holdout
readers = 2               # processes of a worker that read samples
)";

std::string image_keys(const DataSection& data) {
  std::string text;
  if (data.channels) text += fmt::format("channels = {}              # the grey channel, repeated\n", *data.channels);
  if (!data.resize.empty())
    text += fmt::format("resize = [{}, {}]         # the size that the model sees\n", data.resize[0], data.resize[1]);
  return text + kImages;
}

// Of the shorter side, evaluation shows the middle seven eighths.
std::string photo_keys(const DataSection& data) {
  const std::vector<int64_t> crop = data.crop.empty() ? std::vector<int64_t>{224, 224} : data.crop;
  const int64_t side = (std::max(crop[0], crop[1]) * 8 + 6) / 7;
  return fmt::format(kPhotos, side, crop[0], crop[1], data.channels == 1 ? kGreys : kColours);
}

std::string voc_keys(const DataSection& data) {
  const std::vector<int64_t> size = data.resize.empty() ? std::vector<int64_t>{416, 416} : data.resize;
  return fmt::format(kVoc, size[0], size[1]);
}

std::string python_keys(const DataSection&) { return kPython; }

std::string text_keys(const DataSection& data) {
  if (!data.test_path.empty()) return "";
  return "# holdout = 0.1           # last part of the text, kept for evaluation\n";
}

std::string token_keys(const DataSection& data) {
  return fmt::format("token_type = {}\n", toml::literal(to_string(data.token_type))) + text_keys(data);
}

constexpr DataFormatTraits kFormats[] = {
    {.format = DataFormat::idx, .name = "idx", .starter_model = kLenet, .starter_keys = image_keys},
    {.format = DataFormat::cifar10,
     .name = "cifar10",
     .shape = {3, 32, 32},
     .classes = 10,
     .starter_model = kResnet,
     .starter_keys = image_keys},
    {.format = DataFormat::cifar100,
     .name = "cifar100",
     .shape = {3, 32, 32},
     .classes = 100,
     .starter_model = kResnet,
     .starter_keys = image_keys},
    {.format = DataFormat::text,
     .name = "text",
     .samples = Samples::tokens,
     .has_test_path = true,
     .has_holdout = true,
     .classes = 256,
     .starter_model = kGpt,
     .starter_keys = text_keys},
    {.format = DataFormat::hdf5,
     .name = "hdf5",
     .has_test_path = true,
     .has_holdout = true,
     .starter_model = kResnet,
     .starter_keys = image_keys},
    {.format = DataFormat::synthetic,
     .name = "synthetic",
     .is_made = true,
     .starter_model = kResnet,
     .starter_keys = image_keys},
    {.format = DataFormat::tokens,
     .name = "tokens",
     .samples = Samples::tokens,
     .has_test_path = true,
     .has_holdout = true,
     .starter_model = kTokenGpt,
     .starter_keys = token_keys},
    {.format = DataFormat::images,
     .name = "images",
     .samples = Samples::photos,
     .has_test_path = true,
     .has_holdout = true,
     .starter_model = kResnet,
     .starter_keys = photo_keys},
    {.format = DataFormat::webdataset,
     .name = "webdataset",
     .samples = Samples::photos,
     .has_test_path = true,
     .has_holdout = true,
     .starter_model = kResnet,
     .starter_keys = photo_keys},
    {.format = DataFormat::voc,
     .name = "voc",
     .samples = Samples::photos,
     .has_test_path = true,
     .is_for_users_models = true,
     .starter_model = kProgram,
     .starter_keys = voc_keys},
    {.format = DataFormat::python,
     .name = "python",
     .samples = Samples::any,
     .is_code = true,
     .has_holdout = true,
     .starter_model = kResnet,
     .starter_keys = python_keys},
};

}  // namespace

std::span<const DataFormatTraits> data_formats() { return kFormats; }

const DataFormatTraits& traits_of(DataFormat format) {
  const auto* row = std::ranges::find(kFormats, format, &DataFormatTraits::format);
  if (row == std::end(kFormats)) throw Error(Fault::bug, "a data format without a row in the table of formats");
  return *row;
}

}  // namespace estrain::spec
