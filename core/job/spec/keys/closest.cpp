#include "core/job/spec/keys/closest.h"

#include <algorithm>
#include <cctype>

namespace estrain::spec {
namespace {

bool same_letter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  // Row i holds the distances from a's first i letters to all prefixes of b.
  std::vector<std::vector<size_t>> rows(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) rows[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = rows[i - 1][j - 1] + (same_letter(a[i - 1], b[j - 1]) ? 0 : 1);
      rows[i][j] = std::min({replaced, rows[i - 1][j] + 1, rows[i][j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]);
      if (swapped) rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
    }
  }
  return rows[a.size()][b.size()];
}

std::optional<std::string> closest(std::string_view word, const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  size_t limit = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance >= limit) continue;
    limit = distance;
    best = candidate;
  }
  return best;
}

std::string quoted_list(const std::vector<std::string>& words, std::string_view separator) {
  std::string list;
  for (const std::string& word : words) {
    if (!list.empty()) list += separator;
    list += '"' + word + '"';
  }
  return list;
}

}  // namespace estrain::spec
