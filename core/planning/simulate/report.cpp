#include "core/planning/simulate/report.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "core/base/median.h"

namespace estrain::simulate {
namespace {

double percentile(const std::vector<double>& sorted, double part) {
  const double at = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], at - static_cast<double>(below));
}

Figures mean_of(const std::vector<Figures>& all) {
  Figures mean;
  const auto parts = static_cast<double>(all.size());
  for (const Figures& one : all) {
    mean.mean_jct += one.mean_jct / parts;
    mean.median_jct += one.median_jct / parts;
    mean.p99_jct += one.p99_jct / parts;
    mean.mean_wait += one.mean_wait / parts;
    mean.makespan += one.makespan / parts;
    mean.resizes_per_job += one.resizes_per_job / parts;
    mean.mean_devices_in_use += one.mean_devices_in_use / parts;
    mean.deadlines += one.deadlines;
    mean.deadlines_met += one.deadlines_met;
  }
  return mean;
}

std::string format_line(const std::string& policy, const std::string& workload, size_t jobs, double charge,
                        const Figures& figures) {
  const std::string met = figures.deadlines == 0 ? "" : fmt::format("{}/{}", figures.deadlines_met, figures.deadlines);
  return fmt::format(
      "{:<32} {:<12} {:>6} {:>8.3g} {:>10.1f} {:>10.1f} {:>10.1f} {:>10.1f} {:>11.0f} {:>9.1f} {:>8.2f} {:>12}", policy,
      workload, jobs, charge, figures.mean_jct, figures.median_jct, figures.p99_jct, figures.mean_wait,
      figures.makespan, figures.mean_devices_in_use, figures.resizes_per_job, met);
}

Json to_json(const Delays::OfSize& size) {
  return {{"jobs", size.jobs},
          {"fair_share", size.fair_share},
          {"fragmentation", size.fragmentation},
          {"out_of_order", size.out_of_order}};
}

double percent(double part, double all) { return all > 0 ? 100 * part / all : 0; }

std::string format_line(const SimulationResult& result, const std::string& size, const Delays::OfSize& jobs) {
  const auto occurrences = static_cast<double>(jobs.fair_share + jobs.fragmentation);
  const auto share = static_cast<double>(jobs.fair_share), fragments = static_cast<double>(jobs.fragmentation);
  return fmt::format("{:<32} {:<12} {:>7} {:>6} {:>9} ({:4.1f} %) {:>9} ({:4.1f} %) {:>9} ({:4.1f} %)\n", result.policy,
                     result.workload, size, jobs.jobs, jobs.fair_share, percent(share, occurrences), jobs.fragmentation,
                     percent(fragments, occurrences), jobs.out_of_order,
                     percent(static_cast<double>(jobs.out_of_order), static_cast<double>(jobs.jobs)));
}

}  // namespace

Figures figures_of(const SimulationResult& result) {
  Figures figures;
  const auto jobs = static_cast<double>(result.jobs.size());
  std::vector<double> jcts;
  for (const JobResult& job : result.jobs) {
    jcts.push_back(job.jct());
    figures.mean_jct += job.jct();
    figures.mean_wait += job.started - job.submitted;
    figures.resizes_per_job += static_cast<double>(std::max<int64_t>(job.starts - 1, 0));
    if (!job.deadline) continue;
    ++figures.deadlines;
    if (job.finished <= *job.deadline) ++figures.deadlines_met;
  }
  for (double* mean : {&figures.mean_jct, &figures.mean_wait, &figures.resizes_per_job}) *mean /= jobs;
  std::ranges::sort(jcts);
  figures.median_jct = percentile(jcts, 0.5);
  figures.p99_jct = percentile(jcts, 0.99);
  figures.makespan = result.end - result.begin;
  figures.mean_devices_in_use = result.device_seconds / figures.makespan;
  return figures;
}

Delays delays_of(const SimulationResult& result) {
  constexpr double kShort = 60;  // s
  Delays delays;
  for (const JobResult& job : result.jobs) {
    if (job.finished - job.started < kShort) continue;
    Delays::OfSize& size = job.devices <= Delays::kSmall ? delays.small : delays.large;
    ++size.jobs;
    size.fair_share += job.waits.fair_share > 0;
    size.fragmentation += job.waits.fragmentation > 0;
    size.out_of_order += job.is_out_of_order;
    delays.fair_share_seconds += job.waits.fair_share;
    delays.fragmentation_seconds += job.waits.fragmentation;
  }
  return delays;
}

Json to_json(const SimulationResult& result) {
  const Figures figures = figures_of(result);
  Json::object_t jcts, waits;
  // Json looks through all keys for each new key, too slowly for a hundred thousand jobs.
  std::unordered_set<std::string_view> names;
  for (const JobResult& job : result.jobs) {
    if (!names.insert(job.name).second) continue;
    jcts.emplace_back(job.name, job.jct());
    waits.emplace_back(job.name, job.started - job.submitted);
  }
  Json json = {{"policy", result.policy},
               {"workload", result.workload},
               {"seed", result.seed},
               {"charge_s", result.charge},
               {"jobs", result.jobs.size()},
               {"mean_jct_s", figures.mean_jct},
               {"median_jct_s", figures.median_jct},
               {"p99_jct_s", figures.p99_jct},
               {"makespan_s", figures.makespan},
               {"resizes_per_job", figures.resizes_per_job},
               {"mean_devices_in_use", figures.mean_devices_in_use},
               {"mean_wait_s", figures.mean_wait},
               {"deadlines", figures.deadlines},
               {"deadlines_met", figures.deadlines_met},
               {"jct_s", std::move(jcts)},
               {"wait_s", std::move(waits)}};
  if (!result.end_errors.empty()) json["end_error_half_way"] = upper_median(result.end_errors);
  if (result.has_quotas) {
    const Delays delays = delays_of(result);
    json["delays"] = {{"small", to_json(delays.small)},
                      {"large", to_json(delays.large)},
                      {"fair_share_s", delays.fair_share_seconds},
                      {"fragmentation_s", delays.fragmentation_seconds}};
  }
  for (const DecisionMade& decision : result.decisions) {
    json["decisions"].push_back({{"at_s", decision.at},
                                 {"job", decision.job},
                                 {"devices", decision.devices},
                                 {"reason", decision.reason},
                                 {"names", decision.names}});
  }
  return json;
}

std::string format_table(const std::vector<SimulationResult>& results) {
  std::string text = fmt::format("{:<32} {:<12} {:>6} {:>8} {:>10} {:>10} {:>10} {:>10} {:>11} {:>9} {:>8} {:>12}\n",
                                 "policy", "workload", "jobs", "charge s", "mean JCT", "median", "p99", "mean wait",
                                 "makespan", "devices", "resizes", "deadlines");
  std::vector<Figures> of_policy;
  for (size_t i = 0; i < results.size(); ++i) {
    const SimulationResult& result = results[i];
    of_policy.push_back(figures_of(result));
    text += format_line(result.policy, result.workload, result.jobs.size(), result.charge, of_policy.back()) + "\n";
    if (i + 1 < results.size() && results[i + 1].policy == result.policy) continue;
    if (of_policy.size() > 1) {
      size_t jobs = 0;
      for (size_t k = i + 1 - of_policy.size(); k <= i; ++k) jobs += results[k].jobs.size();
      text += format_line(result.policy, fmt::format("mean of {}", of_policy.size()), jobs, result.charge,
                          mean_of(of_policy)) +
              "\n";
    }
    of_policy.clear();
  }
  return text;
}

std::string format_delays(const std::vector<SimulationResult>& results) {
  std::string text;
  for (const SimulationResult& result : results) {
    if (!result.has_quotas) continue;
    if (text.empty()) {
      text = fmt::format(
          "\ndelays of jobs that ran for a minute, by cause (Philly, Table 2)\n{:<32} {:<12} {:>7} {:>6} "
          "{:>18} {:>18} {:>18}\n",
          "policy", "workload", "devices", "jobs", "fair share", "fragmentation", "out of order");
    }
    const Delays delays = delays_of(result);
    text += format_line(result, fmt::format("<= {}", Delays::kSmall), delays.small);
    text += format_line(result, fmt::format("> {}", Delays::kSmall), delays.large);
    const double all = delays.fair_share_seconds + delays.fragmentation_seconds;
    text += fmt::format("{:<32} {:<12} waiting: {:.0f} h, {:.1f} % of it by fragmentation\n", result.policy,
                        result.workload, all / 3600, percent(delays.fragmentation_seconds, all));
  }
  return text;
}

}  // namespace estrain::simulate
