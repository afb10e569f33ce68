#pragma once
// Checks of the command line shared by several verbs.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "core/base/error.h"

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

// `--devices ""` is an error, not the default.
inline CLI::Validator not_empty() {
  return {[](std::string& text) { return std::string(text.empty() ? "must not be empty" : ""); }, ""};
}

// "5%" becomes 0.05. From 0 % to 1000 %.
inline CLI::Validator as_part() {
  const auto transform = [](std::string& text) -> std::string {
    double percent = 0;
    const bool is_percent = text.ends_with('%') && CLI::detail::lexical_cast(text.substr(0, text.size() - 1), percent);
    if (!is_percent || !(percent >= 0 && percent <= 1000))
      return fmt::format("must be a part in per cent, such as 5%, found {}", text);
    text = fmt::format("{}", percent / 100);
    return "";
  };
  return {transform, "PERCENT"};
}

// "64GB" becomes a number of bytes above zero.
inline CLI::Validator as_memory() {
  const auto transform = [](std::string& text) -> std::string {
    const std::string given = text;
    const bool begins_with_digit = !text.empty() && text[0] >= '0' && text[0] <= '9';
    if (begins_with_digit && CLI::AsSizeValue(true)(text).empty() && text != "0") return "";
    return fmt::format("must be bytes above zero, such as 64GB, found {}", given);
  };
  return {transform, "BYTES"};
}

// "10.0.0.1:7000", "nodeA:7000"; ":7000" where `needs_host` is false. Names are looked up later.
inline CLI::Validator host_and_port(bool needs_host) {
  const auto check = [needs_host](std::string& text) -> std::string {
    const size_t colon = text.rfind(':');
    int port = 0;
    const bool has_port =
        colon != text.npos && CLI::detail::lexical_cast(text.substr(colon + 1), port) && port >= 1 && port <= 65535;
    if (has_port && (colon > 0 || !needs_host)) return "";
    return fmt::format("must be an address and a port, such as 10.0.0.1:7000{}, found {}",
                       needs_host ? "" : ", or :7000", text);
  };
  return {check, needs_host ? "HOST:PORT" : "[HOST]:PORT"};
}

// Throws Fault::usage, with the advice, if a file, folder or link stands where a command would write.
inline void require_absent(const std::string& path, const std::string& advice) {
  if (std::filesystem::exists(std::filesystem::symlink_status(path)))
    throw Error::make(Fault::usage, "{} exists already", path).advise(advice);
}

}  // namespace estrain::cmd
