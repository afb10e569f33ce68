#include "core/run/launch/launcher/processes/sentry.h"

#include <doctest/doctest.h>

#include <vector>

namespace estrain::launch {
namespace {

using comm::Activity;

const LongestWork kUnknown;
const LongestWork kKnown{.step = 1s, .evaluation = 20s};
const LongestWork kLimited{.step = 1s, .evaluation = 20s, .limit = 7s};

// It has used no CPU time since its last beat.
Silence still(Activity activity, int64_t seconds) { return {activity, seconds * 1s, seconds * 1s}; }
// It uses CPU time continuously.
Silence busy(Activity activity, int64_t seconds) { return {activity, seconds * 1s, 0s}; }

// Seconds of silence until it counts as hung; -1: never.
int64_t first_hang(Silence (*silence)(Activity, int64_t), Activity activity, const LongestWork& pace) {
  for (int64_t seconds = 0; seconds < 10'000; ++seconds) {
    if (why_hung(silence(activity, seconds), pace)) return seconds;
  }
  return -1;
}

TEST_CASE("who takes no processor time hangs after three times the longest of such work and 2 s") {
  CHECK(first_hang(still, Activity::computing, kKnown) == 6);
  CHECK(first_hang(still, Activity::evaluating, kKnown) == 63);
}

TEST_CASE("an evaluation is not measured by the steps of training") {
  CHECK(first_hang(still, Activity::evaluating, {.step = 1s}) == 121);
  CHECK(first_hang(still, Activity::computing, {.evaluation = 20s}) == 121);
}

TEST_CASE("what was never measured gets two minutes without processor time, an hour with it") {
  for (const Activity activity : {Activity::computing, Activity::evaluating, Activity::idle}) {
    CHECK(first_hang(still, activity, kUnknown) == 121);
    CHECK(first_hang(busy, activity, kUnknown) == 3601);
  }
  CHECK(first_hang(still, Activity::idle, kKnown) == 121);
}

TEST_CASE("who takes processor time is at work, for ten minutes and ten times its patience without it") {
  CHECK(first_hang(busy, Activity::computing, kKnown) == 601);
  CHECK(first_hang(busy, Activity::evaluating, kKnown) == 621);
}

TEST_CASE("processor time that was taken a while ago does not count") {
  const auto hangs = [](int64_t since_beat, int64_t since_work) {
    return why_hung({Activity::computing, since_beat * 1s, since_work * 1s}, kKnown).has_value();
  };
  CHECK_FALSE(hangs(100, 5));
  CHECK(hangs(100, 6));
}

TEST_CASE("whoever waits for its data is given ten minutes, as another would wait for the same storage") {
  CHECK(first_hang(still, Activity::reading, kUnknown) == 601);
  CHECK(first_hang(still, Activity::reading, kKnown) == 601);
  CHECK(first_hang(still, Activity::reading, {.step = 300s}) == 903);
  CHECK(first_hang(busy, Activity::reading, kKnown) == 3601);
}

TEST_CASE("whoever waits for others, the scribe or room, or has left, never hangs") {
  for (const Activity activity : {Activity::meeting, Activity::waiting_for_scribe, Activity::waiting_for_room}) {
    for (const LongestWork& pace : {kUnknown, kKnown, kLimited}) CHECK(first_hang(still, activity, pace) == -1);
  }
  Silence silence = still(Activity::computing, 10'000);
  REQUIRE(why_hung(silence, kKnown));
  silence.left = true;
  CHECK_FALSE(why_hung(silence, kKnown));
  CHECK_FALSE(why_lingering(silence, 10'000s, kKnown));
}

TEST_CASE("recovery.hang_seconds stands in the place of all that, processor time or not") {
  for (const Activity activity : {Activity::computing, Activity::evaluating, Activity::idle}) {
    CHECK(first_hang(still, activity, kLimited) == 8);
    CHECK(first_hang(busy, activity, kLimited) == 8);
    CHECK(first_hang(still, activity, {.limit = 200s}) == 201);
  }
  CHECK(first_hang(still, Activity::reading, kLimited) == 601);
  CHECK(first_hang(busy, Activity::reading, kLimited) == 601);
  CHECK(first_hang(still, Activity::reading, {.limit = 700s}) == 701);
}

TEST_CASE("the reason says what was seen, and for how long") {
  CHECK(why_hung(still(Activity::computing, 6), kKnown) == "made no progress for 6.0 s");
  CHECK(why_hung(still(Activity::idle, 200), kKnown) == "made no progress for 200.0 s");
  CHECK(why_hung(still(Activity::evaluating, 70), kKnown) == "made no progress in an evaluation for 70.0 s");
  CHECK(why_hung(still(Activity::reading, 700), kKnown) == "waited for its data for 700.0 s");
  CHECK(why_hung(busy(Activity::computing, 700), kKnown) ==
        "made no progress for 700.0 s, though it took processor time");
  CHECK(why_lingering(still(Activity::computing, 10), 8s, kKnown) ==
        "did not leave the step that was given up for 8.0 s");
}

TEST_CASE("who is to leave a stage has its patience and 2 s, from when the stage was given up") {
  const auto lingers = [](const Silence& silence, int64_t since_abort, const LongestWork& pace = kKnown) {
    return why_lingering(silence, since_abort * 1s, pace).has_value();
  };
  CHECK_FALSE(lingers(still(Activity::computing, 100), 7));
  CHECK(lingers(still(Activity::computing, 100), 8));
  CHECK_FALSE(lingers(still(Activity::evaluating, 100), 64));
  CHECK(lingers(still(Activity::evaluating, 100), 65));
  CHECK_FALSE(lingers(still(Activity::reading, 700), 602));
  CHECK(lingers(still(Activity::reading, 700), 603));
  CHECK(lingers(still(Activity::meeting, 100), 8));
  CHECK_FALSE(lingers(busy(Activity::meeting, 100), 7));
  CHECK(lingers(busy(Activity::meeting, 100), 8));
  CHECK_FALSE(lingers(busy(Activity::computing, 700), 602));
  CHECK(lingers(busy(Activity::computing, 700), 603));
  CHECK_FALSE(lingers(still(Activity::computing, 3), 100));  // it continues
  CHECK(lingers(busy(Activity::computing, 3), 700));         // but does not leave
  CHECK_FALSE(lingers(busy(Activity::computing, 100), 9, kLimited));
  CHECK(lingers(busy(Activity::computing, 100), 10, kLimited));
}

TEST_CASE("all wait for each other if nobody has done anything else for as long as a step may be silent") {
  const Silence meets = still(Activity::meeting, 6), has_left{.activity = Activity::computing, .left = true};
  CHECK(all_wait(std::vector{meets, meets}, kKnown));
  CHECK_FALSE(all_wait(std::vector{still(Activity::meeting, 5), meets}, kKnown));
  CHECK(all_wait(std::vector{busy(Activity::meeting, 6), busy(Activity::meeting, 6)}, kKnown));
  for (const Activity other : {Activity::idle, Activity::computing, Activity::evaluating, Activity::reading,
                               Activity::waiting_for_scribe, Activity::waiting_for_room})
    CHECK_FALSE(all_wait(std::vector{meets, still(other, 1000)}, kKnown));
  CHECK_FALSE(all_wait(std::vector{has_left, has_left}, kKnown));
  Silence left_long_ago = still(Activity::computing, 100);
  left_long_ago.left = true;
  CHECK(all_wait(std::vector{meets, left_long_ago}, kKnown));
  CHECK_FALSE(all_wait(std::vector{still(Activity::meeting, 121), meets}, kUnknown));
  CHECK(all_wait(std::vector{still(Activity::meeting, 121), still(Activity::meeting, 121)}, kUnknown));
  CHECK(all_wait(std::vector{still(Activity::meeting, 8), still(Activity::meeting, 8)}, kLimited));
}

}  // namespace
}  // namespace estrain::launch
