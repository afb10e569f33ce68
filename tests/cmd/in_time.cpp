#include "in_time.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>

namespace estrain::testing {
namespace {

constexpr int kAttempts = 3;

}  // namespace

bool Timed::check(bool holds, const std::string& what) {
  if (!holds) late_ += (late_.empty() ? "" : "; ") + what;
  return holds;
}

void in_time(const std::string& what, const std::function<void(Timed&)>& attempt) {
  for (int number = 1;; ++number) {
    Timed timed;
    attempt(timed);
    if (timed.late().empty()) return;
    if (number == kAttempts) {
      FAIL_CHECK(fmt::format("{}: not in time in {} attempts: {}", what, kAttempts, timed.late()));
      return;
    }
    note_retry(fmt::format("{}: {}", what, timed.late()));
  }
}

void note_retry(const std::string& what) {
  fmt::print("tried again: {}\n", what);
  if (const char* file = std::getenv("ESTRAIN_RETRIES")) std::ofstream(file, std::ios::app) << what << "\n";
}

}  // namespace estrain::testing
