#include "core/run/faults/fault_rules.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "core/base/process/child_process.h"
#include "core/formats/toml/parse.h"
#include "core/job/spec/keys/closest.h"
#include "core/job/spec/parsing/mistakes.h"

namespace estrain::faults {
namespace {

using spec::Mistakes;
using toml::KeyValue;

constexpr int num_signals = 32;  // signals with names
constexpr double longest_backoff_seconds = 3600;

// A key of a TOML table, with the function storing its value in a `Target`.
template <typename Target>
struct RuleKey {
  std::string name;
  std::function<void(const KeyValue&, const std::string& where, Target&, Mistakes&)> read;
};

template <typename Target>
void read_keys(const toml::Table& table, const std::vector<RuleKey<Target>>& keys, const std::string& where,
               Target& target, Mistakes& mistakes) {
  std::vector<std::string> names;
  for (const auto& key : keys) names.push_back(key.name);
  for (const KeyValue& member : table) {
    const auto key = std::ranges::find(keys, member.key, &RuleKey<Target>::name);
    if (key != keys.end()) {
      key->read(member, where + "." + member.key, target, mistakes);
      continue;
    }
    const auto meant = spec::closest(member.key, names);
    mistakes.add(
        member.at, where + "." + member.key,
        "unknown key; " + (meant ? "did you mean \"" + *meant + "\"?" : "known are " + spec::quoted_list(names)));
  }
}

void refuse(const toml::Value& value, const std::string& where, std::string_view wanted, Mistakes& mistakes) {
  mistakes.add(value.at, where, fmt::format("must be {}, not {}", wanted, value.describe()));
}

void read_text(const KeyValue& member, const std::string& where, std::string& text, Mistakes& mistakes) {
  const std::string* given = member.value.string();
  if (given == nullptr || given->empty()) return refuse(member.value, where, "a text that is not empty", mistakes);
  text = *given;
}

void read_flag(const KeyValue& member, const std::string& where, bool& flag, Mistakes& mistakes) {
  const bool* given = member.value.boolean();
  if (given == nullptr) return refuse(member.value, where, "true or false", mistakes);
  flag = *given;
}

// Reads a condition: a condition is present or absent, never negated.
void read_condition(const KeyValue& member, const std::string& where, bool& condition, Mistakes& mistakes) {
  const bool* given = member.value.boolean();
  if (given == nullptr || !*given) return refuse(member.value, where, "true (or be left out)", mistakes);
  condition = true;
}

void read_id(const KeyValue& member, const std::string& where, FaultCause& cause, Mistakes& mistakes) {
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  const std::string* given = member.value.string();
  if (given == nullptr || given->empty() || !std::ranges::all_of(*given, allowed)) {
    return refuse(member.value, where, "a name of small letters, digits and _", mistakes);
  }
  cause.id = *given;
}

// `word` among `words`, or a mistake.
std::optional<size_t> choose(const toml::Value& value, const std::string& where, const std::vector<std::string>& words,
                             Mistakes& mistakes) {
  const std::string* given = value.string();
  const auto found = given == nullptr ? words.end() : std::ranges::find(words, *given);
  if (found != words.end()) return static_cast<size_t>(found - words.begin());
  const auto meant = given == nullptr ? std::nullopt : spec::closest(*given, words);
  refuse(value, where, (meant ? "\"" + *meant + "\" or another of " : "one of ") + spec::quoted_list(words), mistakes);
  return std::nullopt;
}

void read_class(const KeyValue& member, const std::string& where, FaultCause& cause, Mistakes& mistakes) {
  constexpr FaultClass classes[] = {FaultClass::user, FaultClass::infrastructure, FaultClass::engine};
  std::vector<std::string> names;
  for (const FaultClass each : classes) names.emplace_back(class_name(each));
  if (const auto index = choose(member.value, where, names, mistakes)) cause.fault_class = classes[*index];
}

void read_backoff(const KeyValue& member, const std::string& where, FaultCause& cause, Mistakes& mistakes) {
  const auto given = member.value.number();
  if (!given || !(*given >= 0 && *given <= longest_backoff_seconds)) {
    return refuse(member.value, where, "a number of seconds from 0 to 3600", mistakes);
  }
  cause.backoff_seconds = *given;
}

void read_exit_code(const KeyValue& member, const std::string& where, FaultCause& cause, Mistakes& mistakes) {
  const int64_t* given = member.value.integer();
  if (given == nullptr || *given < 1 || *given > 125) {
    return refuse(member.value, where, "an exit code from 1 to 125", mistakes);
  }
  cause.exit_code = static_cast<int>(*given);
}

// Calls `read` for each element of a non-empty list.
void read_list(const KeyValue& member, const std::string& where, Mistakes& mistakes,
               const std::function<void(const toml::Value&)>& read) {
  const toml::Array* elements = member.value.array();
  if (elements == nullptr || elements->empty()) {
    return refuse(member.value, where, "a list that is not empty", mistakes);
  }
  for (const toml::Value& element : *elements) read(element);
}

void read_patterns(const KeyValue& member, const std::string& where, Signature& signature, Mistakes& mistakes) {
  read_list(member, where, mistakes, [&](const toml::Value& element) {
    const std::string* pattern = element.string();
    if (pattern == nullptr) return refuse(element, where, "a regular expression", mistakes);
    try {
      signature.text.emplace_back(*pattern);
    } catch (const Error& error) {
      mistakes.add(element.at, where, error.message());
    }
  });
}

void read_faults(const KeyValue& member, const std::string& where, Signature& signature, Mistakes& mistakes) {
  std::vector<std::string> names;
  for (int fault = 0; fault <= static_cast<int>(Fault::bug); ++fault) {
    names.emplace_back(fault_name(static_cast<Fault>(fault)));
  }
  read_list(member, where, mistakes, [&](const toml::Value& element) {
    if (const auto fault = choose(element, where, names, mistakes)) {
      signature.faults.push_back(static_cast<Fault>(*fault));
    }
  });
}

void read_signals(const KeyValue& member, const std::string& where, Signature& signature, Mistakes& mistakes) {
  std::vector<std::string> names;
  for (int number = 1; number < num_signals; ++number) names.push_back(signal_name(number));
  read_list(member, where, mistakes, [&](const toml::Value& element) {
    if (const auto index = choose(element, where, names, mistakes)) {
      signature.signals.push_back(static_cast<int>(*index) + 1);
    }
  });
}

void read_exit_statuses(const KeyValue& member, const std::string& where, Signature& signature, Mistakes& mistakes) {
  read_list(member, where, mistakes, [&](const toml::Value& element) {
    const int64_t* status = element.integer();
    if (status == nullptr || *status < 0 || *status > 255) {
      return refuse(element, where, "an exit status from 0 to 255", mistakes);
    }
    signature.exit_statuses.push_back(static_cast<int>(*status));
  });
}

const std::vector<RuleKey<Signature>>& signature_keys() {
  using Where = const std::string&;
  static const std::vector<RuleKey<Signature>> keys = {
      {"text", read_patterns},
      {"faults", read_faults},
      {"signals", read_signals},
      {"exit_statuses", read_exit_statuses},
      {"hung", [](const KeyValue& m, Where where, Signature& s, Mistakes& f) { read_condition(m, where, s.hung, f); }},
      {"named",
       [](const KeyValue& m, Where where, Signature& s, Mistakes& f) { read_condition(m, where, s.named, f); }},
      {"oom", [](const KeyValue& m, Where where, Signature& s, Mistakes& f) { read_condition(m, where, s.oom, f); }},
  };
  return keys;
}

void read_signatures(const KeyValue& member, const std::string& where, FaultCause& cause, Mistakes& mistakes) {
  read_list(member, where, mistakes, [&](const toml::Value& element) {
    const toml::Table* table = element.table();
    if (table == nullptr || table->empty()) {
      return refuse(element, where, "a table with at least one condition", mistakes);
    }
    read_keys(*table, signature_keys(), where, cause.signatures.emplace_back(), mistakes);
  });
}

const std::vector<RuleKey<FaultCause>>& cause_keys() {
  using Where = const std::string&;
  using Cause = FaultCause&;
  static const std::vector<RuleKey<FaultCause>> keys = {
      {"id", read_id},
      {"study", [](const KeyValue& m, Where where, Cause c, Mistakes& f) { read_text(m, where, c.study, f); }},
      {"class", read_class},
      {"description",
       [](const KeyValue& m, Where where, Cause c, Mistakes& f) { read_text(m, where, c.description, f); }},
      {"consequence",
       [](const KeyValue& m, Where where, Cause c, Mistakes& f) { read_flag(m, where, c.consequence, f); }},
      {"retry", [](const KeyValue& m, Where where, Cause c, Mistakes& f) { read_flag(m, where, c.retry, f); }},
      {"backoff_seconds", read_backoff},
      {"other_device",
       [](const KeyValue& m, Where where, Cause c, Mistakes& f) { read_flag(m, where, c.other_device, f); }},
      {"less_memory",
       [](const KeyValue& m, Where where, Cause c, Mistakes& f) { read_flag(m, where, c.less_memory, f); }},
      {"retry_at_start",
       [](const KeyValue& m, Where where, Cause c, Mistakes& f) { read_flag(m, where, c.retry_at_start, f); }},
      {"exit_code", read_exit_code},
      {"advice", [](const KeyValue& m, Where where, Cause c, Mistakes& f) { read_text(m, where, c.advice, f); }},
      {"signatures", read_signatures},
  };
  return keys;
}

// Requires all keys of a new cause.
void require_keys(const toml::Table& table, const toml::Location& at, const FaultCause& cause, Mistakes& mistakes) {
  for (const char* key : {"class", "description", "retry", "advice", "signatures"}) {
    if (cause.id == no_signature && std::string_view(key) == "signatures") continue;
    if (toml::find(table, key) != nullptr) continue;
    mistakes.add(at, std::string("cause.") + key, fmt::format("is missing in the new cause \"{}\"", cause.id));
  }
}

void check_together(const toml::Table& table, const toml::Location& at, const FaultCause& cause, Mistakes& mistakes) {
  const auto place = [&](const char* key) {
    const KeyValue* member = toml::find(table, key);
    return member == nullptr ? at : member->value.at;
  };
  if (cause.fault_class == FaultClass::user && cause.retry) {
    mistakes.add(place("retry"), "cause.retry", "a fault that the user must correct is not retried");
  }
  for (const auto& [key, given] :
       {std::pair("other_device", cause.other_device), std::pair("less_memory", cause.less_memory),
        std::pair("backoff_seconds", cause.backoff_seconds > 0), std::pair("retry_at_start", !cause.retry_at_start)}) {
    if (given && !cause.retry)
      mistakes.add(place(key), std::string("cause.") + key, "has no effect, since retry is false");
  }
}

FaultCause read_cause(const toml::Value& value, const std::vector<FaultCause>& known, Mistakes& mistakes) {
  FaultCause cause;
  const toml::Table& table = *value.table();
  const KeyValue* id = toml::find(table, "id");
  if (id == nullptr) mistakes.add(value.at, "cause.id", "is missing");
  const std::string* name = id == nullptr ? nullptr : id->value.string();
  const auto changed = name == nullptr ? known.end() : std::ranges::find(known, *name, &FaultCause::id);
  if (changed != known.end()) {
    cause = *changed;
    cause.signatures.clear();
  }
  read_keys(table, cause_keys(), "cause", cause, mistakes);
  if (changed == known.end() && !cause.id.empty()) require_keys(table, value.at, cause, mistakes);
  check_together(table, value.at, cause, mistakes);
  return cause;
}

std::vector<FaultCause> read_causes(const toml::Value& causes, const std::vector<FaultCause>& known,
                                    Mistakes& mistakes) {
  const toml::Array* elements = causes.array();
  std::vector<FaultCause> read;
  std::set<std::string> ids;
  if (elements == nullptr) refuse(causes, "cause", "written as [[cause]]", mistakes);
  for (const toml::Value& element : elements == nullptr ? toml::Array() : *elements) {
    if (element.table() == nullptr) {
      refuse(element, "cause", "written as [[cause]]", mistakes);
      continue;
    }
    read.push_back(read_cause(element, known, mistakes));
    const std::string& id = read.back().id;
    if (!id.empty() && !ids.insert(id).second) {
      mistakes.add(element.at, "cause.id", fmt::format("\"{}\" occurs twice in this file", id));
    }
  }
  return read;
}

}  // namespace

std::vector<FaultCause> read_rules(std::string_view text, const std::string& source,
                                   const std::vector<FaultCause>& known) {
  const toml::Value document = toml::parse(text, source);
  Mistakes mistakes;
  std::vector<FaultCause> causes;
  for (const KeyValue& member : *document.table()) {
    if (member.key == "cause") {
      causes = read_causes(member.value, known, mistakes);
    } else {
      mistakes.add(member.at, member.key, "a file of fault rules may contain only [[cause]] tables");
    }
  }
  try {
    mistakes.throw_if_any();
  } catch (const Error& error) {
    throw error.advise("core/run/faults/FAULTS.md explains the rules; core/run/faults/faults.toml holds the built-in");
  }
  return causes;
}

}  // namespace estrain::faults
