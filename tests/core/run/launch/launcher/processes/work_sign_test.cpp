#include <doctest/doctest.h>
#include <unistd.h>

#include <initializer_list>

#include "core/run/launch/launcher/processes/processes.h"
#include "tests/durations.h"

namespace estrain::launch {
namespace {

// A process that is silent since its clock began, checked ten times a second.
class Silent {
 public:
  // `processor_share`: CPU time over elapsed time. Its state is what /proc shows at each check.
  void pass(int64_t ns, double processor_share, char state = 'S') {
    for (const int64_t end = now_ + ns; now_ < end;) {
      now_ += 100 * kMs;
      taken_ += processor_share * 0.1;
      look(state);
    }
  }
  void beat() { since_ = now_; }
  void look(char state) {
    const auto ticks = static_cast<uint64_t>(taken_ * static_cast<double>(::sysconf(_SC_CLK_TCK)));
    sign_.observe(now_, since_, {state, ticks});
  }
  int64_t now() const { return now_; }
  int64_t idle_ns() const { return now_ - sign_.at_ns(); }

 private:
  WorkSign sign_;
  int64_t now_ = 1000 * kSecond, since_ = now_;
  double taken_ = 5;
};

TEST_CASE("who has never been looked at was never at work") { CHECK(WorkSign().at_ns() == 0); }

TEST_CASE("who takes processor time is at work; the time from before its silence is no sign") {
  Silent process;
  process.look('S');
  CHECK(process.idle_ns() == process.now());
  process.pass(kSecond, 1);
  CHECK(process.idle_ns() == 0);
  process.pass(5 * kSecond, 0);
  CHECK(process.idle_ns() == 5 * kSecond);
  process.beat();
  process.pass(100 * kMs, 1);  // the first check in a new silence
  CHECK(process.idle_ns() == 5 * kSecond + 100 * kMs);
  process.pass(100 * kMs, 1);
  CHECK(process.idle_ns() == 0);
}

TEST_CASE("a fiftieth of a processor is work, a few looks around of threads in the background are none") {
  Silent starved;
  starved.pass(100 * kSecond, 0.02);
  CHECK(starved.idle_ns() < 2 * kSecond);
  Silent hung;
  hung.pass(kSecond, 1);
  hung.pass(100 * kSecond, 0.002);
  CHECK(hung.idle_ns() >= 90 * kSecond);
}

TEST_CASE("who would run is at work, though others hold the processor") {
  Silent process;
  process.pass(100 * kSecond, 0, 'R');
  CHECK(process.idle_ns() == 0);
  for (const char state : {'S', 'D', 't', '\0'}) {
    process.pass(10 * kSecond, 0, state);
    CHECK(process.idle_ns() >= 10 * kSecond);
  }
}

TEST_CASE("what waits for one that works counts as at work") {
  WorkSign sign;
  sign.mark(7);
  CHECK(sign.at_ns() == 7);
}

}  // namespace
}  // namespace estrain::launch
