#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "cmd/commands.h"
#include "cmd/job_hosts.h"
#include "cmd/validators.h"
#include "core/base/counted.h"
#include "core/base/files/run_files.h"
#include "core/base/finding.h"
#include "core/base/json/json_text.h"
#include "core/base/process/child_process.h"
#include "core/base/process/memory_use.h"
#include "core/base/visible_text.h"
#include "core/data/format_table.h"
#include "core/data/job_data.h"
#include "core/data/sampling/sampler.h"
#include "core/job/batches/batch_schedule.h"
#include "core/job/spec/enum_names.h"
#include "core/job/spec/job_spec.h"
#include "core/job/spec/parsing/parse.h"
#include "core/planning/profile/profile_store.h"
#include "core/planning/profile/work.h"
#include "core/run/faults/diagnosis.h"
#include "core/run/launch/preflight/early_checks.h"
#include "core/run/launch/preflight/operator_probe.h"
#include "core/run/launch/profiling/profiling.h"

namespace estrain::cmd {
namespace {

// `estrain check --hosts`: whether the agents of a run can work together with this host.
struct AgentsCheck {
  std::string run, list;  // the run directory; hosts as train's --hosts
  double seconds = 0;
  std::string listen = {};  // as train's
};

constexpr double kMostClockSeconds = 2;

Finding check_answer(const std::string& check, const Json& row) {
  if (row.contains("error")) {
    const auto fault = static_cast<Fault>(row.value("fault", static_cast<int>(Fault::peer)));
    return Finding::of(check, Error(fault, row.value("error", "")).advise(row.value("advice", "")));
  }
  return Finding::fine(
      check, fmt::format("answers at {}, with this program and key; {}, round trip {:.3g} ms, {:.3g} MB/s",
                         row.value("address", ""), counted(row.value("cores", INT64_C(0)), "core"),
                         1e3 * row.value("round_trip_seconds", 0.0), 1e-6 * row.value("bytes_per_second", 0.0)));
}

Finding check_clock_of(const std::string& check, const Json& row) {
  const double ahead = row.value("clock_ahead_seconds", 0.0);
  const std::string seen =
      fmt::format("its clock is {:.3g} s {} this one's", std::abs(ahead), ahead < 0 ? "behind" : "ahead of");
  if (std::abs(ahead) <= kMostClockSeconds) return Finding::fine(check, seen);
  return Finding::warn(check, seen,
                       "set both clocks (chrony, ntpd): files on a shared file system are judged by their age");
}

Finding check_data_of(const std::string& check, const Json& row, const Json& own) {
  if (row.contains("data_error"))
    return Finding::user_error(check, row.value("data_error", ""), "all hosts of a job need the same data files");
  std::vector<std::string> others;
  const Json& theirs = row.at("data");
  for (size_t i = 0; i < std::max(own.size(), theirs.size()); ++i) {
    if (i >= own.size() || i >= theirs.size() || own.at(i) != theirs.at(i))
      others.push_back((i < own.size() ? own : theirs).at(i).value("what", ""));
  }
  if (others.empty())
    return Finding::fine(check, fmt::format("the same {}, by digest", counted(own.size(), "data file")));
  return Finding::user_error(check, fmt::format("other data than here: {}", fmt::join(others, ", ")),
                             "all hosts of a job need the same data files");
}

// A host that takes over from the launcher needs the run directory. If hosts do not see each other's locks, the host
// also needs a majority of the hosts (core/hosts/PROTOCOL.md).
Finding check_takeover(const Json& rows) {
  std::vector<std::string> apart;
  for (const Json& row : rows) {
    if (!row.value("sees_run", true)) apart.push_back(row.value("host", ""));
  }
  if (!apart.empty() && apart.size() == rows.size())
    return Finding::warn("takeover",
                         "no other host sees the run directory: the loss of the launcher's host stops the run, which "
                         "then continues from its newest checkpoint",
                         "share the run directory with one of them: estrain agent --run; or write checkpoints often");
  if (!apart.empty())
    return Finding::warn("takeover", fmt::format("{} cannot take the launcher's place", fmt::join(apart, ", ")),
                         "they do not see the run directory; the others can");
  const size_t hosts = rows.size() + 1;
  if (hosts != 2) return Finding::fine("takeover", fmt::format("{} hosts: any one of them may be lost", hosts));
  return Finding::warn("takeover",
                       "of two hosts neither is a majority: where the file system does not show locks between hosts, "
                       "the loss of the launcher's host stops the run",
                       "use three hosts, or a file system with locks (NFS v4, Lustre with flock)");
}

// Checks the network key, and each host but this one: an answer, the same program and key; round trip, bandwidth,
// clock; the data files of `spec`, by digest. A host without an answer after `seconds` is an error. Last, the hosts
// that could take over from this host.
std::vector<Finding> check_agents(const AgentsCheck& check, const spec::JobSpec& spec) {
  std::vector<Finding> findings;
  try {
    std::vector<std::string> names = named_hosts(check.list);
    std::erase(names, own_host_name());
    const bool has_files = !data::job_file_names(spec).empty();
    const HostsSeen seen = look_at_hosts({.run = check.run,
                                          .names = names,
                                          .seconds = check.seconds,
                                          .listen = check.listen,
                                          .interface = spec.network.interface,
                                          .own = own_host_name(),
                                          .measure = true,
                                          .spec = has_files ? spec::to_toml(spec) : ""});
    findings.push_back(Finding::fine("network key", RunFiles(check.run).network_key() + ": no other user may read it"));
    for (const Json& row : seen.rows) {
      const std::string host = row.value("host", "");
      findings.push_back(check_answer("host " + host, row));
      if (row.contains("error")) continue;
      findings.push_back(check_clock_of("clock of " + host, row));
      if (has_files) findings.push_back(check_data_of("data of " + host, row, seen.own_data));
    }
    findings.push_back(check_takeover(seen.rows));
  } catch (const Error& error) {
    findings.push_back(Finding::of("hosts", error));
  }
  return findings;
}

using launch::CheckedJob;
using launch::Machine;

struct CheckArguments {
  std::string spec, devices, run, hosts, listen;
  double wait_seconds = 5, gpu_gigabytes = 0;
  std::vector<std::string> overrides;
  bool operators = false, json = false;
};

bool is_error(const Finding& finding) { return finding.severity == Severity::error; }

// Returns one finding for each line of the message: parsers report each mistake in a file on a separate line.
std::vector<Finding> user_errors(const std::string& check, const Error& error) {
  std::vector<Finding> findings;
  std::istringstream lines(error.message());
  for (std::string line; std::getline(lines, line);)
    findings.push_back(Finding::user_error(check, line, findings.empty() ? error.advice() : ""));
  return findings;
}

// All checks, in the order of the report.
class Check {
 public:
  explicit Check(const CheckArguments& arguments) : arguments_(arguments) {}

  void run() {
    read_spec();
    machine_ = Machine::here(run_directory(), files_of_job());
    if (readable_) {
      check_devices();
      check_data();
      try_mini_batch();
      check_rules();
      if (!arguments_.hosts.empty())
        add(check_agents({.run = run_directory(),
                          .list = arguments_.hosts,
                          .seconds = arguments_.wait_seconds,
                          .listen = arguments_.listen},
                         job_.spec));
    }
    check_machine();
  }

  // Returns the steps of the whole job, or 0 if the data could not be read.
  int64_t total_steps() const {
    if (!readable_ || scan_.train_samples == 0) return 0;
    if (job_.spec.train.steps) return *job_.spec.train.steps;
    return schedule().end_of(Epoch(job_.spec.train.epochs.value_or(0))).value;
  }

  int print() const {
    const int code = launch::exit_code(findings_);
    if (arguments_.json) {
      Json all = report_ ? codec::fields_of(*report_) : Json::object();
      if (!report_) all["operators"] = Json::array();
      all["verdict"] = verdict_ ? Json(spec::to_string(verdict_->determinism)) : Json();
      all["reason"] = verdict_ ? verdict_->reason : "";
      if (const int64_t steps = total_steps(); steps > 0) all["total_steps"] = steps;
      if (verdict_) all["work"] = work();
      if (verdict_ && report_ && report_->seconds) all["mini_batch_seconds"] = mini_batch_seconds();
      if (job_.size) all["memory_needs"] = codec::fields_of(launch::host_needs(job_));
      all["checks"] = launch::to_json(findings_);
      fmt::print("{}\n", json_text(all));
      return code;
    }
    print_findings();
    if (report_ && !report_->operators.empty()) print_operators();
    return code;
  }

 private:
  // Prints the verdict, then errors, warnings and the rest, each in the order of the checks.
  void print_findings() const {
    const auto errors = std::ranges::count(findings_, Severity::error, &Finding::severity);
    const auto warnings = std::ranges::count(findings_, Severity::warning, &Finding::severity);
    std::vector<Finding> sorted = findings_;
    const auto rank = [](const Finding& finding) {
      return finding.severity == Severity::error ? 0 : finding.severity == Severity::warning ? 1 : 2;
    };
    std::ranges::stable_sort(sorted, {}, rank);
    fmt::print("verdict: {}\nchecks: {}, errors: {}, warnings: {}\n\n{}",
               errors > 0     ? "the job cannot run"
               : warnings > 0 ? "the job can run; read the warnings"
                              : "the job can run",
               findings_.size(), errors, warnings, visible(launch::format_findings(sorted)));
  }

  void print_operators() const {
    if (arguments_.operators)
      fmt::print("\n{}", launch::format_operators(*report_));
    else
      fmt::print("\n{} in a mini-batch: --operators lists them\n", counted(report_->operators.size(), "operator"));
  }

  spec::JobSpec settled() const {
    spec::JobSpec spec = job_.spec;
    if (spec.job.determinism == spec::Determinism::automatic) verdict_->settle(spec.job);
    return spec;
  }

  // Jobs with the same fields take as long for a mini-batch, on the same device.
  Json work() const {
    const std::string device = job_.devices.front().device.text();
    Json fields = profile::describe_work(settled(), device, launch::profile_host(machine_.cores)).to_json();
    fields.erase("device");
    return fields;
  }

  // The number of samples is that of scan_.
  batches::BatchSchedule schedule() const {
    const spec::JobSpec& spec = job_.spec;
    const int64_t each = data::samples_of_each(scan_.train_samples, spec.job.ests, spec.data.per_class);
    return {each, spec.data.batch, spec.data.drop_last, spec.elastic.changes};
  }

  // By type of device, as far as the profiles of earlier runs tell.
  Json mini_batch_seconds() const {
    const spec::JobSpec spec = settled();
    const bool portable = spec.job.determinism == spec::Determinism::d2 && report_->seconds->portable;
    const double tried = portable ? *report_->seconds->portable : report_->seconds->torch;
    const std::string path = profile::default_store_path(own_environment());
    const profile::ProfileStore store(path, [](const std::string& sentence) { fmt::print(stderr, "{}\n", sentence); });
    const profile::MachineFacts host = launch::profile_host(machine_.cores);
    Json all = Json::object();
    const profile::Profiles known = path.empty() ? profile::Profiles() : store.load();
    for (const auto& [device, seconds] :
         known.guess_mini_batches(spec, host, job_.devices.front().device.text(), tried)) {
      const bool is_gpu = std::ranges::find(host.gpus, device) != host.gpus.end();
      if (is_gpu || device.starts_with("cpu")) all[is_gpu ? "cuda" : device] = seconds;
    }
    return all;
  }

  void add(std::vector<Finding> findings) { std::ranges::move(findings, std::back_inserter(findings_)); }

  std::string run_directory() const {
    if (!arguments_.run.empty()) return arguments_.run;
    return readable_ ? "runs/" + job_.spec.job.name : ".";
  }

  std::vector<std::string> files_of_job() const {
    const spec::DataSection& data = job_.spec.data;
    return {arguments_.spec,  data.path,      data.images,          data.labels,          data.test_images,
            data.test_labels, data.test_path, job_.spec.model.init, job_.spec.model.file, job_.spec.model.eval_file};
  }

  void read_spec() {
    try {
      job_.spec = spec::parse_file(arguments_.spec, arguments_.overrides);
      readable_ = true;
      findings_.push_back(Finding::fine(
          "spec", fmt::format("{}: {} on {}, {} each a step", arguments_.spec, job_.spec.model.name,
                              counted(job_.spec.job.ests, "EST"), counted(job_.spec.data.batch, "sample"))));
    } catch (const Error& error) {
      add(user_errors("spec", error));
    }
  }

  void check_devices() {
    const std::string& list = arguments_.devices.empty() ? job_.spec.resources.devices : arguments_.devices;
    std::vector<Finding> found = launch::check_device_list(job_.spec, list, machine_.cores, job_.devices);
    // For a senseless list, the machine is checked for one worker.
    if (std::ranges::any_of(found, is_error)) job_.devices = {placement::Share{}};
    add(std::move(found));
  }

  void check_data() {
    std::vector<std::string> arrays;
    try {
      arrays = data::arrays_of_job(job_.spec);
    } catch (const Error& error) {
      findings_.push_back(Finding::of("model.file", error));
      has_program_ = false;
    }
    scan_ = data::scan(data::data_section(job_.spec), job_.spec.model.context, job_.spec.model.classes, arrays);
    add(scan_.findings);
    if (scan_.train_samples > 0 && !schedule().has_empty_epoch())
      findings_.push_back(Finding::fine(
          "steps", fmt::format("{} in all; the first epoch has {}", total_steps(), schedule().end_of(Epoch(1)).value)));
  }

  // Returns the job with synthetic images in place of faulty files, so the model can still be tried. Returns nothing if
  // the shape of the images is unknown.
  std::optional<spec::JobSpec> triable_job() const {
    if (!has_program_) return std::nullopt;
    if (scan_.fine()) return job_.spec;
    if (scan_.stored_shape.empty()) return std::nullopt;
    spec::JobSpec job = job_.spec;
    spec::DataSection& data = job.data;
    data.format = spec::DataFormat::synthetic;
    data.path = data.images = data.labels = data.test_images = data.test_labels = data.test_path = "";
    data.shape = scan_.stored_shape;
    if (scan_.is_shape_of_model) {
      data.resize.clear();
      data.crop.clear();
      data.scale.clear();
      data.ratio = spec::DataSection{}.ratio;
    }
    data.samples = std::max(scan_.train_samples, job.job.ests * data.batch);
    if (!job.model.classes && scan_.classes > 0) job.model.classes = scan_.classes;
    return job;
  }

  void try_mini_batch() {
    const std::optional<spec::JobSpec> job = triable_job();
    if (!job) {
      findings_.push_back(Finding::warn("mini-batch", "not tried",
                                        has_program_ ? "correct the data first" : "correct the program first"));
      return;
    }
    try {
      const bool foretells = arguments_.gpu_gigabytes > 0 || has_gpu();
      report_ = launch::probe_operators(*job, job_.devices.front().device, true, foretells);
      job_.size = launch::job_size(*report_);
      if (arguments_.gpu_gigabytes > 0)
        job_.size->gpu_memory = report_->gpu_memory = static_cast<uint64_t>(1e9 * arguments_.gpu_gigabytes);
      note_mini_batch();
      note_short_batches();
      note_determinism();
      note_gpus();
      note_first_weights();
      note_what_differs();
      if (!report_->has_evaluation && job_.spec.train.eval_every >= 0)
        findings_.push_back(data::no_evaluation(job_.spec.data));
    } catch (const Error& error) {
      findings_.push_back(Finding::of("mini-batch", error));
    }
  }

  void note_mini_batch() {
    const comm::ProbedSeconds& seconds = report_->seconds.value();
    const std::string portable =
        seconds.portable ? fmt::format(", {:.2f} ms with the portable ones", 1e3 * *seconds.portable) : "";
    findings_.push_back(Finding::fine(
        "mini-batch",
        fmt::format("{}{}, {} parameters on {}: forward and backward in {:.2f} ms with LibTorch's kernels{}; "
                    "{} of memory at its peak, {} of it for this process alone",
                    counted(job_.spec.data.batch, "sample"), scan_.fine() ? "" : " (made up)", report_->size.parameters,
                    job_.devices.front().device.text(), 1e3 * seconds.torch, portable,
                    format_bytes(report_->memory.peak), format_bytes(job_.size->worker))));
  }

  void note_what_differs() {
    for (const std::string& note : report_->notes)
      findings_.push_back(Finding::warn("model", note,
                                        "where that matters, train with fewer ESTs of larger mini-batches: job.ests, "
                                        "data.batch"));
    for (const std::string& note : report_->settings)
      findings_.push_back(Finding::warn("model", note,
                                        "take the setting out of the code; job.precision = \"tf32\" allows TF32, and "
                                        "job.algorithms chooses who chooses the algorithms"));
  }

  void note_short_batches() {
    if (const auto& error = report_->short_batch_error)
      findings_.push_back(Finding::user_error("last batch", error->message, error->advice));
  }

  void note_determinism() {
    verdict_ = launch::choose_determinism(job_.spec, *report_);
    if (job_.spec.job.determinism == spec::Determinism::d2 && !launch::uncovered_operators(*report_).empty()) {
      findings_.push_back(Finding::user_error("determinism", "D2 is impossible: " + verdict_->reason,
                                              "use job.determinism = \"D1\", or \"auto\""));
    } else {
      findings_.push_back(Finding::fine("determinism", level_and_reason()));
    }
  }

  bool has_gpu() const {
    return std::ranges::any_of(job_.devices, [](const placement::Share& each) { return each.device.is_gpu(); });
  }

  // Judged without a GPU. At D2 portable kernels compute.
  void note_gpus() {
    if (job_.spec.job.determinism == spec::Determinism::d2) return;
    note_raising();
    if (has_gpu() && job_.spec.job.algorithms == spec::Algorithms::measured) note_unpinned();
  }

  void note_unpinned() {
    const std::vector<std::string> unpinned = launch::unpinned_operators(*report_);
    if (unpinned.empty()) return;
    findings_.push_back(Finding::warn(
        "GPUs",
        fmt::format(
            "not pinned: CUDA's libraries choose the algorithm of {}. Another version of them may have other bits",
            fmt::join(unpinned, "; ")),
        "compute it in float32 or bfloat16, or use job.determinism = \"D2\" where it is covered"));
  }

  void note_raising() {
    const std::vector<std::string> raising = launch::raising_operators(*report_);
    if (raising.empty()) return;
    const std::string seen =
        fmt::format("below D2 a GPU fails: LibTorch has no deterministic kernel for {}", fmt::join(raising, "; "));
    const std::string advice = "write it with other operators, or use job.determinism = \"D2\" where they are covered";
    findings_.push_back(has_gpu() ? Finding::user_error("GPUs", seen, advice) : Finding::warn("GPUs", seen, advice));
  }

  // Returns the spec's level, and the level that "auto" would choose.
  std::string level_and_reason() const {
    const std::string level(spec::to_string(job_.spec.job.determinism)), chosen(spec::to_string(verdict_->determinism));
    if (job_.spec.job.determinism == spec::Determinism::automatic)
      return fmt::format("{}, by \"auto\": {}", chosen, verdict_->reason);
    return fmt::format("{}, by the spec; \"auto\" would be {}: {}", level, chosen, verdict_->reason);
  }

  void note_first_weights() {
    if (job_.spec.model.init.empty()) return;
    if (const auto& error = report_->init_error) {
      findings_.push_back(Finding::user_error("model.init", error->message, error->advice));
    } else {
      findings_.push_back(Finding::fine("model.init", job_.spec.model.init + ": " + report_->init_words));
    }
  }

  void check_rules() {
    const std::string& path = job_.spec.recovery.rules;
    if (path.empty()) return;
    try {
      faults::FaultTable::with_rules(path);
      findings_.push_back(Finding::fine("recovery.rules", path + ": can be used"));
    } catch (const Error& error) {
      add(user_errors("recovery.rules", error));
    }
  }

  // The checks that do not depend on the spec, for an unreadable spec.
  void check_machine() {
    if (!readable_) {
      if (!arguments_.run.empty()) findings_.push_back(launch::check_run_directory(machine_));
      add({launch::check_shared_memory(machine_), launch::check_clock(machine_)});
      return;
    }
    if (machine_.run.has_run) {
      findings_.push_back(Finding::warn("run directory", machine_.run.folder + ": a run exists already",
                                        "continue it: train --resume; or choose another directory: --run DIR"));
    }
    add(launch::check_machine(job_, machine_));
  }

  const CheckArguments& arguments_;
  std::vector<Finding> findings_;
  CheckedJob job_;
  bool readable_ = false;    // the spec
  bool has_program_ = true;  // a readable program, or the job has no program
  Machine machine_;
  data::DataScan scan_;
  std::optional<comm::ProbeReport> report_;    // nothing: no mini-batch could be tried
  std::optional<launch::BitsChoice> verdict_;  // the choice of "auto", and the reason
};

int check(const CheckArguments& arguments) {
  Check everything(arguments);
  everything.run();
  return everything.print();
}

}  // namespace

void add_check(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand(
      "check", "Check whether a job can run: spec, data, one mini-batch, memory, disk, limits, determinism");
  auto arguments = std::make_shared<CheckArguments>();
  verb->add_option("SPEC", arguments->spec, "Job spec (TOML)")->required();
  verb->add_option("--devices", arguments->devices, "As for train; a mini-batch is tried on the first one")
      ->check(not_empty());
  verb->add_option(
          "--hosts", arguments->hosts,
          "Check the agents of these hosts, too (a list as for train): that they answer, with this program and "
          "key; the network; their clocks; their data files")
      ->check(not_empty());
  verb->add_option("--wait-hosts", arguments->wait_seconds, "With --hosts: seconds to wait for answers (default 5)")
      ->check(seconds_from(0));
  verb->add_option("--listen", arguments->listen, "With --hosts: as for train; agents may join meanwhile")
      ->check(host_and_port(false));
  verb->add_option("--run", arguments->run, "Where the run will be (default: runs/<job name>)")->check(not_empty());
  verb->add_option("--set", arguments->overrides, "Override a key of the spec: --set data.batch=16")
      ->take_all()
      ->expected(1);
  verb->add_option("--gpu-memory", arguments->gpu_gigabytes,
                   "GB of a GPU: foretell the memory that GPUs need, and the fewest that hold the job; needs no GPU")
      ->check(CLI::PositiveNumber);
  verb->add_flag("--operators", arguments->operators,
                 "List the model's operators: what covers their bits, calls in a mini-batch, layers");
  verb->add_flag("--json", arguments->json, "Print as JSON");
  verb->callback([arguments, &chosen] { chosen = [arguments] { return check(*arguments); }; });
}

}  // namespace estrain::cmd
