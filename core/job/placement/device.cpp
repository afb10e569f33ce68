#include "core/job/placement/device.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <set>

#include "core/base/error.h"
#include "core/base/json/codec.h"

namespace estrain::placement {
namespace {

constexpr std::string_view kKinds[] = {"cpu", "cpu:avx512", "cpu:avx2", "cpu:sse", "cuda"};
constexpr std::string_view kGpuPrefix = "cuda:";
constexpr int64_t kMostGpus = 4096;

std::optional<int64_t> parse_index(std::string_view text) {
  int64_t index = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), index);
  const bool whole = failure == std::errc{} && end == text.data() + text.size() && index >= 0 && index <= kMostGpus;
  return whole && (text == "0" || !text.starts_with('0')) ? std::optional(index) : std::nullopt;
}

// Accepts host names as in DNS, and addresses.
bool is_host(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
           c == '_';
  };
  return !text.empty() && std::ranges::all_of(text, fits);
}

}  // namespace

std::string Device::text() const {
  std::string text = host.empty() ? kind : host + "/" + kind;
  if (index) text += fmt::format(":{}", *index);
  return text;
}

std::optional<Device> parse_device(std::string_view text) {
  Device device;
  if (const size_t slash = text.find('/'); slash != text.npos) {
    device.host = text.substr(0, slash);
    if (!is_host(device.host)) return std::nullopt;
    text.remove_prefix(slash + 1);
  }
  if (text.starts_with(kGpuPrefix)) {
    device.kind = "cuda";
    device.index = parse_index(text.substr(kGpuPrefix.size()));
    return device.index ? std::optional(device) : std::nullopt;
  }
  device.kind = text;
  return std::ranges::find(kKinds, text) != std::end(kKinds) ? std::optional(device) : std::nullopt;
}

std::string known_kinds() { return fmt::format("{}, cuda:N", fmt::join(kKinds, ", ")); }

Json to_field(const Device& device) { return device.text(); }

void from_field(const Json& json, Device& device) {
  std::string text;
  codec::from_field(json, text);
  device = devices_from({text}).front();
}

std::vector<std::string> texts_of(const Devices& devices) {
  std::vector<std::string> texts;
  for (const Device& device : devices) texts.push_back(device.text());
  return texts;
}

Devices devices_from(const std::vector<std::string>& texts) {
  Devices devices;
  for (const std::string& text : texts) {
    const std::optional<Device> device = parse_device(text);
    if (!device) throw Error::make(Fault::corrupt, "\"{}\" is no device", text);
    devices.push_back(*device);
  }
  return devices;
}

std::string list_of(const Devices& devices) {
  return devices.empty() ? "none" : fmt::format("{}", fmt::join(texts_of(devices), ","));
}

std::optional<Devices> without(Devices all, const Devices& some) {
  for (const Device& device : some) {
    const auto at = std::ranges::find(all, device);
    if (at == all.end()) return std::nullopt;
    all.erase(at);
  }
  return all;
}

bool are_distinct_gpus_of(std::string_view host, const Devices& devices) {
  return std::ranges::all_of(devices, [&](const Device& device) { return device.is_gpu() && device.host == host; }) &&
         std::set<Device>(devices.begin(), devices.end()).size() == devices.size();
}

Devices common(const Devices& one, Devices other) {
  Devices both;
  for (const Device& device : one) {
    const auto at = std::ranges::find(other, device);
    if (at == other.end()) continue;
    both.push_back(device);
    other.erase(at);
  }
  return both;
}

Devices beyond(const Devices& all, Devices some) {
  Devices more;
  for (const Device& device : all) {
    const auto at = std::ranges::find(some, device);
    if (at == some.end()) {
      more.push_back(device);
    } else {
      some.erase(at);
    }
  }
  return more;
}

}  // namespace estrain::placement
