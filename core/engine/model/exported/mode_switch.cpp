#include "core/engine/model/exported/mode_switch.h"

#include "core/engine/model/exported/scalar_type.h"

namespace estrain::model {

void ModeSwitch::enter(size_t index) {
  if (index == current_) return;
  const program::Modes &from = modes_[current_], &to = modes_[index];
  current_ = index;
  if (with_gradients_) c10::GradMode::set_enabled(to.grad.value_or(grad_before_));
  if (from.autocast || to.autocast || from.other_autocast_off != to.other_autocast_off) autocast(from, to);
}

void ModeSwitch::autocast(const program::Modes& from, const program::Modes& to) {
  const int64_t was = from.autocast ? from.autocast->outermost : -1, is = to.autocast ? to.autocast->outermost : -1;
  if (was != is && was >= 0 && at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  if (was != is && is >= 0) at::autocast::increment_nesting();
  const bool is_off = is_elsewhere_ && to.other_autocast_off;
  at::autocast::set_autocast_enabled(device_, !is_off && (to.autocast ? to.autocast->enabled : enabled_before_));
  at::autocast::set_autocast_dtype(device_, to.autocast ? scalar_type(to.autocast->type) : type_before_);
  at::autocast::set_autocast_cache_enabled(to.autocast ? to.autocast->cache : cache_before_);
}

}  // namespace estrain::model
