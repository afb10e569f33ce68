#pragma once

#include <ATen/autocast_mode.h>
#include <c10/core/DeviceType.h>
#include <c10/core/GradMode.h>
#include <c10/core/ScalarType.h>

#include <vector>

#include "core/formats/program/program.h"

namespace estrain::model {

// Sets grad mode and autocast for each call's modes, and restores both at the end. Autocast for the kind of device of
// the export acts on the device that runs the program.
class ModeSwitch {
 public:
  ModeSwitch(const program::Program& program, bool with_gradients, c10::DeviceType device)
      : modes_(program.modes),
        with_gradients_(with_gradients),
        is_elsewhere_(program.device != (device == c10::kCPU ? "cpu" : "cuda")),
        device_(device),
        grad_before_(c10::GradMode::is_enabled()),
        enabled_before_(at::autocast::is_autocast_enabled(device)),
        cache_before_(at::autocast::is_autocast_cache_enabled()),
        type_before_(at::autocast::get_autocast_dtype(device)) {}
  ~ModeSwitch() { enter(0); }
  ModeSwitch(const ModeSwitch&) = delete;
  ModeSwitch& operator=(const ModeSwitch&) = delete;

  void enter(size_t index);

 private:
  // Acts like torch.autocast's __enter__ and __exit__. Casts of weights are kept until the outermost block ends.
  void autocast(const program::Modes& from, const program::Modes& to);

  const std::vector<program::Modes>& modes_;
  const bool with_gradients_, is_elsewhere_;  // elsewhere: on another kind of device than at the export
  const c10::DeviceType device_;
  const bool grad_before_, enabled_before_, cache_before_;
  const c10::ScalarType type_before_;
  size_t current_ = 0;
};

}  // namespace estrain::model
