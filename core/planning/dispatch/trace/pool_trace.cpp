#include "core/planning/dispatch/trace/pool_trace.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/base/error.h"
#include "core/base/json/json_fields.h"
#include "core/base/json/json_text.h"

namespace estrain::dispatch {
namespace {

// The number of mini-batches one after another: of the worker with most ESTs; where the pool's workers share cores, of
// the whole job on its part of the cores, since a waiting worker leaves its core to the rest of the job.
struct Turns {
  int64_t ests, cores;
  double of(int64_t devices, double in_use) const {
    const auto own = static_cast<double>(devices);
    const double part = std::min(1.0, static_cast<double>(cores) / std::max(in_use, own));
    return std::max(static_cast<double>(most_ests(ests, devices)), static_cast<double>(ests) / (own * part));
  }
};

using PastSpeed = PastJob::PastSpeed;

template <typename T>
Json json_of(const T& value) {
  return value;
}
template <typename T>
Json json_of(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}
Json json_of(const std::vector<PastSpeed>& seen) {
  Json all = Json::array();
  for (const PastSpeed& one : seen) all.push_back({one.type, one.devices, one.in_use, one.step_seconds});
  return all;
}

Json json_of(const std::vector<PastJob::PastPace>& paces) {
  Json all = Json::array();
  for (const PastJob::PastPace& one : paces)
    all.push_back({one.type, one.devices, one.in_use, one.from, one.to, one.step_seconds, one.told});
  return all;
}

Json json_of(const std::vector<PastJob::Took>& took) {
  Json all = Json::array();
  for (const PastJob::Took& one : took) all.push_back({one.what, one.seconds});
  return all;
}

Json json_of(const std::optional<EarlyStop>& rule) {
  if (!rule) return {};
  return {rule->patience, rule->min_delta, rule->falls ? 1 : 0, rule->samples};
}

Json json_of(const std::vector<Evaluation>& evaluations) {
  Json all = Json::array();
  for (const Evaluation& one : evaluations) all.push_back({one.step, one.loss, one.accuracy, one.metric});
  return all;
}

Json json_of(const std::vector<HostCores>& hosts) {
  Json all = Json::array();
  for (const HostCores& one : hosts) all.push_back({one.host, one.cores});
  return all;
}

template <typename T>
Json object_of(const T& value) {
  Json line = Json::object();
  T::fields(value, [&](const char* key, const auto& field, int64_t = 0) { line[key] = json_of(field); });
  return line;
}

// Reads the fields of one object. Texts, truths and priorities may be absent.
class Reading {
 public:
  explicit Reading(const Json& line) : line_(line) {}

  void operator()(const char* key, std::string& text) const { text = text_in(line_, key).value_or(""); }
  void operator()(const char* key, bool& truth) const { truth = line_.contains(key) && line_.at(key) == true; }
  void operator()(const char* key, int64_t& number) const { number = whole_in(line_, key).value_or(0); }
  void operator()(const char* key, std::optional<double>& number) const { number = number_in(line_, key); }
  void operator()(const char* key, std::vector<std::string>& texts) const {
    for (const Json& one : list_in(line_, key)) texts.push_back(as_text(one).value_or(""));
  }
  void operator()(const char* key, int64_t& number, int64_t least) const {
    const auto value = whole_in(line_, key);
    if (!value || *value < least) throw Error::make(Fault::spec, "\"{}\" wants a whole number from {}", key, least);
    number = *value;
  }
  void operator()(const char* key, double& number) const {
    const auto value = number_in(line_, key);
    if (!value || !(*value >= 0) || !std::isfinite(*value))
      throw Error::make(Fault::spec, "\"{}\" wants a number from 0", key);
    number = *value;
  }
  void operator()(const char* key, std::vector<PastSpeed>& seen) const {
    for (const Json& entry : list_in(line_, key)) seen.push_back(seen_of(entry));
  }
  void operator()(const char* key, std::vector<PastJob::PastPace>& paces) const {
    for (const Json& entry : list_in(line_, key)) paces.push_back(pace_of(entry));
    std::ranges::stable_sort(paces, {}, &PastJob::PastPace::from);
  }
  void operator()(const char* key, std::vector<PastJob::Took>& took) const {
    for (const Json& entry : list_in(line_, key)) took.push_back(took_of(entry));
  }
  void operator()(const char* key, std::optional<EarlyStop>& rule) const {
    if (line_.contains(key) && !line_.at(key).is_null()) rule = early_stop_of(line_.at(key));
  }
  void operator()(const char* key, std::vector<Evaluation>& evaluations) const {
    for (const Json& entry : list_in(line_, key)) evaluations.push_back(evaluation_of(entry));
    std::ranges::stable_sort(evaluations, {}, &Evaluation::step);
  }
  void operator()(const char* key, std::vector<HostCores>& hosts) const {
    for (const Json& entry : list_in(line_, key)) hosts.push_back(cores_in(entry));
  }

 private:
  static PastSpeed seen_of(const Json& entry) {
    if (entry.is_array() && entry.size() == 4) {
      const auto type = as_text(entry[0]);
      const auto devices = as_whole(entry[1]), in_use = as_whole(entry[2]);
      const auto seconds = as_number(entry[3]);
      if (type && devices.value_or(0) >= 1 && in_use.value_or(0) >= 1 && seconds.value_or(0) > 0)
        return {*type, *devices, *in_use, *seconds};
    }
    throw Error(Fault::spec, "\"seen\" wants [type, devices, devices in use, seconds]");
  }

  static PastJob::PastPace pace_of(const Json& entry) {
    if (entry.is_array() && entry.size() == 7) {
      const auto type = as_text(entry[0]);
      const auto devices = as_whole(entry[1]);
      const auto in_use = as_number(entry[2]), from = as_number(entry[3]), to = as_number(entry[4]);
      const auto seconds = as_number(entry[5]), told = as_number(entry[6]);
      const auto is_time = [](const auto& number) { return number && std::isfinite(*number); };
      if (type && devices.value_or(0) >= 1 && in_use.value_or(0) >= 1 && is_time(from) && is_time(to) && *to >= *from &&
          is_time(seconds) && *seconds > 0 && is_time(told) && *told >= 0)
        return {*type, *devices, *in_use, *from, *to, *seconds, *told};
    }
    throw Error(Fault::spec, "\"paces\" wants [type, devices, devices in use, from, to, seconds, seconds as told]");
  }

  static PastJob::Took took_of(const Json& entry) {
    if (entry.is_array() && entry.size() == 2) {
      const auto what = as_text(entry[0]);
      const auto seconds = as_number(entry[1]);
      if (what && seconds.value_or(-1) >= 0 && std::isfinite(*seconds)) return {*what, *seconds};
    }
    throw Error(Fault::spec, "\"took\" wants [what, seconds]");
  }

  static EarlyStop early_stop_of(const Json& entry) {
    if (entry.is_array() && entry.size() == 4) {
      const auto patience = as_whole(entry[0]), falls = as_whole(entry[2]);
      const auto min_delta = as_number(entry[1]), samples = as_number(entry[3]);
      if (patience.value_or(0) >= 1 && min_delta.value_or(-1) >= 0 && falls && samples.value_or(0) > 0)
        return {.patience = *patience, .min_delta = *min_delta, .falls = *falls != 0, .samples = *samples};
    }
    throw Error(Fault::spec, "\"early_stop\" wants [patience, min_delta, 1 or 0, samples of a step]");
  }

  static Evaluation evaluation_of(const Json& entry) {
    if (entry.is_array() && entry.size() == 4) {
      const auto step = as_whole(entry[0]);
      const auto loss = as_number(entry[1]), accuracy = as_number(entry[2]), metric = as_number(entry[3]);
      if (step.value_or(0) >= 1 && loss && accuracy && metric) return {*step, *loss, *accuracy, *metric};
    }
    throw Error(Fault::spec, "\"evaluations\" wants [step, loss, accuracy, metric]");
  }

  static HostCores cores_in(const Json& entry) {
    if (entry.is_array() && entry.size() == 2) {
      const auto host = as_text(entry[0]);
      const auto cores = as_whole(entry[1]);
      if (host && cores.value_or(0) >= 1) return {*host, *cores};
    }
    throw Error(Fault::spec, "\"hosts\" wants [name, cores]");
  }

  const Json& line_;
};

template <typename T>
T read(const Json& line) {
  T value;
  T::fields(value, Reading(line));
  return value;
}

}  // namespace

double PastJob::seconds_of(std::string_view what, size_t nth) const {
  for (const Took& one : took) {
    if (one.what == what && nth-- == 0) return one.seconds;
  }
  if (what == "start") return start;
  if (what == "grow") return grow;
  if (what == "lost") return lost;
  if (what == "move") return move.value_or(start);
  return what == "shrink" ? shrink : stop;
}

double PastJob::step_seconds(const std::string& type, int64_t devices, int64_t in_use, int64_t cores) const {
  const auto differs = [&](const PastSpeed& one) {
    return std::tuple(one.type != type, apart(one.devices, devices), apart(one.in_use, in_use));
  };
  const PastSpeed& nearest = *std::ranges::min_element(seen, {}, differs);
  const Turns turns{request.ests, cores};
  return nearest.step_seconds * turns.of(devices, static_cast<double>(in_use)) /
         turns.of(nearest.devices, static_cast<double>(nearest.in_use));
}

const PastJob::PastPace* PastJob::pace_at(double moment, const std::string& type, int64_t devices) const {
  const auto away = [&](const PastPace& pace) { return std::max({pace.from - moment, moment - pace.to, 0.0}); };
  const PastPace* nearest = nullptr;
  for (auto pace = std::ranges::lower_bound(paces, moment - kNear, {}, &PastPace::to);
       pace != paces.end() && pace->from <= moment + kNear; ++pace) {
    const bool is_same = pace->type == type && pace->devices == devices;
    if (is_same && (nearest == nullptr || away(*pace) <= away(*nearest))) nearest = &*pace;
  }
  return nearest;
}

double PastJob::step_seconds_at(double moment, const Where& where) const {
  const PastPace* pace = pace_at(moment, where.type, where.devices);
  if (pace == nullptr) return step_seconds(where.type, where.devices, where.in_use, where.cores);
  const Turns turns{request.ests, where.cores};
  return pace->step_seconds * turns.of(where.devices, static_cast<double>(where.in_use)) /
         turns.of(pace->devices, pace->in_use);
}

std::string PoolTrace::text() const {
  std::string text = json_text({{"pool", object_of(*this)}}) + "\n";
  for (const PastJob& job : jobs) text += json_text(object_of(job)) + "\n";
  const auto write = [&](const auto& events) {
    for (const auto& one : events) text += json_text(object_of(one)) + "\n";
  };
  write(taken);
  write(added);
  write(removed);
  write(lost);
  write(away);
  return text;
}

int64_t PoolTrace::cores_of(const std::string& host) const {
  if (host.empty()) return cores;
  const auto said = std::ranges::find(hosts, host, &HostCores::host);
  if (said != hosts.end()) return said->cores;
  const auto count = [&](const std::vector<std::string>& names) {
    return std::ranges::count_if(names, [&](const std::string& name) { return Slot{0, name}.host() == host; });
  };
  int64_t most = count(devices);
  for (const Added& one : added) most = std::max<int64_t>(most, count(one.devices));
  return std::max<int64_t>(most, 1);
}

void PoolTrace::add(const Json& line) {
  if (line.contains("pool")) {
    fields(*this, Reading(object_in(line, "pool")));
  } else if (line.contains("job")) {
    const PastJob& job = jobs.emplace_back(read<PastJob>(line));
    if (job.seen.empty()) throw Error::make(Fault::spec, "job {}: no steps were seen", job.id);
  } else if (line.contains("taken_s")) {
    taken.push_back(read<Taken>(line));
  } else if (line.contains("added_s")) {
    added.push_back(read<Added>(line));
  } else if (line.contains("removed_s")) {
    removed.push_back(read<Removed>(line));
  } else if (line.contains("host_lost_s")) {
    lost.push_back(read<HostGone>(line));
  } else if (line.contains("away_s")) {
    away.push_back(read<Away>(line));
  }
}

}  // namespace estrain::dispatch
