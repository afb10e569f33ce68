// Placement does not affect bits: for every assignment of ESTs to workers, all digests, losses of ESTs and the final
// checkpoint are equal.

#include <doctest/doctest.h>

#include "at_length.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"
#include "setting.h"

namespace estrain::testing {
namespace {

// For 8 ESTs: even and uneven, subtrees of the reduction tree and ranges across them, one worker per EST.
const Words kPlacements =
    at_length({"2", "8", "cpu=7,cpu=1", "cpu=1,cpu=6,cpu=1"}, {"3", "4", "5", "cpu=1,cpu=7", "cpu=3,cpu=3,cpu=2"});
const Words kFewPlacements = {"cpu=3,cpu=3,cpu=2", "8"};

void check_same_on_all(const std::string& text, const Words& placements, const ScratchFolder& folder) {
  const std::string spec = folder.write("job.toml", text);
  const std::string alone = train_on(folder, spec, "1");
  REQUIRE(metric_steps(alone).size() >= 5);
  CHECK(fingerprint_steps(alone) == metric_steps(alone));
  for (const std::string& devices : placements) {
    CAPTURE(devices);
    CHECK(difference(alone, train_on(folder, spec, devices)).text == "");
  }
}

TEST_CASE("mlp with dropout, AdamW, groups, clipping, a warm-up and short batches: no trace of the placement") {
  const ScratchFolder folder;
  check_same_on_all(mlp_job(), kPlacements, folder);
}

TEST_CASE("gpt with dropout, AdamW, clipping and a cosine: no trace of the placement") {
  const ScratchFolder folder;
  check_same_on_all(gpt_job(folder.write("book.txt", some_text(1600))), kPlacements, folder);
}

TEST_CASE("lenet with augmentation and momentum, not clipped: no trace of the placement") {
  const ScratchFolder folder;
  check_same_on_all(lenet_job(), kPlacements, folder);
}

TEST_CASE("resnet18 with batch norm's buffers and augmentation: no trace of the placement") {
  const ScratchFolder folder;
  check_same_on_all(resnet18_job(), kFewPlacements, folder);
}

TEST_CASE("no trace of what the environment tells libraries about computing") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", resnet18_job());
  const Words two_threads = {"--set", "job.threads=2", "--set", "job.ests=2", "--set", "train.steps=2"};
  const std::string undisturbed = train_on(folder, spec, "2", two_threads);
  const auto check_no_trace = [&] {
    CHECK(difference(undisturbed, train_on(folder, spec, "2", two_threads)).text == "");
  };
  {
    const Setting aten("ATEN_CPU_CAPABILITY", "default"), onednn("ONEDNN_MAX_CPU_ISA", "SSE41"),
        mkl("MKL_CBWR", "COMPATIBLE");
    check_no_trace();
  }
  const Setting limit("OMP_THREAD_LIMIT", "1"), dynamic("OMP_DYNAMIC", "true");
  check_no_trace();
}

TEST_CASE("at D0 the sums go left to right: repeatable on one placement, other bits on another") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", lenet_job());
  const Words d0 = {"--set", "job.determinism=D0"};
  const std::string two = train_on(folder, spec, "2", d0);
  CHECK(difference(two, train_on(folder, spec, "2", d0)).none());
  CHECK_FALSE(difference(two, train_on(folder, spec, "cpu=3,cpu=5", d0)).none());
  CHECK_FALSE(difference(two, train_on(folder, spec, "2")).none());
}

}  // namespace
}  // namespace estrain::testing
