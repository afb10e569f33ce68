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

std::string data_of(const DataSection& data) {
  std::string text =
      fmt::format("format = {}\npath = {}\n", toml::literal(to_string(data.format)), toml::literal(data.path));
  if (!data.test_path.empty()) text += fmt::format("test_path = {}\n", toml::literal(data.test_path));
  return text + "batch = 8                 # samples per EST: a step takes 4 x 8\n" +
         traits_of(data.format).starter_keys(data);
}

}  // namespace

std::string starter_spec(const std::string& name, const DataSection& data) {
  const DataFormatTraits& format = traits_of(data.format);
  return fmt::format(
      "# A job spec for estrain. `estrain check` tries it, `estrain train` runs it, `estrain train --keys` lists all "
      "keys.\n"
      "[job]\nname = {}\nests = 4                  # logical ranks, fixed for life: the job runs on 1 to 4 workers\n"
      "seed = 0\n# determinism = \"D2\"      # the same bits on any mix of kinds of devices\n\n"
      "[model]\n{}\n[data]\n{}\n[optimizer]\n{}{}",
      toml::literal(name), format.starter_model, data_of(data), format.samples == Samples::tokens ? kAdamw : kSgd,
      kRest);
}

}  // namespace estrain::spec
