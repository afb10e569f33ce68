#pragma once
// Formats numbers, times and labels for a report.

#include <string>
#include <string_view>

namespace estrain::report {

// A number with four significant digits: "0.02915", "1.2e-05"; words for non-finite numbers.
std::string short_number(double value);

// A label below an axis at `place`, from 0 to 1; kept within the page at the ends.
std::string label_at(double place, std::string_view text);

// "0.42 s", "3 min 05 s", "2 h 10 min", "4 d 03 h".
std::string duration(double seconds);

}  // namespace estrain::report
