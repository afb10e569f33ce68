#pragma once
// How this process greets others.

#include "core/net/greeting.h"

namespace estrain::hosts {

net::Greeting own_greeting(const std::string& host, const std::string& purpose, int64_t term);

}  // namespace estrain::hosts
