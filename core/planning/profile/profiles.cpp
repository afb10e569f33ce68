#include "core/planning/profile/profiles.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "core/base/median.h"
#include "core/planning/profile/stage_speed.h"

namespace estrain::profile {
namespace {

constexpr std::string_view kFormat = "estrain profiles 1";

// Returns the mean mini-batch time of a kind's devices in a stage, converted to all workers computing all the time.
double mini_batch_seconds(const StageSpeed& stage, const std::vector<double>& factors, const std::string& kind) {
  double seconds = 0, mini_batches = 0;
  for (size_t i = 0; i < stage.workers.size(); ++i) {
    if (stage.workers[i].kind != kind) continue;
    seconds += stage.workers[i].computing_seconds * factors[i];
    mini_batches += static_cast<double>(stage.workers[i].mini_batches);
  }
  return seconds / mini_batches;
}

// Returns the update's part of a single worker's time per mini-batch.
double update_share(const Capability& capability, const StageSpeed& stage) {
  if (!capability.update) return 0;
  const double share = capability.update->seconds / static_cast<double>(stage.workers.front().ests);
  return std::min(share, 0.5 * stage.workers.front().mini_batch_seconds());  // the update takes at most as long as the
                                                                             // rest of the mini-batch
}

Json estimate_json(const Estimate& estimate) {
  return {{"seconds", estimate.seconds},
          {"spread", estimate.spread},
          {"samples", estimate.samples},
          {"measured", estimate.measured}};
}

Json capability_json(const Capability& capability) {
  Json json = Json::object(), mini_batches = Json::array(), exchanges = Json::array();
  for (const MiniBatchSample& sample : capability.mini_batches) {
    mini_batches.push_back({{"workers", sample.workers}});
    mini_batches.back().update(estimate_json(sample.estimate));
  }
  for (const ExchangeSample& sample : capability.exchanges) {
    exchanges.push_back({{"workers", sample.workers}, {"partial_sums", sample.partial_sums}});
    exchanges.back().update(estimate_json(sample.estimate));
  }
  json["mini_batch"] = mini_batches;
  if (capability.update) json["update"] = estimate_json(*capability.update);
  json["exchange"] = exchanges;
  if (capability.change) json["change"] = estimate_json(*capability.change);
  if (const auto& memory = capability.memory) {
    json["memory"] = {{"worker", memory->worker},
                      {"state", memory->state},
                      {"gradients", memory->gradients},
                      {"batch", memory->batch}};
  }
  return json;
}

Error corrupt(std::string_view what) { return Error::make(Fault::corrupt, "not a database of profiles: {}", what); }

int64_t count(const Json& json, const char* name, int64_t least) {
  const Json& value = json.at(name);
  if (!value.is_number_integer() || value.get<int64_t>() < least)
    throw corrupt(fmt::format("\"{}\" is {}", name, value.dump()));
  return value.get<int64_t>();
}

double time_of(const Json& json, const char* name) {
  const double value = json.at(name).get<double>();
  if (!std::isfinite(value) || value < 0) throw corrupt(fmt::format("\"{}\" is {}", name, value));
  return value;
}

Estimate read_estimate(const Json& json) {
  return {time_of(json, "seconds"), time_of(json, "spread"), count(json, "samples", 0), count(json, "measured", 0)};
}

Capability read_capability(const Json& json) {
  Capability capability;
  for (const Json& sample : json.at("mini_batch")) {
    capability.mini_batches.push_back({count(sample, "workers", 1), read_estimate(sample)});
    if (capability.mini_batches.back().estimate.seconds <= 0) throw corrupt("a mini-batch that takes no time");
  }
  if (json.contains("update")) capability.update = read_estimate(json.at("update"));
  for (const Json& sample : json.at("exchange")) {
    capability.exchanges.push_back(
        {count(sample, "workers", 1), count(sample, "partial_sums", 1), read_estimate(sample)});
  }
  if (json.contains("change")) capability.change = read_estimate(json.at("change"));
  if (json.contains("memory")) {
    const Json& memory = json.at("memory");
    capability.memory = Memory{count(memory, "worker", 0), count(memory, "state", 0), count(memory, "gradients", 0),
                               count(memory, "batch", 0)};
  }
  std::ranges::sort(capability.mini_batches, {}, &MiniBatchSample::workers);
  std::ranges::sort(capability.exchanges, {},
                    [](const ExchangeSample& sample) { return std::pair(sample.workers, sample.partial_sums); });
  return capability;
}

Work read_work(const Json& json) {
  Work work;
  for (const auto& [name, value] : json.items()) work.fields.emplace_back(name, value.get<std::string>());
  return work;
}

}  // namespace

int64_t Entry::last_measured() const {
  int64_t last = 0;
  for (const MiniBatchSample& sample : capability.mini_batches) last = std::max(last, sample.estimate.measured);
  for (const ExchangeSample& sample : capability.exchanges) last = std::max(last, sample.estimate.measured);
  if (capability.change) last = std::max(last, capability.change->measured);
  return last;
}

const Capability* Profiles::find(const Work& work) const {
  const auto at = std::ranges::find(entries_, work, &Entry::work);
  return at == entries_.end() ? nullptr : &at->capability;
}

Capability& Profiles::at(const Work& work) {
  const auto found = std::ranges::find(entries_, work, &Entry::work);
  if (found != entries_.end()) return found->capability;
  if (entries_.size() >= kMostEntries) forget_oldest();
  entries_.push_back({work, {}});
  return entries_.back().capability;
}

Profiles Profiles::of(const spec::JobSpec& spec, const MachineFacts& host) const {
  Profiles some;
  for (const Entry& entry : entries_) {
    const auto kind = std::ranges::find(entry.work.fields, "device", &std::pair<std::string, std::string>::first);
    if (kind != entry.work.fields.end() && entry.work == describe_work(spec, kind->second, host))
      some.entries_.push_back(entry);
  }
  return some;
}

void Profiles::forget_oldest() { entries_.erase(std::ranges::min_element(entries_, {}, &Entry::last_measured)); }

void Profiles::learn_change(const spec::JobSpec& spec, const MachineFacts& host, const std::string& device,
                            double seconds, int64_t now) {
  constexpr double kUnremarkable = 1;  // s; changes differ by a part of this without a lasting reason
  std::optional<Estimate>& change = at(describe_work(spec, host.model_of(device), host)).change;
  if (!change) change.emplace();
  change->observe({seconds, 0}, now, kUnremarkable);
}

std::optional<double> Profiles::change_seconds() const {
  std::vector<double> all;
  for (const Entry& entry : entries_) {
    if (entry.capability.change) all.push_back(entry.capability.change->seconds);
  }
  if (all.empty()) return std::nullopt;
  return upper_median(std::move(all));
}

std::map<std::string, double> Profiles::guess_mini_batches(const spec::JobSpec& spec, const MachineFacts& host,
                                                           const std::string& device, double seconds) const {
  const std::string here = host.model_of(device);
  const auto without_device = [](Work work) {
    std::erase_if(work.fields, [](const auto& field) { return field.first == "device"; });
    return work.to_json().dump();
  };
  std::map<std::string, std::map<std::string, double>> by_work;
  for (const Entry& entry : entries_) {
    const Json fields = entry.work.to_json();
    if (const MiniBatchSample* base = entry.capability.base(); base != nullptr && fields.contains("device"))
      by_work[without_device(entry.work)][fields.at("device")] = base->estimate.seconds;
  }
  std::map<std::string, double> all = by_work[without_device(describe_work(spec, device, host))];
  if (seconds > 0) all.try_emplace(here, seconds);
  if (!all.contains(here)) return all;
  std::map<std::string, std::vector<double>> ratios;
  for (const auto& [work, times] : by_work) {
    const auto reference = times.find(here);
    if (reference == times.end()) continue;
    for (const auto& [other, time] : times) ratios[other].push_back(time / reference->second);
  }
  for (auto& [other, known] : ratios) all.try_emplace(other, all.at(here) * upper_median(std::move(known)));
  return all;
}

void Profiles::learn(const spec::JobSpec& spec, const MachineFacts& host, const StageSpeed& given, int64_t now) {
  StageSpeed stage = given;
  std::set<std::string> kinds;
  for (StageSpeed::Worker& worker : stage.workers) {
    worker.kind = host.model_of(worker.kind);
    kinds.insert(worker.kind);
  }
  std::vector<const Capability*> known;
  for (const std::string& kind : kinds) {
    if (const Capability* capability = find(describe_work(spec, kind, host))) known.push_back(capability);
  }
  const int64_t workers = stage.num_workers();
  const std::vector<double> factors =
      crowded_all_the_time(stage, crowding(known, workers, spec.job.threads, host.cores));
  for (const std::string& kind : kinds) {
    Capability& capability = at(describe_work(spec, kind, host));
    const bool update_inside = updates_within_mini_batch(spec, workers);
    const double update = update_inside ? update_share(capability, stage) : 0;
    const double seconds = mini_batch_seconds(stage, factors, kind) - update;
    if (const MiniBatchSample* base = capability.base())
      capability.mend(
          workers, seconds,
          turns(workers, spec.job.threads, host.cores) / turns(base->workers, spec.job.threads, host.cores));
    capability.observe_mini_batch(workers, {seconds, stage.spread}, now);
    if (update_inside && !capability.update) continue;  // otherwise the computed exchange would lack the update
    const double exchange = stage.exchange_seconds() + update * static_cast<double>(stage.workers.front().ests);
    capability.observe_exchange(workers, stage.partial_sums(), {exchange, 0}, stage.step_seconds(), now);
  }
}

void Profiles::learn_update(const spec::JobSpec& spec, const MachineFacts& host, const StageSpeed& few,
                            const StageSpeed& many, int64_t now) {
  if (!updates_within_mini_batch(spec, 1)) return;
  const StageSpeed::Worker &one = few.workers.front(), &other = many.workers.front();
  const double shares = 1 / static_cast<double>(one.ests) - 1 / static_cast<double>(other.ests);
  const double update = (one.mini_batch_seconds() - other.mini_batch_seconds()) / shares;
  Capability& capability = at(describe_work(spec, one.kind, host));
  if (!capability.update) capability.update.emplace();
  capability.update->observe({std::max(0.0, update), 0}, now, one.mini_batch_seconds());
}

Json Profiles::to_json() const {
  Json list = Json::array();
  for (const Entry& entry : entries_) {
    list.push_back({{"work", entry.work.to_json()}});
    list.back().update(capability_json(entry.capability));
  }
  return {{"format", kFormat}, {"profiles", list}};
}

Profiles Profiles::from_json(const Json& document) {
  try {
    if (document.at("format") != kFormat) throw corrupt("its format is " + document.at("format").dump());
    Profiles profiles;
    for (const Json& entry : document.at("profiles"))
      profiles.entries_.push_back({read_work(entry.at("work")), read_capability(entry)});
    return profiles;
  } catch (const nlohmann::json::exception& error) {
    throw corrupt(error.what());
  }
}

}  // namespace estrain::profile
