#pragma once
// Variables of the environment that the program under test sees.

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

namespace estrain::testing {

// Until the object goes; then what it was before.
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

}  // namespace estrain::testing
