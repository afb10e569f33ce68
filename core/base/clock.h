#pragma once
// Monotonic time for durations, wall time for logs. Neither ever reaches the arithmetic of a job.
//
// Times of clocks are whole nanoseconds; measured and estimated durations are `Seconds`, with a fraction. seconds() and
// nanoseconds() convert one into the other. The conversions of std::chrono round differently in the last digit, and
// files and messages keep their digits: no code relies on these conversions.

#include <chrono>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

namespace estrain {

using namespace std::chrono_literals;

using Nanoseconds = std::chrono::nanoseconds;
using Seconds = std::chrono::duration<double>;

// A Clock is a clock of the kernel, in the form that std::chrono expects. Points of different clocks do not mix.
template <int kernel_clock, bool steady>
struct Clock {
  using duration = Nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Clock>;
  static constexpr bool is_steady = steady;

  static time_point now() {
    timespec time{};
    clock_gettime(kernel_clock, &time);
    return time_point(std::chrono::seconds(time.tv_sec) + Nanoseconds(time.tv_nsec));
  }
};
using MonotonicClock = Clock<CLOCK_MONOTONIC, true>;  // comparable between processes of one host
using WallClock = Clock<CLOCK_REALTIME, false>;       // since 1970
using MonotonicTime = MonotonicClock::time_point;
using WallTime = WallClock::time_point;
inline constexpr MonotonicTime kNoTime{};  // in words of shared memory and in messages: 0

// The conversions for words of shared memory and messages.
constexpr MonotonicTime monotonic_time(int64_t ns) { return MonotonicTime(Nanoseconds(ns)); }
constexpr int64_t count_ns(MonotonicTime time) { return time.time_since_epoch().count(); }

inline Seconds seconds(Nanoseconds duration) { return Seconds(static_cast<double>(duration.count()) * 1e-9); }
// Limits the result to +-2^62 ns (146 years): adding the result to a MonotonicTime does not overflow; NaN gives the
// maximum.
Nanoseconds nanoseconds(Seconds duration);

int64_t monotonic_ns();                          // CLOCK_MONOTONIC: comparable between processes of one host
int64_t unix_seconds();                          // seconds since 1970
double wall_seconds();                           // with their fraction, for comparing the clocks of hosts
std::string utc_timestamp();                     // "2031-05-04T12:30:01.123Z"
std::string utc_timestamp(double unix_seconds);  // of a moment since 1970
// Reads "2031-05-04T12:30:01.123Z", also with a space for the T, and without fraction and Z. Returns seconds since
// 1970, or nothing for any other text.
std::optional<double> seconds_of_utc(std::string_view text);

// Limits the result to +-2^62 (146 years): adding monotonic_ns() does not overflow; NaN gives the maximum.
int64_t nanoseconds(double seconds);

inline double seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace estrain
