#pragma once
// Shared by the spec's tests: a minimal spec, and the Error for a text.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/job/spec/parsing/parse.h"

namespace estrain::spec {

inline const std::string smallest = "[model]\nname = \"mlp\"\n[train]\nsteps = 1\n";

// A job with this model, keys of [model] in `rest`, and further TOML.
inline std::string spec_text(const std::string& model, const std::string& rest) {
  return "[model]\nname = \"" + model + "\"\n" + rest + "\n[train]\nsteps = 1\n";
}

// Parses the minimal spec followed by `extra`, which begins on line 5.
inline JobSpec parse_with(const std::string& extra, const std::vector<std::string>& overrides = {}) {
  return parse_text(smallest + extra, "job.toml", overrides);
}

inline Error error_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parse_text(text, "job.toml", overrides);
  } catch (const Error& error) {
    return error;
  }
  FAIL("this spec was taken: " << text);
  return Error(Fault::bug, "");
}

inline std::string complaint(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const Error error = error_of(text, overrides);
  CHECK(error.fault() == Fault::spec);
  CHECK_FALSE(error.advice().empty());
  return error.message();
}

// The Error for `extra` after the minimal spec.
inline std::string complaint_with(const std::string& extra, const std::vector<std::string>& overrides = {}) {
  return complaint(smallest + extra, overrides);
}

}  // namespace estrain::spec
