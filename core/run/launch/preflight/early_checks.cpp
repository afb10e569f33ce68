#include "core/run/launch/preflight/early_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/counted.h"
#include "core/base/process/memory_use.h"
#include "core/base/visible_text.h"
#include "core/job/spec/defaults.h"
#include "core/job/spec/enum_names.h"
#include "core/state/comm/records/step_record.h"
#include "core/state/comm/sums/reduction_tree.h"

namespace estrain::launch {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

constexpr uint64_t kProgramBytes = 16 * kMiB;    // launcher and scribe
constexpr uint64_t kLeastFreeBytes = 64 * 1024;  // a run directory without a checkpoint
constexpr uint64_t kLeastFreeFiles = 16;
constexpr double kComfortableShare = 0.9;      // of the memory available
constexpr uint64_t kBytesOfCuda = 600 * kMiB;  // a context on a GPU, with the code of all kernels
constexpr double kUsableShare = 0.95;          // of a GPU's memory: the rest is lost between blocks
// Descriptors of a launcher beyond those at its start: lock, spec, worker library, shared memory, doorbell, kernel log,
// signals, control socket, timer and epoll, a pidfd and a socket of the scribe, /dev/null; of each worker a pidfd and a
// socket.
constexpr uint64_t kFilesOfLauncher = 13, kFilesOfWorker = 2;
constexpr uint64_t kComfortableFiles = 64;       // for a worker's data files and libraries during its start
constexpr uint64_t kTasksBesideWorkers = 2;      // the scribe and its saving thread
constexpr int64_t kBeginOf2024 = 1'704'067'200;  // seconds since 1970
constexpr int64_t kToleratedSkew = 120;          // seconds

std::string limit_text(std::optional<uint64_t> limit) { return limit ? format_bytes(*limit) : "unlimited"; }

uint64_t unsigned_of(int64_t value) { return value > 0 ? static_cast<uint64_t>(value) : 0; }

// Returns the number of readers; one if the job lets estrain find the number, since the search begins with one.
int64_t readers_of(const CheckedJob& job) { return std::max<int64_t>(1, job.spec.data.readers); }

// Returns the name of the launcher's own host, which is checked: its devices stand first in a list.
const std::string& own_host(const CheckedJob& job) { return job.devices.front().device.host; }

bool is_here(const CheckedJob& job, const placement::Share& share) { return share.device.host == own_host(job); }

uint64_t workers_here(const CheckedJob& job) {
  return unsigned_of(std::ranges::count_if(job.devices, [&](const auto& share) { return is_here(job, share); }));
}

// Returns the slots for the folds of the workers on this host: the largest heights of their stacks. Over several hosts
// factors of gradients take up to one slot more.
int64_t gradient_slots(const CheckedJob& job) {
  const comm::SumOrder order =
      job.spec.job.determinism == spec::Determinism::d0 ? comm::SumOrder::left_to_right : comm::SumOrder::tree;
  const bool has_other_hosts = workers_here(job) < job.devices.size();
  int64_t slots = has_other_hosts && may_send_factors(job.spec, devices_of(job.devices)) ? 1 : 0;
  const std::vector<EstRange> ranges = placement::place_ests(job.devices, job.spec.job.ests);
  for (size_t worker = 0; worker < ranges.size(); ++worker) {
    if (is_here(job, job.devices[worker])) slots += comm::plan_fold(order, job.spec.job.ests, ranges[worker]).buffers;
  }
  return slots;
}

// Returns the bytes of these slots that the workers write. Over several hosts gradients are summed as a whole, and a
// worker computes them as a whole, too.
uint64_t slot_bytes(const CheckedJob& job, int64_t slots) {
  const JobSize& size = *job.size;
  const uint64_t whole = unsigned_of(slots) * size.gradients, here = workers_here(job);
  if (here < job.devices.size()) return whole + here * size.tables;
  const uint64_t ests = (unsigned_of(job.spec.job.ests) + here - 1) / here;  // of a worker, at most
  const uint64_t rows = size.tables / ests < size.rows ? size.tables : ests * size.rows;
  const uint64_t by_rows = unsigned_of(slots) * (size.tables - rows);
  // The norm is of the whole sum.
  return whole - by_rows + (job.spec.train.clip_grad_norm > 0 ? size.tables - rows : 0);
}

// UINT64_MAX where the result would be larger.
uint64_t sum(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }
uint64_t product(uint64_t a, uint64_t b) {
  uint64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? UINT64_MAX : result;
}

// Bytes of metrics.jsonl, fingerprints and tensorboard (core/state/record/FORMAT.md).
uint64_t log_bytes(const CheckedJob& job) {
  const uint64_t line = 160 + 32 * unsigned_of(job.spec.job.ests);
  const uint64_t digests = job.spec.logging.fingerprints ? 16 + 8 * unsigned_of(job.size->digests) : 0;
  return product(unsigned_of(job.size->steps), line + digests + (job.spec.logging.tensorboard ? 160 : 0));
}

// Returns the number of the newest checkpoints to keep, plus step 0, plus the checkpoint being written.
uint64_t checkpoints_kept(const CheckedJob& job) { return unsigned_of(job.spec.checkpoint.keep) + 2; }

size_t gpus_of(const CheckedJob& job) {
  const Devices devices = devices_of(job.devices);
  return static_cast<size_t>(std::ranges::count_if(devices, &Device::is_gpu));
}

// Returns whether each worker has a GPU of its own, all on this host, and GPUs exchange among themselves.
bool keeps_state_on_gpus(const CheckedJob& job) {
  const Devices devices = devices_of(job.devices);
  return are_distinct_gpus_of(own_host(job), devices) &&
         (devices.size() == 1 ? gpus_may_keep_state(job.spec) : gpus_may_exchange(job.spec));
}

// Returns the bytes of host memory with the optimizer slots of GPUs.
uint64_t pinned_bytes(const CheckedJob& job) {
  const std::vector<uint64_t>& slots = job.size->gpu_slots;
  if (job.spec.job.state != spec::StateMemory::host || slots.empty() || !keeps_state_on_gpus(job)) return 0;
  const size_t gpus = std::min(job.devices.size(), slots.size());
  return gpus * slots[gpus - 1];
}

std::string format_needs(const CheckedJob& job, const MemoryNeeds& needs) {
  const std::string pinned =
      needs.pinned > 0 ? fmt::format(", {} for optimizer slots of GPUs", format_bytes(needs.pinned)) : "";
  return fmt::format("{} needed: {} by {}, {} shared (the state twice, {}), {} for saving, {} for programs{}",
                     format_bytes(needs.total()), format_bytes(needs.workers), counted(workers_here(job), "worker"),
                     format_bytes(needs.shared), counted(unsigned_of(needs.slots), "gradient slot"),
                     format_bytes(needs.saving), format_bytes(needs.programs), pinned);
}

// Returns the least memory of a GPU that holds as many bytes of a job, beside CUDA's own.
uint64_t least_gpu_memory(uint64_t bytes) {
  return static_cast<uint64_t>(std::ceil(static_cast<double>(bytes + kBytesOfCuda) / kUsableShare));
}

// The needs of GPUs for the job, by their number.
class GpuNeeds {
 public:
  explicit GpuNeeds(const CheckedJob& job) : job_(job), size_(*job.size) {}

  size_t most() const { return size_.gpus.size(); }
  bool fits(size_t gpus) const { return fits_in(size_.gpus[gpus - 1]); }
  // Returns whether the GPUs hold the job with the optimizer slots in host memory, where the job has them in GPU
  // memory.
  bool fits_with_slots_in_host(size_t gpus) const {
    return job_.spec.job.state == spec::StateMemory::device && gpus <= size_.gpu_slots.size() &&
           size_.gpu_slots[gpus - 1] > 0 && fits_in(size_.gpus[gpus - 1] - size_.gpu_slots[gpus - 1]);
  }
  // most() + 1: no number of GPUs.
  size_t fewest() const {
    return fewest_of([this](size_t gpus) { return fits(gpus); });
  }
  size_t fewest_with_slots_in_host() const {
    return fewest_of([this](size_t gpus) { return fits_with_slots_in_host(gpus); });
  }
  std::string in_words(size_t gpus) const {
    return fmt::format("{} on each of {}", format_bytes(size_.gpus[gpus - 1]), counted(gpus, "GPU"));
  }
  std::string words_with_slots_in_host(size_t gpus) const {
    return fmt::format(
        "job.state = \"host\" on {}: {} on each, and {} of optimizer slots in host memory, which each "
        "step reads and writes over the GPU's link",
        counted(gpus, "GPU"), format_bytes(size_.gpus[gpus - 1] - size_.gpu_slots[gpus - 1]),
        format_bytes(gpus * size_.gpu_slots[gpus - 1]));
  }

 private:
  bool fits_in(uint64_t bytes) const { return least_gpu_memory(bytes) <= size_.gpu_memory; }
  template <typename Fits>
  size_t fewest_of(Fits fits) const {
    size_t gpus = 1;
    while (gpus <= most() && !fits(gpus)) ++gpus;
    return gpus;
  }

  const CheckedJob& job_;
  const JobSize& size_;
};

std::string lines_of(const std::vector<const Finding*>& findings) {
  std::vector<std::string> lines;
  for (const Finding* finding : findings) lines.push_back(finding->check + ": " + finding->seen);
  return fmt::format("{}", fmt::join(lines, "\n"));
}

std::string advice_of(const std::vector<const Finding*>& findings) {
  std::vector<std::string> lines;
  for (const Finding* finding : findings)
    if (!finding->advice.empty()) lines.push_back(finding->advice);
  return fmt::format("{}", fmt::join(lines, "\n"));
}

template <typename Body>
void note_errors(std::vector<Finding>& findings, const char* check, Body body) {
  try {
    body();
  } catch (const Error& error) {
    findings.push_back(Finding::of(check, error));
  }
}

bool any_error(const std::vector<Finding>& findings) {
  return std::ranges::any_of(findings, [](const Finding& finding) { return finding.severity == Severity::error; });
}

Finding check_mixture(const spec::JobSpec& spec, const Assignment& devices) {
  const std::string list = placement::format_devices(devices);
  const bool mixed = !are_of_one_kind(devices_of(devices));
  const bool below_d2 = spec.job.determinism == spec::Determinism::d0 || spec.job.determinism == spec::Determinism::d1;
  if (mixed && below_d2) {
    return Finding::warn("devices", list + ": devices of different kinds give different bits below D2",
                         "use one kind, or job.determinism = \"D2\"; else train wants --allow-mixed");
  }
  return Finding::fine("devices", fmt::format("{} ({}) for {}", counted(devices.size(), "worker"), list,
                                              counted(unsigned_of(spec.job.ests), "EST")));
}

}  // namespace

JobSize job_size(const comm::ProbeReport& report) {
  const comm::ProbedSize& size = report.size;
  const MemoryUse& memory = report.memory;
  // A worker on a CPU reads the parameters in the shared memory.
  const uint64_t elsewhere = memory.files + (report.gpu_memory == 0 ? size.parameter_bytes : 0);
  return {.state = size.state_bytes,
          .gradients = size.gradient_bytes,
          .tables = size.table_bytes,
          .rows = size.row_bytes,
          .batch = size.batch_bytes,
          .worker = memory.peak - std::min(memory.peak, elsewhere),
          .files = memory.files,
          .address_space = memory.address_space,
          .tensors = size.tensors,
          .digests = size.digests,
          .evaluation_bytes = size.evaluation_bytes,
          .steps = size.steps,
          .gpus = report.gpu_bytes,
          .gpu_memory = report.gpu_memory,
          .gpu_slots = report.gpu_slot_bytes};
}

MemoryNeeds memory_needs(const CheckedJob& job) {
  const JobSize& size = *job.size;
  const uint64_t ests = unsigned_of(job.spec.job.ests);
  MemoryNeeds needs;
  needs.slots = gradient_slots(job);
  needs.workers =
      workers_here(job) * (size.worker + unsigned_of(spec::most_prefetch(job.spec.data, size.batch)) * size.batch);
  const uint64_t records =
      comm::records_of_ring * comm::record_bytes(job.spec.job.ests, size.digests) + size.evaluation_bytes;
  needs.shared = 2 * size.state + slot_bytes(job, needs.slots) + records;
  needs.mapped = 2 * size.state + ests * size.gradients + records;
  needs.saving = size.state;
  needs.programs = size.files + kProgramBytes;
  needs.pinned = pinned_bytes(job);
  return needs;
}

HostNeeds host_needs(const CheckedJob& job) {
  constexpr int64_t kMostWorkers = 64;
  HostNeeds most;
  CheckedJob on_many{job.spec, {}, job.size};
  for (int64_t workers = 1; workers <= std::min(job.spec.job.ests, kMostWorkers); ++workers) {
    on_many.devices.emplace_back();
    const MemoryNeeds needs = memory_needs(on_many);
    most.fixed = std::max(most.fixed, needs.shared + needs.saving + kProgramBytes);
    most.worker = needs.workers / unsigned_of(workers);
  }
  if (job.spec.job.state == spec::StateMemory::host && !job.size->gpu_slots.empty())
    most.fixed += job.size->gpu_slots.front();
  for (const uint64_t bytes : job.size->gpus) {
    const bool keep_state = most.gpus.empty() ? gpus_may_keep_state(job.spec) : gpus_may_exchange(job.spec);
    most.gpus.push_back(keep_state ? least_gpu_memory(bytes) : 0);
  }
  return most;
}

uint64_t checkpoint_bytes(const JobSize& size) { return size.state + unsigned_of(size.tensors) * 1024 + 64 * 1024; }

resources::AutomaticGpus automatic_gpus(const resources::Allocation& allocation) {
  return resources::automatic_gpus(resources::GpuFacts::here(allocation));
}

std::vector<Finding> check_device_list(const spec::JobSpec& spec, const std::string& list, int64_t cores,
                                       Assignment& devices) {
  std::vector<Finding> findings;
  note_errors(findings, "devices", [&] {
    const bool automatic = list == automatic_devices;
    const std::string chosen =
        automatic ? automatic_gpus(resources::current_resources()).device_list(spec.job.ests) : list;
    devices = choose_devices(chosen, spec.job, cores);
  });
  std::set<Device> seen;
  for (const Device& device : devices_of(devices)) {
    if (seen.insert(device).second) note_errors(findings, "devices", [&] { check_devices({device}, {.mixed = true}); });
  }
  if (!any_error(findings))
    note_errors(findings, "devices", [&] { check_devices(devices_of(devices), {.mixed = true}); });
  if (!devices.empty()) note_errors(findings, "devices", [&] { placement::place_ests(devices, spec.job.ests); });
  if (!any_error(findings)) findings.push_back(check_mixture(spec, devices));
  return findings;
}

Finding check_run_directory(const Machine& machine) {
  if (!machine.run.refusal.empty()) {
    return Finding::machine_error("run directory", machine.run.refusal,
                                  "check the owner and mode of the path, or give another one with --run");
  }
  return Finding::fine("run directory", fmt::format("files can be made in {}", machine.run.folder));
}

Finding check_disk(const CheckedJob& job, const Machine& machine) {
  const RunPlace& run = machine.run;
  const std::string advice = "free disk space, lower checkpoint.keep, or give another disk's directory with --run";
  if (!run.free_bytes) return Finding::fine("disk space", fmt::format("{}: not told by its file system", run.folder));
  const std::string free = fmt::format("{} free at {}", format_bytes(*run.free_bytes), run.folder);
  if (run.free_files && *run.free_files < kLeastFreeFiles) {
    return Finding::machine_error("disk space",
                                  fmt::format("{}: only {} more files can be made", run.folder, *run.free_files),
                                  "remove files there (the file system is out of inodes), or give another --run");
  }
  if (!job.size) {
    if (*run.free_bytes < kLeastFreeBytes) return Finding::machine_error("disk space", free, advice);
    return Finding::fine("disk space", free);
  }
  const uint64_t one = checkpoint_bytes(*job.size), all = product(checkpoints_kept(job), one), logs = log_bytes(job);
  const uint64_t missing = all - std::min(all, run.checkpoint_bytes);
  const std::string seen =
      fmt::format("{}; {} needed: {} checkpoints of {} (keep = {}, step 0, one being written), and {} of logs", free,
                  format_bytes(sum(missing, logs)), checkpoints_kept(job), format_bytes(one), job.spec.checkpoint.keep,
                  format_bytes(logs));
  if (missing > *run.free_bytes) return Finding::machine_error("disk space", seen, advice);
  if (sum(missing, logs) > *run.free_bytes)
    return Finding::warn("disk space", seen,
                         "the logs will fill the disk: free space, or set logging.fingerprints = false");
  return Finding::fine("disk space", seen);
}

Finding check_memory(const CheckedJob& job, const Machine& machine) {
  const MemoryNeeds needs = memory_needs(job);
  const AvailableMemory available = available_memory(machine);
  const std::string seen =
      fmt::format("{}; {} {}", format_needs(job, needs), format_bytes(available.bytes), available.from);
  const std::string advice = "use fewer workers, a smaller data.batch or data.prefetch, or free memory";
  const uint64_t most = available.bytes + (available.swaps ? machine.swap_free : 0);
  if (needs.total() - needs.saving > most) return Finding::machine_error("memory", seen, advice);
  if (needs.total() > most)
    return Finding::warn("memory", seen + ": training will wait for checkpoints, which are written without a copy",
                         advice);
  if (needs.total() > available.bytes) return Finding::warn("memory", seen + ": the machine will swap", advice);
  if (static_cast<double>(needs.total()) > kComfortableShare * static_cast<double>(available.bytes))
    return Finding::warn("memory", seen + ": little is left", advice);
  return Finding::fine("memory", seen);
}

std::optional<Finding> check_gpu_memory(const CheckedJob& job) {
  if (!job.size || job.size->gpus.empty() || job.size->gpu_memory == 0) return std::nullopt;
  const size_t listed = gpus_of(job);
  if (listed > 0 && !keeps_state_on_gpus(job)) return std::nullopt;
  const GpuNeeds needs(job);
  const size_t fewest = needs.fewest(), in_host = needs.fewest_with_slots_in_host();
  const bool host_helps = in_host <= needs.most() && in_host < fewest;
  std::string seen = fmt::format("a GPU has {}", format_bytes(job.size->gpu_memory));
  if (listed > 0) seen += "; needed: " + needs.in_words(std::min(listed, needs.most()));
  if (fewest > needs.most()) {
    seen += fmt::format("; no number of GPUs holds the job: {}", needs.in_words(needs.most()));
    const std::string others = "use a smaller data.batch or model, or GPUs with more memory";
    const size_t advised = std::min(std::max(listed, in_host), needs.most());
    return Finding::machine_error("GPU memory", seen,
                                  host_helps ? needs.words_with_slots_in_host(advised) + "; or " + others : others);
  }
  seen += fmt::format("; the fewest that hold the job need {}", needs.in_words(fewest));
  if (listed == 0 && host_helps) seen += "; " + needs.words_with_slots_in_host(in_host);
  if (listed == 0 || listed >= fewest) return Finding::fine("GPU memory", seen);
  std::string advice =
      fmt::format("use {} or more, a smaller data.batch, or GPUs with more memory", counted(fewest, "GPU"));
  if (needs.fits_with_slots_in_host(listed)) advice += "; or " + needs.words_with_slots_in_host(listed);
  return Finding::machine_error("GPU memory", seen, advice);
}

Finding check_shared_memory(const Machine& machine) {
  if (!machine.shared_memory_refusal.empty()) {
    return Finding::machine_error("shared memory", "memfd_create: " + machine.shared_memory_refusal,
                                  "allow memfd_create where this runs (seccomp profile, vm.memfd_noexec)");
  }
  return Finding::fine("shared memory", "memfd_create works");
}

Finding check_file_size(const CheckedJob& job, const Machine& machine) {
  const std::optional<uint64_t> limit = machine.limits.file_bytes;
  const std::string advice = "raise the limit of file sizes (ulimit -f): shared memory and checkpoints count as files";
  if (!limit) return Finding::fine("file size", "unlimited");
  if (!job.size) return Finding::warn("file size", fmt::format("limited to {}", limit_text(limit)), advice);
  const uint64_t shared = memory_needs(job).mapped, checkpoint = checkpoint_bytes(*job.size), logs = log_bytes(job);
  const std::string seen =
      fmt::format("limited to {}; shared memory takes {}, a checkpoint {}, logs {}", limit_text(limit),
                  format_bytes(shared), format_bytes(checkpoint), format_bytes(logs));
  if (std::max(shared, checkpoint) > *limit) return Finding::machine_error("file size", seen, advice);
  if (logs > *limit) return Finding::warn("file size", seen, advice);
  return Finding::fine("file size", seen);
}

Finding check_address_space(const CheckedJob& job, const Machine& machine) {
  const std::optional<uint64_t> limit = machine.limits.address_space;
  const std::string advice = "raise the limit of address space (ulimit -v), which is more than the memory used";
  if (!limit) return Finding::fine("address space", "unlimited");
  if (!job.size) return Finding::warn("address space", fmt::format("limited to {}", limit_text(limit)), advice);
  const uint64_t needed = job.size->address_space + memory_needs(job).mapped;
  const std::string seen = fmt::format("limited to {}; a worker takes {}", limit_text(limit), format_bytes(needed));
  return needed > *limit ? Finding::machine_error("address space", seen, advice) : Finding::fine("address space", seen);
}

Finding check_open_files(const CheckedJob& job, const Machine& machine) {
  const std::optional<uint64_t> limit = machine.limits.open_files;
  if (!limit) return Finding::fine("open files", "unlimited");
  const uint64_t needed = machine.open_files + kFilesOfLauncher + kFilesOfWorker * job.devices.size();
  // A change of devices doubles the workers for a while.
  const uint64_t comfortable = std::max(needed + kFilesOfWorker * job.devices.size(), kComfortableFiles);
  const std::string seen =
      fmt::format("limited to {}; the launcher of {} needs {}", *limit, counted(job.devices.size(), "worker"), needed);
  const std::string advice = fmt::format("raise the limit of open files to {} or more (ulimit -n)", comfortable);
  if (needed > *limit) return Finding::machine_error("open files", seen, advice);
  if (comfortable > *limit) return Finding::warn("open files", seen, advice);
  return Finding::fine("open files", seen);
}

Finding check_tasks(const CheckedJob& job, const Machine& machine) {
  std::optional<uint64_t> left = machine.limits.tasks_left;
  std::string from = "limit of this user's processes (ulimit -u)";
  if (machine.cgroup.tasks && (!left || *machine.cgroup.tasks < *left)) {
    left = machine.cgroup.tasks;
    from = "cgroup's pids.max";
  }
  if (!left) return Finding::fine("tasks", "unlimited");
  const uint64_t least = kTasksBesideWorkers + workers_here(job);
  const uint64_t threads = unsigned_of(job.spec.job.threads + readers_of(job)) + 1;
  const uint64_t needed = kTasksBesideWorkers + workers_here(job) * threads;
  const std::string seen = fmt::format("{} more may be started; {} of {} threads need {}", *left,
                                       counted(workers_here(job), "worker"), threads, needed);
  const std::string advice = fmt::format("raise the {}, or use fewer workers, job.threads or data.readers", from);
  if (least > *left) return Finding::machine_error("tasks", seen, advice);
  return needed > *left ? Finding::warn("tasks", seen, advice) : Finding::fine("tasks", seen);
}

Finding check_cores(const CheckedJob& job, const Machine& machine) {
  const uint64_t threads = workers_here(job) * unsigned_of(job.spec.job.threads);
  const uint64_t cores = unsigned_of(machine.cores);
  const std::string seen =
      fmt::format("{} x {} on {} ({})", counted(workers_here(job), "worker"),
                  counted(unsigned_of(job.spec.job.threads), "thread"), counted(cores, "core"), machine.cores_from);
  if (threads > cores)
    return Finding::warn("cores", seen + ": they take turns",
                         "use fewer workers or job.threads; the bits do not change with the workers");
  return Finding::fine("cores", seen);
}

Finding check_readers(const CheckedJob& job, const Machine& machine) {
  const uint64_t readers = unsigned_of(readers_of(job)), threads = unsigned_of(job.spec.job.threads);
  const uint64_t cores = unsigned_of(machine.cores);
  const std::string seen = fmt::format("{} x ({} + {}) on {}", counted(workers_here(job), "worker"),
                                       counted(threads, "thread"), counted(readers, "reader"), counted(cores, "core"));
  if (workers_here(job) * (threads + readers) > cores)
    return Finding::warn("readers", seen + ": reading takes time from computing",
                         "fewer workers or readers, if steps wait");
  return Finding::fine("readers", seen);
}

// Does not refuse: TF32 is a permission, as in PyTorch, and users try such a job on a machine without a GPU.
Finding check_precision(const CheckedJob& job) {
  const std::string precision(spec::to_string(job.spec.job.precision));
  const bool without_tf32 = !std::ranges::all_of(devices_of(job.devices), &Device::is_gpu);
  if (job.spec.job.precision == spec::Precision::tf32 && without_tf32) {
    return Finding::warn("precision", "job.precision = \"tf32\": a cpu has no TF32, its workers compute in fp32",
                         "nothing, if this is a trial; a run on GPUs will give other bits");
  }
  return Finding::fine("precision", precision);
}

std::optional<Finding> check_exchange(const CheckedJob& job) {
  if (workers_here(job) == job.devices.size()) return std::nullopt;
  switch (sum_over_hosts(job.spec, devices_of(job.devices))) {
    case SumOverHosts::by_couriers:
      return std::nullopt;
    case SumOverHosts::by_gpus:
      return Finding::fine("exchange",
                           "the GPUs of the hosts pass gradients to each other by NCCL, without encryption: "
                           "network.secrecy = \"control\"");
    case SumOverHosts::in_secret:
      break;
  }
  return Finding::fine("exchange",
                       "gradients of the GPUs pass through the memory of the hosts, encrypted; by NCCL, which does not "
                       "encrypt, with network.secrecy = \"control\"");
}

Finding check_clock(const Machine& machine) {
  if (machine.now < kBeginOf2024) {
    return Finding::warn("clock", "the wall clock stands before 2024",
                         "set the clock: logs and file dates will be wrong");
  }
  const int64_t ahead = machine.newest_file - machine.now;
  if (ahead > kToleratedSkew) {
    return Finding::warn(
        "clock", fmt::format("{} was changed {} s in the future", machine.newest_path, ahead),
        "compare this machine's clock with that of the file's host: logs and file dates will be wrong");
  }
  return Finding::fine("clock", "later than all files looked at");
}

std::vector<Finding> check_machine(const CheckedJob& job, const Machine& machine) {
  std::vector<Finding> findings = {check_precision(job), check_run_directory(machine), check_disk(job, machine)};
  if (job.size) findings.push_back(check_memory(job, machine));
  if (std::optional<Finding> found = check_gpu_memory(job)) findings.push_back(std::move(*found));
  if (std::optional<Finding> found = check_exchange(job)) findings.push_back(std::move(*found));
  findings.push_back(check_shared_memory(machine));
  findings.push_back(check_file_size(job, machine));
  findings.push_back(check_address_space(job, machine));
  findings.push_back(check_open_files(job, machine));
  findings.push_back(check_tasks(job, machine));
  findings.push_back(check_cores(job, machine));
  if (job.size) findings.push_back(check_readers(job, machine));
  findings.push_back(check_clock(machine));
  return findings;
}

void check_before_start(const CheckedJob& job, const Machine& machine) {
  const std::vector<Finding> findings = check_machine(job, machine);
  std::vector<const Finding*> errors;
  for (const Finding& finding : findings) {
    if (finding.severity == Severity::warning)
      fmt::print(stderr, "warning: {}: {}\n  {}\n", finding.check, visible(finding.seen), visible(finding.advice));
    if (finding.severity == Severity::error) errors.push_back(&finding);
  }
  if (errors.empty()) return;
  const bool of_user = std::ranges::any_of(errors, [](const Finding* error) { return error->origin == Origin::user; });
  throw Error(of_user ? Fault::infeasible : Fault::io, lines_of(errors)).advise(advice_of(errors));
}

std::string format_findings(const std::vector<Finding>& findings) {
  std::string text = fmt::format("{:<14} {:<8} {}\n", "check", "outcome", "seen");
  for (const Finding& finding : findings) {
    text += fmt::format("{:<14} {:<8} {}{}{}\n", finding.check, severity_name(finding.severity), finding.seen,
                        finding.advice.empty() ? "" : " -> ", finding.advice);
  }
  return text;
}

Json to_json(const std::vector<Finding>& findings) {
  Json lines = Json::array();
  for (const Finding& finding : findings) {
    lines.push_back({{"check", finding.check},
                     {"outcome", severity_name(finding.severity)},
                     {"seen", finding.seen},
                     {"advice", finding.advice}});
  }
  return lines;
}

int exit_code(const std::vector<Finding>& findings) {
  const auto error_of = [&](Origin origin) {
    return std::ranges::any_of(findings, [&](const Finding& finding) {
      return finding.severity == Severity::error && finding.origin == origin;
    });
  };
  return error_of(Origin::user) ? 2 : error_of(Origin::machine) ? 1 : 0;
}

}  // namespace estrain::launch
