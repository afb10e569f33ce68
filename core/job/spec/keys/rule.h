#pragma once
// The allowed values of a key, beyond its type. Checking and the reference of all keys use the same rule.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace estrain::spec {

// An interval; an unset bound means no limit.
struct Interval {
  std::optional<int64_t> low, high;
  bool low_open = false, high_open = false;  // whether the bound itself is excluded

  bool contains(int64_t value) const { return contains_value(value); }
  bool contains(double value) const { return contains_value(value); }
  std::string text() const;  // ">= 1", "> 0", "[0, 1)"; empty without bounds

 private:
  template <typename T>
  bool contains_value(T value) const {
    const auto bound = [](int64_t limit) { return static_cast<T>(limit); };
    const bool above = !low || (low_open ? value > bound(*low) : value >= bound(*low));
    const bool below = !high || (high_open ? value < bound(*high) : value <= bound(*high));
    return above && below;
  }
};

struct Rule {
  Interval range;                                      // for a number, or for every element of an array
  std::vector<std::string> choices;                    // for a string; empty: any string
  std::vector<std::pair<std::string, int64_t>> words;  // words that replace integers
  std::vector<int64_t> numbers;                        // the only values for an integer; empty: any in range
  std::vector<size_t> lengths;                         // allowed numbers of elements of an array; empty: any number
  bool filled = false;                                 // a string or array must not be empty
  bool path = false;                                   // a file or folder: made absolute when read
  bool takes_integer = false;                          // a string may be written as an integer >= 1

  std::string text() const;  // the whole rule in words, for the reference; may be empty
};

// The lengths as a list: "2", "0 or 2".
std::string lengths_text(const Rule& rule);

}  // namespace estrain::spec
