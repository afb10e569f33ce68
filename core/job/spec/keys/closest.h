#pragma once
// "did you mean": finds the known word nearest to a mistyped one.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace estrain::spec {

// Returns the number of insertions, deletions, replacements and swaps of neighbouring letters between two words. Case
// does not count.
size_t edit_distance(std::string_view a, std::string_view b);

// Returns the nearest of `candidates`, if its distance is at most a third of the length of `word` (but at least 1 is
// allowed). On a tie, the first candidate wins.
std::optional<std::string> closest(std::string_view word, const std::vector<std::string>& candidates);

// `"a", "b"`: how messages list words.
std::string quoted_list(const std::vector<std::string>& words, std::string_view separator = ", ");

}  // namespace estrain::spec
