#pragma once
// A LinePattern is a regular expression, searched for in the lines of a log: POSIX extended (regex(7)), with GNU's \b,
// \w and \s. Case does not matter, and a match lies within one line.
//
// Not std::regex, which backtracks: a long line would overflow the stack, and a clumsy user pattern would take forever,
// in the one process that must not fail. The C library runs an automaton instead, unless the pattern has
// back-references; so patterns with back-references are refused.

#include <regex.h>

#include <memory>
#include <optional>
#include <string>

namespace estrain::faults {

class LinePattern {
 public:
  // Throws Fault::spec if `pattern` is not a regular expression, has a back-reference or matches the empty line (and so
  // every line).
  explicit LinePattern(const std::string& pattern);

  const std::string& text() const { return text_; }

  // Returns the first matching line of `lines`, without surrounding white space. `lines` must not contain a zero byte.
  std::optional<std::string> first_line_in(const std::string& lines) const;

 private:
  std::string text_;
  std::shared_ptr<const regex_t> compiled_;  // never changes, so copies share the automaton
};

}  // namespace estrain::faults
