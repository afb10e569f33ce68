#include "core/simulate/pool_trace.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "core/base/error.h"
#include "core/base/json/json_fields.h"
#include "core/base/json/json_lines.h"

namespace estrain::simulate {
namespace {

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  PoolTrace read() {
    for_each_object(path_, [this](const Json& line) { take(line); });
    if (trace_.devices.empty()) throw Error::make(Fault::spec, "{}: no devices", path_);
    if (trace_.jobs.empty()) throw Error::make(Fault::spec, "{}: no jobs", path_);
    std::ranges::stable_sort(trace_.jobs, {}, &PastJob::submitted);
    return std::move(trace_);
  }

 private:
  void take(const Json& line) {
    if (line.contains("pool")) {
      const Json& pool = object_in(line, "pool");
      for (const Json& device : list_in(pool, "devices")) trace_.devices.push_back(as_text(device).value_or(""));
      trace_.cores = whole(pool, "cores", 1);
    } else if (line.contains("job")) {
      trace_.jobs.push_back(job(line));
    } else if (line.contains("taken_s")) {
      const double within = number_in(line, "within_s").value_or(std::numeric_limits<double>::infinity());
      trace_.taken.push_back({number(line, "taken_s"), number(line, "lent_s"), within});
    } else if (line.contains("away_s")) {
      trace_.away.push_back({number(line, "away_s"), number(line, "served_s")});
    }
  }

  PastJob job(const Json& line) const {
    PastJob job;
    job.id = whole(line, "job", 1);
    dispatch::Request& request = job.request;
    request.name = text_in(line, "name").value_or("");
    request.user = text_in(line, "user").value_or("");
    request.priority = whole_in(line, "priority").value_or(0);
    request.ests = whole(line, "ests", 1);
    request.devices = whole(line, "devices", 1);
    request.least = whole(line, "least", 0);
    request.most = whole(line, "most", 1);
    request.type = text_in(line, "type").value_or("");
    request.mixes_types = line.contains("mixes_types") && line.at("mixes_types") == true;
    request.weighs_offers = line.contains("weighs_offers") && line.at("weighs_offers") == true;
    request.deadline = number_in(line, "deadline_s");
    request.total_steps = whole(line, "steps", 1);
    job.submitted = number(line, "submit_s");
    const std::pair<const char*, double*> durations[] = {
        {"mini_batch_s", &job.mini_batch}, {"check_s", &job.check}, {"start_s", &job.start}, {"grow_s", &job.grow},
        {"shrink_s", &job.shrink},         {"stop_s", &job.stop},   {"lost_s", &job.lost}};
    for (const auto& [name, value] : durations) *value = number(line, name);
    for (const Json& entry : list_in(line, "seen")) job.seen.push_back(seen(entry));
    if (job.seen.empty()) throw Error::make(Fault::spec, "{}: job {}: no steps were seen", path_, job.id);
    return job;
  }

  PastJob::Seen seen(const Json& entry) const {
    if (entry.is_array() && entry.size() == 4) {
      const auto type = as_text(entry[0]);
      const auto devices = as_whole(entry[1]), in_use = as_whole(entry[2]);
      const auto seconds = as_number(entry[3]);
      if (type && devices.value_or(0) >= 1 && in_use.value_or(0) >= 1 && seconds.value_or(0) > 0)
        return {*type, *devices, *in_use, *seconds};
    }
    throw Error::make(Fault::spec, "{}: \"seen\" wants [type, devices, devices in use, seconds]", path_);
  }

  double number(const Json& line, const char* key) const {
    const auto value = number_in(line, key);
    if (value && *value >= 0 && std::isfinite(*value)) return *value;
    throw Error::make(Fault::spec, "{}: \"{}\" wants a number from 0", path_, key);
  }
  int64_t whole(const Json& line, const char* key, int64_t least) const {
    const auto value = whole_in(line, key);
    if (value && *value >= least) return *value;
    throw Error::make(Fault::spec, "{}: \"{}\" wants a whole number from {}", path_, key, least);
  }

  std::string path_;
  PoolTrace trace_;
};

double apart(int64_t one, int64_t other) {
  return std::abs(std::log(static_cast<double>(one) / static_cast<double>(other)));
}

}  // namespace

double PastJob::step_seconds(const std::string& type, int64_t devices, int64_t in_use, int64_t cores) const {
  const auto differs = [&](const Seen& one) {
    return std::tuple(one.type != type, apart(one.devices, devices), apart(one.in_use, in_use));
  };
  const Seen& nearest = *std::ranges::min_element(seen, {}, differs);
  const auto turns = [&](int64_t on) { return static_cast<double>((request.ests + on - 1) / on); };
  const auto share = [&](int64_t of) { return std::max(1.0, static_cast<double>(of) / static_cast<double>(cores)); };
  return nearest.step_seconds * turns(devices) / turns(nearest.devices) * share(in_use) / share(nearest.in_use);
}

bool is_pool_trace(const std::string& path) {
  std::ifstream file(path);
  return file.peek() == '{';
}

PoolTrace read_pool_trace(const std::string& path) { return Reader(path).read(); }

}  // namespace estrain::simulate
