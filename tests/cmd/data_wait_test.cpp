// How long workers wait for data is told by train and the record, and is nothing where data lie in memory.

#include <doctest/doctest.h>

#include <filesystem>

#include "core/base/files/files.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"
#include "tests/written_images.h"

namespace estrain::testing {
namespace {

// A network that computes next to nothing, on photos that take long to decode.
std::string hungry_job(const std::string& photos) {
  return R"([job]
name = "hungry"
ests = 2
[model]
name = "mlp"
hidden = [4]
classes = 2
[data]
format = "images"
batch = 4
resize = [8]
crop = [8, 8]
path = ")" +
         photos + R"("
[train]
steps = 60
eval_every = "never"
)";
}

void write_large_photos(const std::string& folder) {
  for (const char* name : {"/cat/", "/dog/"}) {
    std::filesystem::create_directories(folder + name);
    for (unsigned i = 0; i < 8; ++i)
      write_file_atomically(folder + name + std::to_string(i) + ".jpg", jpeg_bytes(some_picture(700, 900, 3, i)));
  }
}

// The part of the workers' time in which they waited for data.
double waited(const std::string& run) {
  double reading = 0, computing = 0;
  for (const Json& stage : events(run, "stage_speed")) {
    for (const Json& worker : stage.at("workers")) {
      reading += worker.at("seconds_waiting_for_data").get<double>();
      computing += worker.at("computing_seconds").get<double>();
    }
  }
  REQUIRE(computing > 0);
  return reading / computing;
}

TEST_CASE("a job that is faster than its reader says that it waits for data; one that is slower waits little") {
  const ScratchFolder folder;
  write_large_photos(folder / "photos");
  const std::string hungry = folder.write("hungry.toml", hungry_job(folder / "photos"));
  const Ended ended = estrain({"train", hungry, "--run", folder / "hungry", "--devices", "1"});
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  CHECK(waited(folder / "hungry") > 0.8);
  CHECK(ended.says("of the workers' time was spent waiting for data; try data.readers = 0 (now 1)"));

  const std::string sated = folder.write("sated.toml", long_job());
  const Ended busy = estrain({"train", sated, "--run", folder / "sated", "--devices", "1", "--set", "train.steps=60",
                              "--set", "model.hidden=[1024,512]"});
  INFO(busy.shown());
  REQUIRE(busy.code == 0);
  CHECK(waited(folder / "sated") < 0.5);  // on a host that has much else to do
}

}  // namespace
}  // namespace estrain::testing
