// `estrain init`: a spec for a data set or an example, ready to run.

#include <doctest/doctest.h>

#include <filesystem>

#include "core/base/files/files.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"

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
}

TEST_CASE("train without a spec says how to make one") {
  const Ended ended = estrain({"train"});
  CHECK(ended.code == 2);
  CHECK(ended.says("estrain init"));
}

}  // namespace
}  // namespace estrain::testing
