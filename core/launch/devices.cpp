#include "core/launch/devices.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <set>

#include "core/base/error.h"
#include "core/host/gpus.h"

namespace estrain::launch {
namespace {

constexpr int64_t kMostDevices = 4096;

// What a worker's malloc is told; nothing else tells it anything. Freed tensors stay with the process: page faults of
// memory that malloc maps and trims cost up to a third of a step. Large pages: fewer faults and misses on activations.
// No part in the bits.
constexpr const char* kMallocSettings =
    "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=2147483647:"
    "glibc.malloc.top_pad=67108864";

Error bad_list(std::string_view list, std::string_view why) {
  return Error::make(Fault::usage, "device list \"{}\": {}", list, why)
      .advise("give a number of CPU workers (2) or a list such as cpu,cpu or cpu*4 or cuda:0,cuda:1");
}

std::optional<int64_t> parse_count(std::string_view text) {
  int64_t count = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (failure != std::errc{} || end != text.data() + text.size() || count < 1 || count > kMostDevices)
    return std::nullopt;
  return count;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == text.npos) return parts;
    text.remove_prefix(at + 1);
  }
}

constexpr std::string_view any_gpu = "cuda";

// N of "cuda:N".
std::optional<int64_t> gpu_number(std::string_view kind) {
  kind.remove_prefix(kind.find('/') == kind.npos ? 0 : kind.find('/') + 1);
  if (!kind.starts_with("cuda:")) return std::nullopt;
  kind.remove_prefix(5);
  if (kind == "0") return 0;
  return kind.starts_with('0') ? std::nullopt : parse_count(kind);
}

// Gives each "cuda" without a number the lowest one that the list does not hold.
void number_gpus(std::vector<Device>& devices) {
  std::set<int64_t> taken;
  for (const Device& device : devices) {
    if (const auto number = gpu_number(device.kind)) taken.insert(*number);
  }
  int64_t next = 0;
  for (Device& device : devices) {
    if (device.kind != any_gpu) continue;
    while (taken.contains(next)) ++next;
    device.kind = fmt::format("cuda:{}", next++);  // of this host
  }
}

// What the names of variables begin with that tell libraries how to compute: LibTorch, those below it on CPUs, and on
// GPUs.
constexpr std::string_view kOfArithmetic =
    "ATEN_ TORCH_ PYTORCH_TUNABLEOP_ DISABLE_ADDMM_ "
    "ONEDNN_ DNNL_ _ONEDNN_ _DNNL_ MKL_ OPENBLAS_ FBGEMM_ OMP_ KMP_ "
    "CUBLAS_ CUBLASLT_ CUDNN_ NVIDIA_TF32_ CUDA_FORCE_";
// Of these, what says only where threads run, how they wait, and what is logged.
constexpr std::string_view kWithoutBits =
    "TORCH_CPP_LOG_LEVEL TORCH_SHOW_ TORCH_SYMBOLIZE_MODE TORCH_DISABLE_ADDR2LINE TORCH_DISTRIBUTED_DEBUG TORCH_NCCL_ "
    "ONEDNN_VERBOSE DNNL_VERBOSE MKL_VERBOSE "
    "OMP_PLACES OMP_PROC_BIND OMP_WAIT_POLICY OMP_STACKSIZE OMP_DISPLAY_ OMP_AFFINITY_FORMAT KMP_AFFINITY "
    "KMP_BLOCKTIME "
    "CUBLAS_LOG CUBLAS_NVTX_ CUBLASLT_LOG_ CUBLASLT_NVTX_ CUDNN_LOG CUDNN_NVTX_ CUDNN_FRONTEND_LOG_";

bool reaches_arithmetic(std::string_view variable) {
  const auto begins = [variable](std::string_view with) { return variable.starts_with(with); };
  return std::ranges::any_of(split(kOfArithmetic, ' '), begins) &&
         std::ranges::none_of(split(kWithoutBits, ' '), begins);
}

std::string arithmetic_of(const Device& device) {
  return is_gpu(device) ? std::string(any_gpu) : kind_on_host(device.kind);
}

bool may_stand_in_a_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
}

// "nodeB" of "nodeB/cpu", which is taken off the item.
std::string take_host(std::string_view list, std::string_view& item) {
  const size_t slash = item.find('/');
  if (slash == item.npos) return "";
  const std::string_view host = item.substr(0, slash);
  if (host.empty() || host.size() > 64 || host[0] == '.' || !std::ranges::all_of(host, may_stand_in_a_name))
    throw bad_list(list, fmt::format("\"{}\" is no host's name", host));
  item.remove_prefix(slash + 1);
  return std::string(host);
}

void group_by_host(std::vector<Device>& devices) {
  std::vector<std::string> order = {""};
  for (const Device& device : devices) {
    if (std::ranges::find(order, host_of(device.kind)) == order.end()) order.push_back(host_of(device.kind));
  }
  std::ranges::stable_sort(devices, {}, [&](const Device& device) {
    return std::ranges::find(order, host_of(device.kind)) - order.begin();
  });
}

void append_item(std::vector<Device>& devices, std::string_view list, std::string_view item) {
  Device device;
  int64_t repeats = 1;
  if (const size_t star = item.find('*'); star != item.npos) {
    const auto count = parse_count(item.substr(star + 1));
    if (!count) throw bad_list(list, fmt::format("\"{}\" does not repeat a device 1 to {} times", item, kMostDevices));
    repeats = *count;
    item = item.substr(0, star);
  }
  if (const size_t equals = item.find('='); equals != item.npos) {
    device.ests = parse_count(item.substr(equals + 1));
    if (!device.ests) throw bad_list(list, fmt::format("\"{}\" does not name a number of ESTs", item));
    item = item.substr(0, equals);
  }
  const std::string host = take_host(list, item);
  static constexpr std::string_view kinds[] = {"cpu", "cpu:avx512", "cpu:avx2", "cpu:sse", any_gpu};
  if (std::ranges::find(kinds, item) == std::end(kinds) && !gpu_number(item)) {
    throw bad_list(list, item.empty() ? std::string("an empty name")
                                      : fmt::format("\"{}\" is no known device; known are {}, cuda:N", item,
                                                    fmt::join(kinds, ", ")));
  }
  if (static_cast<int64_t>(devices.size()) + repeats > kMostDevices)
    throw bad_list(list.substr(0, 80), fmt::format("more than {} devices", kMostDevices));
  if (!host.empty() && item == any_gpu) throw bad_list(list, "GPUs of another host need their numbers: nodeB/cuda:0");
  device.kind = host.empty() ? std::string(item) : fmt::format("{}/{}", host, item);
  devices.insert(devices.end(), static_cast<size_t>(repeats), device);
}

void refuse_shared_gpus(const std::vector<Device>& devices) {
  std::set<std::string> gpus;
  for (const Device& device : devices) {
    if (!is_gpu(device) || gpus.insert(device.kind).second) continue;
    throw Error::make(Fault::infeasible, "{} stands in the device list more than once", device.kind)
        .advise(
            "a worker has a GPU of its own, and hosts many ESTs on it: cuda:0=8. Several workers on one GPU are for "
            "tests: --oversubscribe");
  }
}

bool machine_has(std::string_view kind) {
  if (kind == "cpu:avx512") return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
  if (kind == "cpu:avx2") return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return true;
}

}  // namespace

std::vector<Device> parse_devices(std::string_view list) {
  if (const auto count = parse_count(list)) return std::vector<Device>(static_cast<size_t>(*count), Device{"cpu", {}});
  std::vector<Device> devices;
  for (std::string_view item : split(list, ',')) append_item(devices, list, item);
  number_gpus(devices);
  group_by_host(devices);
  return devices;
}

std::string host_of(std::string_view kind) {
  const size_t slash = kind.find('/');
  return std::string(slash == kind.npos ? "" : kind.substr(0, slash));
}

std::string kind_on_host(std::string_view kind) {
  const size_t slash = kind.find('/');
  return std::string(slash == kind.npos ? kind : kind.substr(slash + 1));
}

std::vector<std::string> other_hosts(const std::vector<Device>& devices) {
  std::vector<std::string> hosts;
  for (const Device& device : devices) {
    const std::string host = host_of(device.kind);
    if (!host.empty() && std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
  }
  return hosts;
}

std::vector<Device> own_devices(const std::vector<Device>& devices) {
  std::vector<Device> own;
  std::ranges::copy_if(devices, std::back_inserter(own), [](const Device& one) { return host_of(one.kind).empty(); });
  return own;
}

std::vector<Device> choose_devices(std::string_view list, const spec::JobSection& job, int64_t cores) {
  if (list != automatic_devices) return parse_devices(list);
  const int64_t most = std::min(job.ests, kMostDevices);
  const int64_t workers = std::clamp<int64_t>(cores / job.threads, 1, most);
  return std::vector<Device>(static_cast<size_t>(workers), Device{"cpu", {}});
}

std::map<std::string, int64_t> count_kinds(const std::vector<std::string>& kinds) {
  std::map<std::string, int64_t> counts;
  for (const std::string& kind : kinds) counts[kind] += 1;
  return counts;
}

std::string counted_devices(const std::vector<Device>& devices) {
  if (devices.size() == 1) return devices[0].kind;
  std::vector<std::string> parts;
  for (const auto& [kind, count] : count_kinds(kinds_of(devices))) parts.push_back(fmt::format("{} x {}", count, kind));
  return fmt::format("{}", fmt::join(parts, " + "));
}

bool is_gpu(const Device& device) { return gpu_number(device.kind).has_value(); }

bool are_of_one_kind(const std::vector<Device>& devices) {
  return std::ranges::all_of(
      devices, [&](const Device& device) { return arithmetic_of(device) == arithmetic_of(devices.front()); });
}

void check_devices(const std::vector<Device>& devices, const Permissions& permissions) {
  if (!permissions.oversubscribed) refuse_shared_gpus(devices);
  for (const Device& device : devices) {
    const bool is_here = host_of(device.kind).empty();  // another host's agent looks at its own
    if (is_here && is_gpu(device)) host::require_gpu_support(host::GpuSupport::here(), device.kind);
    if (is_here && !machine_has(device.kind)) {
      throw Error::make(Fault::device, "device \"{}\": this machine's processor lacks its instructions", device.kind)
          .advise("use cpu, or a kind that this processor has");
    }
    if (!permissions.mixed && arithmetic_of(device) != arithmetic_of(devices.front())) {
      throw Error::make(Fault::infeasible, "devices of different kinds ({} and {}) give different bits below D2",
                        devices.front().kind, device.kind)
          .advise("use one kind, or job.determinism = \"D2\", or accept other bits with --allow-mixed");
    }
  }
}

void check_hosts(const std::vector<Device>& devices, const spec::JobSpec& spec) {
  if (other_hosts(devices).empty()) return;
  if (own_devices(devices).empty()) {
    throw Error(Fault::infeasible, "no worker on the launcher's own host: it takes part in its job")
        .advise("add a device without a host to the list: cpu,nodeB/cpu");
  }
  if (spec.job.determinism == spec::Determinism::d0)
    throw Error(Fault::infeasible, "at D0 the order of sums depends on the placement; several hosts keep to the tree")
        .advise("use job.determinism = \"D1\"");
  if (spec.elastic.mode == spec::ElasticMode::automatic)
    throw Error(Fault::infeasible, "elastic.mode \"auto\" does not know several hosts yet")
        .advise("use elastic.mode = \"manual\" and `estrain resize`");
}

std::vector<std::pair<std::string, std::string>> device_environment(const Device& device, const spec::JobSection& job,
                                                                    const host::Environment& inherited) {
  const std::string count = std::to_string(job.threads);
  std::vector<std::pair<std::string, std::string>> environment = {
      {"OMP_NUM_THREADS", count}, {"MKL_NUM_THREADS", count}, {"GLIBC_TUNABLES", kMallocSettings}};
  if (is_gpu(device)) {
    // The order of nvidia-smi; cuBLAS's workspace in fixed pieces, without which its sums may differ from run to run;
    // NVIDIA's libraries without TF32 whatever a caller asks for. Without that order where the job wants TF32, and
    // where LibTorch's flags, which forbid it too, are to lead to the same algorithms as in a script of PyTorch.
    const bool forbids_tf32 = job.precision != spec::Precision::tf32 && job.algorithms == spec::Algorithms::measured;
    environment.insert(environment.end(), {{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
                                           {"CUBLAS_WORKSPACE_CONFIG", ":4096:8"},
                                           {"NVIDIA_TF32_OVERRIDE", forbids_tf32 ? "0" : ""}});
  } else if (device.kind == "cpu:avx512") {
    environment.insert(environment.end(), {{"ATEN_CPU_CAPABILITY", "avx512"}, {"ONEDNN_MAX_CPU_ISA", "AVX512_CORE"}});
  } else if (device.kind == "cpu:avx2") {
    environment.insert(environment.end(), {{"ATEN_CPU_CAPABILITY", "avx2"}, {"ONEDNN_MAX_CPU_ISA", "AVX2"}});
  } else if (device.kind == "cpu:sse") {
    environment.insert(
        environment.end(),
        {{"ATEN_CPU_CAPABILITY", "default"}, {"ONEDNN_MAX_CPU_ISA", "SSE41"}, {"MKL_CBWR", "COMPATIBLE"}});
  }
  std::set<std::string, std::less<>> said;
  for (const auto& [name, value] : environment) said.insert(name);
  for (const auto& [name, value] : inherited)
    if (reaches_arithmetic(name) && !said.contains(name)) environment.emplace_back(name, "");
  return environment;
}

}  // namespace estrain::launch
