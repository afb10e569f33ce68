#pragma once
// Numbers, times and labels as a report shows them.

#include <string>
#include <string_view>

namespace estrain::report {

// A number with four digits that count, for a reader: "0.02915", "1.2e-05"; what is not finite in words.
std::string short_number(double value);

// A label below an axis, `place` from 0 to 1; at the ends it stays within the page.
std::string label_at(double place, std::string_view text);

// "0.42 s", "3 min 05 s", "2 h 10 min", "4 d 03 h".
std::string duration(double seconds);

}  // namespace estrain::report
