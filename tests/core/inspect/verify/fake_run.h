#pragma once
// A run directory of a tiny job with a fixed recurrence as "training": each state follows from the previous state, so a
// disturbance lasts to the end, as in a real run.

#include <functional>
#include <string>
#include <vector>

#include "core/state/checkpoint/state/state_layout.h"

namespace estrain::verify {

struct FakeState {
  checkpoint::StateLayout layout;
  std::vector<uint64_t> words;

  std::byte* bytes(const std::string& path);
  float& f32(const std::string& path, size_t index);
};

std::string fake_spec(int64_t seed);

struct FakeRun {
  int64_t first_step = 0, steps = 20;  // from the state at first_step to the one at steps
  int64_t checkpoint_every = 10;       // also at first_step
  int64_t ests = 2;
  bool fingerprints = true;
  std::string spec = fake_spec(0);
  std::string events = "";
  std::string changes = "";
  int64_t new_processor_after = 1000;  // the first step after which checkpoints name another processor
  // Called with every step's state, and with the step's losses, before the step is recorded.
  std::function<void(int64_t step, FakeState& state)> disturb = nullptr;
  std::function<void(int64_t step, std::vector<float>& losses)> disturb_losses = nullptr;

  void write(const std::string& folder) const;
};

std::string stage_line(int64_t step, const std::vector<std::string>& devices);

}  // namespace estrain::verify
