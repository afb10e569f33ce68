#pragma once
// A regular expression that is looked for in the lines of a log: POSIX extended (regex(7)), with GNU's \b, \w and \s;
// upper and lower case are the same, and a match lies within one line.
//
// Not std::regex: that one backtracks, so that a long line overflows the stack and a clumsy pattern of a user's takes
// for ever, in the one process that must not fail. The C library runs an automaton instead, as long as there are no
// back-references; those are refused.

#include <regex.h>

#include <memory>
#include <optional>
#include <string>

namespace estrain::faults {

class LinePattern {
 public:
  // Throws Fault::spec where `pattern` is no regular expression, has a back-reference or is found in the empty line
  // (and so in every line).
  explicit LinePattern(const std::string& pattern);

  const std::string& text() const { return text_; }

  // The first line of `lines` that the pattern is found in, without white space around it. `lines` holds no zero byte.
  std::optional<std::string> first_line_in(const std::string& lines) const;

 private:
  std::string text_;
  std::shared_ptr<const regex_t> compiled_;  // never changes, so copies share it
};

}  // namespace estrain::faults
