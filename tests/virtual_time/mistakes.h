#pragma once
// Mistakes that a decision could make, planted around the real one: each must be found by the laws.

#include <span>
#include <string_view>

#include "tests/virtual_time/world.h"

namespace estrain::virtual_time {

struct Mistake {
  std::string_view name;
  Law law;  // that it breaks
  std::vector<conduct::Action> (*decide)(conduct::State&, const conduct::Event&, const conduct::Moment&);
};

std::span<const Mistake> mistakes();

}  // namespace estrain::virtual_time
