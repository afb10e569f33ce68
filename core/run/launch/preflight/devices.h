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

// A number N means N plain CPU workers; "cuda" without a number the first GPU of its host that the list does not name
// yet, so that "cuda*2" is "cuda:0,cuda:1". The devices of a host stand together, the launcher's own first. `own`: the
// name of the launcher's host, which devices without one get; empty: it has none. Throws Fault::usage naming what is
// wrong with the list; "auto" is none.
Assignment parse_devices(std::string_view list, const std::string& own = "");

// parse_devices(), and "auto": as many plain CPU workers as `cores` give every one of their threads a core of its own,
// at most one for each EST, and at least one. `cores`: what this process may use (core/job/resources/allocation.h).
Assignment choose_devices(std::string_view list, const spec::JobSection& job, int64_t cores,
                          const std::string& own = "");
// The cores that an agent makes available.
struct HostOffer {
  std::string name;
  int64_t cores = 1;
};
// "auto" over several hosts, the launcher's own first: of each as many CPU workers as its cores give every thread a
// core of its own, at least one; no more than there are ESTs, taken from the hosts in turn.
Assignment choose_over_hosts(const std::vector<HostOffer>& hosts, const spec::JobSection& job);

constexpr std::string_view automatic_devices = "auto";
// For a reader, by kind: "cpu", "2 x cpu + 1 x cpu:avx2".
std::string counted_devices(const Devices& devices);
std::map<std::string, int64_t> count_devices(const Devices& devices);  // by text

// Hosts other than the launcher's, in the order of the list.
std::vector<std::string> other_hosts(const Devices& devices, const std::string& own);
Assignment on_own_host(const Assignment& assignment, const std::string& own);
// Whether a launcher on this host has a worker there, or all are there.
bool can_be_led(const Devices& devices, const std::string& own);
// Refuses what a job over several hosts cannot do: no worker on the launcher's own host, D0, elastic.mode "auto".
void check_hosts(const Devices& devices, const spec::JobSpec& spec, const std::string& own);

// Whether they give the same bits with any kernels: GPUs count as one kind whatever their numbers; workers find
// out whether they are of one model.
bool are_of_one_kind(const Devices& devices);

// Uses of devices that are refused unless a user asks for them.
struct Permissions {
  bool mixed = false;           // devices of different kinds, whose bits differ below D2
  bool oversubscribed = false;  // several workers on one GPU
  std::string own = {};         // the name of this host
};

// Refuses kinds that this machine or build cannot run, and uses that are not permitted, by name.
void check_devices(const Devices& devices, const Permissions& permissions);

// A worker's environment before LibTorch loads, so that it behaves as this kind of device, with the threads and the
// precision of the job: for ChildOptions::environment. Other variables of `inherited`, the launcher's environment, that
// tell libraries how to compute (MKL_CBWR, OMP_DYNAMIC, …) are taken away, so that they do not reach the bits.
std::vector<std::pair<std::string, std::string>> device_environment(const Device& device, const spec::JobSection& job,
                                                                    const resources::Environment& inherited);

}  // namespace estrain::launch
