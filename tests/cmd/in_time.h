#pragma once
// Assertions on time, which may fail on a busy machine although nothing is wrong: the attempt is then repeated, printed
// and counted. All other assertions of an attempt (CHECK and REQUIRE, above all on bits) are final at every attempt.

#include <functional>
#include <string>

namespace estrain::testing {

// The checks of an attempt that were too slow.
class Timed {
 public:
  // Returns `holds`. `what` should happen in time, or follow from the speeds of a quiet machine.
  bool check(bool holds, const std::string& what);
  const std::string& late() const { return late_; }

 private:
  std::string late_;
};

// Runs `attempt` until everything is in time, at most three times.
void in_time(const std::string& what, const std::function<void(Timed&)>& attempt);

// Reports a retry: a line on stdout, and a line in the file named by ESTRAIN_RETRIES, which scripts/test counts.
void note_retry(const std::string& what);

}  // namespace estrain::testing
