// `estrain init`: a spec for a data set or an example, ready to run.

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <filesystem>

#include "core/base/files/files.h"
#include "core/formats/h5/file.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"
#include "tests/written_images.h"

namespace estrain::testing {
namespace {

namespace fs = std::filesystem;

const std::string kFashion = "/usr/share/datasets/fashion-mnist";

TEST_CASE("init writes a spec for a folder of data that check accepts as it is") {
  const ScratchFolder folder;
  const std::string spec = folder / "job.toml";
  const Ended written = estrain({"init", kFashion, "--output", spec});
  INFO(written.shown());
  REQUIRE(written.code == 0);
  const std::string text = read_file(spec);
  CHECK(text.find("format = \"idx\"") != std::string::npos);
  CHECK(text.find("path = \"" + kFashion + "\"") != std::string::npos);
  const Ended checked = estrain({"check", spec, "--run", folder / "run"});
  INFO(checked.shown());
  CHECK(checked.code == 0);
}

TEST_CASE("init writes a spec for a text that trains") {
  const ScratchFolder folder;
  std::string verses;
  while (verses.size() < 20'000) verses += "In the beginning was the word, and the word was bits.\n";
  const std::string text = folder.write("verses.txt", verses);
  REQUIRE(estrain({"init", text, "--output", folder / "job.toml"}).code == 0);
  const Ended trained = estrain({"train", folder / "job.toml", "--run", folder / "run", "--devices", "1", "--set",
                                 "train.epochs=1", "--set", "model.width=16", "--set", "model.layers=1"});
  INFO(trained.shown());
  CHECK(trained.code == 0);
}

bool has_python() { return fs::exists(ESTRAIN_PEERS_PYTHON); }

// 44 JPEG files of different sizes in two classes.
std::string photos_in(const ScratchFolder& folder) {
  for (unsigned i = 0; i < 44; ++i) {
    const std::string place = folder / (i % 2 == 0 ? "photos/cat" : "photos/dog");
    fs::create_directories(place);
    const Picture picture = some_picture(20 + static_cast<int>(i % 7), 22 + static_cast<int>(i % 5), 3, i);
    write_file_atomically(fmt::format("{}/{}.jpg", place, i), jpeg_bytes(picture));
  }
  return folder / "photos";
}

// Modules and Datasets, each by a function without arguments.
std::string code_in(const ScratchFolder& folder) {
  folder.write("own.py", R"(
import torch
from torch import nn

class Classifier(nn.Module):  # as those of transformers: labels last, and a dictionary of outputs
    def __init__(self, classes):
        super().__init__()
        self.fc, self.dropout = nn.Linear(3 * 12 * 16, classes), nn.Dropout(0.1)
    def forward(self, pixel_values, head_mask=None, labels=None):
        logits = self.fc(self.dropout(pixel_values.flatten(1)))
        if labels is None:
            return {"logits": logits}
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}

def build(classes=2):
    return Classifier(classes), {"pixel_values": torch.randn(4, 3, 12, 16), "labels": torch.tensor([0, 1, 1, 0])}
def ten():
    return build(10)
def single():
    return build(1)
def alone():
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
class Regression(nn.Linear):
    def forward(self, x):
        return super().forward(x)
def regression():
    return Regression(5, 2), {"x": torch.randn(4, 5)}
class Broken(nn.Module):
    def forward(self, x):
        return x @ x
def broken():
    return Broken()
def exported():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 2)), torch.randn(4, 3, 8, 8)

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 90
    def __getitem__(self, i):
        return torch.linspace(0, i, 5), i % 3
def train():
    return Numbers()
class Five(Numbers):
    def __getitem__(self, i):
        return {"x": torch.linspace(0, i / 90, 5), "labels": torch.tensor([0.5, i / 90])}
def five():
    return Five()
class Named(Numbers):
    def __getitem__(self, i):
        return {"pixel_values": torch.full((3, 12, 16), float(i)), "labels": i % 2}
)");
  return folder / "own.py:";
}

struct Initialised {
  ScratchFolder folder;
  std::string spec = folder / "job.toml";

  Ended init(const std::string& data, const std::string& model) const {
    fs::remove(spec);
    Words words = {"init", data, "--output", spec, "--python", ESTRAIN_PEERS_PYTHON};
    return estrain(model.empty() ? words : with(words, {"--model", model}));
  }
  std::string text() const { return read_file(spec); }
  bool has(const std::string& line) const { return text().find("\n" + line + "\n") != std::string::npos; }
  // Ten steps; each run has a new directory.
  void trains(const Words& more = {}) {
    const std::string run = folder / ("run" + std::to_string(++runs));
    const Ended trained = estrain(
        with({"train", spec, "--run", run, "--devices", "2", "--set", "train.steps=10", "--set", "train.eval_every=5"},
             more));
    INFO(trained.shown());
    CHECK(trained.code == 0);
    CHECK(metric_steps(run) == first_steps(10));
    CHECK(read_file(run + "/metrics.jsonl").find("\"eval\":{") != std::string::npos);
  }
  void refuses(const std::string& data, const std::string& model, const Words& words) const {
    CAPTURE(model);
    const Ended refused = init(data, model);
    INFO(refused.shown());
    CHECK(refused.code == 2);
    for (const std::string& each : words) CHECK(refused.says(each));
    CHECK_FALSE(fs::exists(spec));
  }
  int runs = 0;
};

TEST_CASE("init makes a folder of JPEG files train, and evaluate on a part of them, with a built-in model") {
  Initialised job;
  const std::string photos = photos_in(job.folder);
  const Ended written = job.init(photos, "lenet");
  INFO(written.shown());
  REQUIRE(written.code == 0);
  CHECK(job.has("name = \"lenet\""));
  CHECK(job.text().find("\nholdout = 0.1 ") != std::string::npos);
  job.trains({"--set", "data.crop=[16, 16]", "--set", "data.resize=[20]"});
  job.refuses(photos, "resnet81", {"--model resnet81: neither a model's name", "did you mean \"resnet18\"?"});
  job.refuses(photos, "gpt", {"gpt takes tokens; the data", "are images"});
  job.refuses(photos, "none.pt2", {"--model none.pt2: there is no such file", "estrain export"});
  job.refuses(photos, job.folder / "none.py:build", {"there is no file"});
}

TEST_CASE("init makes a folder of JPEG files fit a module by its example mini-batch" * doctest::skip(!has_python())) {
  Initialised job;
  const std::string photos = photos_in(job.folder), own = code_in(job.folder);
  const Ended written = job.init(photos, own + "build");
  INFO(written.shown());
  REQUIRE(written.code == 0);
  CHECK(job.has("loss = \"cross_entropy\""));
  CHECK(job.text().find("\ncrop = [12, 16] ") != std::string::npos);
  job.trains();
  job.refuses(
      photos, own + "single",
      {own + "single predicts 1 class; the data " + photos + " have 2", "build the model for 2 classes or more"});
  job.refuses(photos, own + "regression", {"x is [5] for a sample", "input [3, 224, 224]"});
  job.refuses(photos, own + "nothing", {"has no function nothing"});
}

TEST_CASE("init makes small images of one channel fit a module that takes three" * doctest::skip(!has_python())) {
  Initialised job;
  const Ended written = job.init(kFashion, code_in(job.folder) + "ten");
  INFO(written.shown());
  REQUIRE(written.code == 0);
  CHECK(job.text().find("\nchannels = 3 ") != std::string::npos);
  CHECK(job.text().find("\nresize = [12, 16] ") != std::string::npos);
  job.trains();
}

TEST_CASE("init makes an exported program train on a folder of JPEG files" * doctest::skip(!has_python())) {
  Initialised job;
  const std::string photos = photos_in(job.folder), own = code_in(job.folder);
  REQUIRE(estrain({"export", own + "exported", "--python", ESTRAIN_PEERS_PYTHON, "--output", job.folder.path()}).code ==
          0);
  const Ended written = job.init(photos, job.folder / "own.pt2");
  INFO(written.shown());
  REQUIRE(written.code == 0);
  CHECK(job.has("eval_file = \"" + job.folder / "own-eval.pt2" + "\""));
  CHECK(job.has("loss = \"cross_entropy\""));
  CHECK(job.text().find("\ncrop = [8, 8] ") != std::string::npos);
  job.trains();
}

TEST_CASE("init makes a Dataset train" * doctest::skip(!has_python())) {
  Initialised job;
  const std::string own = code_in(job.folder);
  const Ended written = job.init(own + "train", "");
  INFO(written.shown());
  REQUIRE(written.code == 0);
  CHECK(job.has("name = \"mlp\""));
  CHECK(job.text().find("\nclasses = 3 ") != std::string::npos);
  job.trains();

  REQUIRE(job.init(own + "train", own + "alone").code == 0);
  CHECK(job.has("loss = \"cross_entropy\""));
  job.trains();

  REQUIRE(job.init(own + "Named", own + "build").code == 0);
  CHECK(job.has("loss = \"output\""));
  job.trains();

  REQUIRE(job.init(own + "five", own + "regression").code == 0);
  CHECK(job.has("loss = \"mse\""));
  job.trains();

  job.refuses(own + "Named", "", {"are named arrays", "--model net.pt2 or net.py:build"});
  job.refuses(own + "train", own + "build", {"pixel_values is [3, 12, 16] for a sample", "input [5]"});
  job.refuses(own + "train", own + "broken", {"forward fails with zeros in the shape of the data", "own.py:"});
  job.refuses(job.folder / "own.py", "", {"names no Dataset", "own.py:train"});
  job.refuses(job.folder / "none.py:train", "", {"there is no file"});
}

TEST_CASE("init makes a pattern of token files one data set, with a name that a folder can have") {
  const ScratchFolder folder;
  std::string shard(1024 + 2 * 4000, '\0');
  const std::array<int32_t, 3> header = {20240520, 1, 4000};
  std::memcpy(shard.data(), header.data(), sizeof(header));
  for (const char* name : {"web_train_1.bin", "web_train_2.bin"}) folder.write(name, shard);
  const std::string spec = folder / "job.toml";
  const Ended written = estrain({"init", folder / "web_train_*.bin", "--output", spec});
  INFO(written.shown());
  REQUIRE(written.code == 0);
  CHECK(read_file(spec).find("[job]\nname = \"web_train\"") != std::string::npos);
  const Ended checked =
      estrain({"check", spec, "--set", "model.width=16", "--set", "model.layers=1", "--set", "model.classes=1"});
  INFO(checked.shown());
  CHECK(checked.code == 0);
  CHECK(checked.says("8000 tokens in 2 files"));
  CHECK(estrain({"init", folder / "none_*.bin"}).says("no file has a name like this pattern"));
  folder.write("a1.txt", "in the beginning"), folder.write("a2.txt", "in the end");
  CHECK(estrain({"init", folder / "a?.txt"}).says("a1.txt holds no tokens"));
  fs::create_directories(folder / "sh/a"), fs::create_directories(folder / "sh/b");
  for (const char* name : {"sh/a/1.bin", "sh/b/2.bin"}) folder.write(name, shard);
  CHECK(estrain({"init", folder / "sh/[ab]"}).says("sh/a is no file"));
  REQUIRE(estrain({"init", folder / "sh/*/*.bin", "--output", folder / "sh.toml"}).code == 0);
  CHECK(read_file(folder / "sh.toml").find("[job]\nname = \"sh\"") != std::string::npos);
  folder.write("web[1].bin", shard);  // a name, no pattern
  REQUIRE(estrain({"init", folder / "web[1].bin", "--output", folder / "web.toml"}).code == 0);
  CHECK(read_file(folder / "web.toml").find("[job]\nname = \"web[1]\"") != std::string::npos);
}

TEST_CASE("init takes images of any layout: the spec's key says which, once there is a spec") {
  const ScratchFolder folder;
  h5::File file = h5::File::create(folder / "train.h5");
  const std::vector<uint8_t> pixels(10 * 32 * 32 * 3);
  const std::vector<int64_t> labels = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  file.root().create_dataset("images", h5::Type::u8, {10, 32, 32, 3}).write(h5::Type::u8, pixels.data());
  file.root().create_dataset("labels", h5::Type::i64, {10}).write(h5::Type::i64, labels.data());
  file.close();
  const Ended written = estrain({"init", folder / "train.h5", "--output", folder / "job.toml"});
  INFO(written.shown());
  CHECK(written.code == 0);
  CHECK(estrain({"check", folder / "job.toml"}).says("data.layout = \"nhwc\""));
}

TEST_CASE("init refuses arrays that no built-in network takes, and columns, and says what does") {
  const ScratchFolder folder;
  h5::File file = h5::File::create(folder / "train.h5");
  const std::vector<float> values(12, 1.0F);
  file.root().create_dataset("features", h5::Type::f32, {4, 3}).write(h5::Type::f32, values.data());
  file.close();
  const Ended refused = estrain({"init", folder / "train.h5", "--output", folder / "job.toml"});
  INFO(refused.shown());
  CHECK(refused.code == 1);
  CHECK(refused.says("has no dataset images; it has: features"));
  CHECK(refused.says("--model net.py:build"));
  CHECK_FALSE(fs::exists(folder / "job.toml"));
  folder.write("part.parquet", std::string("PAR1\0", 5));
  CHECK(estrain({"init", folder / "part.parquet"}).says("estrain convert"));
}

TEST_CASE("init prints each example as it stands in configs") {
  for (const fs::directory_entry& entry : fs::directory_iterator(ESTRAIN_SOURCE_DIR "/configs")) {
    if (entry.path().extension() != ".toml") continue;
    CAPTURE(entry.path());
    const Ended printed = estrain({"init", entry.path().stem().string(), "--output", "-"});
    CHECK(printed.code == 0);
    CHECK(printed.text == read_file(entry.path().string()));
  }
}

TEST_CASE("init keeps a file that is there, and helps with names") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", "mine");
  const Ended refused = estrain({"init", "lenet-fashion", "--output", spec});
  CHECK(refused.code == 2);
  CHECK(refused.says("exists already"));
  CHECK(read_file(spec) == "mine");
  const Ended mistyped = estrain({"init", "lenet-fashon"});
  CHECK(mistyped.code == 2);
  CHECK(mistyped.says("did you mean \"lenet-fashion\"?"));
  fs::create_directory(folder / "empty");
  const Ended empty = estrain({"init", folder / "empty"});
  CHECK(empty.code == 2);
  CHECK(empty.says("no data set recognised"));
  folder.write("empty/1.PNG", "");
  CHECK(estrain({"init", folder / "empty"}).says("pictures without classes"));
}

TEST_CASE("train without a spec says how to make one") {
  const Ended ended = estrain({"train"});
  CHECK(ended.code == 2);
  CHECK(ended.says("estrain init"));
}

}  // namespace
}  // namespace estrain::testing
