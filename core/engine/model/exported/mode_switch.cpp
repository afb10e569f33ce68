#include "core/engine/model/exported/mode_switch.h"

#include "core/engine/model/exported/scalar_type.h"

namespace estrain::model {

void ModeSwitch::enter(size_t index) {
  if (index == current_) return;
  const program::Modes &from = modes_[current_], &to = modes_[index];
  current_ = index;
  if (with_gradients_) c10::GradMode::set_enabled(to.grad.value_or(grad_before_));
  if (from.autocast || to.autocast) autocast(from, to);
  if (from.cuda_autocast_off != to.cuda_autocast_off)
    at::autocast::set_autocast_enabled(at::kCUDA, cuda_before_ && !to.cuda_autocast_off);
}

void ModeSwitch::autocast(const program::Modes& from, const program::Modes& to) {
  const int64_t was = from.autocast ? from.autocast->outermost : -1, is = to.autocast ? to.autocast->outermost : -1;
  if (was != is && was >= 0 && at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  if (was < 0) {
    enabled_before_ = at::autocast::is_autocast_enabled(at::kCPU);
    type_before_ = at::autocast::get_autocast_dtype(at::kCPU);
    cache_before_ = at::autocast::is_autocast_cache_enabled();
  }
  if (was != is && is >= 0) at::autocast::increment_nesting();
  at::autocast::set_autocast_enabled(at::kCPU, is >= 0 ? to.autocast->enabled : enabled_before_);
  at::autocast::set_autocast_dtype(at::kCPU, is >= 0 ? scalar_type(to.autocast->type) : type_before_);
  at::autocast::set_autocast_cache_enabled(is >= 0 ? to.autocast->cache : cache_before_);
}

}  // namespace estrain::model
