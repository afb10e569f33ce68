#pragma once
// Device lists of the command line and the spec: "2", "cpu,cpu", "cpu*4", "cpu:avx2,cpu:avx512", "cpu=3,cpu=5",
// "cuda:0,cuda:1", "cuda*2", "nodeB/cpu*2,nodeB/cuda:0", "auto".

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/job/placement/assignment.h"
#include "core/job/resources/allocation.h"
#include "core/job/spec/job_spec.h"

namespace estrain::launch {

using placement::Assignment;
using placement::Device;
using placement::Devices;
using placement::Share;

// Parses a list. A number N means N plain CPU workers; "cuda" without a number is the first GPU of its host not yet on
// the list, so "cuda*2" is "cuda:0,cuda:1". The devices of a host stand together, the launcher's own first. `own`: the
// name of the launcher's host, for devices without a host; empty: no name. Throws Fault::usage with the mistake in the
// list; "auto" is a mistake, too.
Assignment parse_devices(std::string_view list, const std::string& own = "");

// Does the same, and accepts "auto": as many plain CPU workers as `cores` give every thread its own core, at most one
// for each EST, and at least one. `cores`: for this process's use (core/job/resources/allocation.h).
Assignment choose_devices(std::string_view list, const spec::JobSection& job, int64_t cores,
                          const std::string& own = "");
// The cores made available by an agent.
struct HostOffer {
  std::string name;
  int64_t cores = 1;
};
// Chooses the devices of "auto" over several hosts, the launcher's own first: on each host as many CPU workers as its
// cores give every thread its own core, at least one; no more than the job has ESTs, taken from the hosts in turn.
Assignment choose_over_hosts(const std::vector<HostOffer>& hosts, const spec::JobSection& job);

constexpr std::string_view automatic_devices = "auto";
// For a reader, by kind: "cpu", "2 x cpu + 1 x cpu:avx2".
std::string counted_devices(const Devices& devices);
std::map<std::string, int64_t> count_devices(const Devices& devices);  // by text

// Returns the hosts other than the launcher's, in the order of the list.
std::vector<std::string> other_hosts(const Devices& devices, const std::string& own);
Assignment on_own_host(const Assignment& assignment, const std::string& own);
// Tells whether a launcher on this host has a worker on its own host; true for an empty list.
bool can_be_led(const Devices& devices, const std::string& own);
// Refuses a job over several hosts with no worker on the launcher's own host, with D0, or with elastic.mode "auto".
void check_hosts(const Devices& devices, const spec::JobSpec& spec, const std::string& own);

// Tells whether the devices give the same bits with any kernels: all GPUs count as one kind; workers find out whether
// the GPUs are of one model.
bool are_of_one_kind(const Devices& devices);

// Uses of devices which are refused unless a user asks for the use.
struct Permissions {
  bool mixed = false;           // devices of different kinds, whose bits differ below D2
  bool oversubscribed = false;  // several workers on one GPU
  bool background = false;      // refuses GPUs and other hosts, where workers do not give way
  std::string own = {};         // the name of this host
};

// Refuses by name each kind that this machine or build cannot run, and each use without permission.
void check_devices(const Devices& devices, const Permissions& permissions);

// Returns a worker's environment before LibTorch loads: the worker then behaves as this kind of device, with the job's
// threads and precision (for ChildOptions::environment). Takes away other variables of `inherited`, the launcher's
// environment, about ways of computing (MKL_CBWR, OMP_DYNAMIC, …): these variables must not reach the bits.
std::vector<std::pair<std::string, std::string>> device_environment(const Device& device, const spec::JobSection& job,
                                                                    const resources::Environment& inherited);

// Returns whether GPUs, each with a worker of its own, may keep the state: the host averages weights, and updates by
// the weight of the ESTs.
bool gpus_may_keep_state(const spec::JobSpec& spec);
// Returns whether such GPUs exchange partial sums among themselves.
bool gpus_may_exchange(const spec::JobSpec& spec);

// How the workers of several hosts sum gradients.
enum class SumOverHosts {
  by_couriers,  // through the memory of the hosts
  by_gpus,      // among GPUs, each with a worker of its own, by NCCL
  in_secret,    // by the couriers: the GPUs could, but NCCL does not encrypt (network.secrecy)
};
SumOverHosts sum_over_hosts(const spec::JobSpec& spec, const Devices& devices);
// Returns whether hosts may send factors of gradients (core/state/comm/gradient_factors.h): the gradients are in the
// memory of the hosts, and each mini-batch has the same graph.
bool may_send_factors(const spec::JobSpec& spec, const Devices& devices);

}  // namespace estrain::launch
