// Drives core/hosts/succession through random schedules in virtual time.
//
//   hosts_in_virtual_time [--schedules N] [--seed S]    N schedules, of seeds S, S+1, … (default: 1000 from 1)
//   hosts_in_virtual_time --replay SEED [--mistake K]   one schedule, told
//   hosts_in_virtual_time --mistakes                    each planted mistake must be found, by the law that it breaks
//
// The last line is "schedules N, events M, violations K". Exit code 1 if a law was violated, if something never
// happened in many schedules, or if a mistake was not found; 2 for wrong arguments.

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "tests/hosts_in_virtual_time/mistakes.h"

namespace estrain::hosts_in_virtual_time {
namespace {

constexpr int64_t kSchedulesForMistakes = 20'000, kSchedulesToCover = 10'000, kMostToldOf = 10;

struct Arguments {
  int64_t schedules = 1000;
  uint64_t seed = 1;
  std::optional<uint64_t> replay;
  std::optional<size_t> mistake;
  bool all_mistakes = false;
};

struct Total {
  int64_t schedules = 0, events = 0, violations = 0;
  std::array<int64_t, static_cast<size_t>(Hit::count)> hits{};
  bool found = false;
};

Total run(const Arguments& arguments, const Rules& rules, std::optional<Law> wanted) {
  Total total;
  for (int64_t i = 0; i < arguments.schedules; ++i) {
    const uint64_t seed = arguments.seed + static_cast<uint64_t>(i);
    const Outcome outcome = World(seed, rules, nullptr).run();
    ++total.schedules;
    total.events += outcome.events;
    for (size_t kind = 0; kind < total.hits.size(); ++kind) total.hits[kind] += outcome.hits[kind];
    if (outcome.violations.empty()) continue;
    const Violation& broken = outcome.violations.front();
    if (++total.violations <= kMostToldOf && !wanted)
      fmt::print("seed {}: law {} ({}): {}\n", seed, static_cast<int>(broken.law), words_for(broken.law), broken.what);
    if (wanted != broken.law) continue;
    total.found = true;
    fmt::print("found by law {} with seed {}\n", static_cast<int>(broken.law), seed);
    break;
  }
  return total;
}

void report(const Total& total) {
  fmt::print("schedules {}, events {}, violations {}\n", total.schedules, total.events, total.violations);
}

int find_mistakes(Arguments arguments) {
  arguments.schedules = kSchedulesForMistakes;
  Total all;
  int64_t missed = 0;
  for (const Mistake& mistake : mistakes()) {
    Rules rules;
    mistake.plant(rules);
    fmt::print("\"{}\": ", mistake.name);
    const Total total = run(arguments, rules, mistake.law);
    if (!total.found) {
      ++missed;
      fmt::print("NOT FOUND by law {} ({} violations of others)\n", static_cast<int>(mistake.law), total.violations);
    }
    all.schedules += total.schedules;
    all.events += total.events;
    all.violations += total.violations;
  }
  fmt::print("{} mistakes, {} found\n", mistakes().size(), std::ssize(mistakes()) - missed);
  report(all);
  return missed == 0 ? 0 : 1;
}

bool everything_happened(const Total& total) {
  static constexpr const char* words[] = {"a kill",
                                          "a cut",
                                          "a one-way cut",
                                          "a pause",
                                          "a leave",
                                          "a join",
                                          "a call to a host that was lost",
                                          "a takeover",
                                          "a coordinator that gave up",
                                          "a takeover without locks that are seen",
                                          "a finished run"};
  bool all = true;
  for (size_t kind = 0; kind < total.hits.size(); ++kind) {
    fmt::print("{:>9} times {}\n", total.hits[kind], words[kind]);
    all &= total.hits[kind] > 0;
  }
  return all;
}

std::optional<Arguments> read(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--mistakes") {
      arguments.all_mistakes = true;
      continue;
    }
    if (i + 1 == argc) return std::nullopt;
    char* end = nullptr;
    const uint64_t value = std::strtoull(argv[++i], &end, 10);
    if (*argv[i] == '\0' || *end != '\0') return std::nullopt;
    if (name == "--schedules") {
      arguments.schedules = static_cast<int64_t>(value);
    } else if (name == "--seed") {
      arguments.seed = value;
    } else if (name == "--replay") {
      arguments.replay = value;
    } else if (name == "--mistake" && value >= 1 && value <= mistakes().size()) {
      arguments.mistake = value - 1;
    } else {
      return std::nullopt;
    }
  }
  return arguments;
}

int run(const Arguments& arguments) {
  if (arguments.all_mistakes) return find_mistakes(arguments);
  Rules rules;
  if (arguments.mistake) mistakes()[*arguments.mistake].plant(rules);
  if (arguments.replay) {
    const Outcome outcome = World(*arguments.replay, rules, stdout).run();
    report({1, outcome.events, std::ssize(outcome.violations), {}, {}});
    return outcome.violations.empty() ? 0 : 1;
  }
  const auto began = std::chrono::steady_clock::now();
  const Total total = run(arguments, rules, {});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  fmt::print("{:.0f} schedules a second\n", static_cast<double>(total.schedules) / took.count());
  const bool misses = !everything_happened(total) && total.schedules >= kSchedulesToCover;
  report(total);
  return total.violations == 0 && !misses ? 0 : 1;
}

}  // namespace
}  // namespace estrain::hosts_in_virtual_time

int main(int argc, char** argv) {
  const auto arguments = estrain::hosts_in_virtual_time::read(argc, argv);
  if (!arguments) {
    fmt::print(stderr,
               "usage: hosts_in_virtual_time [--schedules N] [--seed S] [--replay SEED] [--mistake K] [--mistakes]\n");
    return 2;
  }
  return estrain::hosts_in_virtual_time::run(*arguments);
}
