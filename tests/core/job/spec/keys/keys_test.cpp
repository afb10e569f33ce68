#include "core/job/spec/keys/keys.h"

#include <doctest/doctest.h>

#include <random>
#include <set>

#include "core/job/spec/defaults.h"
#include "core/job/spec/enum_names.h"
#include "tests/core/job/spec/spec_text.h"

namespace estrain::spec {
namespace {

// Converts to any type.
struct Anything {
  template <typename T>
  operator T() const;
};
template <typename T, size_t... i>
constexpr bool takes(std::index_sequence<i...>) {
  return requires { T{(static_cast<void>(i), Anything{})...}; };
}
// The number of fields of an aggregate: the most values that can initialise it.
template <typename T, size_t n = 64>
constexpr size_t fields_of() {
  if constexpr (takes<T>(std::make_index_sequence<n>())) {
    return n;
  } else {
    return fields_of<T, n - 1>();
  }
}
template <typename... Sections>
constexpr size_t fields_of_all() {
  static_assert(sizeof...(Sections) == fields_of<JobSpec>());
  return (fields_of<Sections>() + ...);
}

TEST_CASE("the table of keys is whole and says something of each") {
  std::set<std::string> names;
  for (const auto& key : job_keys()) {
    CAPTURE(key.name);
    CHECK(names.insert(key.name).second);
    CHECK(key.meaning.size() > 10);
    CHECK(key.meaning.back() == '.');
    CHECK(key.meaning.find('|') == std::string::npos);  // would break the Markdown table
    for (const Condition& condition : key.conditions) CHECK(find_key(condition.selector));
  }
  CHECK(names.size() == fields_of_all<JobSection, ModelSection, DataSection, OptimizerSection, ScheduleSection,
                                      TrainSection, EmaSection, EarlyStopSection, CheckpointSection, ResourcesSection,
                                      RecoverySection, ElasticSection, AuditSection, NetworkSection, LoggingSection>());
  CHECK(group_keys().size() == fields_of<OptimizerGroup>());
}

TEST_CASE("every integer has an upper bound, so that products of them can be taken") {
  for (const auto& key : job_keys()) {
    CAPTURE(key.name);
    if (key.type(key.rule).find("integer") == std::string::npos || key.rule.takes_integer) continue;
    CHECK((key.rule.range.high || !key.rule.numbers.empty()));
  }
}

TEST_CASE("every default is within its own rule") {
  const JobSpec defaults = parse_text(smallest, "x");
  size_t tried = 0;
  for (const auto& key : job_keys()) {
    const auto text = key.write(defaults);
    if (!text || key.rule.path || !all_hold(key.conditions, defaults)) continue;
    CAPTURE(key.name);
    CHECK(parse_text(smallest, "x", {key.name + "=" + *text}) == defaults);
    ++tried;
  }
  CHECK(tried > 40);
}

TEST_CASE("the reference has a row for every key") {
  const std::string text = key_reference();
  CHECK(text.rfind("| key | type | default | range | meaning |\n|---|---|---|---|---|\n", 0) == 0);
  for (const auto& key : job_keys()) CHECK(text.find("| `" + key.name + "` | ") != std::string::npos);
  CHECK(text.find("| `data.batch` | integer | 32 | [1, 1000000000] | Samples per EST and step. |\n") !=
        std::string::npos);
  CHECK(text.find("| `job.determinism` | string | \"D1\" | \"D0\", \"D1\", \"D2\", \"auto\" | ") != std::string::npos);
  CHECK(text.find("| `model.hidden` | array of integers | [128] | [1, 1000000] | Width of each hidden layer. Only for "
                  "model.name \"mlp\". |\n") != std::string::npos);
  CHECK(text.find("| `optimizer.groups.match` | array of strings | required | not empty | ") != std::string::npos);
  CHECK(text.find("| `train.eval_every` | integer or \"epoch\" or \"never\" | \"epoch\" | [-1, 1000000000000] | ") !=
        std::string::npos);
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; ++at) CHECK(text[at - 1] == '|');
}

TEST_CASE("words of the enumerations go both ways") {
  CHECK(to_string(Determinism::automatic) == "auto");
  CHECK(from_string<Determinism>("D2") == Determinism::d2);
  CHECK(from_string<OptimizerKind>("adamw") == OptimizerKind::adamw);
  CHECK_FALSE(from_string<Kernels>("Torch"));
  for (const auto& entry : enum_names<DataFormat>())
    CHECK(from_string<DataFormat>(to_string(entry.value)) == entry.value);
}

TEST_CASE("changed keys: those that change the bits") {
  const JobSpec before = parse_text(smallest, "x");
  using Names = std::vector<std::string>;
  const auto changed = [&](const std::vector<std::string>& overrides) {
    return changed_keys(before, parse_text(smallest, "x", overrides));
  };
  CHECK(changed({}) == Names{});
  CHECK(changed({"data.batch=3", "job.seed=1"}) == Names{"job.seed", "data.batch"});
  CHECK(changed({"job.name=y", "resources.devices=2", "logging.every_seconds=3", "checkpoint.keep=9", "data.readers=2",
                 "data.prefetch=2", "train.epochs=9", "train.eval_every=3", "train.eval_batch=2", "model.init=/x"}) ==
        Names{});
  const auto changed_with_plateau = [&](const std::string& override) {
    const std::string plateau = "schedule.name=plateau";
    return changed_keys(parse_text(smallest, "x", {plateau}), parse_text(smallest, "x", {plateau, override}));
  };
  CHECK(changed_with_plateau("train.eval_every=3") == Names{"train.eval_every"});
  CHECK(changed_with_plateau("train.eval_batch=2") == Names{"train.eval_batch"});
  CHECK(changed_with_plateau("checkpoint.keep=9") == Names{});
  const auto changed_patience = [&](const std::string& was, const std::string& is) {
    return changed_keys(parse_text(smallest, "x", {"early_stop.patience=" + was}),
                        parse_text(smallest, "x", {"early_stop.patience=" + is}));
  };
  CHECK(changed_patience("2", "10") == Names{});
  CHECK(changed_patience("2", "0") == Names{"early_stop.patience"});
  CHECK(changed_patience("0", "2") == Names{"early_stop.patience"});
  CHECK(changed({"optimizer.lr=0.001", "optimizer.weight_decay=0", "model.dropout=0.0"}) == Names{});  // the defaults
  CHECK(changed({"optimizer.lr=0.0010000000000000002"}) == Names{"optimizer.lr"});
  CHECK(changed({"optimizer.groups=[{match=[\"*\"]}]"}) == Names{"optimizer.groups"});
  CHECK(changed({"optimizer.name=adamw"}) == Names{"optimizer.name", "optimizer.momentum", "optimizer.dampening",
                                                   "optimizer.nesterov", "optimizer.weight_decay", "optimizer.betas",
                                                   "optimizer.amsgrad", "optimizer.eps"});
}

TEST_CASE("defaults that depend on another key") {
  JobSpec spec;
  CHECK(learning_rate(spec.optimizer) == 1e-3);
  CHECK(weight_decay(spec.optimizer) == 0);
  spec.optimizer.name = OptimizerKind::adamw;
  CHECK(weight_decay(spec.optimizer) == 1e-2);
  spec.model.name = "gpt";
  CHECK(dropout(spec.model) == 0.1);
  spec.model.name = "vgg19";
  CHECK(dropout(spec.model) == 0.5);
  spec.model.dropout = 0.25;
  CHECK(dropout(spec.model) == 0.25);
  CHECK(dropout(ModelSection{}) == 0);
}

}  // namespace
}  // namespace estrain::spec
