#include "core/hosts/exchange/host_plan.h"

namespace estrain::hosts {
namespace {

constexpr size_t kMostHosts = 4096;

Json to_json(const HostShare& host) {
  Json ranges = Json::array();
  for (const EstRange& range : host.workers) ranges.push_back({range.begin.value, range.end.value});
  return {{"name", host.name}, {"address", host.address}, {"workers", ranges}, {"sees_run", host.sees_run}};
}

// `next`: the EST that must come next.
HostShare host_from(const Json& json, int64_t* next) {
  HostShare host;
  host.name = json.at("name").get<std::string>();
  host.address = json.at("address").get<std::string>();
  host.sees_run = json.at("sees_run").get<bool>();
  for (const Json& range : json.at("workers")) {
    const EstRange ests{VirtualRank(range.at(0).get<int64_t>()), VirtualRank(range.at(1).get<int64_t>())};
    if (ests.begin.value != *next || ests.end <= ests.begin)
      throw Error(Fault::corrupt, "plan of a stage: the ranges of ESTs do not follow each other");
    *next = ests.end.value;
    host.workers.push_back(ests);
  }
  if (host.workers.empty()) throw Error(Fault::corrupt, "plan of a stage: a host without a worker");
  return host;
}

HostPlan plan_from(const Json& json) {
  HostPlan plan;
  plan.stage = json.at("stage").get<uint64_t>();
  plan.step = json.at("step").get<int64_t>();
  plan.evaluation_batch = json.at("evaluation_batch").get<int64_t>();
  plan.any_processor = json.at("any_processor").get<bool>();
  plan.clear = json.at("clear").get<bool>();
  plan.own = json.at("own").get<size_t>();
  const Json& hosts = json.at("hosts");
  if (!hosts.is_array() || hosts.empty() || hosts.size() > kMostHosts || plan.own >= hosts.size())
    throw Error(Fault::corrupt, "plan of a stage: no such host");
  if (plan.stage == 0 || plan.stage >= HostPlan::most_stages || plan.step < 0 || plan.step >= HostPlan::most_steps ||
      plan.evaluation_batch < 1)
    throw Error(Fault::corrupt, "plan of a stage: a number is out of bounds");
  plan.devices = json.at("devices").get<std::vector<std::string>>();
  plan.allow_mixed = json.at("allow_mixed").get<bool>();
  plan.oversubscribe = json.at("oversubscribe").get<bool>();
  plan.grace_seconds = json.at("grace_seconds").get<double>();
  int64_t next = 0;
  for (const Json& host : hosts) plan.hosts.push_back(host_from(host, &next));
  return plan;
}

}  // namespace

int64_t HostPlan::workers_before(size_t host) const {
  int64_t workers = 0;
  for (size_t before = 0; before < host; ++before) workers += std::ssize(hosts[before].workers);
  return workers;
}

Json HostPlan::to_json() const {
  Json json = {{"stage", stage},
               {"step", step},
               {"evaluation_batch", evaluation_batch},
               {"any_processor", any_processor},
               {"clear", clear},
               {"own", own},
               {"devices", devices},
               {"allow_mixed", allow_mixed},
               {"oversubscribe", oversubscribe},
               {"grace_seconds", grace_seconds},
               {"hosts", Json::array()}};
  for (const HostShare& host : hosts) json["hosts"].push_back(hosts::to_json(host));
  return json;
}

HostPlan HostPlan::from_json(const Json& json) {
  try {
    return plan_from(json);
  } catch (const nlohmann::json::exception& error) {
    throw Error::make(Fault::corrupt, "plan of a stage: {}", error.what());
  }
}

}  // namespace estrain::hosts
