#pragma once
// Environment variables for the program under test.

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

namespace estrain::testing {

// Restored when the object is destroyed.
class Setting {
 public:
  Setting(std::string name, const std::string& value) : name_(std::move(name)) {
    if (const char* before = ::getenv(name_.c_str())) before_ = before;
    ::setenv(name_.c_str(), value.c_str(), 1);
  }
  ~Setting() {
    if (before_) {
      ::setenv(name_.c_str(), before_->c_str(), 1);
    } else {
      ::unsetenv(name_.c_str());
    }
  }
  Setting(const Setting&) = delete;

 private:
  std::string name_;
  std::optional<std::string> before_;
};

// Whether this process, and programs that it starts, have simulated GPUs (tests/simulated_gpu/run).
inline bool has_simulated_gpus() { return std::getenv("ESTRAIN_PROGRAM") != nullptr; }

}  // namespace estrain::testing
