#pragma once
// LibTorch warns of every kernel that takes another's place, which here is the purpose.

#include <c10/util/Exception.h>

namespace estrain::device {

// LibTorch's warnings go nowhere while it lives.
class QuietWarnings : public c10::WarningHandler {
 public:
  QuietWarnings() : before_(c10::WarningUtils::get_warning_handler()) { c10::WarningUtils::set_warning_handler(this); }
  ~QuietWarnings() override { c10::WarningUtils::set_warning_handler(before_); }
  void process(const c10::Warning&) override {}

 private:
  c10::WarningHandler* before_;
};

}  // namespace estrain::device
