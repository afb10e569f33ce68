#include "tests/core/inspect/verify/fake_run.h"

#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/base/json/json.h"
#include "core/state/checkpoint/directory.h"
#include "core/state/record/logs/fingerprints.h"
#include "core/state/record/logs/metrics.h"
#include "kernels/digest.h"
#include "kernels/optimizer.h"

namespace estrain::verify {
namespace {

using checkpoint::DType;
using checkpoint::Role;
using checkpoint::StateTensor;

checkpoint::StateLayout layout_of(int64_t ests) {
  checkpoint::StateLayout layout;
  layout.append(Role::parameter, "fc.weight", "", DType::f32, {3, 5});
  layout.append(Role::parameter, "fc.bias", "", DType::f32, {3});
  layout.append(Role::buffer, "bn.mean", "", DType::f32, {4});
  for (const char* name : {"fc.weight", "fc.bias"}) {
    const auto shape = layout.tensors[name == std::string("fc.weight") ? 0 : 1].shape;
    layout.append(Role::optimizer, name, "momentum_buffer", DType::f32, shape);
    layout.append(Role::optimizer, name, "step", DType::i64, {});
  }
  for (int64_t rank = 0; rank < ests; ++rank) {
    layout.append(Role::est, std::to_string(rank), "generator", DType::u8, {16});
    layout.append(Role::est, std::to_string(rank), "loss", DType::f32, {});
  }
  return layout;
}

uint64_t digest_of(FakeState& state, const std::string& path) {
  for (const StateTensor& tensor : state.layout.tensors)
    if (tensor.path() == path) return kernels::digest(state.bytes(path), tensor.bytes());
  std::abort();
}

std::vector<std::string> names_of(int64_t ests) {
  std::vector<std::string> names = {"fc.weight", "fc.bias", "bn.mean"};
  for (int64_t rank = 0; rank < ests; ++rank) names.push_back("est/" + std::to_string(rank) + "/generator");
  return names;
}

std::vector<uint64_t> digests_of(FakeState& state, int64_t ests) {
  std::vector<uint64_t> digests;
  for (const std::string name : {"fc.weight", "fc.bias"}) {
    const kernels::OptimizerDigest parts = {digest_of(state, "/model/" + name),
                                            {digest_of(state, "/optimizer/" + name + "/momentum_buffer"), 0}};
    digests.push_back(parts.combined());
  }
  digests.push_back(digest_of(state, "/buffers/bn.mean"));
  for (int64_t rank = 0; rank < ests; ++rank)
    digests.push_back(digest_of(state, "/ests/" + std::to_string(rank) + "/generator"));
  return digests;
}

FakeState initial(int64_t ests) {
  FakeState state{layout_of(ests), {}};
  state.words.assign(state.layout.bytes / 8 + 1, 0);
  for (const StateTensor& tensor : state.layout.tensors)
    if (tensor.dtype == DType::f32)
      for (size_t i = 0; i < tensor.elements(); ++i) state.f32(tensor.path(), i) = 0.5f + 0.01f * static_cast<float>(i);
  return state;
}

// Logistic maps, so that no rounding error is lost.
void advance(FakeState& state) {
  for (const StateTensor& tensor : state.layout.tensors) {
    std::byte* bytes = state.bytes(tensor.path());
    for (size_t i = 0; i < tensor.elements(); ++i) {
      if (tensor.dtype == DType::f32) {
        float& x = state.f32(tensor.path(), i);
        x = 3.9f * x * (1 - x);
      }
      if (tensor.dtype == DType::u8)
        bytes[i] = static_cast<std::byte>(static_cast<int>(bytes[i]) * 5 + 1 + static_cast<int>(i));
      if (tensor.dtype == DType::i64) ++*reinterpret_cast<int64_t*>(bytes);
    }
  }
}

std::vector<float> losses_from(FakeState& state, int64_t ests) {
  std::vector<float> losses;
  for (int64_t rank = 0; rank < ests; ++rank)
    losses.push_back(state.f32("/model/fc.weight", static_cast<size_t>(rank)) + state.f32("/model/fc.bias", 2));
  return losses;
}

void write_text(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

}  // namespace

std::string fake_spec(int64_t seed) {
  return "[job]\nname = \"fake\"\nests = 2\nseed = " + std::to_string(seed) +
         "\n[model]\nname = \"mlp\"\n[data]\nformat = \"synthetic\"\n[optimizer]\nname = \"sgd\"\n[train]\nsteps = "
         "20\n";
}

std::byte* FakeState::bytes(const std::string& path) {
  for (const StateTensor& tensor : layout.tensors)
    if (tensor.path() == path) return reinterpret_cast<std::byte*>(words.data()) + tensor.offset;
  std::abort();
}

float& FakeState::f32(const std::string& path, size_t index) { return reinterpret_cast<float*>(bytes(path))[index]; }

std::string stage_line(int64_t step, const std::vector<std::string>& devices) {
  const Json line = {{"time", "2031-05-04T12:30:01.123Z"},
                     {"event", "stage"},
                     {"step", step},
                     {"workers", devices.size()},
                     {"devices", devices}};
  return line.dump() + "\n";
}

void FakeRun::write(const std::string& folder) const {
  std::filesystem::create_directories(folder);
  write_text(folder + "/job.toml", spec);
  write_text(folder + "/changes.jsonl", changes);
  write_text(folder + "/events.jsonl", events);
  checkpoint::CheckpointDirectory checkpoints(folder + "/checkpoints");
  record::MetricsWriter metrics(folder + "/metrics.jsonl", Step(first_step));
  std::unique_ptr<record::FingerprintWriter> prints;
  if (fingerprints)
    prints = std::make_unique<record::FingerprintWriter>(folder + "/fingerprints", names_of(ests), Step(first_step));

  FakeState state = initial(ests);
  for (int64_t step = 0; step <= steps; ++step) {
    std::vector<float> losses = losses_from(state, ests);
    if (step > 0) advance(state);
    if (disturb) disturb(step, state);
    if (disturb_losses) disturb_losses(step, losses);
    if (step < first_step) continue;
    if (step > first_step) {
      const record::StepRecord record = {Step(step), Epoch(0), 0.1, losses[0], losses, digests_of(state, ests), 1};
      metrics.append({&record, 1});
      if (prints) prints->append({&record, 1});
    }
    if (checkpoint_every > 0 && (step % checkpoint_every == 0 || step == first_step)) {
      const checkpoint::CheckpointMeta meta = {.estrain_version = "0",
                                               .step = Step(step),
                                               .epoch = Epoch(0),
                                               .samples = step * 8,
                                               .ests = ests,
                                               .lr = 0.1,
                                               .spec = spec,
                                               .changes = changes,
                                               .stages = "[" + stage_line(0, {"cpu"}) + "]",
                                               .devices = "cpu",
                                               .cpu = step > new_processor_after ? "another" : "a processor"};
      checkpoints.publish(state.layout, reinterpret_cast<const std::byte*>(state.words.data()), meta);
    }
  }
}

}  // namespace estrain::verify
