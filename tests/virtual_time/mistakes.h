#pragma once
// Possible mistakes of decide(), planted around the real function: the laws must detect each mistake.

#include <span>
#include <string_view>

#include "tests/virtual_time/world.h"

namespace estrain::virtual_time {

struct Mistake {
  std::string_view name;
  Law law;  // that it violates
  std::vector<decisions::Action> (*decide)(decisions::RunState&, const decisions::Event&, const decisions::Moment&);
};

std::span<const Mistake> mistakes();

}  // namespace estrain::virtual_time
