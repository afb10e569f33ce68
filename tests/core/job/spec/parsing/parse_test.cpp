#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/core/job/spec/spec_text.h"

namespace estrain::spec {
namespace {

namespace fs = std::filesystem;

TEST_CASE("a smallest spec has the defaults of JobSpec") {
  JobSpec expected;
  expected.model.name = "mlp";
  expected.train.steps = 1;
  CHECK(parse_text(smallest, "job.toml") == expected);
}

TEST_CASE("every kind of value arrives") {
  const JobSpec spec = parse_text(
      "[job]\nname = \"a b\"\nseed = 9000000000\nests = 8\ndeterminism = \"D0\"\nthreads = 2\n"
      "precision = \"bf16\"\nalgorithms = \"torch\"\ncuda_graphs = \"auto\"\nexchange = \"host\"\nstate = \"host\"\n"
      "[model]\nname = \"resnet18\"\nclasses = 7\ninit = \"/w.h5\"\n"
      "[data]\nformat = \"hdf5\"\npath = \"/d.h5\"\nbatch = 4\nshuffle = false\nflip = true\nchannels = 3\n"
      "mean = [0.5, 1, 0]\nstd = [1, 2, 3]\ncrop = [8, 9]\n"
      "[optimizer]\nlr = 1\nmomentum = 0.9\nnesterov = true\n"
      "[[optimizer.groups]]\nmatch = [\"*.bias\", \"bn*\"]\nweight_decay = 0\n"
      "[[optimizer.groups]]\nmatch = [\"fc.*\"]\nlr = 0.5\nmomentum = 0\n"
      "[schedule]\nname = \"linear\"\nunit = \"step\"\nstart_factor = 0.25\n"
      "[train]\nepochs = 3\neval_every = \"never\"\n"
      "[resources]\ndevices = 3\n",
      "job.toml");
  JobSpec expected;
  expected.job = {"a b",           9000000000,        8,
                  Determinism::d0, Kernels::torch,    2,
                  Precision::bf16, Algorithms::torch, CudaGraphs::automatic,
                  Exchange::host,  StateMemory::host};
  expected.model.name = "resnet18";
  expected.model.classes = 7;
  expected.model.init = "/w.h5";
  expected.data.format = DataFormat::hdf5;
  expected.data.path = "/d.h5";
  expected.data.batch = 4;
  expected.data.shuffle = false;
  expected.data.flip = true;
  expected.data.channels = 3;
  expected.data.mean = {0.5, 1, 0};
  expected.data.std = {1, 2, 3};
  expected.data.crop = {8, 9};
  expected.optimizer.lr = 1;
  expected.optimizer.momentum = 0.9;
  expected.optimizer.nesterov = true;
  expected.optimizer.groups = {{{"*.bias", "bn*"}, std::nullopt, 0, std::nullopt}, {{"fc.*"}, 0.5, std::nullopt, 0}};
  expected.schedule.name = ScheduleKind::linear;
  expected.schedule.unit = ScheduleUnit::step;
  expected.schedule.start_factor = 0.25;
  expected.train.epochs = 3;
  expected.train.eval_every = -1;
  expected.resources.devices = "3";
  CHECK(spec == expected);
  CHECK(parse_with("eval_every = \"epoch\"").train.eval_every == 0);
  CHECK(parse_with("eval_every = 20").train.eval_every == 20);
  CHECK(parse_with("[resources]\ndevices = \"cpu,cpu:avx2\"").resources.devices == "cpu,cpu:avx2");
}

TEST_CASE("unknown names: exact place and what was meant") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[data]\n\nbtach = 3", "job.toml:7:1: data.btach: unknown key; did you mean \"data.batch\"?"},
      {"[data]\n  Batch = 3", "job.toml:6:3: data.Batch: unknown key; did you mean \"data.batch\"?"},
      {"batch = 3", "job.toml:5:1: train.batch: unknown key; did you mean \"data.batch\"?"},
      {"[data]\nbatch_size = 3", "job.toml:6:1: data.batch_size: unknown key; did you mean \"data.batch\"?"},
      {"[logging]\nfoo = 3",
       "job.toml:6:1: logging.foo: unknown key; logging has \"every_seconds\", \"fingerprints\", \"trace\", "
       "\"tensorboard\", "
       "\"openmetrics\""},
      {"[optimiser]\nlr = 3", "job.toml:5:2: optimiser: unknown table; did you mean \"optimizer\"?"},
      {"[[optimizer.groups]]\nmatch = [\"a\"]\nweight_deacy = 1",
       "job.toml:7:1: optimizer.groups: weight_deacy: unknown key; did you mean \"weight_decay\"?"},
      {"[[optimizer.groups]]\nmatch = [\"a\"]\nalpha = 1",
       "job.toml:7:1: optimizer.groups: alpha: unknown key; a group has \"match\", \"name\", \"lr\", \"weight_decay\", "
       "\"momentum\", \"betas\", \"eps\""},
      {"[optimizer]\nname = \"lion\"\n[[optimizer.groups]]\nmatch = [\"a\"]\nbetas = [0.5]",
       "job.toml:9:9: optimizer.groups: betas: must have 2 elements, found 1"},
      {"[elastic]\nbatch = \"adaptive\"\nchanges = [{ after = 3, batsh = 1 }]",
       "job.toml:7:12: elastic.changes: batch: missing\n"
       "job.toml:7:25: elastic.changes: batsh: unknown key; did you mean \"batch\"?"},
      {"[job]\ndeterminism = \"d1\"", "job.toml:6:15: job.determinism: unknown value \"d1\"; did you mean \"D1\"?"},
      {"[data]\nformat = \"cifar\"",
       "job.toml:6:10: data.format: unknown value \"cifar\"; known are \"idx\", \"cifar10\", "
       "\"cifar100\", \"text\", \"hdf5\", \"synthetic\", \"tokens\", \"images\", \"webdataset\", "
       "\"voc\", \"python\""},
      {"[optimizer]\nname = \"adma\"", "job.toml:6:8: optimizer.name: unknown value \"adma\"; did you mean \"adam\"?"},
      {"eval_every = \"epochs\"", "job.toml:5:14: train.eval_every: unknown value \"epochs\"; did you mean \"epoch\"?"},
  };
  for (const auto& [extra, expected] : cases) CHECK(complaint_with(extra) == expected);
  CHECK(complaint("batch = 3\n" + smallest) == "job.toml:1:1: batch: unknown key; did you mean \"data.batch\"?");
  CHECK(complaint("zzz = 3\n" + smallest).find("zzz: unknown key outside all tables; tables are \"job\"") !=
        std::string::npos);
  CHECK(complaint("[model]\nname = \"resnet8\"\n[train]\nsteps = 1") ==
        "job.toml:2:8: model.name: unknown value \"resnet8\"; did you mean \"resnet18\"?");
  CHECK(complaint_with("[zzzzz]\n").find("unknown table; known are \"job\", \"model\"") != std::string::npos);
}

TEST_CASE("wrong types") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[data]\nbatch = \"16\"", "job.toml:6:9: data.batch: expected an integer, found the string \"16\""},
      {"[data]\nbatch = 2.0", "job.toml:6:9: data.batch: expected an integer, found the number 2.0"},
      {"[data]\nshuffle = 1", "job.toml:6:11: data.shuffle: expected true or false, found the integer 1"},
      {"[optimizer]\nlr = \"big\"", "job.toml:6:6: optimizer.lr: expected a number, found the string \"big\""},
      {"[optimizer]\nlr = nan", "job.toml:6:6: optimizer.lr: expected a finite number, found the number nan"},
      {"[job]\nname = 3", "job.toml:6:8: job.name: expected a string, found the integer 3"},
      {"[job]\nkernels = true",
       "job.toml:6:11: job.kernels: expected one of \"torch\", \"portable\", found the boolean true"},
      {"[data]\nshape = 3", "job.toml:6:9: data.shape: expected an array of integers, found the integer 3"},
      {"[data]\nshape = [3,\n \"a\", 2]", "job.toml:7:2: data.shape: expected an integer, found the string \"a\""},
      {"[data]\nbatch = {}", "job.toml:6:9: data.batch: expected an integer, found a table"},
      {"[resources]\ndevices = 1.5",
       "job.toml:6:11: resources.devices: expected a string or an integer, found the number 1.5"},
      {"eval_every = 2020-01-01",
       "job.toml:5:14: train.eval_every: expected an integer or \"epoch\" or \"never\", found a date or time"},
      {"[optimizer]\ngroups = [3]", "job.toml:6:11: optimizer.groups: expected a table, found the integer 3"},
      {"[[optimizer.groups]]\nmatch = \"x\"",
       "job.toml:6:9: optimizer.groups: match: expected an array of strings, found the string \"x\""},
      {"[[optimizer.groups]]\nlr = 0.5", "job.toml:5:1: optimizer.groups: match: missing"},
  };
  for (const auto& [extra, expected] : cases) CHECK(complaint_with(extra) == expected);
  CHECK(complaint("data = 3\n" + smallest) == "job.toml:1:8: data: expected a table, found the integer 3");
  CHECK(complaint("train = 3\n[model]\nname = \"mlp\"") ==
        "job.toml:1:9: train: expected a table, found the integer 3");
}

TEST_CASE("values out of range") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[job]\nests = 0", "job.toml:6:8: job.ests: must be in [1, 65536], found 0"},
      {"[job]\nseed = -1", "job.toml:6:8: job.seed: must be in [0, 4611686018427387904], found -1"},
      {"[job]\nseed = 4611686018427387905",
       "job.toml:6:8: job.seed: must be in [0, 4611686018427387904], found 4611686018427387905"},
      {"[data]\nbatch = 0", "job.toml:6:9: data.batch: must be in [1, 1000000000], found 0"},
      {"[model2]\n[data]\nstd = [1, 0]\nmean = [0, 0]",
       "job.toml:5:2: model2: unknown table; did you mean \"model\"?\n"
       "job.toml:7:11: data.std: must be > 0, found 0.0"},
      {"[optimizer]\nname = \"adam\"\nbetas = [0.9, 1.0]",
       "job.toml:7:15: optimizer.betas: must be in [0, 1), found 1.0"},
      {"[optimizer]\nname = \"adam\"\nbetas = [0.9]", "job.toml:7:9: optimizer.betas: must have 2 elements, found 1"},
      {"[data]\ncrop = [1, 2, 3]", "job.toml:6:8: data.crop: must have 0 or 2 elements, found 3"},
      {"[data]\nshape = [3, 32]", "job.toml:6:9: data.shape: must have 1 or 3 elements, found 2"},
      {"[data]\nchannels = 2", "job.toml:6:12: data.channels: must be 1 or 3, found 2"},
      {"label_smoothing = 1.0", "job.toml:5:19: train.label_smoothing: must be in [0, 1), found 1.0"},
      {"[schedule]\nname = \"linear\"\nstart_factor = 0",
       "job.toml:7:16: schedule.start_factor: must be in (0, 1], found 0.0"},
      {"[checkpoint]\nkeep = 0", "job.toml:6:8: checkpoint.keep: must be in [1, 1000000], found 0"},
      {"[resources]\ndevices = 0", "job.toml:6:11: resources.devices: must be >= 1, found 0"},
      {"[resources]\ndevices = \"\"", "job.toml:6:11: resources.devices: must not be empty"},
      {"[[optimizer.groups]]\nmatch = []", "job.toml:6:9: optimizer.groups: match: must not be empty"},
      {"[[optimizer.groups]]\nmatch = [\"\"]", "job.toml:6:10: optimizer.groups: match: must not be empty"},
  };
  for (const auto& [extra, expected] : cases) CHECK(complaint_with(extra) == expected);
  CHECK(parse_with("[job]\nseed = 4611686018427387904\nests = 65536").job.ests == 65536);
}

TEST_CASE("all mistakes are reported, in the order of the file, what has no place in it last") {
  CHECK(complaint("[data]\nbatch = 0\nbtach = 1\n[model]\nname = \"mlpp\"\n", {"job.ests=0", "job.sed=1"}) ==
        "job.toml:2:9: data.batch: must be in [1, 1000000000], found 0\n"
        "job.toml:3:1: data.btach: unknown key; did you mean \"data.batch\"?\n"
        "job.toml:5:8: model.name: unknown value \"mlpp\"; did you mean \"mlp\"?\n"
        "--set job.ests=0: job.ests: must be in [1, 65536], found 0\n"
        "--set job.sed=1: job.sed: unknown key; did you mean \"job.seed\"?\n"
        "job.toml: train.steps: missing; give train.steps or train.epochs");
}

TEST_CASE("what must be given") {
  CHECK(
      complaint("[train]\nsteps = 1\n") ==
      "job.toml: model.name: missing; one of \"mlp\", \"lenet\", \"resnet18\", \"resnet34\", \"resnet50\", \"vgg11\", "
      "\"vgg19\", \"gpt\", \"program\", \"python\"");
  CHECK(complaint("[model]\nname = \"mlp\"\n[train]\n") ==
        "job.toml:3:2: train.steps: missing; give train.steps or train.epochs");
  CHECK(complaint_with("epochs = 2") ==
        "job.toml:4:9: train.steps: cannot be given together with train.epochs; give one of the two");
}

TEST_CASE("text that is no TOML, files that are not there") {
  CHECK(error_of("[data\n").message().rfind("job.toml:1:", 0) == 0);
  CHECK(error_of("[data\n").fault() == Fault::spec);
  try {
    parse_file("/nowhere/job.toml");
    FAIL("a file that is not there was read");
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::spec);
    CHECK(error.message().find("/nowhere/job.toml") != std::string::npos);
  }
}

TEST_CASE("overrides") {
  const JobSpec spec =
      parse_with("[data]\nbatch = 8\n", {"data.batch=16", "job.name=x", "optimizer.name=adam", "data.batch=4",
                                         "optimizer.groups=[{ match = [\"*\"], lr = 1 }]"});
  CHECK(spec.data.batch == 4);
  CHECK(spec.job.name == "x");
  CHECK(spec.optimizer.name == OptimizerKind::adam);
  CHECK(spec.optimizer.groups.at(0).lr == 1.0);
  CHECK(complaint_with("", {"data.btach=16"}) ==
        "--set data.btach=16: data.btach: unknown key; did you mean \"data.batch\"?");
  CHECK(error_of(smallest, {"data.batch"}).fault() == Fault::usage);
  CHECK(complaint_with("", {"optimizer=adam"}) ==
        "--set optimizer=adam: optimizer: expected a table, found the string \"adam\"");
}

TEST_CASE("an override of the length replaces the file's") {
  const JobSpec by_epochs = parse_with("", {"train.epochs=2"});
  CHECK(by_epochs.train.epochs == 2);
  CHECK_FALSE(by_epochs.train.steps);
  CHECK(parse_text("[model]\nname = \"mlp\"\n[train]\nepochs = 1\n", "x", {"train.steps=7"}).train.steps == 7);
  CHECK(complaint_with("", {"train.epochs=2", "train.steps=3"}).find("cannot be given together") != std::string::npos);
}

TEST_CASE("relative paths start from the folder of the spec, those of overrides from the current one") {
  const fs::path folder = fs::temp_directory_path() / ("estrain-paths-" + std::to_string(::getpid()));
  fs::create_directories(folder / "configs");
  std::ofstream(folder / "configs/job.toml")
      << smallest << "[data]\nformat = \"hdf5\"\npath = \"../data/./a/../x.h5\"\ntest_path = \"/abs/../t\"\n";
  const JobSpec spec = parse_file(folder / "configs/job.toml", {"model.init=w.h5"});
  const fs::path real = fs::canonical(folder);
  CHECK(spec.data.path == (real / "data/a/../x.h5").string());
  CHECK(spec.data.test_path == "/abs/../t");
  CHECK(spec.model.init == (fs::current_path() / "w.h5").string());
  CHECK(parse_file(folder / "configs/job.toml", {"data.path=~/x"}).data.path == std::string(::getenv("HOME")) + "/x");
  fs::remove_all(folder);
}

TEST_CASE("D2 brings the portable kernels, and no others") {
  const auto kernels = [](const std::string& job) { return parse_with("[job]\n" + job).job.kernels; };
  CHECK(kernels("determinism = \"D2\"") == Kernels::portable);
  CHECK(kernels("determinism = \"D2\"\nkernels = \"portable\"") == Kernels::portable);
  CHECK(kernels("determinism = \"D1\"\nkernels = \"portable\"") == Kernels::portable);
  CHECK(kernels("determinism = \"D1\"") == Kernels::torch);
  CHECK(kernels("determinism = \"auto\"") == Kernels::torch);
  const auto contradiction = [&] { kernels("determinism = \"D2\"\nkernels = \"torch\""); };
  CHECK_THROWS_WITH_AS(contradiction(), doctest::Contains("job.kernels: D2 needs the portable kernels"), Error);
}

TEST_CASE("precision is fp32 unless the spec says otherwise, and nothing else with the portable kernels") {
  CHECK(parse_with("").job.precision == Precision::fp32);
  for (const std::string level : {"D0", "D1", "auto"}) {
    const std::string determinism = "[job]\ndeterminism = \"" + level + "\"\n";
    CHECK(parse_with(determinism + "precision = \"tf32\"").job.precision == Precision::tf32);
    CHECK(parse_with(determinism + "precision = \"bf16\"").job.precision == Precision::bf16);
  }
  CHECK(parse_with("[job]\ndeterminism = \"D2\"\nprecision = \"fp32\"").job.kernels == Kernels::portable);
  for (const std::string refused : {"determinism = \"D2\"", "kernels = \"portable\""}) {
    const std::string text = complaint_with("[job]\n" + refused + "\nprecision = \"bf16\"");
    CHECK(text.find("job.toml:7:13: job.precision: bf16 is LibTorch's arithmetic; the portable kernels") == 0);
  }
  const std::vector<std::string> overrides = {"job.precision=tf32", "job.determinism=D2"};
  CHECK(complaint(smallest, overrides).find("job.precision: tf32") != std::string::npos);
}

}  // namespace
}  // namespace estrain::spec
