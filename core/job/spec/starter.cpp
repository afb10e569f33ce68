#include "core/job/spec/starter.h"

#include <fmt/format.h>

#include "core/formats/toml/literal.h"
#include "core/job/spec/data_formats.h"
#include "core/job/spec/enum_names.h"

namespace estrain::spec {
namespace {

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

void add_key(std::string& text, const char* key, const std::string& value) {
  if (!value.empty()) text += fmt::format("{} = {}\n", key, toml::literal(value));
}

std::string data_of(const DataSection& data) {
  const DataFormatTraits& format = traits_of(data.format);
  std::string text = fmt::format("format = {}\n", toml::literal(to_string(data.format)));
  add_key(text, format.is_code ? "file" : "path", format.is_code ? data.file : data.path);
  add_key(text, "test_path", data.test_path);
  add_key(text, "python", data.python);
  if (!data.pad_values.empty())
    text += fmt::format("pad_values = [{}]    # fills the end of shorter samples: a target that does not count\n",
                        toml::literal(data.pad_values.front()));
  text += fmt::format("batch = {}                 # samples per EST: a step takes {} x {}\n", starter_batch,
                      starter_ests, starter_batch);
  if (data.drop_last) text += "drop_last = true          # the last mini-batch would have one sample\n";
  if (data.holdout)
    text += fmt::format("holdout = {}             # part of the samples that is kept for evaluation\n",
                        toml::literal(*data.holdout));
  return text + format.starter_keys(data);
}

std::string users_model(const ModelSection& model) {
  std::string text;
  add_key(text, "name", model.name);
  add_key(text, "file", model.file);
  add_key(text, "eval_file", model.eval_file);
  add_key(text, "python", model.python);
  text += fmt::format("loss = {}\n", toml::literal(to_string(model.loss)));
  add_key(text, "loss_target", model.loss_target);
  if (model.context != ModelSection{}.context) text += fmt::format("context = {}\n", model.context);
  return text;
}

std::string model_of(const Starter& starter) {
  const ModelSection& model = starter.model;
  const DataFormatTraits& format = traits_of(starter.data.format);
  if (model.is_users()) return users_model(model);
  if (model.name.empty() || (model.name == "gpt" && !format.is_code)) return format.starter_model;
  std::string text;
  add_key(text, "name", model.name);
  if (model.name == "gpt") text += fmt::format("layers = 4\nheads = 4\nwidth = 128\ncontext = {}\n", model.context);
  if (model.classes)
    text += fmt::format("classes = {}              # by the first samples: correct the number if there are more\n",
                        *model.classes);
  return text;
}

}  // namespace

std::string starter_spec(const Starter& starter) {
  const DataFormatTraits& format = traits_of(starter.data.format);
  const bool is_adamw = format.samples == Samples::tokens || starter.model.is_users() || starter.model.name == "gpt";
  return fmt::format(
      "# A job spec for estrain. `estrain check` tries it, `estrain train` runs it, `estrain train --keys` lists all "
      "keys.\n"
      "[job]\nname = {}\nests = {}                  # logical ranks, fixed for life: the job runs on 1 to 4 workers\n"
      "seed = 0\n# determinism = \"D2\"      # the same bits on any mix of kinds of devices\n\n"
      "[model]\n{}\n[data]\n{}\n[optimizer]\n{}{}",
      toml::literal(starter.name), starter_ests, model_of(starter), data_of(starter.data), is_adamw ? kAdamw : kSgd,
      kRest);
}

}  // namespace estrain::spec
