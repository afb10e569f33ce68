#pragma once
// Finds out whether a job can run on this machine before it starts, not hours into the job. `estrain check` makes all
// checks, the start of `train` only the checks that take no time. The data files: core/data/format_table.h; operators
// and determinism: operator_probe.h.
//
// All checks are pure functions of the job, the machine's facts and the measurements of a mini-batch, if a mini-batch
// was tried. Each check gives a finding, also if all is well, to show the reader the subject of each check.
//
// Of a list of devices over several hosts, the workers on the first device's host count, which is the launcher's own.
//
// Estimates of memory are the probe's own peak for every worker, plus the shared memory. The estimates leave out
// evaluation (its larger mini-batches need no memory for a backward pass), and changes of devices, during which both
// sets of workers live.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/finding.h"
#include "core/base/json/fields.h"
#include "core/base/json/json.h"
#include "core/job/resources/gpus.h"
#include "core/job/spec/job_spec.h"
#include "core/run/launch/preflight/devices.h"
#include "core/run/launch/preflight/machine.h"
#include "core/state/comm/messages/probe_messages.h"

namespace estrain::launch {

// The size of a job, as measured by the job's probe on a device. Bytes.
struct JobSize {
  uint64_t state = 0;             // a copy of the state
  uint64_t gradients = 0;         // a slot of gradients
  uint64_t tables = 0;            // of a slot, what workers of one host sum by rows
  uint64_t rows = 0;              // of an EST, in place of `tables`
  uint64_t batch = 0;             // a mini-batch: inputs and targets
  uint64_t worker = 0;            // a worker's own memory at its peak, without the parameters on a CPU
  uint64_t files = 0;             // pages of libraries and data files: one copy for all workers
  uint64_t address_space = 0;     // of a worker
  int64_t tensors = 0;            // of the state
  int64_t digests = 0;            // per step
  uint64_t evaluation_bytes = 0;  // of an evaluation's results
  int64_t steps = 0;              // of the whole job
  std::vector<uint64_t> gpus;     // of each of n GPUs, at n - 1 (engine/train/resident/memory_need.h); empty: unknown
  uint64_t gpu_memory = 0;        // that a GPU has; 0: unknown
  // Optimizer slots of each of n GPUs: a part of `gpus`, or with job.state = "host" in host memory.
  std::vector<uint64_t> gpu_slots = {};
};
JobSize job_size(const comm::ProbeReport& report);

struct CheckedJob {
  spec::JobSpec spec;
  Assignment devices;
  std::optional<JobSize> size;  // nothing: no mini-batch has been tried
};

// The memory held by a run at once.
struct MemoryNeeds {
  uint64_t workers = 0;   // of all workers, with the mini-batches read ahead
  uint64_t shared = 0;    // both copies of the state, gradients, records
  uint64_t mapped = 0;    // the size of the shared memory, parts never touched included
  uint64_t saving = 0;    // the scribe's copy of the state
  uint64_t programs = 0;  // libraries, launcher and scribe
  int64_t slots = 0;      // of gradients, used by the placement
  uint64_t pinned = 0;    // optimizer slots of GPUs, with job.state = "host"

  uint64_t total() const { return workers + shared + saving + programs + pinned; }
};
// `job` has a size, and its devices can be placed.
MemoryNeeds memory_needs(const CheckedJob& job);

// The memory that a run takes of each of its hosts, whatever its devices: bytes once, and of each worker. Pages of
// files do not count: runs of the same program share these pages, and the kernel may drop them.
struct HostNeeds {
  uint64_t fixed = 0, worker = 0;
  // The memory that each GPU must have where the devices are n GPUs of one host, at n - 1; 0: not known, since the
  // state is in host memory then. Empty: no GPU's memory was foretold.
  std::vector<uint64_t> gpus = {};
  ESTRAIN_FIELDS(fixed, worker, gpus)
};
HostNeeds host_needs(const CheckedJob& job);  // the job has a size

uint64_t checkpoint_bytes(const JobSize& size);  // of one file, rounded up

// Returns the GPUs that "auto" takes on this machine.
resources::AutomaticGpus automatic_gpus(const resources::Allocation& allocation);

// Checks the device list: this machine has its kinds, and the job has enough ESTs. Fills in `devices` as far as the
// list makes sense. `cores`: for "auto".
std::vector<Finding> check_device_list(const spec::JobSpec& spec, const std::string& list, int64_t cores,
                                       Assignment& devices);

// Checks whether the devices have the arithmetic of job.precision.
Finding check_precision(const CheckedJob& job);

Finding check_run_directory(const Machine& machine);
Finding check_disk(const CheckedJob& job, const Machine& machine);
Finding check_memory(const CheckedJob& job, const Machine& machine);  // the job has a size

// Checks whether the GPUs of the device list hold the job, and names the fewest that do. Without GPUs in the list names
// the fewest only. Nothing if the memory of a GPU, or the job's need of it, is unknown, or where GPUs share the state
// in host memory, as GPUs of several hosts do.
std::optional<Finding> check_gpu_memory(const CheckedJob& job);
// Tells how the GPUs of several hosts pass gradients to each other. Nothing for other devices.
std::optional<Finding> check_exchange(const CheckedJob& job);
Finding check_shared_memory(const Machine& machine);
Finding check_file_size(const CheckedJob& job, const Machine& machine);
Finding check_address_space(const CheckedJob& job, const Machine& machine);
Finding check_open_files(const CheckedJob& job, const Machine& machine);
Finding check_tasks(const CheckedJob& job, const Machine& machine);
Finding check_cores(const CheckedJob& job, const Machine& machine);    // for computing
Finding check_readers(const CheckedJob& job, const Machine& machine);  // for reading
Finding check_clock(const Machine& machine);

// Makes all of the above checks that need only the job; `devices` could be placed.
std::vector<Finding> check_machine(const CheckedJob& job, const Machine& machine);

// Makes the checks without a mini-batch, at the start of `train`. Prints warnings to stderr. Throws an Error with all
// errors: Fault::infeasible if an error is the user's, else Fault::io.
void check_before_start(const CheckedJob& job, const Machine& machine);

// Returns a line for each finding: the subject, ok, warning or error, the observation, and advice.
std::string format_findings(const std::vector<Finding>& findings);
// [{"check", "outcome", "seen", "advice"}…]
Json to_json(const std::vector<Finding>& findings);

// Returns 0 without an error; else 2 if an error is the user's, 1 if all are the machine's.
int exit_code(const std::vector<Finding>& findings);

}  // namespace estrain::launch
