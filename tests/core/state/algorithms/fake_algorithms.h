#pragma once
// A fake library of algorithms without a device: names and their times.

#include <exception>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/state/algorithms/pinning.h"

namespace estrain::algorithms {

struct FakeAlgorithms : LibraryAlgorithms {
  std::vector<std::pair<std::string, std::optional<double>>> all;  // sorted by name
  std::vector<double> bests;                                       // the `fastest` of each call
  int measured = 0, listed = 0;
  std::exception_ptr met;  // an obstacle
  std::string objected;

  explicit FakeAlgorithms(std::vector<std::pair<std::string, std::optional<double>>> algorithms)
      : all(std::move(algorithms)) {}

  std::vector<std::string> candidates(const std::function<void()>& between) override {
    ++listed;
    between();
    std::vector<std::string> names;
    for (const auto& [name, time] : all) names.push_back(name);
    return names;
  }
  std::optional<std::string> refusal(const std::string& algorithm) override {
    for (const auto& [name, time] : all) {
      if (name == algorithm) return std::nullopt;
    }
    return "there is no " + algorithm;
  }
  std::optional<double> seconds(const std::string& algorithm, double fastest) override {
    ++measured;
    bests.push_back(fastest);
    for (const auto& [name, time] : all) {
      if (name == algorithm) return time;
    }
    return std::nullopt;
  }
  std::exception_ptr obstacle() override { return met; }
  std::string objection() override { return objected; }
};

}  // namespace estrain::algorithms
