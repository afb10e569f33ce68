#include "core/run/faults/diagnosis.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <string_view>
#include <utility>

#include "core/base/files/input_file.h"
#include "core/job/resources/memory_evidence.h"
#include "core/run/faults/fault_rules.h"

namespace estrain::faults {
namespace {

constexpr std::string_view built_in_rules =
#include <estrain/built_in_faults.inc>
    ;

constexpr size_t most_log_bytes = 64 << 10;
constexpr size_t most_line_bytes = 2000;  // matching is quadratic in a line's length in the worst case
constexpr size_t most_quoted_bytes = 500;

enum Pass { named_cause, explicit_signature, reported_kind, implicit_signature };

Pass pass_of(const FaultCause& cause, const Signature& signature) {
  if (cause.consequence) return implicit_signature;
  if (signature.named) return signature.faults.empty() ? named_cause : explicit_signature;
  if (!signature.text.empty() || signature.oom || signature.hung) return explicit_signature;
  return signature.faults.empty() ? implicit_signature : reported_kind;
}

// Recognises the dynamic linker's line: "ERROR: ld.so: object 'libx.so' from LD_PRELOAD cannot be preloaded (…):
// ignored." The program runs without the named library.
bool tells_what_is_ignored(std::string_view line) {
  return line.starts_with("ERROR: ld.so: object ") && line.ends_with(": ignored.");
}

std::string without_what_is_ignored(std::string_view log) {
  std::string kept;
  while (!log.empty()) {
    const size_t length = std::min(log.find('\n'), log.size() - 1) + 1;
    std::string_view line = log.substr(0, length);
    log.remove_prefix(length);
    if (line.ends_with('\n')) line.remove_suffix(1);
    if (!tells_what_is_ignored(line)) kept.append(line.data(), length);
  }
  return kept;
}

// Prepares the end of a log for matching: no zero bytes, no overlong lines.
std::string matchable(std::string_view log) {
  if (log.size() > most_log_bytes) log.remove_prefix(log.size() - most_log_bytes);
  std::string lines;
  size_t length = 0;
  for (const char letter : log) {
    length = letter == '\n' ? 0 : length + 1;
    if (length > most_line_bytes) {
      lines += '\n';
      length = 1;
    }
    lines += letter == '\0' ? ' ' : letter;
  }
  return lines;
}

// Makes a line safe for a message and for JSON: valid UTF-8, no control characters, limited length.
std::string quotable(std::string line) {
  if (line.size() > most_quoted_bytes) line = line.substr(0, most_quoted_bytes) + "…";
  for (char& letter : line) {
    if (static_cast<unsigned char>(letter) < ' ' || letter == 0x7f) letter = ' ';
  }
  return Json::parse(Json(line).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

bool is_users(Fault fault) {
  switch (fault) {
    case Fault::usage:
    case Fault::spec:
    case Fault::infeasible:
    case Fault::corrupt:
    case Fault::mismatch:
      return true;
    default:
      return false;
  }
}

template <typename T>
bool holds(const std::vector<T>& list, T value) {
  return std::ranges::find(list, value) != list.end();
}

// Where the text of a signature was found.
struct Found {
  std::string line;  // empty: the signature has no text
  bool in_log = false;
};

// Clues are the evidence without its unreliable parts.
class Clues {
 public:
  explicit Clues(const Evidence& evidence) : evidence_(evidence) {
    if (evidence.said) report_ = matchable(evidence.said->message());
    if (!evidence.said || !is_users(evidence.said->fault()))
      log_ = matchable(without_what_is_ignored(evidence.log_tail));
    kind_decides_ = evidence.said && is_users(evidence.said->fault()) && evidence.said->fault() != Fault::infeasible;
  }

  // Returns the matched text if `signature` of `cause` matches, else nothing.
  std::optional<Found> fits(const FaultCause& cause, const Signature& signature) const {
    if (signature.hung && !evidence_.hung) return std::nullopt;
    if (signature.oom && !evidence_.job_wide_oom) return std::nullopt;
    if (!signature.faults.empty() && !(evidence_.said && holds(signature.faults, evidence_.said->fault())))
      return std::nullopt;
    if (!signature.signals.empty() && !ended(true, signature.signals)) return std::nullopt;
    if (!signature.exit_statuses.empty() && !ended(false, signature.exit_statuses)) return std::nullopt;
    std::optional<Found> found = Found{};
    if (signature.named) found = find_named(cause);
    return !found || signature.text.empty() ? found : find_text(cause, signature);
  }

  // Returns words such as "SIGKILL (signal 9), largest resident set 1.9 GB; its log says "…""
  std::string words(const Found& found) const {
    std::vector<std::string> parts;
    if (const std::string end = words_of_end(); !end.empty()) parts.push_back(end);
    if (found.in_log) parts.push_back("its log says \"" + quotable(found.line) + "\"");
    if (evidence_.said) parts.push_back("it reported \"" + quotable(reported(found)) + "\"");
    if (killed() && !evidence_.oom_text.empty()) parts.push_back(quotable(evidence_.oom_text));
    if (parts.empty()) return "nothing: no report, no signal, no line in its log";
    return fmt::format("{}", fmt::join(parts, "; "));
  }

 private:
  bool ended(bool by_signal, const std::vector<int>& codes) const {
    return evidence_.ended && evidence_.ended->signaled == by_signal && holds(codes, evidence_.ended->code);
  }

  bool killed() const { return !evidence_.hung && ended(true, {SIGKILL}); }

  bool from_outside() const { return evidence_.hung || killed(); }

  std::optional<Found> find_named(const FaultCause& cause) const {
    if (evidence_.said && evidence_.said->cause() == cause.id)
      return Found{report_.substr(0, report_.find('\n')), false};
    const size_t mark = log_.find(fmt::format("{}{}{}", kCauseMark, cause.id, kCauseMarkEnd));
    if (mark == log_.npos || (from_outside() && cause.fault_class == FaultClass::user)) return std::nullopt;
    const size_t begin = log_.rfind('\n', mark) + 1;
    return Found{log_.substr(begin, mark - begin), true};
  }

  std::optional<Found> find_text(const FaultCause& cause, const Signature& signature) const {
    const bool of_report = !signature.faults.empty();
    if (kind_decides_ && !of_report) return std::nullopt;
    for (const LinePattern& pattern : signature.text) {
      if (auto line = pattern.first_line_in(report_)) return Found{std::move(*line), false};
    }
    if (of_report || (from_outside() && cause.fault_class == FaultClass::user)) return std::nullopt;
    for (const LinePattern& pattern : signature.text) {
      if (auto line = pattern.first_line_in(log_)) return Found{std::move(*line), true};
    }
    return std::nullopt;
  }

  std::string words_of_end() const {
    if (evidence_.hung) return evidence_.hung_how.empty() ? "it made no progress and was killed" : evidence_.hung_how;
    if (!evidence_.ended) return "";
    std::string text = evidence_.ended->text();
    if (killed() && evidence_.ended->peak_memory_bytes > 0) {
      text += ", largest resident set " + resources::format_memory(evidence_.ended->peak_memory_bytes);
    }
    return text;
  }

  std::string reported(const Found& found) const {
    return found.line.empty() || found.in_log ? evidence_.said->message() : found.line;
  }

  const Evidence& evidence_;
  std::string report_, log_;
  bool kind_decides_ = false;
};

Diagnosis conclude(const FaultCause& cause, const Evidence& evidence, std::string words) {
  const bool has_own = evidence.said && !evidence.said->advice().empty();
  return {.cause = cause.id,
          .fault_class = cause.fault_class,
          .description = cause.description,
          .retry = cause.retry && (cause.retry_at_start || !evidence.at_start),
          .backoff_seconds = cause.backoff_seconds,
          .other_device = cause.other_device,
          .less_memory = cause.less_memory,
          .exit_code = cause.exit_code,
          .evidence = std::move(words),
          .advice = has_own ? evidence.said->advice() : cause.advice};
}

// Escapes '|', which ends a table cell even between back-quotes.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char letter : text) escaped += letter == '|' ? "\\|" : std::string(1, letter);
  return escaped;
}

std::string words_of_retry(const FaultCause& cause) {
  if (!cause.retry) return "no";
  std::vector<std::string> how;
  if (cause.backoff_seconds > 0) how.push_back(fmt::format("after {} s", cause.backoff_seconds));
  if (cause.less_memory) how.emplace_back("with less memory");
  if (cause.other_device) how.emplace_back("without the device");
  const std::string words = how.empty() ? "at once" : fmt::format("{}", fmt::join(how, ", "));
  return cause.retry_at_start ? words : words + "; not at the job's start";
}

}  // namespace

void FaultTable::add(const FaultCause& cause, bool users) {
  auto place = std::ranges::find(causes_, cause.id, &FaultCause::id);
  if (place == causes_.end()) place = causes_.insert(causes_.end(), FaultCause());
  std::vector<Signature> signatures = std::move(place->signatures);
  *place = cause;
  place->signatures = std::move(signatures);
  for (const Signature& signature : cause.signatures) {
    entries_.push_back(
        {static_cast<size_t>(place - causes_.begin()), place->signatures.size(), users, pass_of(cause, signature)});
    place->signatures.push_back(signature);
  }
}

std::string text_of_rules(const std::string& user_toml_path) {
  if (user_toml_path.empty()) return "";
  try {
    return read_whole(open_input(user_toml_path).get(), user_toml_path, kMostSpec);
  } catch (const Error& error) {
    throw Error(Fault::spec, "recovery.rules: " + error.message()).advise(error.advice());
  }
}

FaultTable FaultTable::built_in() { return with_rules(""); }

FaultTable FaultTable::with_rules(const std::string& user_toml_path) {
  return with_rules_of(text_of_rules(user_toml_path), user_toml_path);
}

FaultTable FaultTable::with_rules_of(const std::string& user_toml, const std::string& user_toml_path) {
  FaultTable table;
  for (const FaultCause& cause : read_rules(built_in_rules, "built-in fault rules", {})) table.add(cause, false);
  if (!user_toml_path.empty()) {
    for (const FaultCause& cause : read_rules(user_toml, user_toml_path, table.causes())) table.add(cause, true);
  }
  std::ranges::stable_sort(table.entries_, [](const CauseSignature& a, const CauseSignature& b) {
    return std::pair(!a.users, a.pass) < std::pair(!b.users, b.pass);
  });
  return table;
}

Diagnosis FaultTable::diagnose(const Evidence& evidence) const {
  const Clues clues(evidence);
  for (const CauseSignature& entry : entries_) {
    const FaultCause& cause = causes_[entry.cause];
    if (const auto found = clues.fits(cause, cause.signatures[entry.signature])) {
      return conclude(cause, evidence, clues.words(*found));
    }
  }
  return conclude(*std::ranges::find(causes_, no_signature, &FaultCause::id), evidence, clues.words({}));
}

std::string FaultTable::markdown() const {
  std::string text =
      "| cause | class | retry | exit code | recognised by | in the study |\n|---|---|---|---|---|---|\n";
  for (const FaultCause& cause : causes_) {
    std::vector<std::string> signs;
    for (const Signature& signature : cause.signatures) signs.push_back(signature.words());
    text += fmt::format("| `{}`: {} | {} | {} | {} | {} | {} |\n", cause.id, cell(cause.description),
                        class_name(cause.fault_class), words_of_retry(cause), cause.exit_code,
                        cell(signs.empty() ? "nothing else matches" : fmt::format("{}", fmt::join(signs, "; "))),
                        cell(cause.study));
  }
  return text;
}

Json to_json(const Diagnosis& diagnosis) {
  return {{"cause", diagnosis.cause},
          {"class", class_name(diagnosis.fault_class)},
          {"description", diagnosis.description},
          {"retry", diagnosis.retry},
          {"backoff_seconds", diagnosis.backoff_seconds},
          {"other_device", diagnosis.other_device},
          {"less_memory", diagnosis.less_memory},
          {"exit_code", diagnosis.exit_code},
          {"evidence", diagnosis.evidence},
          {"advice", diagnosis.advice}};
}

}  // namespace estrain::faults
