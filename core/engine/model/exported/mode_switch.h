#pragma once

#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <c10/core/ScalarType.h>

#include <vector>

#include "core/formats/program/program.h"

namespace estrain::model {

// Sets grad mode and autocast for each call's modes, and restores both at the end.
class ModeSwitch {
 public:
  ModeSwitch(const std::vector<program::Modes>& modes, bool with_gradients)
      : modes_(modes),
        with_gradients_(with_gradients),
        grad_before_(c10::GradMode::is_enabled()),
        cuda_before_(at::autocast::is_autocast_enabled(at::kCUDA)) {}
  ~ModeSwitch() { enter(0); }
  ModeSwitch(const ModeSwitch&) = delete;
  ModeSwitch& operator=(const ModeSwitch&) = delete;

  void enter(size_t index);

 private:
  // Acts like torch.autocast's __enter__ and __exit__. Casts of weights are kept until the outermost block ends.
  void autocast(const program::Modes& from, const program::Modes& to);

  const std::vector<program::Modes>& modes_;
  const bool with_gradients_, grad_before_, cuda_before_;
  size_t current_ = 0;
  bool enabled_before_ = false, cache_before_ = false;
  c10::ScalarType type_before_{};
};

}  // namespace estrain::model
