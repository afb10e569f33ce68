#pragma once
// What the value of one key may be, beyond its type; said once, for checking and for the reference of all keys.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace estrain::spec {

// An interval; a bound that is not set does not bind.
struct Range {
  std::optional<int64_t> low, high;
  bool low_open = false, high_open = false;  // the bound itself is outside

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
  Range range;                                         // of a number, or of every element of an array
  std::vector<std::string> choices;                    // of a string; empty: any
  std::vector<std::pair<std::string, int64_t>> words;  // strings that stand for integers
  std::vector<int64_t> numbers;                        // the only values of an integer; empty: any in range
  std::vector<size_t> lengths;                         // how many elements an array may have; empty: any number
  bool filled = false;                                 // a string, or an array, that must not be empty
  bool path = false;                                   // of a file or folder: made absolute when read
  bool takes_integer = false;                          // a string that may be written as an integer >= 1

  std::string text() const;  // all of it in words, for the reference; may be empty
};

// `one of 1, 2 or 3`-like list of the lengths: "2", "0 or 2".
std::string lengths_text(const Rule& rule);

}  // namespace estrain::spec
