#pragma once
// When the tests of profiles take place.

#include <cstdint>

namespace estrain::profile {

constexpr int64_t kNow = 1'800'000'000;  // seconds since 1970

}  // namespace estrain::profile
