#include "core/job/spec/starter.h"

#include <fmt/format.h>

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

constexpr const char* kProgram = R"(name = "program"          # yours: examples/export/export.py writes the files
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
    R"(resize = [256]            # evaluation: the shorter side; from its centre comes
crop = [224, 224]         # the size that the model sees
scale = [0.08, 1.0]       # training: fraction of the area that is cut out at random and scaled to that size
flip = true               # and mirrored left-right
mean = [0.485, 0.456, 0.406]
std = [0.229, 0.224, 0.225]
readers = 0               # 0: as many threads as decoding needs
)";

constexpr const char* kVoc =
    R"(list = "train"            # ImageSets/Main/train.txt
test_list = "val"
# names = ["cat", "dog"]  # the classes, if they are not VOC's twenty
# boxes = 56              # the most in a picture
resize = [416, 416]       # what the model sees
flip = true               # mirrored left-right, boxes too
mean = [0.485, 0.456, 0.406]
std = [0.229, 0.224, 0.225]
readers = 0               # as many threads as it takes to decode
)";

constexpr const char* kSgd = R"(name = "sgd"              # or adam, adamw
lr = 0.05
momentum = 0.9
# weight_decay = 0.0005
)";

constexpr const char* kAdamw = R"(name = "adamw"            # or adam, sgd
lr = 0.001
weight_decay = 0.1
)";

constexpr const char* kRest = R"(
[schedule]
name = "constant"         # or step, cosine, linear
# unit = "step"
# warmup = 100            # units of linear warm-up

[train]
epochs = 3                # or: steps = 2000
# eval_every = "epoch"
# clip_grad_norm = 1.0

[checkpoint]
every = 500               # steps; a lost host loses at most these
# keep = 3

[resources]
devices = 2               # workers; `estrain train --devices` and `estrain resize` change them

# [elastic]
# mode = "auto"           # the job decides which devices from `estrain offer` to take
)";

bool has_tokens(const DataSection& data) {
  return data.format == DataFormat::text || data.format == DataFormat::tokens;
}

bool has_photos(const DataSection& data) {
  return data.format == DataFormat::images || data.format == DataFormat::webdataset || data.format == DataFormat::voc;
}

const char* model_of(const DataSection& data) {
  if (data.format == DataFormat::voc) return kProgram;
  if (has_tokens(data)) return data.format == DataFormat::tokens ? kTokenGpt : kGpt;
  return data.format == DataFormat::idx ? kLenet : kResnet;
}

std::string data_of(const DataSection& data) {
  std::string text =
      fmt::format("format = {}\npath = {}\n", toml::literal(to_string(data.format)), toml::literal(data.path));
  if (!data.test_path.empty()) text += fmt::format("test_path = {}\n", toml::literal(data.test_path));
  text += "batch = 8                 # samples per EST: a step takes 4 x 8\n";
  if (data.format == DataFormat::tokens)
    text += fmt::format("token_type = {}\n", toml::literal(to_string(data.token_type)));
  if (data.format == DataFormat::voc) return text + kVoc;
  if (has_photos(data)) return text + kPhotos;
  if (!has_tokens(data)) return text + kImages;
  return text +
         (data.test_path.empty() ? "# holdout = 0.1           # last part of the text, kept for evaluation\n" : "");
}

}  // namespace

std::string starter_spec(const std::string& name, const DataSection& data) {
  return fmt::format(
      "# A job spec for estrain. `estrain check` tries it, `estrain train` runs it, `estrain train --keys` lists all "
      "keys.\n"
      "[job]\nname = {}\nests = 4                  # logical ranks, fixed for life: the job runs on 1 to 4 workers\n"
      "seed = 0\n# determinism = \"D2\"      # the same bits on any mix of kinds of devices\n\n"
      "[model]\n{}\n[data]\n{}\n[optimizer]\n{}{}",
      toml::literal(name), model_of(data), data_of(data), has_tokens(data) ? kAdamw : kSgd, kRest);
}

}  // namespace estrain::spec
