#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/formats/toml/parse.h"
#include "core/planning/plan/plan.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

// The plans of cases/*.toml; README.md there describes the format.
namespace estrain::plan {
namespace {

namespace fs = std::filesystem;
using toml::Value;

const Value* value_of(const toml::Table& table, const std::string& key) {
  const toml::KeyValue* member = toml::find(table, key);
  return member ? &member->value : nullptr;
}

const Value& needed(const toml::Table& table, const std::string& key) {
  const Value* value = value_of(table, key);
  if (value == nullptr) throw Error::make(Fault::spec, "a case has no \"{}\"", key);
  return *value;
}

double number(const toml::Table& table, const std::string& key, std::optional<double> otherwise = {}) {
  const Value* value = otherwise ? value_of(table, key) : &needed(table, key);
  return value ? value->number().value() : *otherwise;
}

int64_t integer(const toml::Table& table, const std::string& key) { return *needed(table, key).integer(); }

PlannedJob job_of(const toml::Table& table) {
  PlannedJob job;
  job.ests = integer(table, "ests");
  job.one_kind = *needed(table, "one_kind").boolean();
  if (const Value* exchange = value_of(table, "exchange")) {
    const toml::Table& costs = *exchange->table();
    job.exchange = {number(costs, "base", 0), number(costs, "per_worker", 0), number(costs, "per_sum", 0),
                    number(costs, "update", 0)};
  }
  if (const Value* crowding = value_of(table, "crowding")) {
    for (const Value& each : *crowding->array()) job.crowding.push_back(each.number().value());
  }
  return job;
}

std::vector<DeviceGroup> groups_of(const toml::Table& table) {
  std::vector<DeviceGroup> groups;
  for (const Value& each : *needed(table, "devices").array()) {
    const toml::Table& device = *each.table();
    DeviceGroup group{*needed(device, "kind").string(), integer(device, "count"), number(device, "C")};
    if (const Value* most = value_of(device, "most_ests")) group.most_ests = *most->integer();
    groups.push_back(group);
  }
  return groups;
}

// "V100:2"; if groups have the same kind, later ones get a prime each.
std::string written(const WorkerShare& share, const std::vector<DeviceGroup>& groups) {
  const auto at = groups.begin() + share.group;
  const auto same_before =
      std::count_if(groups.begin(), at, [&](const DeviceGroup& group) { return group.kind == at->kind; });
  return fmt::format("{}{}:{}", at->kind, std::string(static_cast<size_t>(same_before), '\''), share.ests);
}

// "V100:2 P100:1 P100:1", "V100:2 x32"
std::string written(const Plan& plan, const std::vector<DeviceGroup>& groups) {
  std::string text;
  for (auto first = plan.workers.begin(); first != plan.workers.end();) {
    const auto last =
        std::find_if(first, plan.workers.end(), [&](const WorkerShare& share) { return share != *first; });
    const auto separator = [&] { return text.empty() ? "" : " "; };
    if (last - first > 8) {
      text += fmt::format("{}{} x{}", separator(), written(*first, groups), last - first);
    } else {
      for (auto each = first; each != last; ++each) text += separator() + written(*each, groups);
    }
    first = last;
  }
  return text;
}

// An unread key would make a case test something else than it states.
void check_keys(const toml::Table& table) {
  static const std::set<std::string> known{"name",  "ests",         "one_kind",   "exchange", "crowding",
                                           "waste", "step_seconds", "throughput", "reason",   "partial_sums",
                                           "error", "assignment",   "advice",     "devices"};
  for (const toml::KeyValue& member : table) {
    CAPTURE(member.key);
    CHECK(known.contains(member.key));
  }
}

void check_case(const toml::Table& table) {
  check_keys(table);
  const PlannedJob job = job_of(table);
  const std::vector<DeviceGroup> groups = groups_of(table);
  if (const Value* message = value_of(table, "error")) {
    const Error error = error_of([&] { (void)best_plan(job, groups); });
    CHECK(error.fault() == Fault::infeasible);
    CHECK(error.message() == *message->string());
    CHECK(error.advice() == *needed(table, "advice").string());
    return;
  }
  const Plan plan = best_plan(job, groups);
  CHECK(written(plan, groups) == *needed(table, "assignment").string());
  CHECK(plan.step_seconds == doctest::Approx(number(table, "step_seconds")));
  CHECK(plan.waste == doctest::Approx(number(table, "waste")));
  CHECK(plan.throughput == doctest::Approx(number(table, "throughput")));
  CHECK(plan.partial_sums == integer(table, "partial_sums"));
  CHECK(plan.reason == *needed(table, "reason").string());
  CHECK(plan.slack == 0);
}

TEST_CASE("the cases that are files") {
  int files = 0, cases = 0;
  for (const auto& entry : fs::directory_iterator(ESTRAIN_SOURCE_DIR "/tests/core/planning/plan/cases")) {
    if (entry.path().extension() != ".toml") continue;
    const Value document = toml::parse(bytes_of(entry.path().string()), entry.path().filename().string());
    const toml::Array& all = *needed(*document.table(), "case").array();
    REQUIRE(!all.empty());
    ++files;
    for (const Value& each : all) {
      const std::string where = each.at.text() + ": " + *needed(*each.table(), "name").string();
      CAPTURE(where);
      check_case(*each.table());
      ++cases;
    }
  }
  MESSAGE(cases, " cases in ", files, " files");
  CHECK(files >= 6);
  CHECK(cases >= 30);
}

}  // namespace
}  // namespace estrain::plan
