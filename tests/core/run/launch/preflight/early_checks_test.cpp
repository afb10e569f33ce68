#include "core/run/launch/preflight/early_checks.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/base/process/memory_use.h"
#include "tests/error_of.h"

namespace estrain::launch {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// A job of 4 ESTs on 2 workers with 100 MiB of state and 40 MiB of gradients.
CheckedJob sample_job() {
  CheckedJob job;
  job.spec.job.ests = 4;
  job.spec.data.prefetch = 4;
  job.spec.checkpoint.keep = 3;
  job.devices = placement::evenly(placement::devices_from({"cpu", "cpu"}));
  job.size = JobSize{};
  job.size->state = 100 * kMiB;
  job.size->gradients = 40 * kMiB;
  job.size->batch = kMiB;
  job.size->worker = 200 * kMiB;
  job.size->files = 150 * kMiB;
  job.size->address_space = 3000 * kMiB;
  job.size->tensors = 100;
  job.size->digests = 50;
  job.size->steps = 1000;
  return job;
}

// A machine with more than the job needs.
Machine sample_machine() {
  Machine machine;
  machine.memory_available = 64 * 1024 * kMiB;
  machine.cores = 16;
  machine.cores_from = "CPU affinity";
  machine.open_files = 5;
  machine.run.folder = "/runs";
  machine.run.free_bytes = 100 * 1024 * kMiB;
  machine.run.free_files = 1'000'000;
  machine.now = 2'000'000'000;
  machine.newest_file = machine.now - 5;
  machine.newest_path = "/runs/job.toml";
  return machine;
}

bool says(const Finding& finding, std::string_view words) {
  return (finding.seen + finding.advice).find(words) != std::string::npos;
}

// The smallest value in [0, 2^40] from which on `holds` is true.
template <typename Holds>
uint64_t threshold(Holds holds) {
  uint64_t low = 0, high = uint64_t{1} << 40;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (holds(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

const Finding& about(const std::vector<Finding>& findings, std::string_view check) {
  const auto found = std::ranges::find(findings, check, &Finding::check);
  REQUIRE(found != findings.end());
  return *found;
}

TEST_CASE("a machine with enough of everything: a line for each thing looked at, all fine") {
  const std::vector<Finding> findings = check_machine(sample_job(), sample_machine());
  for (const Finding& finding : findings) {
    CAPTURE(finding.seen);
    CHECK(finding.severity == Severity::ok);
    CHECK(finding.advice == "");
    CHECK(finding.seen != "");
  }
  for (const char* check : {"run directory", "disk space", "memory", "shared memory", "file size", "address space",
                            "open files", "tasks", "cores", "readers", "clock"})
    about(findings, check);
  CHECK(exit_code(findings) == 0);
  CHECK_NOTHROW(check_before_start(sample_job(), sample_machine()));
}

TEST_CASE("all findings are reported, not the first") {
  Machine machine = sample_machine();
  machine.run.refusal = "no file can be made in /runs: Read-only file system";
  machine.run.free_bytes = 0;
  machine.memory_available = 0;
  machine.shared_memory_refusal = "Function not implemented";
  machine.limits = {3, 3, 3, 0};
  machine.now = 0;
  machine.cores = 1;
  const std::vector<Finding> findings = check_machine(sample_job(), machine);
  const auto errors = std::ranges::count(findings, Severity::error, &Finding::severity);
  CHECK(errors == 8);
  CHECK(about(findings, "cores").severity == Severity::warning);
  CHECK(about(findings, "clock").severity == Severity::warning);
  CHECK(exit_code(findings) == 1);
  for (const Finding& finding : findings)
    if (finding.severity != Severity::ok) CHECK(finding.advice != "");
  const Error error = error_of([&] { check_before_start(sample_job(), machine); });
  CHECK(error.fault() == Fault::io);
  for (const char* words : {"run directory: no file can be made in /runs", "disk space: ", "memory: ", "memfd_create: ",
                            "file size: ", "address space: ", "open files: ", "tasks: "}) {
    CAPTURE(words);
    CHECK(error.message().find(words) != std::string::npos);
  }
  CHECK(error.advice().find("--run") != std::string::npos);
  CHECK(error.advice().find("ulimit -n") != std::string::npos);
}

TEST_CASE("what the user can put right exits with 2, what is the machine's with 1") {
  const Finding fine = Finding::fine("a", "b"), warning = Finding::warn("a", "b", "c");
  const Finding user = Finding::user_error("a", "b", "c"), machine = Finding::machine_error("a", "b", "c");
  CHECK(exit_code(std::vector<Finding>{}) == 0);
  CHECK(exit_code({fine, warning}) == 0);
  CHECK(exit_code({fine, machine, warning}) == 1);
  CHECK(exit_code({machine, user}) == 2);
  CHECK(exit_code({user}) == 2);
  CHECK(exit_code({Finding::of("a", Error(Fault::spec, "b"))}) == 2);
  CHECK(exit_code({Finding::of("a", Error(Fault::infeasible, "b"))}) == 2);
  CHECK(exit_code({Finding::of("a", Error(Fault::corrupt, "b"))}) == 2);
  CHECK(exit_code({Finding::of("a", Error(Fault::device, "b"))}) == 1);
  CHECK(exit_code({Finding::of("a", Error(Fault::peer, "b"))}) == 1);
}

TEST_CASE("what a job holds in memory, part by part") {
  CheckedJob job = sample_job();
  const MemoryNeeds two = memory_needs(job);
  CHECK(two.workers == 2 * (200 + 4) * kMiB);
  CHECK(two.saving == 100 * kMiB);
  CHECK(two.programs == (150 + 16) * kMiB);
  CHECK(two.slots == 2);  // 4 ESTs in pairs: each worker folds into one partial sum
  CHECK(two.shared >= (2 * 100 + 2 * 40) * kMiB);
  CHECK(two.shared < (2 * 100 + 2 * 40 + 1) * kMiB);
  CHECK(two.mapped >= (2 * 100 + 4 * 40) * kMiB);
  CHECK(two.total() == two.workers + two.shared + two.saving + two.programs);
  job.devices = placement::evenly(placement::devices_from({"cpu"}));
  const MemoryNeeds one = memory_needs(job);
  CHECK(one.workers == two.workers / 2);
  CHECK(one.slots == 2);            // for the first pair and the third EST
  CHECK(one.mapped == two.mapped);  // 4 slots for any placement of the ESTs
  job.spec.job.determinism = spec::Determinism::d0;
  CHECK(memory_needs(job).slots == 1);
}

TEST_CASE("tables of embeddings take the rows of a worker's ESTs in each slot") {
  CheckedJob job = sample_job();
  const uint64_t whole = memory_needs(job).shared;
  job.size->tables = 30 * kMiB;
  job.size->rows = 2 * kMiB;
  CHECK(whole - memory_needs(job).shared == 2 * (30 - 2 * 2) * kMiB);  // 2 slots, 2 ESTs in each
  CHECK(memory_needs(job).mapped >= (2 * 100 + 4 * 40) * kMiB);
  job.spec.train.clip_grad_norm = 1;
  CHECK(whole - memory_needs(job).shared == (30 - 2 * 2) * kMiB);  // the sum of all ESTs is whole
  job.spec.train.clip_grad_norm = 0;
  job.size->rows = 16 * kMiB;
  CHECK(whole == memory_needs(job).shared);
  job.size->rows = 2 * kMiB;
  job.spec.job.ests = 8;
  job.devices = placement::evenly(placement::devices_from({"cpu", "cpu", "nodeB/cpu", "nodeB/cpu"}));
  const uint64_t over_hosts = memory_needs(job).shared;
  job.size->tables = 0;
  CHECK(over_hosts - memory_needs(job).shared == 2 * 30 * kMiB);  // each worker computes whole gradients
}

TEST_CASE("memory: the tightest of machine, cgroup, commitment and grant decides, to the byte") {
  const CheckedJob job = sample_job();
  const uint64_t needed = memory_needs(job).total() - memory_needs(job).saving;
  const auto fails = [&](auto set) {
    return needed == threshold([&](uint64_t bytes) {
             Machine machine = sample_machine();
             set(machine, bytes);
             const Finding finding = check_memory(job, machine);
             if (finding.severity == Severity::error) CHECK(finding.origin == Origin::machine);
             return finding.severity != Severity::error;
           });
  };
  CHECK(fails([](Machine& machine, uint64_t bytes) { machine.memory_available = bytes; }));
  CHECK(fails([](Machine& machine, uint64_t bytes) { machine.cgroup.memory_bytes = bytes; }));
  CHECK(fails([](Machine& machine, uint64_t bytes) { machine.commit_left = bytes; }));
  CHECK(fails([](Machine& machine, uint64_t bytes) { machine.memory_granted = bytes; }));

  Machine machine = sample_machine();
  machine.cgroup.memory_bytes = kMiB;
  CHECK(says(check_memory(job, machine), "1.0 MiB left by the cgroup's limit"));
  machine.memory_granted = 1024;
  machine.memory_granted_by = "SLURM_MEM_PER_NODE";
  CHECK(says(check_memory(job, machine), "1.0 KiB granted (SLURM_MEM_PER_NODE)"));
}

TEST_CASE("memory: what only fits with swapping, or barely, is a warning; a cgroup's limit does not swap") {
  const CheckedJob job = sample_job();
  const uint64_t needed = memory_needs(job).total();
  Machine machine = sample_machine();
  machine.memory_available = needed - 1;
  machine.swap_free = 1;
  CHECK(check_memory(job, machine).severity == Severity::warning);
  CHECK(says(check_memory(job, machine), "swap"));
  machine.swap_free = 0;
  CHECK(check_memory(job, machine).severity == Severity::warning);
  CHECK(says(check_memory(job, machine), "training will wait for checkpoints"));
  machine.memory_available = needed - memory_needs(job).saving;
  CHECK(check_memory(job, machine).severity == Severity::warning);
  --machine.memory_available;
  CHECK(check_memory(job, machine).severity == Severity::error);
  machine.memory_available = needed + kMiB;
  CHECK(check_memory(job, machine).severity == Severity::warning);
  machine.memory_available = 2 * needed;
  CHECK(check_memory(job, machine).severity == Severity::ok);
  machine.swap_free = needed;
  machine.cgroup.memory_bytes = needed - memory_needs(job).saving - 1;
  CHECK(check_memory(job, machine).severity == Severity::error);
}

TEST_CASE("over several hosts, the workers of other hosts take nothing of this one but the launcher's files") {
  const CheckedJob alone = sample_job();  // 2 workers, each with 2 of 4 ESTs
  CheckedJob job = alone;
  job.spec.job.ests = 8;
  job.devices = placement::evenly(placement::devices_from({"cpu", "cpu", "nodeB/cpu", "nodeB/cpu"}));
  Machine machine = sample_machine();
  machine.cores = 2;
  machine.limits.tasks_left = 1000;
  machine.limits.open_files = 5000;
  CHECK(memory_needs(job).workers == memory_needs(alone).workers);
  CHECK(memory_needs(job).slots == memory_needs(alone).slots + 1);  // for factors of gradients
  job.spec.network.factors = spec::SendFactors::never;
  CHECK(memory_needs(job).slots == memory_needs(alone).slots);
  CHECK(says(check_memory(job, machine), "by 2 workers"));
  CHECK(check_cores(job, machine).severity == Severity::ok);
  machine.cores = 4;
  CHECK(check_readers(job, machine).severity == Severity::ok);
  CHECK(check_tasks(job, machine).seen == check_tasks(alone, machine).seen);
  CHECK(says(check_open_files(job, machine), "the launcher of 4 workers"));
}

TEST_CASE("GPU memory: the list's need of a GPU beside what it has, and the fewest GPUs that hold the job") {
  CheckedJob job = sample_job();
  const auto on = [&job](const std::string& devices) {
    job.devices = parse_devices(devices);
    return check_gpu_memory(job);
  };
  CHECK_FALSE(on("cuda:0"));  // nothing is known
  job.size->gpus = {90'000 * kMiB, 50'000 * kMiB, 40'000 * kMiB};
  job.size->gpu_memory = 80'000 * kMiB;
  const std::optional<Finding> one = on("cuda:0");
  REQUIRE(one);
  CHECK(one->severity == Severity::error);
  CHECK(one->origin == Origin::machine);
  CHECK(
      says(*one, "a GPU has 78.1 GiB; needed: 87.9 GiB on each of 1 GPU; the fewest that hold the job need 48.8 GiB"));
  CHECK(one->advice.starts_with("use 2 GPUs or more"));
  CHECK(on("cuda:0,cuda:1")->severity == Severity::ok);
  CHECK(says(*on("cpu"), "a GPU has 78.1 GiB; the fewest that hold the job need 48.8 GiB on each of 2 GPUs"));
  CHECK_FALSE(on("cuda:0,cpu"));  // in host memory
  CHECK_FALSE(on("cuda:0*2"));
  CHECK_FALSE(on("cuda:0,nodeB/cuda:0"));  // hosts exchange through their memory
  CHECK(on("nodeB/cuda:0,nodeB/cuda:1"));
  job.size->gpu_memory = 41'000 * kMiB;  // CUDA needs some, too
  CHECK(says(*on("cuda:0,cuda:1,cuda:2"), "no number of GPUs holds the job"));
}

TEST_CASE("what each GPU must have is told by their number: what the job needs, CUDA's part, and what is lost") {
  CheckedJob job = sample_job();
  CHECK(host_needs(job).gpus.empty());
  job.size->gpus = {90'000 * kMiB, 50'000 * kMiB, 40'000 * kMiB};
  const std::vector<uint64_t> needs = host_needs(job).gpus;
  REQUIRE(needs.size() == 3);
  job.devices = parse_devices("cuda:0,cuda:1");
  for (const bool holds : {false, true}) {
    job.size->gpu_memory = needs[1] - (holds ? 0 : 1);
    CHECK((check_gpu_memory(job)->severity == Severity::ok) == holds);
  }
  job.spec.job.exchange = spec::Exchange::host;  // several GPUs then have the state in host memory
  CHECK(host_needs(job).gpus == std::vector<uint64_t>{needs[0], 0, 0});
  job.spec.ema.decay = 0.5;
  CHECK(host_needs(job).gpus == std::vector<uint64_t>{0, 0, 0});
}

TEST_CASE("GPUs of several hosts: who may see their gradients is said, and of other devices nothing") {
  CheckedJob job = sample_job();
  const auto on = [&job](const std::string& devices) {
    job.devices = parse_devices(devices);
    return check_exchange(job);
  };
  REQUIRE(on("cuda:0,nodeB/cuda:0"));
  CHECK(says(*on("cuda:0,nodeB/cuda:0"), "through the memory of the hosts, encrypted"));
  CHECK_FALSE(on("cuda:0,cuda:1"));
  CHECK_FALSE(on("cuda:0,nodeB/cpu"));
  job.spec.network.secrecy = spec::Secrecy::control;
  CHECK(says(*on("cuda:0,nodeB/cuda:0"), "by NCCL, without encryption"));
}

TEST_CASE("GPU memory: slots in host memory are advised where they help, and count as host memory") {
  CheckedJob job = sample_job();
  job.devices = parse_devices("cuda:0");
  job.size->gpus = {90'000 * kMiB, 50'000 * kMiB, 40'000 * kMiB};
  job.size->gpu_slots = {45'000 * kMiB, 22'000 * kMiB, 15'000 * kMiB};
  job.size->gpu_memory = 80'000 * kMiB;
  const auto advice = [&job] { return check_gpu_memory(job)->advice; };
  CHECK(
      advice().ends_with("; or job.state = \"host\" on 1 GPU: 43.9 GiB on each, and 43.9 GiB of optimizer slots in "
                         "host memory, which each step reads and writes over the GPU's link"));
  job.size->gpu_memory = 40'000 * kMiB;  // for which only slots in host memory leave room, on two GPUs
  CHECK(advice().starts_with("job.state = \"host\" on 2 GPUs: 27.3 GiB on each, and 43.0 GiB"));
  job.devices = parse_devices("cuda:0,cuda:1,cuda:2");
  CHECK(advice().starts_with("job.state = \"host\" on 3 GPUs: 24.4 GiB on each"));
  job.size->gpu_memory = 20'000 * kMiB;
  CHECK_FALSE(says(*check_gpu_memory(job), "job.state"));
  job.size->gpu_slots.assign(3, 0);  // SGD
  job.size->gpu_memory = 40'000 * kMiB;
  CHECK_FALSE(says(*check_gpu_memory(job), "job.state"));

  job.size->gpu_slots = {45'000 * kMiB, 22'000 * kMiB, 15'000 * kMiB};
  CHECK(memory_needs(job).pinned == 0);
  job.spec.job.state = spec::StateMemory::host;
  CHECK_FALSE(says(*check_gpu_memory(job), "job.state"));  // the job has it
  CHECK(memory_needs(job).pinned == 45'000 * kMiB);        // of three GPUs
  CHECK(says(check_memory(job, sample_machine()), "43.9 GiB for optimizer slots of GPUs"));
  const uint64_t fixed = host_needs(job).fixed;
  for (const char* const devices : {"cuda:0*2", "cuda:0,nodeB/cuda:0"}) {  // which share the state in host memory
    job.devices = parse_devices(devices);
    CHECK(memory_needs(job).pinned == 0);
  }
  job.spec.job.state = spec::StateMemory::device;
  CHECK(fixed - host_needs(job).fixed == 45'000 * kMiB);
}

TEST_CASE("disk: the checkpoints that are kept, step 0, and the one being written must fit") {
  CheckedJob job = sample_job();
  Machine machine = sample_machine();
  const uint64_t one = checkpoint_bytes(*job.size);
  CHECK(one > 100 * kMiB);
  CHECK(one < 101 * kMiB);
  const auto least = [&] {
    return threshold([&](uint64_t bytes) {
      machine.run.free_bytes = bytes;
      return check_disk(job, machine).severity != Severity::error;
    });
  };
  CHECK(least() == 5 * one);
  job.spec.checkpoint.keep = 10;
  CHECK(least() == 12 * one);
  machine.run.checkpoint_bytes = 2 * one;  // a run to be resumed
  CHECK(least() == 10 * one);
  machine.run.checkpoint_bytes = 20 * one;
  CHECK(least() == 0);
}

TEST_CASE("disk: logs that would fill it are a warning, and no inodes an error") {
  CheckedJob job = sample_job();
  job.size->steps = 10'000'000;
  Machine machine = sample_machine();
  machine.run.free_bytes = 6 * checkpoint_bytes(*job.size);
  CHECK(check_disk(job, machine).severity == Severity::warning);
  CHECK(says(check_disk(job, machine), "logging.fingerprints"));
  const uint64_t needed = 5 * checkpoint_bytes(*job.size);
  CHECK_FALSE(says(check_disk(job, machine), format_bytes(needed) + " needed"));  // the logs count too
  job.size->steps = INT64_MAX;
  CHECK(check_disk(job, machine).severity == Severity::warning);
  machine = sample_machine();
  machine.run.free_files = 3;
  CHECK(check_disk(job, machine).severity == Severity::error);
  CHECK(says(check_disk(job, machine), "inodes"));
  machine.run.free_files.reset();
  machine.run.free_bytes.reset();
  CHECK(check_disk(job, machine).severity == Severity::ok);
}

TEST_CASE("before a mini-batch was tried, only what fails whatever the job's size is an error") {
  CheckedJob job = sample_job();
  job.size.reset();
  Machine machine = sample_machine();
  machine.run.free_bytes = kMiB;
  machine.limits.file_bytes = 100 * kMiB;
  machine.limits.address_space = 100 * kMiB;
  machine.memory_available = kMiB;
  const std::vector<Finding> findings = check_machine(job, machine);
  CHECK(exit_code(findings) == 0);
  CHECK(about(findings, "disk space").severity == Severity::ok);
  CHECK(about(findings, "file size").severity == Severity::warning);
  CHECK(about(findings, "address space").severity == Severity::warning);
  machine.run.free_bytes = 1000;
  CHECK(about(check_machine(job, machine), "disk space").severity == Severity::error);
}

TEST_CASE("file sizes: shared memory with all of its slots, and a checkpoint, must be allowed") {
  const CheckedJob job = sample_job();
  Machine machine = sample_machine();
  const uint64_t least = threshold([&](uint64_t bytes) {
    machine.limits.file_bytes = bytes;
    return check_file_size(job, machine).severity != Severity::error;
  });
  CHECK(least == memory_needs(job).mapped);
  CHECK(least > 360 * kMiB);
}

TEST_CASE("address space: a worker's own and the shared memory") {
  const CheckedJob job = sample_job();
  Machine machine = sample_machine();
  const uint64_t least = threshold([&](uint64_t bytes) {
    machine.limits.address_space = bytes;
    return check_address_space(job, machine).severity != Severity::error;
  });
  CHECK(least == 3000 * kMiB + memory_needs(job).mapped);
}

TEST_CASE("open files: an error where the launcher would run out, a warning where a change of devices would") {
  CheckedJob job = sample_job();
  job.devices.assign(100, {});
  Machine machine = sample_machine();
  machine.limits.open_files = 5 + 13 + 200 - 1;
  CHECK(check_open_files(job, machine).severity == Severity::error);
  machine.limits.open_files = 5 + 13 + 200;
  CHECK(check_open_files(job, machine).severity == Severity::warning);
  CHECK(says(check_open_files(job, machine), "418"));
  machine.limits.open_files = 5 + 13 + 400;
  CHECK(check_open_files(job, machine).severity == Severity::ok);
}

TEST_CASE("tasks: processes of the user and of the cgroup") {
  CheckedJob job = sample_job();
  job.spec.job.threads = 3;
  job.spec.data.readers = 2;
  Machine machine = sample_machine();
  machine.limits.tasks_left = 3;
  CHECK(check_tasks(job, machine).severity == Severity::error);
  machine.limits.tasks_left = 4;
  CHECK(check_tasks(job, machine).severity == Severity::warning);
  CHECK(says(check_tasks(job, machine), "ulimit -u"));
  machine.limits.tasks_left = 2 + 2 * 6;
  CHECK(check_tasks(job, machine).severity == Severity::ok);
  machine.cgroup.tasks = 3;
  CHECK(check_tasks(job, machine).severity == Severity::error);
  CHECK(says(check_tasks(job, machine), "pids.max"));
}

TEST_CASE("cores: more threads than cores is a warning, readers are a line of their own") {
  CheckedJob job = sample_job();
  job.spec.job.threads = 4;
  Machine machine = sample_machine();
  machine.cores = 7;
  CHECK(check_cores(job, machine).severity == Severity::warning);
  CHECK(says(check_cores(job, machine), "2 workers x 4 threads on 7 cores (CPU affinity)"));
  machine.cores = 8;
  CHECK(check_cores(job, machine).severity == Severity::ok);
  CHECK(check_readers(job, machine).severity == Severity::warning);
  machine.cores = 10;
  CHECK(check_readers(job, machine).severity == Severity::ok);
}

TEST_CASE("precision: TF32 on a device that has none is a warning") {
  CheckedJob job = sample_job();
  CHECK(check_precision(job).severity == Severity::ok);
  CHECK(check_precision(job).seen == "fp32");
  job.spec.job.precision = spec::Precision::tf32;
  CHECK(check_precision(job).severity == Severity::warning);
  CHECK(says(check_precision(job), "compute in fp32"));
  job.devices = placement::evenly(placement::devices_from({"cuda:0", "cpu"}));
  CHECK(check_precision(job).severity == Severity::warning);
  job.devices = placement::evenly(placement::devices_from({"cuda:0", "cuda:1"}));
  CHECK(check_precision(job).severity == Severity::ok);
  job.devices = placement::evenly(placement::devices_from({"cpu"}));
  job.spec.job.precision = spec::Precision::bf16;
  CHECK(check_precision(job).severity == Severity::ok);
}

TEST_CASE("clock: before 2024, or behind the files") {
  Machine machine = sample_machine();
  machine.now = 1'704'067'199;  // the last second of 2023
  CHECK(check_clock(machine).severity == Severity::warning);
  machine.now = 1'704'067'200;
  machine.newest_file = machine.now + 120;
  CHECK(check_clock(machine).severity == Severity::ok);
  machine.newest_file = machine.now + 121;
  CHECK(check_clock(machine).severity == Severity::warning);
  CHECK(says(check_clock(machine), "/runs/job.toml was changed 121 s in the future"));
}

TEST_CASE("devices: every fault of the list, by its word") {
  spec::JobSpec spec;
  spec.job.ests = 4;
  Assignment devices;
  const auto check = [&](const std::string& list) {
    devices.clear();
    return check_device_list(spec, list, 3, devices);
  };
  CHECK(check("2").front() == Finding::fine("devices", "2 workers (cpu,cpu) for 4 ESTs"));
  CHECK(devices.size() == 2);
  CHECK(check("auto").front().severity == Severity::ok);
  CHECK(devices.size() == 3);
  CHECK(exit_code(check("gpu")) == 2);
  CHECK(devices.empty());
  CHECK(exit_code(check("5")) == 2);  // more workers than ESTs
  CHECK(exit_code(check("cpu=1,cpu=2")) == 2);
  CHECK(exit_code(check("cuda")) == 1);
  const std::vector<Finding> mixed = check("cpu,cpu:sse");
  CHECK(mixed.front().severity == Severity::warning);
  CHECK(says(mixed.front(), "--allow-mixed"));
  spec.job.determinism = spec::Determinism::d2;
  CHECK(check("cpu,cpu:sse").front().severity == Severity::ok);
}

TEST_CASE("a job's size comes from the probe's report") {
  comm::ProbeReport report;
  report.memory = {.peak = 1000, .files = 300, .address_space = 5000};
  report.size = {.state_bytes = 1,
                 .gradient_bytes = 2,
                 .batch_bytes = 3,
                 .tensors = 4,
                 .parameters = 5,
                 .digests = 6,
                 .evaluation_bytes = 7,
                 .steps = 8};
  const JobSize size = job_size(report);
  CHECK(size.worker == 700);
  CHECK(size.files == 300);
  CHECK(size.address_space == 5000);
  CHECK(size.state == 1);
  CHECK(size.gradients == 2);
  CHECK(size.batch == 3);
  CHECK(size.tensors == 4);
  CHECK(size.digests == 6);
  CHECK(size.evaluation_bytes == 7);
  CHECK(size.steps == 8);
}

TEST_CASE("the table and its JSON say the same") {
  const std::vector<Finding> findings = {Finding::fine("clock", "right"), Finding::warn("cores", "few", "buy more"),
                                         Finding::user_error("labels", "wrong", "mend them")};
  CHECK(format_findings(findings) ==
        "check          outcome  seen\n"
        "clock          ok       right\n"
        "cores          warning  few -> buy more\n"
        "labels         error    wrong -> mend them\n");
  CHECK(to_json(findings).dump() == R"([{"check":"clock","outcome":"ok","seen":"right","advice":""},)"
                                    R"({"check":"cores","outcome":"warning","seen":"few","advice":"buy more"},)"
                                    R"({"check":"labels","outcome":"error","seen":"wrong","advice":"mend them"}])");
}

}  // namespace
}  // namespace estrain::launch
