// Checkpoints of older formats that a run would go on from with other bits than their estrain gave it.

#include <doctest/doctest.h>

#include <filesystem>
#include <vector>

#include "core/state/checkpoint/checkpoint_file.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

const Words portable = {"--set", "job.kernels=portable"};

Words up_to(int64_t steps) { return {"--set", "train.steps=" + std::to_string(steps)}; }

// Changes the checkpoint to the older format, in which portable random operators took keys from the number of their
// call.
void make_older(const std::string& path) {
  const auto file = checkpoint::CheckpointFile::open(path);
  std::vector<uint64_t> memory((file.layout().bytes + 63) / 64 * 8 + 8);
  auto* state = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  file.read_state(file.layout(), state);
  checkpoint::CheckpointMeta meta = file.meta();
  CHECK(meta.generator_keys);
  meta.generator_keys = false;
  checkpoint::write_checkpoint(path, file.layout(), state, meta);
}

Ended go_on(const std::string& run, const Words& more) {
  const Ended ended = estrain(with({"train", "--resume", "--run", run, "--devices", "1"}, more));
  INFO(ended.shown());
  return ended;
}

TEST_CASE("where the model draws random numbers at D2, an older checkpoint is refused by name") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  const std::string run = train_on(folder, spec, "1", with(portable, up_to(3)));
  CHECK(go_on(run, up_to(5)).code == 0);
  const std::string last = latest_checkpoint(run);
  make_older(last);
  const Ended refused = go_on(run, up_to(7));
  CHECK(refused.code == 1);
  CHECK(refused.says("is of an older format: the portable kernels' random numbers have changed since"));
  CHECK(refused.says("model.init = \"" + last + "\""));
  CHECK(metric_steps(run) == first_steps(5));
}

TEST_CASE("where it draws none, the run goes on, with the same bits") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  const Words calm = with(portable, {"--set", "model.dropout=0", "--set", "train.eval_every=never"});
  const std::string run = train_on(folder, spec, "1", with(calm, up_to(3)));
  make_older(latest_checkpoint(run));
  REQUIRE(go_on(run, up_to(7)).code == 0);
  CHECK(checkpoint::CheckpointFile::open(latest_checkpoint(run)).meta().generator_keys);
  CHECK(difference(run, train_on(folder, spec, "1", with(calm, up_to(7)))).text == "");
}

TEST_CASE("LibTorch's own random numbers have not changed: its checkpoints are of the formats that they were") {
  const ScratchFolder folder;
  const std::string run = train_on(folder, folder.write("job.toml", mlp_job()), "1", up_to(2));
  CHECK_FALSE(checkpoint::CheckpointFile::open(latest_checkpoint(run)).meta().generator_keys);
}

}  // namespace
}  // namespace estrain::testing
