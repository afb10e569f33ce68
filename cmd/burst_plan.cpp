#include "cmd/burst_plan.h"

#include <fmt/format.h>

#include <chrono>
#include <initializer_list>
#include <optional>
#include <utility>

#include "cmd/burst_job.h"
#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/base/json/json_text.h"
#include "core/planning/plan/burst_job.h"
#include "core/planning/simulate/tables/layer_table.h"

namespace estrain::cmd {
namespace {

constexpr const char* kNotTrained = "estrain does not train by such plans: each device of a job runs the whole network";

// The plan for a job, or for a table.
struct BurstReport {
  std::vector<plan::BurstPart> parts;
  plan::BurstVerdict verdict;
  double limit, search_seconds;
  std::optional<BurstJob> job;  // nothing: a table

  bool is_within(const plan::BurstPlan& plan) const { return plan::is_within(plan, parts, limit); }
};

void refuse(const BurstPlanArguments& arguments, std::initializer_list<const char*> options, const std::string& beside,
            const std::string& advice) {
  for (const char* option : options) {
    if (!arguments.has(option)) continue;
    throw Error::make(Fault::usage, "{} does not go with {}", option, beside).advise(advice);
  }
}

void check_options(const BurstPlanArguments& arguments) {
  if (!(arguments.limit >= 1))
    throw Error::make(Fault::usage, "an amplification limit of {} is below 1: one device has 1", arguments.limit);
  refuse(arguments, {"--offer", "--profile", "--threads", "--allow-mixed"}, "plan --burst",
         "leave it out: --burst plans with one kind of device, whose blocks it times each time");
  if (!arguments.table.empty())
    return refuse(arguments, {"SPEC", "--run", "--devices", "--set", "--seconds"}, "plan --burst --table",
                  "leave it out to plan by the table, or leave --table out to time the job's own blocks");
  if (arguments.spec.empty() && arguments.run.empty())
    throw Error(Fault::usage, "plan --burst needs a job, SPEC.toml or --run RUN, or --table FILE")
        .advise("a job's blocks are timed on this machine; a table has layers measured at several batch sizes");
  refuse(arguments, {"--model"}, "a job", "it chooses a model of a table");
  refuse(arguments, {"--global-batch"}, "a job", "a step has the batches of the job's ESTs: --set data.batch=N");
  if (arguments.has("--gpus"))
    refuse(arguments, {"--devices"}, "--gpus", "give one of them: the list has its own number of devices");
}

std::vector<plan::BurstPart> parts_of_table(const BurstPlanArguments& arguments) {
  const size_t slash = arguments.model.find('/');
  simulate::LayerTableOptions options;
  options.model = arguments.model.substr(0, slash);
  if (slash != std::string::npos) options.set = arguments.model.substr(slash + 1);
  options.batch = arguments.batch;
  options.most_devices = arguments.devices;
  return simulate::read_layer_table(arguments.table, options);
}

// The gradients that go as factors.
int64_t factored(const plan::BurstPlan& plan) {
  int64_t sum = 0;
  for (const plan::BurstStep& step : plan.steps) sum += step.factored;
  return sum;
}

Json to_json(const plan::BurstPlan& plan) {
  return {{"seconds", plan.seconds},
          {"device_seconds", plan.device_seconds},
          {"amplification", plan.amplification},
          {"factored", factored(plan)}};
}

Json to_json(const BurstJob& job) {
  Json blocks = Json::array();
  for (const comm::TimedBlock& block : job.times.blocks) {
    blocks.push_back({{"block", block.name},
                      {"forward_seconds", block.forward},
                      {"backward_seconds", block.backward},
                      {"update_seconds", block.update},
                      {"output_bytes", block.output_bytes},
                      {"parameter_bytes", block.parameter_bytes}});
  }
  return {{"model", job.spec.model.name},
          {"device", job.device},
          {"ests", job.spec.job.ests},
          {"batch", job.spec.data.batch},
          {"devices", job.devices},
          {"bandwidth", job.network.bandwidth},
          {"delay", job.network.delay},
          {"links", job.links},
          {"blocks", blocks},
          {"timed",
           {{"ests", job.times.ests},
            {"rounds", job.times.rounds},
            {"seconds_by_blocks", job.times.sum_of_blocks()},
            {"step_seconds", job.times.step_seconds}}},
          {"notes", job.notes}};
}

void print_json(const BurstReport& report) {
  Json json = to_json(report.verdict.best);
  json["limit"] = report.limit;
  json["search_seconds"] = report.search_seconds;
  json["layers"] = Json::array();
  for (const plan::BurstStep& step : report.verdict.best.steps) {
    json["layers"].push_back({{"layer", step.layer},
                              {"devices", step.devices},
                              {"transfer_seconds", step.transfer},
                              {"compute_seconds", step.compute},
                              {"sync_seconds", step.sync},
                              {"factored", step.factored}});
  }
  json["data_parallel"] = Json::array();
  for (const plan::BurstPlan& same : report.verdict.same) {
    Json of_one = to_json(same);
    of_one["devices"] = same.steps.front().devices;
    of_one["within_limit"] = report.is_within(same);
    json["data_parallel"].push_back(std::move(of_one));
  }
  json["speed_up"] = report.verdict.speed_up;
  json["no_gain"] = report.verdict.no_gain.empty() ? Json() : Json(report.verdict.no_gain);
  json["trained"] = false;  // kNotTrained
  if (report.job) json["job"] = to_json(*report.job);
  fmt::print("{}\n", json_text(json));
}

void print_blocks(const BurstReport& report) {
  const BurstJob& job = *report.job;
  fmt::print("{} on {}: {} ESTs of {} samples, at most {} devices\n", job.spec.model.name, job.device,
             job.spec.job.ests, job.spec.data.batch, job.devices);
  for (const std::string& note : job.notes) fmt::print("note: {}\n", note);
  fmt::print("{:<28} {:>10} {:>11} {:>9} {:>12} {:>13} {:>8}\n", "block (mini-batch of an EST)", "forward ms",
             "backward ms", "update ms", "output bytes", "weight bytes", "devices");
  for (size_t i = 0; i < job.times.blocks.size(); ++i) {
    const comm::TimedBlock& block = job.times.blocks[i];
    fmt::print("{:<28} {:>10.3f} {:>11.3f} {:>9.3f} {:>12} {:>13} {:>8}\n", block.name, 1e3 * block.forward,
               1e3 * block.backward, 1e3 * block.update, block.output_bytes, block.parameter_bytes,
               report.verdict.best.steps[i].devices);
  }
  fmt::print("links: {:.4g} GB/s, {:.4g} us: {}\n\n", 1e-9 * job.network.bandwidth, 1e6 * job.network.delay, job.links);
}

void print_steps(const plan::BurstPlan& plan) {
  fmt::print("{:<28} {:>8} {:>12} {:>12} {:>12}\n", "layer", "devices", "transfer ms", "compute ms", "sync ms");
  for (const plan::BurstStep& step : plan.steps) {
    fmt::print("{:<28} {:>8} {:>12.3f} {:>12.3f} {:>12.3f}\n", step.layer, step.devices, 1e3 * step.transfer,
               1e3 * step.compute, 1e3 * step.sync);
  }
}

void print_line(const std::string& name, const plan::BurstPlan& plan, const std::string& note) {
  fmt::print("{:<28} {:>12.3f} {:>18.3f} {:>14.2f}  {}\n", name, 1e3 * plan.seconds, 1e3 * plan.device_seconds,
             plan.amplification, note);
}

void print_plans(const BurstReport& report) {
  fmt::print("\n{:<28} {:>12} {:>18} {:>14}\n", "plan", "time ms", "device-time ms", "amplification");
  print_line("burst parallel", report.verdict.best,
             fmt::format("limit {:g}, found in {:.2f} ms", report.limit, 1e3 * report.search_seconds));
  for (const plan::BurstPlan& same : report.verdict.same) {
    std::string note = report.is_within(same) ? "" : "a layer exceeds the limit";
    if (const int64_t count = factored(same); count > 0)
      note += fmt::format("{}{} as factors", note.empty() ? "" : "; ", counted(count, "gradient"));
    print_line(fmt::format("data parallel on {}", same.steps.front().devices), same, note);
  }
}

void print_verdict(const plan::BurstVerdict& verdict) {
  if (!verdict.no_gain.empty()) return fmt::print("no gain, because {}\n", verdict.no_gain);
  fmt::print("gain: {:.2f} times as fast as data parallel on {}, and {:.2f} times as on {}\n", verdict.speed_up,
             verdict.same[verdict.fastest].steps.front().devices, verdict.same.back().seconds / verdict.best.seconds,
             verdict.same.back().steps.front().devices);
}

void print_check(const BurstJob& job) {
  const double sum = job.times.sum_of_blocks(), whole = job.times.step_seconds;
  fmt::print("check: on one {}, a step of {} ESTs takes {:.2f} ms by its blocks, and {:.2f} ms undivided ({:+.1f} %)\n",
             job.device, job.times.ests, 1e3 * sum, 1e3 * whole, 100 * (sum / whole - 1));
}

void print_text(const BurstReport& report) {
  if (report.job) print_blocks(report);
  print_steps(report.verdict.best);
  print_plans(report);
  print_verdict(report.verdict);
  if (report.job) print_check(*report.job);
  fmt::print("{}\n", kNotTrained);
}

}  // namespace

int run_burst_plan(const BurstPlanArguments& arguments) {
  check_options(arguments);
  BurstReport report{.parts = {}, .verdict = {}, .limit = arguments.limit, .search_seconds = 0, .job = {}};
  plan::BurstNetwork network{1e9 * arguments.bandwidth, 1e-6 * arguments.delay};
  if (arguments.table.empty()) {
    report.job = time_burst_job(arguments);
    report.parts = report.job->parts();
    network = report.job->network;
  } else {
    report.parts = parts_of_table(arguments);
  }
  const auto began = std::chrono::steady_clock::now();
  plan::BurstPlan best = plan::best_burst_plan(report.parts, network, arguments.limit);
  report.search_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  report.verdict = plan::weigh_burst_plan(std::move(best), report.parts, network, arguments.limit);
  arguments.json ? print_json(report) : print_text(report);
  return 0;
}

}  // namespace estrain::cmd
