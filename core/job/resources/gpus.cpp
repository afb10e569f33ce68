#include "core/job/resources/gpus.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <functional>
#include <sstream>

#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/base/files/files.h"
#include "core/base/process/child_process.h"
#include "core/job/resources/nvml.h"

namespace estrain::resources {
namespace {

bool is_there(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

struct Gpu {
  std::string place, model, uuid;  // "0000:3b:00.0", "NVIDIA A100-PCIE-40GB", "GPU-5e1a0f6c-…"
};

// Returns the text after "name:" on its line; empty: no such line.
std::string value_of(const std::string& text, const std::string& name) {
  std::stringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name + ":")) continue;
    const size_t first = line.find_first_not_of(" \t", name.size() + 1), last = line.find_last_not_of(" \t\r");
    return first == line.npos ? "" : line.substr(first, last - first + 1);
  }
  return "";
}

// Returns the GPUs in bus order, as workers number them; no GPUs if a GPU does not show its model.
std::vector<Gpu> gpus_in(const std::string& folder) {
  std::vector<Gpu> gpus;
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failure)) {
    const std::string text = text_if_readable(entry.path() / "information");
    gpus.push_back({entry.path().filename(), value_of(text, "Model"), value_of(text, "GPU UUID")});
    if (gpus.back().model.empty()) return {};
  }
  std::ranges::sort(gpus, {}, &Gpu::place);
  return gpus;
}

// Finds a GPU by the number or a prefix of the UUID; null: no GPU or several.
const Gpu* find(const std::vector<Gpu>& gpus, const std::string& name) {
  if (name.starts_with("GPU-")) {
    const auto is_meant = [&](const Gpu& gpu) { return gpu.uuid.starts_with(name); };
    return std::ranges::count_if(gpus, is_meant) == 1 ? &*std::ranges::find_if(gpus, is_meant) : nullptr;
  }
  size_t number = gpus.size();
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool whole = error == std::errc{} && end == name.data() + name.size();
  return whole && number < gpus.size() ? &gpus[number] : nullptr;
}

// Returns the GPUs in the order of CUDA_VISIBLE_DEVICES, or all; no GPUs if a name there is unclear.
std::vector<Gpu> visible_gpus(const std::string& folder, const std::optional<std::string>& visible) {
  std::vector<Gpu> all = gpus_in(folder);
  if (!visible) return all;
  std::vector<Gpu> seen;
  std::stringstream names(*visible);
  for (std::string name; std::getline(names, name, ',');) {
    const Gpu* gpu = find(all, name);
    if (gpu == nullptr) return {};
    seen.push_back(*gpu);
  }
  return seen;
}

// Returns whether a GPU is partitioned (MIG): CUDA then numbers the partitions.
bool is_sliced(const std::string& capabilities) {
  std::error_code failure;
  for (const auto& gpu : std::filesystem::directory_iterator(capabilities, failure)) {
    std::error_code absent;
    for (const auto& part : std::filesystem::directory_iterator(gpu.path() / "mig", absent)) {
      if (part.path().filename().string().starts_with("gi")) return true;
    }
  }
  return false;
}

constexpr const char *kGpus = "/proc/driver/nvidia/gpus", *kCapabilities = "/proc/driver/nvidia/capabilities";

int64_t entries_of(const std::string& folder, const std::function<bool(const std::string&)>& counts) {
  std::error_code failure;
  int64_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failure))
    count += counts(entry.path().filename()) ? 1 : 0;
  return count;
}

// A container may show all GPUs in /proc, but devices of a few.
int64_t gpus_seen() {
  constexpr std::string_view device = "nvidia";
  const int64_t in_proc = entries_of(kGpus, [](const std::string&) { return true; });
  const int64_t in_dev = entries_of("/dev", [&](const std::string& name) {
    return name.starts_with(device) && name.size() > device.size() &&
           std::ranges::all_of(name.substr(device.size()), [](unsigned char c) { return std::isdigit(c) != 0; });
  });
  return in_proc > 0 && in_dev > 0 ? std::min(in_proc, in_dev) : std::max(in_proc, in_dev);
}

// Returns why "auto" cannot take the visible GPUs; empty: it can.
std::string obstacle(const GpuFacts& facts) {
  if (!facts.support.library)
    return "this estrain was built without CUDA; build it on a machine with a CUDA toolkit (nvcc): scripts/build";
  if (!facts.support.driver) return "no NVIDIA driver runs on this machine";
  if (facts.sliced && !facts.granted)
    return "a GPU is partitioned (MIG); name the partitions in CUDA_VISIBLE_DEVICES (nvidia-smi -L lists them)";
  return "";
}

}  // namespace

GpuSupport GpuSupport::here() {
  const auto folder = std::filesystem::path(own_executable()).parent_path();
  const auto signs = {"/dev/nvidiactl", "/dev/nvidia0", "/proc/driver/nvidia/version", "/dev/dxg"};
  return {std::ranges::any_of(signs, is_there), is_there(folder / "libestrain_cuda.so")};
}

std::vector<std::string> gpu_models(const std::string& folder, const std::optional<std::string>& visible) {
  std::vector<std::string> models;
  for (const Gpu& gpu : visible_gpus(folder, visible)) models.push_back(gpu.model);
  return models;
}

std::vector<std::string> gpu_models() {
  if (is_sliced(kCapabilities)) return {};
  return gpu_models(kGpus, environment_variable("CUDA_VISIBLE_DEVICES"));
}

std::vector<uint64_t> gpu_memories(const std::string& folder, const std::optional<std::string>& visible,
                                   const ReadMemoryOfGpus& read) {
  std::vector<std::string> places;
  for (const Gpu& gpu : visible_gpus(folder, visible)) places.push_back(gpu.place);
  return read(places);
}

std::vector<uint64_t> gpu_memories() {
  if (is_sliced(kCapabilities)) return {};
  return gpu_memories(kGpus, environment_variable("CUDA_VISIBLE_DEVICES"), memory_of_gpus_at);
}

GpuFacts GpuFacts::here(const Allocation& allocation) {
  const bool by_cuda = environment_variable("CUDA_VISIBLE_DEVICES").has_value();
  return {.support = GpuSupport::here(),
          .seen = gpus_seen(),
          .sliced = is_sliced(kCapabilities),
          .granted = allocation.gpus,
          .granted_by = by_cuda ? "CUDA_VISIBLE_DEVICES" : "SLURM_GPUS_ON_NODE",
          .in_slurm = allocation.slurm_job.has_value()};
}

void AutomaticGpus::leave(std::string reason) {
  if (usable == 0) return;
  *this = {.unused = usable, .why = std::move(reason)};
}

std::string AutomaticGpus::device_list(int64_t ests) const {
  return usable > 0 ? fmt::format("cuda*{}", std::min(usable, ests)) : "auto";
}

std::string AutomaticGpus::warning() const {
  if (unused == 0) return "";
  return fmt::format("{} {} visible and not used: {}", counted(unused, "GPU"), unused == 1 ? "is" : "are", why);
}

AutomaticGpus automatic_gpus(const GpuFacts& facts) {
  AutomaticGpus gpus;
  if (facts.in_slurm && facts.granted.value_or(0) == 0) {
    gpus.unused = facts.seen;
    gpus.why = "this Slurm job has none; ask for GPUs: sbatch --gres=gpu:N";
    return gpus;
  }
  int64_t visible = facts.granted.value_or(facts.seen);
  if (facts.seen > 0 && !facts.sliced) visible = std::min(visible, facts.seen);
  gpus.from = facts.granted ? facts.granted_by : "the driver";
  gpus.why = obstacle(facts);
  (gpus.why.empty() ? gpus.usable : gpus.unused) = visible;
  return gpus;
}

void require_gpu_support(const GpuSupport& support, const std::string& device) {
  if (!support.library) {
    throw Error::make(Fault::device, "device \"{}\": this estrain was built without CUDA", device)
        .advise("build it on a machine with a CUDA toolkit (nvcc): scripts/build; or use cpu")
        .caused_by("device_missing");
  }
  if (!support.driver) {
    throw Error::make(Fault::device, "device \"{}\": no NVIDIA driver runs on this machine", device)
        .advise("install the driver, or make GPUs visible in the container (docker run --gpus all); or use cpu")
        .caused_by("device_missing");
  }
}

}  // namespace estrain::resources
