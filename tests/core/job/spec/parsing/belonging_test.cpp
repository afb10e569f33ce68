#include "core/job/spec/keys/closest.h"
#include "core/job/spec/keys/keys.h"
#include "tests/core/job/spec/spec_text.h"

namespace estrain::spec {
namespace {

TEST_CASE("keys of another model, optimizer, format or schedule") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {spec_text("mlp", "[optimizer]\nbetas = [0.9, 0.99]"),
       "job.toml:4:1: optimizer.betas: belongs to optimizer.name = \"adam\" or \"adamw\" or \"nadam\" or \"radam\" or "
       "\"lion\" or \"lamb\"; here it is \"sgd\""},
      {spec_text("mlp", "[optimizer]\nname = \"lion\"\neps = 0.1"),
       "job.toml:5:1: optimizer.eps: belongs to optimizer.name = \"adam\" or \"adamw\" or \"rmsprop\" or "
       "\"adagrad\" or \"nadam\" or \"radam\" or \"lamb\" or \"adafactor\" or \"muon\"; here it is \"lion\""},
      {spec_text("mlp",
                 "[optimizer]\nname = \"muon\"\n[[optimizer.groups]]\nmatch = [\"*\"]\nname = \"adamw\"\n"
                 "betas = [0.8, 0.9]\nmomentum = 0.9"),
       "job.toml:9:1: optimizer.groups: momentum: belongs to optimizer.name = " +
           quoted_list(find_key("optimizer.momentum")->conditions[0].values, " or ") + "; here it is \"adamw\""},
      {spec_text("mlp", "[optimizer]\nname = \"nadam\"\namsgrad = true"),
       "job.toml:5:1: optimizer.amsgrad: belongs to optimizer.name = \"adam\" or \"adamw\"; here it is \"nadam\""},
      {spec_text("mlp", "[[optimizer.groups]]\nmatch = [\"*\"]\neps = 0.9"),
       "job.toml:5:1: optimizer.groups: eps: belongs to optimizer.name = " +
           quoted_list(find_key("optimizer.eps")->conditions[0].values, " or ") + "; here it is \"sgd\""},
      {spec_text("mlp", "[optimizer]\nname = \"adamw\"\ndampening = 0.9"),
       "job.toml:5:1: optimizer.dampening: belongs to optimizer.name = \"sgd\"; here it is \"adamw\""},
      {spec_text("mlp", "[optimizer]\nname = \"adam\"\n[[optimizer.groups]]\nmatch = [\"*\"]\nmomentum = 0.9"),
       "job.toml:7:1: optimizer.groups: momentum: belongs to optimizer.name = " +
           quoted_list(find_key("optimizer.momentum")->conditions[0].values, " or ") + "; here it is \"adam\""},
      {spec_text("resnet18", "hidden = [3]"),
       "job.toml:3:1: model.hidden: belongs to model.name = \"mlp\"; here it is \"resnet18\""},
      {spec_text("lenet", "dropout = 0.5"),
       "job.toml:3:1: model.dropout: belongs to model.name = \"mlp\" or \"vgg11\" or \"vgg19\" or \"gpt\"; here it is "
       "\"lenet\""},
      {spec_text("mlp", "[data]\npath = \"/x\""),
       "job.toml:4:1: data.path: belongs to data.format = \"idx\" or \"cifar10\" or \"cifar100\" or \"text\" or "
       "\"hdf5\" or \"tokens\" or \"images\" or \"webdataset\" or \"voc\"; here it is \"synthetic\""},
      {spec_text("mlp", "[data]\nformat = \"cifar10\"\npath = \"/x\"\nsamples = 3"),
       "job.toml:6:1: data.samples: belongs to data.format = \"synthetic\"; here it is \"cifar10\""},
      {spec_text("gpt", "[data]\nformat = \"text\"\npath = \"/x\"\nflip = true"),
       "job.toml:6:1: data.flip: belongs to data.format = \"idx\" or \"cifar10\" or \"cifar100\" or \"hdf5\" or "
       "\"synthetic\" or \"images\" or \"webdataset\" or \"voc\"; here it is \"text\""},
      {spec_text("gpt", "[data]\nformat = \"text\"\npath = \"/x\"\ntest_path = \"/y\"\nholdout = 0.5"),
       "job.toml:7:1: data.holdout: cannot be given together with data.test_path; give one of the two"},
      {spec_text("mlp", "[schedule]\nname = \"cosine\"\ngamma = 0.5"),
       "job.toml:5:1: schedule.gamma: belongs to schedule.name = \"step\" or \"multistep\" or \"exponential\"; here it "
       "is "
       "\"cosine\""},
      {spec_text("mlp", "[schedule]\nname = \"cosine\"\ndecay = 5"),
       "job.toml:5:1: schedule.decay: belongs to schedule.name = \"wsd\"; here it is \"cosine\""},
      {spec_text("mlp", "[schedule]\nperiod = 5"),
       "job.toml:4:1: schedule.period: belongs to schedule.name = \"step\" or \"cosine\" or \"linear\" or "
       "\"polynomial\" or \"onecycle\" or \"restarts\" or \"inverse_sqrt\" or \"wsd\"; here it is "
       "\"constant\""},
  };
  for (const auto& [text, expected] : cases) CHECK(complaint(text) == expected);
}

TEST_CASE("a wrong name is not held against the keys that belong to it") {
  CHECK(complaint(spec_text("mlp", "[optimizer]\nname = \"adamm\"\nbetas = [0.9, 0.99]")) ==
        "job.toml:4:8: optimizer.name: unknown value \"adamm\"; did you mean \"adam\"?");
  CHECK(complaint(spec_text("gtp", "[data]\nformat = \"text\"\npath = \"/x\"")) ==
        "job.toml:2:8: model.name: unknown value \"gtp\"; did you mean \"gpt\"?");
  CHECK(complaint(spec_text("lenet", "[data]\nformat = \"hdf\"\npath = \"/x\"\nmean = [0.5]\nstd = [1]")) ==
        "job.toml:4:10: data.format: unknown value \"hdf\"; did you mean \"hdf5\"?");
}

}  // namespace
}  // namespace estrain::spec
