#include "core/engine/model/autocast.h"

#include <ATen/autocast_mode.h>

namespace estrain::model {

namespace autocast = at::autocast;

Autocast::Autocast(c10::DeviceType device, spec::Precision precision)
    : device_(device), active_(precision == spec::Precision::bf16) {
  if (!active_) return;
  was_enabled_ = autocast::is_autocast_enabled(device);
  was_caching_ = autocast::is_autocast_cache_enabled();
  dtype_before_ = autocast::get_autocast_dtype(device);
  autocast::set_autocast_enabled(device, true);
  autocast::set_autocast_dtype(device, at::kBFloat16);
  autocast::set_autocast_cache_enabled(true);
  autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (!active_) return;
  if (autocast::decrement_nesting() == 0) autocast::clear_cache();
  autocast::set_autocast_enabled(device_, was_enabled_);
  autocast::set_autocast_dtype(device_, dtype_before_);
  autocast::set_autocast_cache_enabled(was_caching_);
}

}  // namespace estrain::model
