#pragma once
// LibTorch warns of every kernel that replaces another kernel. Here the replacement is intended.

#include <c10/util/Exception.h>

namespace estrain::device {

// Discards LibTorch's warnings during the object's lifetime.
class QuietWarnings : public c10::WarningHandler {
 public:
  QuietWarnings() : before_(c10::WarningUtils::get_warning_handler()) { c10::WarningUtils::set_warning_handler(this); }
  ~QuietWarnings() override { c10::WarningUtils::set_warning_handler(before_); }
  void process(const c10::Warning&) override {}

 private:
  c10::WarningHandler* before_;
};

}  // namespace estrain::device
