#pragma once
// Possible mistakes in who leads, each planted in place of a decision: the laws must find every mistake.

#include <span>
#include <string_view>

#include "tests/hosts_in_virtual_time/world.h"

namespace estrain::hosts_in_virtual_time {

struct Mistake {
  std::string_view name;
  Law law;  // that it violates
  void (*plant)(Rules&);
};

std::span<const Mistake> mistakes();

}  // namespace estrain::hosts_in_virtual_time
