// Drives core/conduct through random schedules in virtual time.
//
//   virtual_time [--schedules N] [--seed S]    N schedules, of seeds S, S+1, … (default: 1000 from 1)
//   virtual_time --replay SEED                 one schedule, each event and action told
//   virtual_time --mistake K [--schedules N]   with the K-th planted mistake; exit code 1 once it is found
//   virtual_time --mistakes                    each planted mistake must be found, by the law that it breaks
//
// The last line is "schedules N, events M, violations K". Exit code 1 if a law was violated, if a kind of event or
// action never happened in many schedules, or (--mistakes) if a mistake was not found; 2 for wrong arguments.

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "tests/virtual_time/mistakes.h"
#include "tests/virtual_time/world.h"

namespace estrain::virtual_time {
namespace {

constexpr int64_t kMostToldOf = 10;
constexpr int64_t kSchedulesForMistakes = 20'000;
constexpr int64_t kSchedulesToCover = 10'000;  // with at least this many, everything must have happened

struct Arguments {
  int64_t schedules = 1000;
  uint64_t seed = 1;
  std::optional<uint64_t> replay;
  std::optional<size_t> mistake;
  bool all_mistakes = false;
};

struct Total {
  int64_t schedules = 0, events = 0, violations = 0;
  Coverage coverage;
  bool found = false;  // the expected law was violated
};

Outcome run_one(uint64_t seed, const Decide& decide, std::FILE* trace) { return World(seed, decide, trace).run(); }

// `wanted`: the run ends when this law is violated.
Total run(const Arguments& arguments, const Decide& decide, std::optional<Law> wanted) {
  Total total;
  for (int64_t i = 0; i < arguments.schedules; ++i) {
    const uint64_t seed = arguments.seed + static_cast<uint64_t>(i);
    const Outcome outcome = run_one(seed, decide, nullptr);
    ++total.schedules;
    total.events += outcome.events;
    total.coverage.add(outcome.coverage);
    if (outcome.violations.empty()) continue;
    const Violation& broken = outcome.violations.front();
    if (++total.violations <= kMostToldOf)
      fmt::print("seed {}: law {} ({}): {}\n", seed, static_cast<int>(broken.law), words_for(broken.law), broken.what);
    if (wanted == broken.law) {
      total.found = true;
      break;
    }
  }
  return total;
}

// Prints the events and actions that never happened, and the phases of faults and requests.
std::vector<std::string> tell_coverage(const Coverage& coverage) {
  std::vector<std::string> never;
  for (size_t kind = 0; kind < coverage.events.size(); ++kind) {
    if (coverage.events[kind] == 0) never.push_back("the event " + event_name(kind));
  }
  for (size_t kind = 0; kind < coverage.deeds.size(); ++kind) {
    if (coverage.deeds[kind] == 0) never.push_back("the action " + deed_name(kind));
  }
  for (size_t phase = 0; phase < coverage.faults.size(); ++phase) {
    fmt::print("{:<12}{:>9} faults{:>9} requests\n", phase_name(phase), coverage.faults[phase],
               coverage.requests[phase]);
    if (coverage.faults[phase] == 0) never.push_back("a fault while " + phase_name(phase));
    const bool listens = phase_name(phase) != "over";
    if (listens && coverage.requests[phase] == 0) never.push_back("a request while " + phase_name(phase));
  }
  for (const std::string& what : never) fmt::print("never happened: {}\n", what);
  return never;
}

void report(const Total& total) {
  fmt::print("schedules {}, events {}, violations {}\n", total.schedules, total.events, total.violations);
}

int find_mistakes(Arguments arguments) {
  arguments.schedules = kSchedulesForMistakes;
  Total all;
  int missed = 0;
  for (const Mistake& mistake : mistakes()) {
    fmt::print("\"{}\": ", mistake.name);
    const Total total = run(arguments, mistake.decide, mistake.law);
    if (!total.found) {
      ++missed;
      fmt::print("NOT FOUND by law {}\n", static_cast<int>(mistake.law));
    }
    all.schedules += total.schedules;
    all.events += total.events;
    all.violations += total.violations;
  }
  fmt::print("{} mistakes, {} found\n", mistakes().size(), std::ssize(mistakes()) - missed);
  report(all);
  return missed == 0 ? 0 : 1;
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
  const Decide decide = arguments.mistake ? Decide(mistakes()[*arguments.mistake].decide) : Decide(conduct::decide);
  if (arguments.all_mistakes) return find_mistakes(arguments);
  if (arguments.replay) {
    const Outcome outcome = run_one(*arguments.replay, decide, stdout);
    report({1, outcome.events, std::ssize(outcome.violations), {}, {}});
    return outcome.violations.empty() ? 0 : 1;
  }
  const auto began = std::chrono::steady_clock::now();
  const Total total = run(arguments, decide, {});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  fmt::print("{:.0f} schedules a second\n", static_cast<double>(total.schedules) / took.count());
  const bool misses = !tell_coverage(total.coverage).empty() && total.schedules >= kSchedulesToCover;
  report(total);
  return total.violations == 0 && !misses ? 0 : 1;
}

}  // namespace
}  // namespace estrain::virtual_time

int main(int argc, char** argv) {
  const auto arguments = estrain::virtual_time::read(argc, argv);
  if (!arguments) {
    fmt::print(stderr, "usage: virtual_time [--schedules N] [--seed S] [--replay SEED] [--mistake K] [--mistakes]\n");
    return 2;
  }
  return estrain::virtual_time::run(*arguments);
}
