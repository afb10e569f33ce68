#include "core/run/faults/fault_cause.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "core/base/error.h"
#include "core/base/process/child_process.h"

namespace estrain::faults {
namespace {

struct FreeRegex {
  void operator()(regex_t* regex) const {
    ::regfree(regex);
    delete regex;
  }
};

bool has_back_reference(const std::string& pattern) {
  for (size_t at = 0; at + 1 < pattern.size(); ++at) {
    if (pattern[at] != '\\') continue;
    ++at;
    if (std::isdigit(static_cast<unsigned char>(pattern[at]))) return true;
  }
  return false;
}

std::string trimmed(const std::string& text) {
  const auto blank = [](unsigned char letter) { return std::isspace(letter) != 0; };
  const auto begin = std::find_if_not(text.begin(), text.end(), blank);
  const auto end = std::find_if_not(text.rbegin(), std::make_reverse_iterator(begin), blank).base();
  return {begin, end};
}

constexpr size_t most_patterns_shown = 3;

std::string one_of(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " or ")); }

std::string words_of_text(const std::vector<LinePattern>& patterns) {
  std::vector<std::string> shown;
  for (const LinePattern& pattern : patterns) {
    if (shown.size() == most_patterns_shown) {
      shown.emplace_back("…");
      break;
    }
    shown.push_back("`" + pattern.text() + "`");
  }
  return fmt::format("{}", fmt::join(shown, ", "));
}

std::string words_of_faults(const std::vector<Fault>& faults) {
  std::vector<std::string> names;
  for (const Fault fault : faults) names.push_back(fmt::format("`{}`", fault_name(fault)));
  return "a reported " + one_of(names) + " error";
}

std::string words_of_signals(const std::vector<int>& signals) {
  std::vector<std::string> names;
  for (const int number : signals) names.push_back(signal_name(number));
  return one_of(names);
}

}  // namespace

LinePattern::LinePattern(const std::string& pattern) : text_(pattern) {
  if (pattern.find('\0') != std::string::npos) throw Error(Fault::spec, "holds a zero byte");
  if (has_back_reference(pattern)) throw Error(Fault::spec, "back-references (\\1 to \\9) are not supported");
  auto regex = std::make_unique<regex_t>();
  const int failure = ::regcomp(regex.get(), pattern.c_str(), REG_EXTENDED | REG_ICASE | REG_NEWLINE);
  if (failure != 0) {
    char reason[200];
    ::regerror(failure, regex.get(), reason, sizeof reason);
    throw Error::make(Fault::spec, "not a regular expression: {}", reason);
  }
  compiled_ = std::shared_ptr<const regex_t>(regex.release(), FreeRegex());
  if (first_line_in("")) throw Error(Fault::spec, "matches every line");
}

std::optional<std::string> LinePattern::first_line_in(const std::string& lines) const {
  regmatch_t found{};
  if (::regexec(compiled_.get(), lines.c_str(), 1, &found, 0) != 0) return std::nullopt;
  const size_t at = static_cast<size_t>(found.rm_so);
  const size_t before = at == 0 ? std::string::npos : lines.rfind('\n', at - 1);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  return trimmed(lines.substr(begin, lines.find('\n', at) - begin));
}

std::string_view class_name(FaultClass fault_class) {
  switch (fault_class) {
    case FaultClass::user:
      return "user";
    case FaultClass::infrastructure:
      return "infrastructure";
    case FaultClass::engine:
      return "engine";
  }
  return "engine";
}

std::string Signature::words() const {
  std::vector<std::string> conditions;
  if (hung) conditions.emplace_back("no progress");
  if (oom) conditions.emplace_back("an OOM kill");
  if (named) {
    conditions.push_back((faults.empty() ? "an error or a line" : words_of_faults(faults)) + " that names the cause");
  } else if (!faults.empty()) {
    conditions.push_back(words_of_faults(faults));
  }
  if (!signals.empty()) conditions.push_back(words_of_signals(signals));
  if (!exit_statuses.empty()) conditions.push_back(fmt::format("exit status {}", fmt::join(exit_statuses, " or ")));
  if (!text.empty()) conditions.push_back((faults.empty() ? "a line with " : "the words ") + words_of_text(text));
  return fmt::format("{}", fmt::join(conditions, " and "));
}

}  // namespace estrain::faults
