#pragma once
// What check() makes sure of in options of several verbs.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

namespace estrain::cmd {

// A number from `least` up to thirty years, and not NaN.
inline CLI::Validator seconds_from(double least) {
  static constexpr double most = 1e9;
  const auto check = [least](std::string& text) -> std::string {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) return "";
    return fmt::format("must be a number of seconds from {} to {}, found {}", least, most, text);
  };
  return {check, "SECONDS"};
}

// `--devices ""` is not the same as leaving it out.
inline CLI::Validator not_empty() {
  return {[](std::string& text) { return std::string(text.empty() ? "must not be empty" : ""); }, ""};
}

}  // namespace estrain::cmd
