#pragma once
// Option validators that several verbs share.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

namespace estrain::cmd {

// A number of seconds from `least` to thirty years; not NaN.
inline CLI::Validator seconds_from(double least) {
  static constexpr double most = 1e9;
  const auto check = [least](std::string& text) -> std::string {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) return "";
    return fmt::format("must be a number of seconds from {} to {}, found {}", least, most, text);
  };
  return {check, "SECONDS"};
}

// `--devices ""` is an error: it does not mean the default.
inline CLI::Validator not_empty() {
  return {[](std::string& text) { return std::string(text.empty() ? "must not be empty" : ""); }, ""};
}

}  // namespace estrain::cmd
