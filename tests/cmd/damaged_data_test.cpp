// Data that training finds damaged: one JPEG among thousands, a shard that becomes shorter while it is in use. The job
// ends with the file's name and what to do, and a resume with the mended file goes on as if nothing had happened.

#include <doctest/doctest.h>

#include <filesystem>

#include "core/base/files/files.h"
#include "job.h"
#include "run_files.h"
#include "tests/written_images.h"

namespace estrain::testing {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kImages = 3000;  // 30 steps of 100 in an epoch
constexpr unsigned kShards = 4, kImagesInShard = 100;

std::string damaged_job(const std::string& format, const std::string& path) {
  return R"([job]
name = "damaged"
seed = 5
ests = 4
[model]
name = "lenet"
classes = 2
[data]
format = ")" +
         format + "\"\npath = \"" + path + R"("
batch = 25
resize = [18]
crop = [16, 16]
flip = true
[optimizer]
name = "sgd"
lr = 0.02
[train]
steps = 40
)";
}

std::string small_jpeg(unsigned seed) {
  return jpeg_bytes(some_picture(18 + static_cast<int>(seed % 5), 18 + static_cast<int>(seed % 3), 3, seed));
}

void write_class_folders(const std::string& folder) {
  for (const char* name : {"/cat", "/dog"}) fs::create_directories(folder + name);
  for (unsigned i = 0; i < kImages; ++i)
    write_file_atomically(folder + (i % 2 == 0 ? "/cat/" : "/dog/") + std::to_string(1000 + i) + ".jpg", small_jpeg(i));
}

void write_small_shards(const std::string& folder) {
  fs::create_directories(folder);
  for (unsigned shard = 0; shard < kShards; ++shard) {
    std::vector<std::pair<std::string, std::string>> files;
    for (unsigned i = shard * kImagesInShard; i < (shard + 1) * kImagesInShard; ++i) {
      files.emplace_back("s" + std::to_string(i) + ".jpg", small_jpeg(i));
      files.emplace_back("s" + std::to_string(i) + ".cls", std::to_string(i % 2));
    }
    write_file_atomically(folder + "/" + std::to_string(shard) + ".tar", tar_bytes(files));
  }
}

// An evaluation at the end of a run that was continued has no counterpart.
Words up_to(int64_t step) {
  return {"--set", "train.steps=" + std::to_string(step), "--set", "train.eval_every=never"};
}

TEST_CASE("one broken JPEG among thousands ends training within an epoch, and a resume with the mended one is exact") {
  const ScratchFolder folder;
  write_class_folders(folder / "train");
  const std::string spec = folder.write("job.toml", damaged_job("images", folder / "train")), run = folder / "run";
  const std::string broken = folder / "train/dog/2007.jpg", good = read_file(broken);
  for (const std::string& bad : {good.substr(0, good.size() - 60), std::string(good.size(), '\0')}) {
    fs::remove_all(run);
    write_file_atomically(broken, bad);
    const Ended ended = estrain({"train", spec, "--run", run, "--devices", "2"});
    INFO(ended.shown());
    CHECK(ended.code == 1);
    CHECK(ended.says("train/dog/2007.jpg: sample 2003: "));
    CHECK(ended.says("replace the file or take it away; `estrain check` names all such files"));
    for (const Json& fault : events(run, "fault")) CHECK(fault.at("retry") == false);
    const int64_t reached = metric_steps(run).back();
    CHECK(reached > 0);
    CHECK(reached < 30);
    CHECK(checkpoint_steps(run).back() == reached);
  }

  write_file_atomically(broken, good);
  const Ended refused = estrain(with({"train", "--resume", "--run", run}, up_to(40)));
  CHECK(refused.code == 1);
  CHECK(refused.says("--accept-data"));
  const Ended resumed = estrain(with({"train", "--resume", "--run", run, "--accept-data"}, up_to(40)));
  INFO(resumed.shown());
  REQUIRE(resumed.code == 0);
  const std::string whole = train_on(folder, spec, "1", up_to(40));
  CHECK(read_file(run + "/fingerprints") == read_file(whole + "/fingerprints"));
  CHECK(checkpoint_difference(latest_checkpoint(run), latest_checkpoint(whole)) == "");
}

TEST_CASE("a shard cut short while a job trains on it ends the job with its name, and a resume is exact") {
  const ScratchFolder folder;
  write_small_shards(folder / "train");
  const std::string spec = folder.write("job.toml", damaged_job("webdataset", folder / "train")), run = folder / "run";
  const std::string shard = folder / "train/2.tar", good = read_file(shard);
  int64_t reached = 0;
  {
    Job job(spec, run, with({"--devices", "2"}, up_to(1'000'000)));
    job.reach(3);
    fs::resize_file(shard, 4096);
    const Ended ended = job.launcher().wait();
    INFO(ended.shown());
    CHECK(ended.code == 1);
    CHECK(ended.says("train/2.tar became shorter while it was in use"));
    CHECK(ended.says("download or create the file again"));
    CHECK(ended.says("estrain train --resume --run " + run));
    CHECK(events(run, "fault").size() == 1);
    CHECK(events(run, "fault").back().at("cause") == "data_file_shortened");
    reached = metric_steps(run).back();
    CHECK(reached >= 3);
    CHECK(checkpoint_steps(run).back() == reached);
  }
  write_file_atomically(shard, good);
  const Ended resumed = estrain(with({"train", "--resume", "--run", run}, up_to(reached + 3)));
  INFO(resumed.shown());
  REQUIRE(resumed.code == 0);
  const std::string whole = train_on(folder, spec, "1", up_to(reached + 3));
  CHECK(difference(run, whole).text == "");
}

}  // namespace
}  // namespace estrain::testing
