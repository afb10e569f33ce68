#include "cmd/burst_plan.h"

#include <chrono>

#include "core/base/error.h"
#include "core/base/json/json_text.h"
#include "core/planning/plan/burst.h"
#include "core/planning/simulate/tables/layer_table.h"

namespace estrain::cmd {
namespace {

struct SamePlan {
  int64_t devices;
  plan::BurstPlan plan;
  bool within;
};

Json to_json(const plan::BurstPlan& plan) {
  return {{"seconds", plan.seconds}, {"device_seconds", plan.device_seconds}, {"amplification", plan.amplification}};
}

void print_json(const BurstPlanArguments& arguments, const plan::BurstPlan& best, const std::vector<SamePlan>& same,
                double search_seconds) {
  Json json = to_json(best);
  json["limit"] = arguments.limit;
  json["search_seconds"] = search_seconds;
  json["layers"] = Json::array();
  for (const plan::BurstStep& step : best.steps) {
    json["layers"].push_back({{"layer", step.layer},
                              {"devices", step.devices},
                              {"transfer_seconds", step.transfer},
                              {"compute_seconds", step.compute},
                              {"sync_seconds", step.sync}});
  }
  json["data_parallel"] = Json::array();
  for (const SamePlan& one : same) {
    Json of_one = to_json(one.plan);
    of_one["devices"] = one.devices;
    of_one["within_limit"] = one.within;
    json["data_parallel"].push_back(std::move(of_one));
  }
  fmt::print("{}\n", json_text(json));
}

void print_line(const std::string& name, const plan::BurstPlan& plan, const std::string& note) {
  fmt::print("{:<28} {:>12.3f} {:>18.3f} {:>14.2f}  {}\n", name, 1e3 * plan.seconds, 1e3 * plan.device_seconds,
             plan.amplification, note);
}

}  // namespace

int run_burst_plan(const BurstPlanArguments& arguments) {
  if (arguments.table.empty()) {
    throw Error(Fault::usage, "plan --burst needs --table FILE: layers measured at several batch sizes");
  }
  const size_t slash = arguments.model.find('/');
  simulate::LayerTableOptions options;
  options.model = arguments.model.substr(0, slash);
  if (slash != std::string::npos) options.set = arguments.model.substr(slash + 1);
  options.batch = arguments.batch;
  options.most_devices = arguments.devices;
  const std::vector<plan::BurstPart> parts = simulate::read_layer_table(arguments.table, options);
  const plan::BurstNetwork network{1e9 * arguments.bandwidth, 1e-6 * arguments.delay};
  const auto began = std::chrono::steady_clock::now();
  const plan::BurstPlan best = plan::best_burst_plan(parts, network, arguments.limit);
  const double search_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::vector<SamePlan> same;
  const size_t counts = parts.front().branches.front().front().compute.size();
  for (size_t exponent = 0; exponent < counts; ++exponent) {
    const int64_t devices = int64_t{1} << exponent;
    plan::BurstPlan plan = plan::data_parallel_plan(parts, network, devices);
    const bool within = plan::is_within(plan, parts, arguments.limit);
    same.push_back({devices, std::move(plan), within});
  }
  if (arguments.json) {
    print_json(arguments, best, same, search_seconds);
    return 0;
  }
  fmt::print("{:<28} {:>8} {:>12} {:>12} {:>12}\n", "layer", "devices", "transfer ms", "compute ms", "sync ms");
  for (const plan::BurstStep& step : best.steps) {
    fmt::print("{:<28} {:>8} {:>12.3f} {:>12.3f} {:>12.3f}\n", step.layer, step.devices, 1e3 * step.transfer,
               1e3 * step.compute, 1e3 * step.sync);
  }
  fmt::print("\n{:<28} {:>12} {:>18} {:>14}\n", "plan", "time ms", "device-time ms", "amplification");
  print_line("burst parallel", best,
             fmt::format("limit {:g}, found in {:.2f} ms", arguments.limit, 1e3 * search_seconds));
  for (const SamePlan& one : same) {
    print_line(fmt::format("data parallel on {}", one.devices), one.plan,
               one.within ? "" : "a layer exceeds the limit");
  }
  return 0;
}

}  // namespace estrain::cmd
