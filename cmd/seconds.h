#pragma once
// Options that are times in seconds.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

namespace estrain::cmd {

// For check(): a number from `least` up to thirty years, and not NaN.
inline CLI::Validator seconds_from(double least) {
  static constexpr double most = 1e9;
  const auto check = [least](std::string& text) -> std::string {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) return "";
    return fmt::format("must be a number of seconds from {} to {}, found {}", least, most, text);
  };
  return {check, "SECONDS"};
}

}  // namespace estrain::cmd
