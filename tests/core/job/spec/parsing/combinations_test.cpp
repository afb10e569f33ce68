#include "tests/core/job/spec/spec_text.h"

namespace estrain::spec {
namespace {

TEST_CASE("tokens need a vocabulary") {
  const std::string tokens = "[data]\nformat = \"tokens\"\npath = \"/x\"";
  CHECK(complaint(spec_text("gpt", tokens)) ==
        "job.toml:4:10: data.format: tokens need model.classes, the size of the vocabulary: 50257 for GPT-2's");
  CHECK(parse_text(spec_text("gpt", "classes = 100\n" + tokens), "x").data.format == DataFormat::tokens);
  CHECK(complaint(spec_text("lenet", "classes = 100\n" + tokens)) ==
        "job.toml:2:8: model.name: lenet learns images: it cannot take data.format = \"tokens\"; use gpt for text");
}

TEST_CASE("images of different sizes: the keys must give one size") {
  const auto with = [](const std::string& keys) {
    return spec_text("resnet18", "[data]\nformat = \"images\"\npath = \"/x\"\n" + keys);
  };
  const auto about = [&](const std::string& keys) { return complaint(with(keys)); };
  const auto is_taken = [&](const std::string& keys) {
    return parse_text(with(keys), "x").data.format == DataFormat::images;
  };
  const std::string which =
      "the images have different sizes: set data.crop = [height, width], the size that the model sees";
  CHECK(about("") == "job.toml:4:10: data.format: " + which);
  CHECK(about("resize = [256]") == "job.toml:6:10: data.resize: " + which);
  CHECK(is_taken("resize = [64, 64]"));
  CHECK(is_taken("resize = [256]\ncrop = [224, 224]\nscale = [0.08, 1]"));
  CHECK(about("resize = [256]\ncrop = [257, 224]") ==
        "job.toml:7:8: data.crop: a crop of 257 x 224 is larger than the image of 256 x 256");
  CHECK(about("resize = [64, 64]\nscale = [0.5, 1]") ==
        "job.toml:7:9: data.scale: needs data.crop, the size to which the cut-out area is scaled");
  CHECK(about("crop = [8, 8]\nscale = [0.5, 0.1]") == "job.toml:7:9: data.scale: the least is more than the most");
  CHECK(about("crop = [8, 8]\nscale = [0.5, 1]\nratio = [2, 1]") ==
        "job.toml:8:9: data.ratio: the least is more than the most");
  CHECK(about("crop = [8, 8]\nratio = [1, 2]") ==
        "job.toml:7:9: data.ratio: belongs to data.scale, which is not given");
  CHECK(about("crop = [8, 8]\npad = 2") ==
        "job.toml:7:1: data.pad: belongs to data.format = \"idx\" or \"cifar10\" or \"cifar100\" or \"hdf5\" or "
        "\"synthetic\"; here it is \"images\"");
  CHECK(complaint(spec_text("resnet18", "[data]\nresize = [40]")) ==
        "job.toml:4:10: data.resize: one number, the shorter side, is for data.format \"images\", \"webdataset\" "
        "and \"voc\"; give [height, width]");
  CHECK(complaint(spec_text("resnet18", "[data]\nformat = \"voc\"\npath = \"/x\"\ncrop = [8, 8]")) ==
        "job.toml:2:8: model.name: resnet18 learns one class for an image: data.format = \"voc\" needs model.name = "
        "\"program\" or \"python\"");
}

TEST_CASE("jitter and operations change bytes, and mixed labels need a loss of probabilities") {
  CHECK(complaint(spec_text("resnet18", "[data]\njitter = [0.1, 0.1, 0.1, 0.6]")) ==
        "job.toml:4:10: data.jitter: the last number, of the hue, must be at most 0.5: half a circle");
  CHECK(complaint(spec_text("resnet18", "[data]\njitter = [0.1, 0.1, 0.1, 0.1]\nresize = [40, 40]"))
            .starts_with("job.toml:4:10: data.jitter: changes bytes, and data.resize makes other numbers of images"));
  CHECK(complaint(spec_text("resnet18", "[data]\njitter = [0.1]")).starts_with("job.toml:4:10: data.jitter: "));
  CHECK(complaint(spec_text("resnet18", "[data]\nrand_augment = [2, 9]\nresize = [40, 40]"))
            .starts_with("job.toml:4:16: data.rand_augment: changes bytes, and data.resize makes other numbers"));
  CHECK(complaint(spec_text("resnet18", "[data]\nrand_augment = [17, 9]")) ==
        "job.toml:4:16: data.rand_augment: the first number, of the operations, must be from 1 to 16; torchvision's "
        "RandAugment is [2, 9]");
  CHECK(complaint(spec_text("resnet18", "[data]\nrand_augment = [2, 31]")).find("must be in [0, 30]") !=
        std::string::npos);
  CHECK(complaint(spec_text("resnet18", "[data]\nrand_augment = [2]")).find("must have 0 or 2 elements") !=
        std::string::npos);
  CHECK(
      complaint(spec_text("resnet18", "[data]\nformat = \"voc\"\npath = \"/x\"\ncrop = [8, 8]\nrand_augment = [2, 9]"))
          .find("data.rand_augment: belongs to data.format") != std::string::npos);
  const auto with_loss = [](const std::string& loss) {
    return "[model]\nname = \"program\"\nfile = \"/x.pt2\"\nloss = \"" + loss +
           "\"\n[data]\nformat = \"images\"\npath = \"/x\"\ncrop = [8, 8]\nmixup = 0.2\n[train]\nsteps = 1\n";
  };
  CHECK(complaint(with_loss("output"))
            .find("data.mixup: makes probabilities of labels, for model.loss = \"cross_entropy\"") !=
        std::string::npos);
  CHECK(complaint(with_loss("nll")).find("here it is \"nll\"") != std::string::npos);
  CHECK(parse_text(with_loss("cross_entropy"), "x").data.mixup == 0.2);
  CHECK(complaint(spec_text("resnet18", "[data]\nformat = \"voc\"\npath = \"/x\"\ncrop = [8, 8]\ncutmix = 1"))
            .find("data.cutmix: belongs to data.format") != std::string::npos);
}

TEST_CASE("data in Python are a file and a name in the file, for every model") {
  const auto with = [](const std::string& model, const std::string& keys) {
    return spec_text(model, "[data]\nformat = \"python\"\n" + keys);
  };
  for (const char* model : {"mlp", "resnet18", "gpt"})
    CHECK(parse_text(with(model, "file = \"/a/data.py:train\"\nhang_seconds = 5"), "x").data.file ==
          "/a/data.py:train");
  CHECK(complaint(with("mlp", "")) ==
        "job.toml:4:10: data.format: data.format = \"python\" needs data.file = \"FILE.py:NAME\", a map-style Dataset");
  CHECK(complaint(with("mlp", "file = \"/a/data.py\"")) ==
        "job.toml:5:8: data.file: give a file and a name in the file: \"FILE.py:NAME\"");
  CHECK(complaint(with("mlp", "file = \"/a/data.py:train\"\ntest_file = \"/a/data.py:\"")) ==
        "job.toml:6:13: data.test_file: give a file and a name in the file: \"FILE.py:NAME\"");
  CHECK(complaint(with("mlp", "file = \"/a/data.py:train\"\nflip = true")) ==
        "job.toml:6:1: data.flip: belongs to data.format = \"idx\" or \"cifar10\" or \"cifar100\" or \"hdf5\" or "
        "\"synthetic\" or \"images\" or \"webdataset\" or \"voc\"; here it is \"python\"");
}

TEST_CASE("schedules that torch would not take, or that nothing would move") {
  CHECK(complaint(spec_text("mlp", "[schedule]\nname = \"multistep\"")) ==
        "job.toml:4:8: schedule.name: multistep needs schedule.milestones, such as [30, 80]");
  CHECK(complaint(spec_text("mlp", "[schedule]\nname = \"onecycle\"\nperiod = 10\npct_start = 0.1")) ==
        "job.toml:6:13: schedule.pct_start: a phase of the cycle would have length 0, and torch's OneCycleLR "
        "divides by it");
  CHECK(
      complaint(spec_text("mlp", "[schedule]\nname = \"onecycle\"\nperiod = 5\nthree_phase = true\npct_start = 0.6")) ==
      "job.toml:7:13: schedule.pct_start: a phase of the cycle would have length 0, and torch's OneCycleLR "
      "divides by it");
  CHECK(
      complaint(spec_text("mlp", "[schedule]\nname = \"onecycle\"\nwarmup = 5")) ==
      "job.toml:5:1: schedule.warmup: belongs to schedule.name = \"constant\" or \"step\" or \"multistep\" or "
      "\"cosine\" or \"linear\" or \"polynomial\" or \"exponential\" or \"restarts\" or \"inverse_sqrt\" or \"wsd\" or "
      "\"table\"; here it is \"onecycle\"");
  CHECK(complaint(spec_text("mlp", "[schedule]\nname = \"exponential\"")) ==
        "job.toml:4:8: schedule.name: exponential needs schedule.gamma, such as 0.95: the factor of every unit");
  const std::string plateau = "[schedule]\nname = \"plateau\"";
  CHECK(parse_with(plateau, {"train.eval_every=5"}).schedule.patience == 10);
  CHECK(complaint_with(plateau, {"train.eval_every=never"})
            .find("plateau depends on evaluations, but train.eval_every is \"never\"") != std::string::npos);
}

TEST_CASE("a table of rates that is none") {
  const auto complaint_about = [](const std::string& keys) {
    return complaint(spec_text("mlp", "[schedule]\nname = \"table\"\n" + keys));
  };
  CHECK(parse_with("[schedule]\nname = \"table\"\npoints = [0, 5]\nfactors = [1, 0.5]", {}).schedule.factors.size() ==
        2);
  CHECK(complaint_about("points = [0, 5]") ==
        "job.toml:5:10: schedule.points: table needs schedule.points and schedule.factors, such as [0, 1000, 5000] and "
        "[1.0, 0.1, 0.01]");
  CHECK(complaint_about("points = [0, 5]\nfactors = [1]") ==
        "job.toml:6:11: schedule.factors: 1 factors for 2 points; each point needs one");
  CHECK(complaint_about("points = [1, 5]\nfactors = [1, 2]") ==
        "job.toml:5:10: schedule.points: the first must be 0, where the schedule begins");
  CHECK(complaint_about("points = [0, 5, 5]\nfactors = [1, 2, 3]") ==
        "job.toml:5:10: schedule.points: each must be more than the one before it");
}

TEST_CASE("layers without a decay of their rates") {
  CHECK(complaint(spec_text("mlp", "[optimizer]\nlayers = [\"*\"]")) ==
        "job.toml:4:10: optimizer.layers: belongs to optimizer.layer_decay, which is 1: every layer has the same rate");
  CHECK(parse_with("[optimizer]\nlayers = [\"*\"]\nlayer_decay = 0.5", {}).optimizer.layer_decay == 0.5);
  CHECK(complaint(spec_text("mlp", "[optimizer]\nlayer_decay = 1.5")).find("must be in (0, 1]") != std::string::npos);
}

TEST_CASE("models and data that do not go together") {
  CHECK(complaint(spec_text("gpt", "")) ==
        "job.toml:2:8: model.name: gpt learns text: it needs data.format = \"text\", \"tokens\" or \"python\"");
  CHECK(complaint(spec_text("lenet", "[data]\nformat = \"text\"\npath = \"/x\"")) ==
        "job.toml:2:8: model.name: lenet learns images: it cannot take data.format = \"text\"; use gpt for text");
  CHECK(complaint(spec_text("gpt", "width = 65\n[data]\nformat = \"text\"\npath = \"/x\"")) ==
        "job.toml:3:9: model.width: width 65 is not a multiple of the 2 heads");
  CHECK(complaint(spec_text("gpt", "heads = 3\n[data]\nformat = \"text\"\npath = \"/x\"")) ==
        "job.toml:3:9: model.heads: width 64 is not a multiple of the 3 heads");
  CHECK(complaint(spec_text("lenet", "[data]\nshape = [7]")) ==
        "job.toml:4:9: data.shape: lenet needs images: [channels, height, width]");
  CHECK(complaint(spec_text("mlp", "classes = 9\n[data]\nformat = \"cifar10\"\npath = \"/x\"")) ==
        "job.toml:3:11: model.classes: must be at least the 10 classes of cifar10 data");
  CHECK(complaint(spec_text("gpt", "classes = 255\n[data]\nformat = \"text\"\npath = \"/x\"")) ==
        "job.toml:3:11: model.classes: must be at least the 256 classes of text data");
  CHECK(complaint(spec_text("mlp", "[job]\nname = \"a/b\"")) ==
        "job.toml:4:8: job.name: names a folder: it must not contain '/' or control characters, nor start with '.'");
  CHECK(parse_text(spec_text("mlp", "[data]\nshape = [7]"), "x").data.shape == std::vector<int64_t>{7});
  CHECK(
      parse_text(spec_text("mlp", "classes = 100\n[data]\nformat = \"cifar100\"\npath = \"/x\""), "x").model.classes ==
      100);
}

TEST_CASE("files of a data set") {
  CHECK(complaint(spec_text("mlp", "[data]\nformat = \"cifar10\"")) ==
        "job.toml:4:10: data.format: cifar10 data needs data.path");
  CHECK(complaint(spec_text("mlp", "[data]\nformat = \"hdf5\"\npath = \"\"")) ==
        "job.toml:5:8: data.path: hdf5 data needs data.path");
  CHECK(complaint(spec_text("mlp", "[data]\nformat = \"idx\"")) ==
        "job.toml:4:10: data.format: idx data needs data.path, or data.images and data.labels");
  CHECK(complaint(spec_text("mlp", "[data]\nformat = \"idx\"\npath = \"/x\"\nlabels = \"/y\"")) ==
        "job.toml:6:10: data.labels: cannot be given together with data.path; give one of the two");
  CHECK(complaint(spec_text("mlp", "[data]\nformat = \"idx\"\nimages = \"/y\"")) ==
        "job.toml:5:10: data.images: data.images and data.labels are needed together");
  CHECK(
      complaint(spec_text("mlp", "[data]\nformat = \"idx\"\nimages = \"/y\"\nlabels = \"/z\"\ntest_labels = \"/t\"")) ==
      "job.toml:7:15: data.test_labels: data.test_images and data.test_labels are needed together");
  CHECK(parse_text(spec_text("mlp", "[data]\nformat = \"idx\"\nimages = \"/y\"\nlabels = \"/z\""), "x").data.images ==
        "/y");
}

TEST_CASE("images and what is done to them") {
  CHECK(complaint_with("[data]\ncrop = [33, 32]") ==
        "job.toml:6:8: data.crop: a crop of 33 x 32 is larger than the image of 32 x 32");
  CHECK(complaint_with("[data]\ncrop = [32, 41]\npad = 4") ==
        "job.toml:6:8: data.crop: a crop of 32 x 41 is larger than the image of 40 x 40, padding included");
  CHECK(complaint_with("[data]\nformat = \"hdf5\"\npath = \"/x\"\nresize = [8, 9]\ncrop = [9, 8]") ==
        "job.toml:9:8: data.crop: a crop of 9 x 8 is larger than the image of 8 x 9");
  CHECK(parse_with("[data]\ncrop = [40, 40]\npad = 4").data.pad == 4);
  CHECK(parse_with("[data]\nformat = \"hdf5\"\npath = \"/x\"\ncrop = [900, 8]").data.crop[0] == 900);

  CHECK(complaint_with("[data]\nmean = [0.5, 0.5, 0.5]") ==
        "job.toml:6:8: data.mean: data.mean has 3 channels, data.std 0; both are needed");
  CHECK(complaint_with("[data]\nmean = [0.5]\nstd = [1]") == "job.toml:6:8: data.mean: 1 numbers for 3 channels");
  CHECK(complaint_with("[data]\nformat = \"idx\"\npath = \"/x\"\nchannels = 3\nmean = [0.5]\nstd = [1]") ==
        "job.toml:9:8: data.mean: 1 numbers for 3 channels");
  CHECK(parse_with("[data]\nformat = \"idx\"\npath = \"/x\"\nmean = [0.5]\nstd = [1]").data.std[0] == 1);
  CHECK(complaint_with("[data]\nchannels = 1") ==
        "job.toml:6:12: data.channels: the images have 3 channels; only a single one can be repeated");
  CHECK(parse_with("[data]\nshape = [1, 4, 4]\nchannels = 3").data.channels == 3);
  CHECK(complaint_with("[data]\nshape = [1000, 1001, 1000]") ==
        "job.toml:6:9: data.shape: a sample of more than 1000000000 numbers");
  CHECK(complaint_with("[data]\nshape = [12]\nflip = true") ==
        "job.toml:7:8: data.flip: needs images: data.shape = [channels, height, width]");
}

TEST_CASE("Nesterov's momentum as torch allows it") {
  const std::string text = "Nesterov's momentum needs optimizer.momentum > 0 and optimizer.dampening = 0";
  CHECK(complaint_with("[optimizer]\nnesterov = true") == "job.toml:6:12: optimizer.nesterov: " + text);
  CHECK(complaint_with("[optimizer]\nnesterov = true\nmomentum = 0.9\ndampening = 0.1") ==
        "job.toml:6:12: optimizer.nesterov: " + text);
  CHECK(parse_with("[optimizer]\nnesterov = true\nmomentum = 0.9").optimizer.nesterov == true);
  CHECK(parse_with("[optimizer]\nname = \"muon\"\nmomentum = 0").optimizer.momentum == 0);
}

TEST_CASE("a range of batches: in order, and only for batches that may change") {
  const auto with = [](const std::string& keys) { return spec_text("mlp", "[elastic]\n" + keys); };
  CHECK(complaint(with("batch = \"adaptive\"\nbatch_range = [8, 4]")) ==
        "job.toml:5:15: elastic.batch_range: the least is more than the most");
  CHECK(parse_text(with("batch = \"adaptive\"\nbatch_range = [4, 4]"), "x").elastic.batch_range.size() == 2);
  CHECK(complaint(with("batch_range = [4, 8]")) ==
        "job.toml:4:1: elastic.batch_range: belongs to elastic.batch = \"adaptive\"; here it is \"fixed\"");
}

}  // namespace
}  // namespace estrain::spec
