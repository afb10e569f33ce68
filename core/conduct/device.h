#pragma once
// A device of a job, and lists of devices: pure values. How a list is written, and whether this machine has what it
// names: core/launch/devices.h.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"

namespace estrain::conduct {

struct Device {
  std::string kind;             // "cpu", "cpu:avx512", "cpu:avx2", "cpu:sse"; "cuda:N" is one certain GPU
  std::optional<int64_t> ests;  // how many ESTs it hosts, where the list says so ("cpu=3")

  bool operator==(const Device&) const = default;
};

std::vector<std::string> kinds_of(const std::vector<Device>& devices);
std::string format_devices(const std::vector<Device>& devices);  // kinds, comma-separated
std::string list_of(const std::vector<std::string>& kinds);      // the same; "none" of no device

// One range per device: as the list says, or even. Throws Fault::usage or Fault::infeasible where they cannot be
// placed.
std::vector<EstRange> place_ests(const std::vector<Device>& devices, int64_t ests);

// Lists of kinds in which a kind may stand several times.
// `all` without one of each of `some`; nothing where one is not in it.
std::optional<std::vector<std::string>> without(std::vector<std::string> all, const std::vector<std::string>& some);
// Elements of both lists, in the order of `one`.
std::vector<std::string> common(const std::vector<std::string>& one, std::vector<std::string> other);
// Elements of `all` that `some` lacks.
std::vector<std::string> beyond(const std::vector<std::string>& all, std::vector<std::string> some);

}  // namespace estrain::conduct
