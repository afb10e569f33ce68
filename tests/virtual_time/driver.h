#pragma once
// Drives a simulation through random schedules, from the command line:
//
//   PROGRAM [--schedules N] [--seed S]    N schedules, of seeds S, S+1, … (default: 1000 from 1)
//   PROGRAM --replay SEED [--mistake K]   one schedule, told
//   PROGRAM --mistake K [--schedules N]   with the K-th planted mistake; exit code 1 once it is found
//   PROGRAM --mistakes                    each planted mistake must be found, by the law that it breaks
//
// The last line is "schedules N, events M, violations K". Exit code 1 if a law was violated, if something never
// happened in many schedules, or if a mistake was not found; 2 for wrong arguments.

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace estrain::virtual_time {

struct Arguments {
  int64_t schedules = 1000;
  uint64_t seed = 1;
  std::optional<uint64_t> replay;
  std::optional<size_t> mistake;
  bool all_mistakes = false;
};

// Nothing: the arguments are wrong. `mistakes`: the number of planted ones.
inline std::optional<Arguments> read_arguments(int argc, char** argv, size_t mistakes) {
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
    } else if (name == "--mistake" && value >= 1 && value <= mistakes) {
      arguments.mistake = value - 1;
    } else {
      return std::nullopt;
    }
  }
  return arguments;
}

// `Simulation` has: Law, with words_for(); Outcome {events, violations {law, what}, coverage}; Coverage, with
// add(Coverage) ; static Outcome run(uint64_t seed, std::optional<size_t> mistake, std::FILE* trace); static
// mistakes(): {name, law}…; static bool tell(Coverage): prints the coverage, false: something never happened.
template <typename Simulation>
class Driver {
 public:
  explicit Driver(Arguments arguments) : arguments_(arguments) {}

  int run() {
    if (arguments_.all_mistakes) return find_mistakes();
    if (arguments_.replay) return replay();
    const auto began = std::chrono::steady_clock::now();
    const Total total = run_schedules({});
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    fmt::print("{:.0f} schedules a second\n", static_cast<double>(total.schedules) / took.count());
    const bool misses = !Simulation::tell(total.coverage) && total.schedules >= kSchedulesToCover;
    report(total);
    return total.violations == 0 && !misses ? 0 : 1;
  }

 private:
  using Law = typename Simulation::Law;
  static constexpr int64_t kSchedulesForMistakes = 20'000, kMostToldOf = 10;
  static constexpr int64_t kSchedulesToCover = 10'000;  // with at least this many, everything must have happened

  struct Total {
    int64_t schedules = 0, events = 0, violations = 0;
    typename Simulation::Coverage coverage;
    bool found = false;  // the wanted law was violated
  };

  // `wanted`: ends when this law is violated.
  Total run_schedules(std::optional<Law> wanted) const {
    Total total;
    for (int64_t i = 0; i < arguments_.schedules; ++i) {
      const uint64_t seed = arguments_.seed + static_cast<uint64_t>(i);
      const auto outcome = Simulation::run(seed, arguments_.mistake, nullptr);
      ++total.schedules;
      total.events += outcome.events;
      total.coverage.add(outcome.coverage);
      if (outcome.violations.empty()) continue;
      const auto& broken = outcome.violations.front();
      if (++total.violations <= kMostToldOf && !wanted)
        fmt::print("seed {}: law {} ({}): {}\n", seed, static_cast<int>(broken.law), words_for(broken.law),
                   broken.what);
      if (wanted != broken.law) continue;
      total.found = true;
      fmt::print("found by law {} with seed {}\n", static_cast<int>(broken.law), seed);
      break;
    }
    return total;
  }

  int replay() const {
    const auto outcome = Simulation::run(*arguments_.replay, arguments_.mistake, stdout);
    report({1, outcome.events, std::ssize(outcome.violations), {}, false});
    return outcome.violations.empty() ? 0 : 1;
  }

  int find_mistakes() {
    arguments_.schedules = kSchedulesForMistakes;
    Total all;
    int64_t missed = 0;
    const auto mistakes = Simulation::mistakes();
    for (size_t i = 0; i < mistakes.size(); ++i) {
      fmt::print("\"{}\": ", mistakes[i].name);
      arguments_.mistake = i;
      const Total total = run_schedules(mistakes[i].law);
      if (!total.found) {
        ++missed;
        fmt::print("NOT FOUND by law {} ({} violations of others)\n", static_cast<int>(mistakes[i].law),
                   total.violations);
      }
      all.schedules += total.schedules;
      all.events += total.events;
      all.violations += total.violations;
    }
    fmt::print("{} mistakes, {} found\n", mistakes.size(), std::ssize(mistakes) - missed);
    report(all);
    return missed == 0 ? 0 : 1;
  }

  static void report(const Total& total) {
    fmt::print("schedules {}, events {}, violations {}\n", total.schedules, total.events, total.violations);
  }

  Arguments arguments_;
};

template <typename Simulation>
int drive(int argc, char** argv) {
  const auto arguments = read_arguments(argc, argv, Simulation::mistakes().size());
  if (arguments) return Driver<Simulation>(*arguments).run();
  fmt::print(stderr, "usage: {} [--schedules N] [--seed S] [--replay SEED] [--mistake K] [--mistakes]\n", argv[0]);
  return 2;
}

}  // namespace estrain::virtual_time
