#include <algorithm>
#include <ctime>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cmd/burst_plan.h"
#include "cmd/commands.h"
#include "cmd/plan_report.h"
#include "cmd/planned_job.h"
#include "cmd/validators.h"
#include "core/base/process/child_process.h"
#include "core/job/placement/assignment.h"
#include "core/job/resources/allocation.h"
#include "core/planning/plan/changes/proposals.h"
#include "core/planning/profile/alternatives.h"
#include "core/planning/profile/profile_store.h"
#include "core/run/launch/preflight/devices.h"
#include "core/run/launch/preflight/early_checks.h"
#include "core/run/launch/preflight/operator_probe.h"
#include "core/run/launch/profiling/profiling.h"

namespace estrain::cmd {
namespace {

using placement::Assignment;
using placement::Device;
using placement::Share;
using profile::KindCount;

constexpr size_t kMostAlternatives = 12;
constexpr int64_t kMostProposals = 8;

struct PlanArguments {
  std::string spec, devices, offer, run, profile = "missing";
  std::vector<std::string> overrides;
  std::vector<int64_t> threads;
  double seconds = 3;
  bool json = false, allow_mixed = false, burst = false;
};

void warn(const std::string& text) { fmt::print(stderr, "warning: {}\n", text); }

std::vector<KindCount> count_kinds(const Assignment& devices) {
  std::vector<KindCount> counts;
  for (const std::string& device : texts_of(devices_of(devices))) {
    auto at = std::ranges::find(counts, device, &KindCount::kind);
    if (at == counts.end()) at = counts.insert(at, {device, 0});
    ++at->count;
  }
  return counts;
}

// `estrain plan` from the command line to the report.
class Planning {
 public:
  explicit Planning(const PlanArguments& arguments)
      : arguments_(arguments), store_(profile::default_store_path(own_environment()), warn) {
    spec_ = planned_spec(arguments.spec, arguments.run, arguments.overrides);
    cores_ = allocation_.cores;
    host_ = launch::profile_host(cores_);
    choose_devices();
    settle_determinism(spec_, held_.front().device);
    check_given();
  }

  int run() {
    make_table();
    plan_over_hosts();
    if (!offered_.empty())
      report_.proposals = plan::grow(inputs_.job, report_.groups, groups_of(offered_), kMostProposals);
    try_threads();
    foretell_gpu_memory();
    report_plans();
    return 0;
  }

 private:
  void make_table() {
    load();
    measure();
    inputs_ = inputs_for(count_kinds(all_));
    report_.groups = groups_of(held_);
    report_.table = profile::alternatives(inputs_.job, report_.groups, given(), kMostAlternatives);
  }

  void plan_over_hosts() {
    if (!over_hosts_) return;
    const comm::ProbeReport probed = launch::probe_operators(spec_, held_.front().device, /*measures=*/false,
                                                             /*foretells=*/false, may_send_factors_);
    plan::GradientTraffic traffic{static_cast<double>(probed.size.gradient_bytes)};
    traffic.sends_all_factors = spec_.network.factors == spec::SendFactors::always;
    for (const comm::ProbedFactors& each : probed.factors) traffic.factored.push_back(factored_gradient(each));
    over_hosts_->make_plans(inputs_.job, report_.groups, traffic);
  }

  void foretell_gpu_memory() {
    if (!held_.front().device.is_gpu()) return;
    const comm::ProbeReport probed = launch::probe_operators(spec_, held_.front().device, false, /*foretells=*/true);
    report_.gpu_bytes = probed.gpu_bytes;
    report_.gpu_slot_bytes = probed.gpu_slot_bytes;
    const launch::CheckedJob job{spec_, held_, launch::job_size(probed)};
    const auto found = launch::check_gpu_memory(job);
    if (found)
      report_.gpu_memory = found->advice.empty() ? found->seen : found->seen + "\n            " + found->advice;
  }

  void report_plans() {
    report_.weighs_offer = !offered_.empty();
    report_.own_threads = spec_.job.threads;
    report_.batch = spec_.data.batch;
    report_.basis = inputs_.basis;
    report_.crowding = inputs_.job.crowding;
    report_.database = store_.path();
    report_.over_hosts = over_hosts_ ? &*over_hosts_ : nullptr;
    arguments_.json ? print_json(report_) : print_text(report_);
  }

  void try_threads() {
    if (arguments_.threads.empty()) return;
    report_.threads.push_back({spec_.job.threads, report_.best().devices, report_.best().plan.step_seconds});
    for (const int64_t threads : arguments_.threads) {
      if (std::ranges::find(report_.threads, threads, &PlanWithThreads::threads) != report_.threads.end()) continue;
      fmt::print(stderr, "with {} threads:\n", threads);
      PlanArguments others = arguments_;
      others.overrides.push_back(fmt::format("job.threads={}", threads));
      others.offer.clear();
      Planning planning(others);
      planning.make_table();
      report_.threads.push_back({threads, planning.report_.best().devices, planning.report_.best().plan.step_seconds});
    }
    std::ranges::stable_sort(report_.threads, {}, &PlanWithThreads::step_seconds);
  }

  void choose_devices() {
    if (!arguments_.devices.empty()) {
      held_ = planned_devices(arguments_.devices, spec_, allocation_);
    } else if (!arguments_.run.empty()) {
      held_ = devices_of_run(arguments_.run);
    }
    if (held_.empty()) held_ = planned_devices(spec_.resources.devices, spec_, allocation_);
    keep_own_host();
    if (!arguments_.offer.empty()) offered_ = launch::parse_devices(arguments_.offer);
    all_ = held_;
    all_.insert(all_.end(), offered_.begin(), offered_.end());
    launch::check_devices(devices_of(all_), {.mixed = true});
  }

  // Keeps only this host's devices in the table; HostsTable plans with the devices of other hosts.
  void keep_own_host() {
    const HostInRun here(arguments_.run);
    const auto is_own = [&](const Share& share) { return here.is_own(share); };
    if (std::ranges::all_of(held_, is_own)) return strip_hosts();
    may_send_factors_ = launch::may_send_factors(spec_, devices_of(held_));
    over_hosts_.emplace(held_, here.own);
    over_hosts_->measure(arguments_.run, here.status ? &*here.status : nullptr);
    std::erase_if(held_, [&](const Share& share) { return !is_own(share); });
    if (held_.empty()) throw here.no_own_device();
    strip_hosts();
  }
  void strip_hosts() {
    for (Share& share : held_) {
      share.device.host.clear();
      if (over_hosts_) share.ests.reset();
    }
  }

  // Checks a list with ESTs for its devices as train would, before any measurement.
  void check_given() const {
    if (std::ranges::none_of(held_, [](const Share& share) { return share.ests.has_value(); })) return;
    launch::check_devices(devices_of(held_), {.mixed = mixes()});
    placement::place_ests(held_, spec_.job.ests);
  }
  bool mixes() const { return arguments_.allow_mixed || spec_.job.determinism == spec::Determinism::d2; }

  profile::PlanInputs inputs_for(const std::vector<KindCount>& kinds) const {
    return profile::plan_job(profiles_, spec_, host_, kinds, now_, mixes());
  }

  // The measured speeds, with the number of these devices.
  std::vector<plan::DeviceGroup> groups_of(const Assignment& devices) const {
    std::vector<plan::DeviceGroup> groups;
    for (const KindCount& kind : count_kinds(devices)) {
      groups.push_back(*std::ranges::find(inputs_.groups, kind.kind, &plan::DeviceGroup::kind));
      groups.back().count = kind.count;
    }
    return groups;
  }

  void load() {
    try {
      profiles_ = store_.load();
    } catch (const Error& error) {
      warn(error.message() + "; everything is measured again");
    }
  }

  std::vector<KindCount> kinds_to_measure() const {
    std::vector<KindCount> kinds = count_kinds(all_);
    if (arguments_.profile == "always") return kinds;
    const profile::PlanInputs known = inputs_for(kinds);
    const bool together = cores_ / spec_.job.threads > 1;  // otherwise sets of several workers are not measured
    std::erase_if(kinds, [&](const KindCount& kind) {
      const bool missing = std::ranges::find(known.missing, kind.kind) != known.missing.end();
      const bool incomplete = std::ranges::find(known.incomplete, kind.kind) != known.incomplete.end();
      return !missing && !(incomplete && together);
    });
    std::set<std::string> models;  // one GPU is measured for all GPUs of a model
    std::erase_if(kinds, [&](const KindCount& kind) { return !models.insert(host_.model_of(kind.kind)).second; });
    if (arguments_.profile == "never") {
      if (!known.missing.empty()) {
        throw Error::make(Fault::infeasible, "{} has not been measured for this job", known.missing.front())
            .advise("omit --profile never to measure it in a few seconds");
      }
      kinds.clear();
    }
    return kinds;
  }

  void measure() {
    launch::ProfilingOptions options;
    options.seconds = arguments_.seconds;
    options.most_workers = std::max<int64_t>(1, cores_ / spec_.job.threads);
    options.say = [](const std::string& devices) { fmt::print(stderr, "measuring {}\n", devices); };
    for (const KindCount& kind : kinds_to_measure()) {
      // If kinds mix, the number of workers may reach the number of devices of all kinds.
      const int64_t together = mixes() ? static_cast<int64_t>(all_.size()) : kind.count;
      options.alike = gpus_like(kind.kind);
      const launch::KindProfile found = launch::profile(spec_, {kind.kind, together}, options);
      const auto learn = [&](profile::Profiles& profiles) {
        found.learn_into(profiles, spec_, host_, static_cast<int64_t>(std::time(nullptr)));
      };
      learn(profiles_);
      report_.measured.push_back(kind.kind);
      try {
        store_.update(learn);
      } catch (const Error& error) {
        warn(error.message() + "; the measurements are used, but not saved");
      }
    }
    now_ = static_cast<int64_t>(std::time(nullptr));
  }

  // Returns the other available GPUs of the same model.
  std::vector<std::string> gpus_like(const std::string& kind) const {
    std::vector<std::string> alike;
    for (const Device& device : devices_of(all_)) {
      const std::string text = device.text();
      if (!device.is_gpu() || text == kind || host_.model_of(text) != host_.model_of(kind)) continue;
      if (std::ranges::find(alike, text) == alike.end()) alike.push_back(text);
    }
    return alike;
  }

  // Returns the shares that train would choose for the list as given.
  std::optional<std::vector<plan::WorkerShare>> given() const {
    const std::vector<std::string> texts = texts_of(devices_of(held_));
    const auto differs = [&](const std::string& text) { return host_.model_of(text) != host_.model_of(texts.front()); };
    const bool mixed = std::ranges::any_of(texts, differs);
    if (mixed && !mixes()) return std::nullopt;
    if (!held_.front().ests && static_cast<int64_t>(held_.size()) > spec_.job.ests) return std::nullopt;
    const std::vector<EstRange> ranges = placement::place_ests(held_, spec_.job.ests);
    std::vector<plan::WorkerShare> shares;
    for (size_t i = 0; i < held_.size(); ++i) {
      const auto group = std::ranges::find(report_.groups, texts[i], &plan::DeviceGroup::kind);
      shares.push_back({group - report_.groups.begin(), ranges[i].size()});
    }
    return shares;
  }

  const PlanArguments& arguments_;
  profile::ProfileStore store_;
  spec::JobSpec spec_;
  const resources::Allocation allocation_ = resources::current_resources();
  int64_t cores_ = 1;
  profile::MachineFacts host_;
  Assignment held_, offered_, all_;
  int64_t now_ = static_cast<int64_t>(std::time(nullptr));
  profile::Profiles profiles_;
  profile::PlanInputs inputs_;
  PlanReport report_;
  std::optional<HostsTable> over_hosts_;
  bool may_send_factors_ = false;  // the hosts
};

}  // namespace

void add_plan(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("plan", "Measure the job's speed on each kind of device; print the plans");
  auto arguments = std::make_shared<PlanArguments>();
  verb->add_option("SPEC", arguments->spec, "Job spec (TOML); default with --run: the run's own");
  verb->add_option("--devices", arguments->devices,
                   "Available devices, as for train (default: those of --run, else the spec's); with =ESTs after each "
                   "that plan is shown, too")
      ->check(not_empty());
  verb->add_option("--offer", arguments->offer, "Additional devices to evaluate")->check(not_empty());
  verb->add_option("--run", arguments->run, "Run directory of a job: its spec and its devices")->check(not_empty());
  verb->add_option("--set", arguments->overrides, "Override a key of the spec: --set data.batch=16")
      ->take_all()
      ->expected(1);
  verb->add_option("--profile", arguments->profile,
                   "When to measure: always, missing (default: what is not in the database), never")
      ->check(CLI::IsMember({"always", "missing", "never"}));
  verb->add_option("--threads", arguments->threads,
                   "Also plan with these numbers of intra-op threads (1,2,4), for a job that has not begun")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->excludes("--run");
  verb->add_option("--seconds", arguments->seconds, "Seconds of training for each measured set of devices (default 3)")
      ->check(seconds_from(0.001));
  verb->add_flag("--allow-mixed", arguments->allow_mixed, "Plan with devices of different kinds below D2, too");
  verb->add_flag("--json", arguments->json, "Print as JSON");
  auto burst = std::make_shared<BurstPlanArguments>();
  CLI::Option* is_burst = verb->add_flag("--burst", arguments->burst,
                                         "Plan a number of devices for each block of the job's network, timed on this "
                                         "machine, or for each layer of a table");
  const auto add = [&](const char* name, auto& value, const char* help) {
    return verb->add_option(name, value, help)->needs(is_burst);
  };
  add("--table", burst->table, "For --burst: measured layers (.csv or .csv.gz), in place of a job")->check(not_empty());
  add("--model", burst->model, "With --table: model in a table with several, NAME or NAME/SET")->check(not_empty());
  add("--limit", burst->limit,
      "For --burst: maximum ratio of a layer's device-seconds to those on one device (default 2)");
  add("--global-batch", burst->batch, "With --table: samples per step (default 32)")->check(CLI::Range(1, 1 << 30));
  add("--gpus", burst->devices, "For --burst: maximum number of devices (default 8, or those of --devices or --run)")
      ->check(CLI::Range(1, 1 << 20));
  add("--bandwidth", burst->bandwidth,
      "For --burst: bandwidth of a device in GB/s (default 266; of a run over hosts: its slowest link, measured)")
      ->check(CLI::PositiveNumber);
  add("--delay", burst->delay, "For --burst: latency in microseconds (default 40, or measured like the bandwidth)")
      ->check(CLI::NonNegativeNumber);
  verb->callback([verb, arguments, burst, &chosen] {
    if (!arguments->burst) {
      chosen = [arguments] { return Planning(*arguments).run(); };
      return;
    }
    burst->spec = arguments->spec;
    burst->run = arguments->run;
    burst->device_list = arguments->devices;
    burst->overrides = arguments->overrides;
    burst->seconds = arguments->seconds;
    burst->json = arguments->json;
    for (const CLI::Option* option : verb->get_options())
      if (option->count() > 0) burst->given.insert(option->get_name());
    chosen = [burst] { return run_burst_plan(*burst); };
  });
}

}  // namespace estrain::cmd
