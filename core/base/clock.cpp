#include "core/base/clock.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>

namespace estrain {
namespace {

std::string text_of(const timespec& moment) {
  tm parts{};
  gmtime_r(&moment.tv_sec, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, moment.tv_nsec / 1'000'000);
}

}  // namespace

int64_t monotonic_ns() { return count_ns(MonotonicClock::now()); }

int64_t unix_seconds() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec;
}

double wall_seconds() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

int64_t nanoseconds(double seconds) { return nanoseconds(Seconds(seconds)).count(); }

Nanoseconds nanoseconds(Seconds duration) {
  constexpr double most = 0x1p62;
  const double ns = duration.count() * 1e9;
  return Nanoseconds(static_cast<int64_t>(ns < most ? std::max(ns, -most) : most));
}

std::string utc_timestamp() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return text_of(now);
}

std::string utc_timestamp(double unix_seconds) {
  const auto microseconds = static_cast<int64_t>(std::floor(unix_seconds * 1e6 + 0.5));
  return text_of({microseconds / 1'000'000, microseconds % 1'000'000 * 1'000});
}

std::optional<double> seconds_of_utc(std::string_view text) {
  const std::string all(text);
  int year = 0, read = 0;
  unsigned month = 0, day = 0, hour = 0, minute = 0;
  double second = 0;
  if (std::sscanf(all.c_str(), "%4d-%2u-%2u%*1[ T]%2u:%2u:%lf%n", &year, &month, &day, &hour, &minute, &second,
                  &read) != 6 ||
      (all.substr(static_cast<size_t>(read)) != "" && all.substr(static_cast<size_t>(read)) != "Z"))
    return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month), std::chrono::day(day)};
  if (!date.ok() || hour > 23 || minute > 59 || !(second >= 0 && second < 62)) return std::nullopt;
  const auto days = std::chrono::sys_days(date).time_since_epoch();
  return static_cast<double>(std::chrono::seconds(days).count() + hour * 3600 + minute * 60) + second;
}

}  // namespace estrain
