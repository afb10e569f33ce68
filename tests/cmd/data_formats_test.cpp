// Jobs on token files, folders of images and tar shards: the same bits on all devices and after a stop within an epoch,
// and clear messages for damaged files.

#include <doctest/doctest.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>

#include "core/base/files/files.h"
#include "job.h"
#include "run_files.h"
#include "tests/written_images.h"

namespace estrain::testing {
namespace {

namespace fs = std::filesystem;

void write_file(const std::string& path, const std::string& content) {
  fs::create_directories(fs::path(path).parent_path());
  write_file_atomically(path, content);
}

// 40 training images in two classes and 6 for evaluation, of different sizes.
std::string image_of(unsigned seed) {
  const int height = 20 + static_cast<int>(seed % 7), width = 22 + static_cast<int>(seed % 5);
  const Picture picture = some_picture(height, width, 3, seed);
  switch (seed % 5) {
    case 0:
      return png_bytes(picture);
    case 1:
      return testing::webp_bytes(picture, seed % 2 == 0 ? 70 : -1);
    case 2:
      return testing::tiff_bytes(picture);
    default:
      return jpeg_bytes(picture);
  }
}

std::string ending_of(unsigned seed) {
  constexpr const char* endings[] = {".png", ".webp", ".tif", ".jpg", ".jpg"};
  return endings[seed % 5];
}

// ESTs of 10 samples each: 4 steps an epoch, the last one short.
std::string photo_job(const std::string& format, const std::string& path, const std::string& test_path) {
  return R"([job]
name = "photos"
seed = 21
ests = 4
[model]
name = "lenet"
classes = 2
[data]
format = ")" +
         format + "\"\npath = \"" + path + "\"\ntest_path = \"" + test_path + R"("
batch = 3
resize = [20]
crop = [16, 16]
scale = [0.3, 1.0]
flip = true
mean = [0.5, 0.4, 0.3]
std = [0.2, 0.3, 0.4]
readers = 2
[optimizer]
name = "sgd"
lr = 0.05
momentum = 0.9
[train]
steps = 10
eval_every = 4
)";
}

struct Format {
  std::string name;
  std::function<std::string(const ScratchFolder&)> write;  // writes the data; returns the spec
  std::string damaged;                                     // a file, below the folder
  std::string named;                                       // its name in errors
};

std::string write_images(const ScratchFolder& folder) {
  for (unsigned i = 0; i < 46; ++i) {
    const std::string place = i < 40 ? "/train/" : "/val/";
    write_file(folder.path() + place + (i % 2 == 0 ? "cat/" : "dog/") + std::to_string(100 + i) + ending_of(i),
               image_of(i));
  }
  return photo_job("images", folder / "train", folder / "val");
}

std::string shard_of(unsigned first, unsigned count) {
  std::vector<std::pair<std::string, std::string>> files;
  for (unsigned i = first; i < first + count; ++i) {
    files.emplace_back("s" + std::to_string(i) + ending_of(i), image_of(i));
    files.emplace_back("s" + std::to_string(i) + ".cls", std::to_string(i % 2));
  }
  return tar_bytes(files);
}

std::string write_shards(const ScratchFolder& folder) {
  for (unsigned i = 0; i < 4; ++i) write_file(folder / ("train/" + std::to_string(i) + ".tar"), shard_of(10 * i, 10));
  write_file(folder / "val.tar", shard_of(40, 6));
  return photo_job("webdataset", folder / "train", folder / "val.tar");
}

std::string write_tokens(const ScratchFolder& folder) {
  std::string tokens;
  for (unsigned i = 0; i < 8 * 41 + 1; ++i) {
    const unsigned token = i * i % 300;
    tokens += static_cast<char>(token);
    tokens += static_cast<char>(token >> 8);
  }
  write_file(folder / "train.bin", tokens);
  write_file(folder / "val.bin", tokens.substr(0, 400));
  return R"([job]
name = "tokens"
seed = 22
ests = 4
[model]
name = "gpt"
layers = 1
heads = 2
width = 16
context = 8
classes = 300
[data]
format = "tokens"
path = ")" +
         (folder / "train.bin") + "\"\ntest_path = \"" + (folder / "val.bin") + R"("
batch = 3
[optimizer]
name = "adamw"
lr = 0.003
[train]
steps = 10
eval_every = 4
clip_grad_norm = 1.0
)";
}

// The same tokens in files of llm.c's kind.
std::string write_token_shards(const ScratchFolder& folder) {
  std::string spec = write_tokens(folder);
  const std::string train = read_file(folder / "train.bin"), val = read_file(folder / "val.bin");
  const auto write = [&](const std::string& name, const std::string& tokens) {
    std::vector<int32_t> header = {20240520, 1, static_cast<int32_t>(tokens.size() / 2)};
    header.resize(256);
    write_file(folder / name, std::string(reinterpret_cast<const char*>(header.data()), 1024) + tokens);
  };
  write("web_train_000001.bin", train.substr(0, 300));
  write("web_train_000002.bin", train.substr(300));
  write("web_val_000000.bin", val);
  for (const auto& [file, pattern] : {std::pair("train.bin", "web_train_*.bin"), std::pair("val.bin", "web_val_*.bin")})
    fs::remove(folder / file), spec.replace(spec.find(file), std::strlen(file), pattern);
  return spec;
}

std::vector<Format> formats() {
  return {{"images", write_images, "train/dog/105.png", "train/dog/105.png: sample 22: "},
          {"webdataset", write_shards, "train/2.tar", ""},
          {"tokens", write_tokens, "train.bin", ""},
          {"tokens", write_token_shards, "web_train_000002.bin", ""}};
}

TEST_CASE("each format: check passes, and a run that is killed and resumed elsewhere in mid-epoch leaves no trace") {
  for (const Format& format : formats()) {
    CAPTURE(format.name);
    const ScratchFolder folder;
    const std::string spec = folder.write("job.toml", format.write(folder));
    const Ended checked = estrain({"check", spec});
    INFO(checked.shown());
    REQUIRE(checked.code == 0);

    const std::string run = folder / "killed";
    {
      Job job(spec, run, {"--devices", "3", "--set", "train.steps=1000000", "--set", "train.eval_every=never"});
      job.reach(6);  // steps 5 to 8 are the second epoch
      job.launcher().signal(SIGKILL);
      (void)job.launcher().wait();
    }
    wait_until("everybody has left", [&] { return !anyone_left(run); });
    const int64_t reached = checkpoint_steps(run).back();
    const std::string through = std::to_string(std::max<int64_t>(reached + 3, 10));
    const Words until = {"--set", "train.steps=" + through, "--set", "train.eval_every=4"};
    const Ended resumed = estrain(with({"train", "--resume", "--run", run, "--devices", "2"}, until));
    INFO(resumed.shown());
    REQUIRE(resumed.code == 0);

    const std::string same = train_on(folder, spec, "1", until);
    CHECK(read_file(run + "/fingerprints") == read_file(same + "/fingerprints"));
    CHECK(checkpoint_difference(latest_checkpoint(run), latest_checkpoint(same)) == "");
  }
}

// The spec of write_images with further keys of [data].
std::string augmented(const ScratchFolder& folder, const std::string& keys) {
  std::string text = write_images(folder);
  return text.insert(text.find("batch = 3"), keys);
}

TEST_CASE("upright, augmented, jittered, erased and mixed images: resizes, a kill and a resume leave no trace") {
  const ScratchFolder folder;
  const std::string spec = folder.write(
      "job.toml",
      augmented(folder,
                "orient = true\nrand_augment = [2, 9]\njitter = [0.4, 0.4, 0.4, 0.1]\nerase = 0.5\nmixup = 0.2\n"
                "cutmix = 1.0\n"));
  const Ended checked = estrain({"check", spec});
  INFO(checked.shown());
  REQUIRE(checked.code == 0);
  check_disturbed_job(folder, spec, {"cpu=1,cpu=3", "3"});
}

TEST_CASE("each augmentation changes the bits, and mixed images are the same on any kind of device at D2") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", write_images(folder));
  const std::string plain = train_on(folder, spec, "1");
  for (const std::string key : {"data.rand_augment=[2, 9]", "data.jitter=[0.4, 0.4, 0.4, 0.1]", "data.erase=0.5",
                                "data.mixup=0.2", "data.cutmix=1"}) {
    CAPTURE(key);
    CHECK_FALSE(difference(plain, train_on(folder, spec, "1", {"--set", key})).none());
  }
  const Words mixed = {"--set", "data.mixup=0.2", "--set", "data.cutmix=1", "--set", "job.determinism=D2"};
  CHECK(difference(train_on(folder, spec, "1", mixed), train_on(folder, spec, "cpu:sse=1,cpu=3", mixed)).text == "");
}

TEST_CASE("a photo that lies on its side fits the crop once it is upright, and is too small as it is stored") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", write_images(folder));
  const Words keys = {"--set", "data.resize=[]", "--set", "data.scale=[]", "--set", "data.crop=[20, 22]"};
  std::string lying = jpeg_bytes(some_picture(23, 21, 3, 4));
  const std::string exif(
      "\xff\xe1\0\x22"
      "Exif\0\0"
      "II*\0\x08\0\0\0"
      "\1\0"
      "\x12\1\3\0\1\0\0\0\6\0\0\0"
      "\0\0\0\0",
      36);
  write_file(folder / "train/cat/lying.jpg", lying.insert(2, exif));
  const Ended stored = estrain(with({"check", spec}, keys));
  INFO(stored.shown());
  CHECK(stored.code == 2);
  CHECK(stored.says("train/cat/lying.jpg: sample 20 of the training set: 23 x 21 pixels are smaller than data.crop"));
  const Ended upright = estrain(with({"check", spec, "--set", "data.orient=true"}, keys));
  INFO(upright.shown());
  CHECK(upright.code == 0);
}

TEST_CASE("a damaged image: check names it, the job ends with its name, and goes on when it is mended") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", write_images(folder));
  const std::string path = folder / "train/dog/105.png", run = folder / "run";
  const std::string good = read_file(path);
  write_file(path, good.substr(0, good.size() / 2));
  const Ended checked = estrain({"check", spec});
  INFO(checked.shown());
  CHECK(checked.code == 2);
  CHECK(checked.says("train/dog/105.png: sample 22 of the training set: truncated PNG"));

  const Ended ended = estrain({"train", spec, "--run", run, "--devices", "2"});
  INFO(ended.shown());
  CHECK(ended.code == 1);
  CHECK(ended.says("train/dog/105.png: sample 22: truncated PNG"));
  CHECK(ended.says("estrain check"));
  CHECK_FALSE(checkpoint_steps(run).empty());
  for (const Json& fault : events(run, "fault")) CHECK(fault.at("retry") == false);

  write_file(path, good);
  const Ended resumed = estrain({"train", "--resume", "--run", run, "--accept-data"});
  INFO(resumed.shown());
  REQUIRE(resumed.code == 0);
  const std::string whole = train_on(folder, spec, "1");
  CHECK(difference(run, whole).text == "");
}

TEST_CASE("an image that changed since the run began is refused at a resume") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", write_images(folder)), run = folder / "run";
  REQUIRE(estrain({"train", spec, "--run", run, "--set", "train.steps=3"}).code == 0);
  write_file(folder / "train/cat/100.png", image_of(5));
  const Ended refused = estrain({"train", "--resume", "--run", run, "--set", "train.steps=6"});
  INFO(refused.shown());
  CHECK(refused.code == 1);
  CHECK(refused.says("the data have changed since the run began: " + (folder / "train")));
}

size_t times(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_CASE("a run says once what it leaves out of its data, and trains on no folder with images that it cannot read") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", write_images(folder));
  for (const char* name : {"/train/cat/notes.txt", "/train/cat/._100.png", "/val/Thumbs.db"})
    write_file(folder.path() + name, "x");
  const Ended run = estrain({"train", spec, "--run", folder / "run", "--devices", "2", "--set", "train.steps=2"});
  INFO(run.shown());
  CHECK(run.code == 0);
  CHECK(times(run.text, "are left out: 1 .txt (the first is cat/notes.txt), 1 hidden (the first is cat/._100.png)") ==
        1);
  CHECK(times(run.text, "1 file is left out: 1 .db (the first is Thumbs.db)") == 1);
  write_file(folder.path() + "/train/cat/x.avif", "x");
  const Ended refused = estrain({"train", spec, "--run", folder / "other", "--devices", "1"});
  INFO(refused.shown());
  CHECK(refused.code == 1);
  CHECK(refused.says("images of kinds that are not read: 1 .avif (the first is cat/x.avif)"));
  CHECK(refused.says("convert them to PNG or JPEG"));
}

TEST_CASE("shards and tokens that are damaged end a job before it starts, with code 1 and their names") {
  const ScratchFolder folder;
  const std::string shards = folder.write("shards.toml", write_shards(folder));
  write_file(folder / "train/2.tar", shard_of(20, 10).substr(0, 3000));
  Ended ended = estrain({"train", shards, "--run", folder / "a"});
  INFO(ended.shown());
  CHECK(ended.code == 1);
  CHECK(ended.says("train/2.tar: "));
  CHECK(ended.says("runcated"));
  const std::string tokens = folder.write("tokens.toml", write_tokens(folder));
  ended = estrain({"train", tokens, "--run", folder / "b", "--set", "model.classes=200"});
  INFO(ended.shown());
  CHECK(ended.code == 1);
  CHECK(ended.says("train.bin: token "));
}

TEST_CASE("tokens in one file and in several give the same bits") {
  const ScratchFolder one, several;
  const std::string alone = train_on(one, one.write("job.toml", write_tokens(one)), "1", {});
  const std::string shards = train_on(several, several.write("job.toml", write_token_shards(several)), "2", {});
  CHECK(read_file(alone + "/fingerprints") == read_file(shards + "/fingerprints"));
  const Ended refused = estrain({"train", several / "job.toml", "--run", several / "none", "--set",
                                 "data.path=\"" + several / "web_test_*.bin" + "\""});
  INFO(refused.shown());
  CHECK(refused.code == 1);
  CHECK(refused.says("web_test_*.bin: no file has a name like this pattern"));
  CHECK_FALSE(refused.says("survived"));  // the user's mistake is not tried again
}

TEST_CASE("init writes a spec for each format that check accepts") {
  for (const Format& format : formats()) {
    CAPTURE(format.name);
    const ScratchFolder folder;
    (void)format.write(folder);
    if (format.name == "webdataset")
      fs::create_directory(folder / "val"), fs::rename(folder / "val.tar", folder / "val/0.tar");
    const Ended written = estrain({"init", folder.path(), "--output", folder / "job.toml"});
    INFO(written.shown());
    REQUIRE(written.code == 0);
    const std::string text = read_file(folder / "job.toml");
    CHECK(text.find("format = \"" + format.name + "\"") != text.npos);
    CHECK(text.find("test_path") != text.npos);
    const Words smaller = format.name == "tokens" ? Words{"--set", "model.context=8"}
                                                  : Words{"--set", "data.crop=[32, 32]", "--set", "data.resize=[36]",
                                                          "--set", "data.batch=2"};
    const Ended checked = estrain(with({"check", folder / "job.toml"}, smaller));
    INFO(checked.shown());
    CHECK(checked.code == 0);
  }
}

// How often `words` stand in a text.
int64_t count_of(const std::string& words, const std::string& text) {
  int64_t count = 0;
  for (size_t at = text.find(words); at != text.npos; at = text.find(words, at + 1)) ++count;
  return count;
}

constexpr const char* kNoEvaluation = "no samples for evaluation";

TEST_CASE("data.holdout keeps images for evaluation on any devices, and a resume refuses another part") {
  const ScratchFolder folder;
  write_images(folder);
  const std::string spec = folder.write("holdout.toml", photo_job("images", folder / "train", ""));
  const Words holdout = {"--set", "data.holdout=0.2"};
  const std::string alone = train_on(folder, spec, "1", holdout);
  CHECK(difference(alone, train_on(folder, spec, "cpu=1,cpu=3", holdout)).text == "");
  CHECK(read_file(alone + "/metrics.jsonl").find("\"eval\":{") != std::string::npos);
  const Ended refused =
      estrain({"train", "--resume", "--run", alone, "--set", "data.holdout=0.3", "--set", "train.steps=12"});
  INFO(refused.shown());
  CHECK(refused.code == 2);
  CHECK(refused.says("data.holdout"));
  const Ended resumed = estrain({"train", "--resume", "--run", alone, "--set", "train.steps=12"});
  INFO(resumed.shown());
  CHECK(resumed.code == 0);
}

TEST_CASE("a run without samples for evaluation says so once, and check does") {
  const ScratchFolder folder;
  write_images(folder);
  const std::string spec = folder.write("none.toml", photo_job("images", folder / "train", ""));
  const Ended trained = estrain({"train", spec, "--run", folder / "run", "--devices", "2"});
  INFO(trained.shown());
  CHECK(trained.code == 0);
  CHECK(count_of(kNoEvaluation, trained.text) == 1);
  CHECK(trained.says("data.holdout = 0.1 keeps a part of the samples for it"));
  const Ended checked = estrain({"check", spec, "--run", folder / "other"});
  INFO(checked.shown());
  CHECK(checked.code == 0);
  CHECK(count_of(kNoEvaluation, checked.text) == 1);
  const Words never = {"--set", "train.eval_every=never"};
  CHECK_FALSE(estrain(with({"check", spec, "--run", folder / "other"}, never)).says(kNoEvaluation));
  CHECK_FALSE(estrain(with({"train", spec, "--run", folder / "never"}, never)).says(kNoEvaluation));
}

// scripts/peers/columns.py compares the arrays with pyarrow's.
TEST_CASE("convert says which file is missing or in the way, and which library the Python lacks") {
  const ScratchFolder folder;
  const std::string out = folder / "out.h5";
  const Ended missing = estrain({"convert", folder / "none.parquet", "--to", out});
  INFO(missing.shown());
  CHECK(missing.code == 2);
  CHECK(missing.says("none.parquet: there is no such file"));

  const std::string data = folder.write("data.parquet", "PAR1");
  const Ended in_the_way = estrain({"convert", data, "--to", folder.write("there.h5", "x")});
  INFO(in_the_way.shown());
  CHECK(in_the_way.code == 2);
  CHECK(in_the_way.says("--force"));

  const std::string python = folder.write("python", "#!/bin/sh\nexec python3 -S -I \"$@\"\n");  // without packages
  fs::permissions(python, fs::perms::owner_all);
  const Ended bare = estrain({"convert", data, "--to", out, "--python", python});
  INFO(bare.shown());
  CHECK(bare.code == 1);
  CHECK(bare.says("No module named"));
  CHECK(bare.says("install pyarrow and h5py there"));
  CHECK_FALSE(fs::exists(out));
}

}  // namespace
}  // namespace estrain::testing
