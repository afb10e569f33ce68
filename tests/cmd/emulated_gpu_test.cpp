// GPU workers, their GPUs played by the CPU (tests/emulated_gpu): everything that a worker does on a GPU but the GPU's
// own arithmetic and speed. The portable kernels are CUDA's source.

#include <doctest/doctest.h>

#include <csignal>
#include <cstdlib>

#include "job.h"
#include "job_specs.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

const Words kD2 = {"--set", "job.determinism=D2", "--oversubscribe", "--allow-mixed"};
const Words kD1 = {"--oversubscribe"};

bool is_here() { return std::getenv("ESTRAIN_PROGRAM") != nullptr; }

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string train_on(const ScratchFolder& folder, const std::string& spec, const std::string& devices,
                     const Words& more) {
  static int runs = 0;
  const std::string run = folder / ("run-" + std::to_string(runs++));
  const Ended ended = estrain(with({"train", spec, "--run", run, "--devices", devices}, more));
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  return run;
}

void check_as_on_the_cpu(const std::string& text, const Words& more) {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", text);
  const std::string one = train_on(folder, spec, "cpu", with(kD2, more));
  CHECK(fingerprint_steps(one) == metric_steps(one));
  for (const char* devices : {"cuda:0", "cuda:0,cuda:1,cpu"}) {
    CAPTURE(devices);
    CHECK(difference(one, train_on(folder, spec, devices, with(kD2, more))).text == "");
  }
}

TEST_SUITE_BEGIN("emulated GPU" * doctest::skip(!is_here()));

TEST_CASE("mlp with dropout, AdamW and clipping at D2: a GPU's bits are the CPU's") {
  check_as_on_the_cpu(mlp_job(), {});
}
TEST_CASE("lenet at D2: a GPU's bits are the CPU's") { check_as_on_the_cpu(lenet_job(), {"--set", "train.steps=4"}); }
TEST_CASE("resnet18 at D2: a GPU's bits are the CPU's") {
  check_as_on_the_cpu(resnet18_job(), {"--set", "train.steps=2", "--set", "job.ests=3"});
}
TEST_CASE("gpt with dropout at D2: a GPU's bits are the CPU's") {
  const ScratchFolder texts;
  check_as_on_the_cpu(gpt_job(texts.write("book.txt", some_text(1600))), {"--set", "train.steps=3"});
}

TEST_CASE("D1 on GPUs: no trace of the number of workers") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", lenet_job());
  const std::string one = train_on(folder, spec, "cuda:0", kD1);
  for (const char* devices : {"cuda:0,cuda:1", "cuda:0*2,cuda:1"}) {
    CAPTURE(devices);
    CHECK(difference(one, train_on(folder, spec, devices, kD1)).text == "");
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace estrain::testing
