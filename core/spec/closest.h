#pragma once
// "did you mean": the known word that a mistyped one was meant to be.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace estrain::spec {

// Letters to insert, delete, replace or swap with their neighbour to get from one word to the other; case does not
// count.
size_t edit_distance(std::string_view a, std::string_view b);

// The nearest of `candidates`, if it is within a third of the length of `word` (at least one edit); the first of
// equals.
std::optional<std::string> closest(std::string_view word, const std::vector<std::string>& candidates);

// `"a", "b"`: how messages list words.
std::string quoted_list(const std::vector<std::string>& words, std::string_view separator = ", ");

}  // namespace estrain::spec
