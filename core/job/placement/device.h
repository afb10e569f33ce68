#pragma once
// A device of a job, and lists of devices: pure values. Whether a machine has the named devices:
// core/run/launch/preflight/devices.h.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json/json.h"

namespace estrain::placement {

struct Device {
  std::string kind = "cpu";                     // "cpu", "cpu:avx512", "cpu:avx2", "cpu:sse", "cuda"
  std::optional<int64_t> index = std::nullopt;  // of a GPU: its number on the host
  std::string host = {};                        // empty: the launcher's own

  auto operator<=>(const Device&) const = default;

  bool is_gpu() const { return kind == "cuda"; }
  std::string text() const;  // "cpu", "cuda:1", "nodeB/cuda:1"
};

// Reads text() back. Returns nothing if the text names no device; "cuda" without a number has no index.
std::optional<Device> parse_device(std::string_view text);
// Returns the kinds that a text may name, for a reader.
std::string known_kinds();

// Writes a device as a field of a message (core/base/json/codec.h): its text. The reader throws Fault::corrupt.
Json to_field(const Device& device);
void from_field(const Json& json, Device& device);

using Devices = std::vector<Device>;  // the same device may occur several times

std::vector<std::string> texts_of(const Devices& devices);
// Reads texts_of() back. Throws Fault::corrupt.
Devices devices_from(const std::vector<std::string>& texts);
std::string list_of(const Devices& devices);  // "cpu,cuda:1"; "none" for an empty list

// Returns whether each device is a GPU of this host, and stands in the list once.
bool are_distinct_gpus_of(std::string_view host, const Devices& devices);

// Removes each device of `some` once from `all`. Returns nothing if `all` lacks a device.
std::optional<Devices> without(Devices all, const Devices& some);
// Returns the elements of both lists, in the order of `one`.
Devices common(const Devices& one, Devices other);
// Returns the elements of `all` missing in `some`.
Devices beyond(const Devices& all, Devices some);

}  // namespace estrain::placement
