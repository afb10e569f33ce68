// data.skip_bad: images that cannot be decoded are left out, on record, with the same bits on all devices.

#include <doctest/doctest.h>

#include <filesystem>
#include <set>

#include "core/base/files/files.h"
#include "job.h"
#include "run_files.h"
#include "tests/written_images.h"

namespace estrain::testing {
namespace {

// 32 training images and 6 for evaluation in two classes, of which three cannot be decoded: "b/05.png", "a/10.png" and
// "b/11.png" of the training set, the samples 18, 5 and 21 in the order of names.
struct SpoiltPhotos {
  ScratchFolder folder;
  std::string spec;

  SpoiltPhotos() {
    for (unsigned i = 0; i < 38; ++i) write(place(i), png_bytes(some_picture(18, 20, 3, i)));
    for (const unsigned i : {5u, 10u, 11u}) write(place(i), read_file(path(i)).substr(0, 200));
    spec = folder.write("job.toml", R"([job]
name = "spoilt"
seed = 21
ests = 4
[model]
name = "lenet"
classes = 2
[data]
format = "images"
path = ")" + (folder / "train") + "\"\ntest_path = \"" +
                                        (folder / "val") + R"("
batch = 3
crop = [16, 16]
readers = 2
[optimizer]
name = "sgd"
lr = 0.05
[train]
steps = 9
)");
  }

  static std::string place(unsigned i) {
    return fmt::format("{}/{}/{:02}.png", i < 32 ? "train" : "val", i % 2 == 0 ? "a" : "b", i);
  }
  std::string path(unsigned i) const { return folder / place(i); }
  void write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories(std::filesystem::path(folder / name).parent_path());
    write_file_atomically(folder / name, content);
  }
  Ended train(const std::string& run, const Words& more) const {
    return estrain(with({"train", spec, "--run", folder / run}, more));
  }
};

std::set<int64_t> left_out_of(const std::string& run) {
  std::set<int64_t> samples;
  const std::vector<Json> found = events(run, "left_out");
  for (const Json& event : found) samples.insert(event.at("sample").get<int64_t>());
  CHECK(samples.size() == found.size());  // each once
  return samples;
}

const std::set<int64_t> kSpoilt = {5, 18, 21};

TEST_CASE("unreadable images are left out: on any devices, over a resize, a kill, a stop and a resume") {
  const SpoiltPhotos photos;
  const Ended alone = photos.train("alone", {"--set", "data.skip_bad=3"});
  INFO(alone.shown());
  REQUIRE(alone.code == 0);
  CHECK(alone.says("data: left out, 3 of 3: "));
  CHECK(left_out_of(photos.folder / "alone") == kSpoilt);
  const std::string spec = photos.folder.write(
      "skip.toml",
      read_file(photos.spec).replace(read_file(photos.spec).find("readers"), 0, "skip_bad = 3\nflip = true\n"));
  check_disturbed_job(photos.folder, spec, {"cpu=3,cpu=1"});
}

TEST_CASE("an unreadable image counts as its neighbour") {
  const SpoiltPhotos photos;
  const Words plain = {"--set", "data.resize=[16, 16]", "--set", "data.crop=[]"};
  REQUIRE(photos.train("skipped", with(plain, {"--devices", "2", "--set", "data.skip_bad=3"})).code == 0);
  for (const unsigned i : {5u, 10u, 11u}) photos.write(SpoiltPhotos::place(i), read_file(photos.path(i + 2)));
  REQUIRE(photos.train("copied", plain).code == 0);
  CHECK(read_file(photos.folder / "skipped/fingerprints") == read_file(photos.folder / "copied/fingerprints"));
}

TEST_CASE("an evaluation tells which samples it leaves out") {
  const SpoiltPhotos photos;
  for (const unsigned i : {5u, 10u, 11u}) photos.write(SpoiltPhotos::place(i), png_bytes(some_picture(18, 20, 3, i)));
  REQUIRE(photos.train("run", {"--set", "data.skip_bad=1"}).code == 0);
  photos.write(SpoiltPhotos::place(34), read_file(photos.path(34)).substr(0, 200));  // "val/a/34.png", sample 1
  const Words evaluate = {"evaluate", photos.folder / "run", "--accept-data"};
  const Ended told = estrain(evaluate);
  INFO(told.shown());
  CHECK(told.code == 0);
  CHECK(told.says("the next sample stands in the place of sample 1: "));
  const Json listed = Json::parse(estrain(with(evaluate, {"--json"})).text);
  REQUIRE(listed.at("left_out").size() == 1);
  CHECK(listed.at("left_out")[0].at("sample") == 1);
}

TEST_CASE("one image too many ends the job with its name; the resume may leave out more, and has the same bits") {
  const SpoiltPhotos photos;
  for (const std::string devices : {"1", "4"}) {
    CAPTURE(devices);
    const std::string run = "few" + devices;
    const Ended ended = photos.train(run, {"--devices", devices, "--set", "data.skip_bad=2"});
    INFO(ended.shown());
    CHECK(ended.code == 1);
    CHECK(ended.says("truncated PNG"));
    CHECK(ended.says("data.skip_bad = 2"));
    CHECK(left_out_of(photos.folder / run).size() <= 2);
    const Ended resumed = estrain({"train", "--resume", "--run", photos.folder / run, "--set", "data.skip_bad=3"});
    INFO(resumed.shown());
    REQUIRE(resumed.code == 0);
    CHECK(left_out_of(photos.folder / run) == kSpoilt);
  }
  CHECK(difference(photos.folder / "few1", photos.folder / "few4").text == "");
}

TEST_CASE("a check warns of images that will be left out, and refuses more") {
  const SpoiltPhotos photos;
  const Ended fine = estrain({"check", photos.spec, "--set", "data.skip_bad=3"});
  INFO(fine.shown());
  CHECK(fine.code == 0);
  CHECK(fine.says("data.skip_bad leaves the sample out"));
  CHECK(estrain({"check", photos.spec, "--set", "data.skip_bad=2"}).code == 2);
}

}  // namespace
}  // namespace estrain::testing
