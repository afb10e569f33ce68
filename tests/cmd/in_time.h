#pragma once
// Assertions on time. On a busy machine one may fail though nothing is wrong: then what led to it is done again, which
// is printed and counted. All else that an attempt checks, bits above all, counts at every attempt: CHECK and REQUIRE
// are never tried again.

#include <functional>
#include <string>

namespace estrain::testing {

// What was too slow in one attempt.
class Timed {
 public:
  // Returns `holds`. `what` should have come in time, or should follow from speeds as they are on a quiet machine.
  bool check(bool holds, const std::string& what);
  const std::string& late() const { return late_; }

 private:
  std::string late_;
};

// Carries `attempt` out until all was in time, three times at most.
void in_time(const std::string& what, const std::function<void(Timed&)>& attempt);

// Tells of something that is tried again: a line on stdout, and one in the file that ESTRAIN_RETRIES names, for
// scripts/test to count.
void note_retry(const std::string& what);

}  // namespace estrain::testing
