#pragma once
// The keys of a spec, and the table of all keys (job_keys.cpp and its neighbours). Parsing, checking, the resolved
// spec, the reference and the messages go by this table.

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/job/spec/keys/codec.h"
#include "core/job/spec/keys/rule.h"

namespace estrain::spec {

// A key may belong to a few values of another key: optimizer.betas to optimizer.name = "adam" or "adamw". With the
// single value "", the two keys exclude each other.
struct Condition {
  std::string selector;             // the other key, a string or an enumeration
  std::vector<std::string> values;  // values with which this key may be given
};

// A SpecKey is a key of a spec, with everything about the key. It is built by a chain that reads like a sentence:
//   key(...).min(1).means("Samples per EST and step.")
// Owner: JobSpec, or OptimizerGroup for the keys of a group.
template <typename Owner>
struct SpecKey {
  std::string name;  // dotted: "data.batch"; of a group: "match"
  Rule rule;
  std::string meaning;       // a sentence
  std::string when_not_set;  // meaning of the absence of an optional key
  std::vector<Condition> conditions;
  bool required = false;
  bool defines_bits = true;                     // whether the key changes the bits or a checkpoint's meaning
  std::optional<Condition> defines_bits_where;  // if set: the key defines bits only under this condition
  bool defines_bits_as_switch = false;          // the key defines bits only by being 0 or not

  // Set by make_key from the type of the field. `read` returns whether the value was valid.
  std::string (*type)(const Rule&) = nullptr;
  std::function<bool(Owner&, const toml::Value&, const ReadContext&)> read;
  std::function<std::optional<std::string>(const Owner&, const Rule&)> write_field;

  // Returns the value as TOML text; nothing for an unset value.
  std::optional<std::string> write(const Owner& owner) const { return write_field(owner, rule); }
  std::string default_text() const {
    if (required) return "required";
    return when_not_set.empty() ? *write(Owner{}) : when_not_set;
  }

  SpecKey min(int64_t bound) const {
    return with([&](SpecKey& key) { key.rule.range.low = bound; });
  }
  SpecKey max(int64_t bound) const {
    return with([&](SpecKey& key) { key.rule.range.high = bound; });
  }
  SpecKey above(int64_t bound) const {
    return with([&](SpecKey& key) { key.rule.range.low = bound, key.rule.range.low_open = true; });
  }
  SpecKey below(int64_t bound) const {
    return with([&](SpecKey& key) { key.rule.range.high = bound, key.rule.range.high_open = true; });
  }
  SpecKey choices(const std::vector<std::string>& words) const {
    return with([&](SpecKey& key) { key.rule.choices = words; });
  }
  SpecKey words(const std::vector<std::pair<std::string, int64_t>>& numbers) const {
    return with([&](SpecKey& key) { key.rule.words = numbers; });
  }
  SpecKey numbers(const std::vector<int64_t>& allowed) const {
    return with([&](SpecKey& key) { key.rule.numbers = allowed; });
  }
  SpecKey lengths(std::initializer_list<size_t> allowed) const {
    return with([&](SpecKey& key) { key.rule.lengths = allowed; });
  }
  SpecKey filled() const {
    return with([](SpecKey& key) { key.rule.filled = true; });
  }
  SpecKey takes_integer() const {
    return with([](SpecKey& key) { key.rule.takes_integer = true; });
  }
  // A path does not define the bits: a moved data set is still the same job.
  SpecKey path() const {
    return with([](SpecKey& key) { key.rule.path = true, key.defines_bits = false; });
  }
  SpecKey not_in_bits() const {
    return with([](SpecKey& key) { key.defines_bits = false; });
  }
  SpecKey in_bits_only(const std::string& selector, const std::vector<std::string>& values) const {
    return with([&](SpecKey& key) { key.defines_bits = false, key.defines_bits_where = {selector, values}; });
  }
  SpecKey in_bits_as_switch() const {
    return with([](SpecKey& key) { key.defines_bits_as_switch = true; });
  }
  SpecKey must_be_given() const {
    return with([](SpecKey& key) { key.required = true; });
  }
  SpecKey unset(const std::string& meaning_of_absence) const {
    return with([&](SpecKey& key) { key.when_not_set = meaning_of_absence; });
  }
  SpecKey only(const std::string& selector, const std::vector<std::string>& values) const {
    return with([&](SpecKey& key) { key.conditions.push_back({selector, values}); });
  }
  SpecKey means(const std::string& sentence) const {
    return with([&](SpecKey& key) { key.meaning = sentence; });
  }

 private:
  template <typename Change>
  SpecKey with(Change&& change) const {
    SpecKey copy = *this;
    change(copy);
    return copy;
  }
};

// `field` is a generic lambda from an Owner, const or not, to a reference to the key's field.
template <typename Owner, typename Field>
SpecKey<Owner> make_key(std::string_view name, Field field) {
  using T = std::remove_cvref_t<decltype(field(std::declval<Owner&>()))>;
  SpecKey<Owner> key;
  key.name = name;
  key.type = &Codec<T>::type;
  if constexpr (std::is_enum_v<T>) key.rule.choices = Codec<T>::words();
  key.read = [field](Owner& owner, const toml::Value& value, const ReadContext& reading) {
    std::optional<T> read = Codec<T>::read(value, reading);
    if (read) field(owner) = std::move(*read);
    return read.has_value();
  };
  key.write_field = [field](const Owner& owner, const Rule& rule) { return Codec<T>::write(field(owner), rule); };
  return key;
}

// In the order of documentation, with the keys of each table together.
const std::vector<SpecKey<JobSpec>>& job_keys();

// The keys of an [[optimizer.groups]]; their conditions refer to the whole spec.
const std::vector<SpecKey<OptimizerGroup>>& group_keys();

// The keys of an [[elastic.changes]].
const std::vector<SpecKey<batches::BatchChange>>& change_keys();

// Returns the key called `name`, or null.
const SpecKey<JobSpec>* find_key(std::string_view name);

// "data.batch" -> "data", "batch".
std::string_view table_of(std::string_view name);
std::string_view leaf_of(std::string_view name);

// " Only for optimizer.name "sgd"." for each condition.
std::string only_for(const std::vector<Condition>& conditions);

// Returns whether a key with this condition belongs to `spec`.
bool holds(const Condition& condition, const JobSpec& spec);
bool all_hold(const std::vector<Condition>& conditions, const JobSpec& spec);

}  // namespace estrain::spec
