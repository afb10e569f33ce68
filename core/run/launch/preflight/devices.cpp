#include "core/run/launch/preflight/devices.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "core/base/error.h"
#include "core/job/resources/gpus.h"

namespace estrain::launch {
namespace {

constexpr int64_t kMostDevices = 4096;

// The only malloc settings of a worker. Freed tensors stay with the process: page faults of memory that malloc maps and
// trims cost up to a third of a step. Large pages: fewer faults and misses on activations. No fast bins: oneDNN makes
// small aligned objects for each layer, and malloc would join all small free chunks before each of them. The settings
// have no part in the bits.
constexpr const char* kMallocSettings =
    "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=2147483647:"
    "glibc.malloc.top_pad=67108864:glibc.malloc.mxfast=0";

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

// Gives each "cuda" without a number the lowest number not on the list for the host.
void number_gpus(Assignment& list) {
  const Devices named = devices_of(list);
  std::map<std::string, int64_t> next;  // by host
  for (auto& [device, ests] : list) {
    if (!device.is_gpu() || device.index) continue;
    do {
      device.index = next[device.host]++;
    } while (std::ranges::find(named, device) != named.end());
  }
}

// Prefixes of the variables about the way of computing: for LibTorch, for its libraries on CPUs, and on GPUs.
constexpr std::string_view kOfArithmetic =
    "ATEN_ TORCH_ PYTORCH_TUNABLEOP_ DISABLE_ADDMM_ "
    "ONEDNN_ DNNL_ _ONEDNN_ _DNNL_ MKL_ OPENBLAS_ FBGEMM_ OMP_ KMP_ "
    "CUBLAS_ CUBLASLT_ CUDNN_ NVIDIA_TF32_ CUDA_FORCE_";
// Prefixes, among these, of variables which say only where threads run, how threads wait, and what is logged.
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

void append_item(Assignment& shares, std::string_view list, std::string_view item) {
  Share share;
  int64_t repeats = 1;
  if (const size_t star = item.find('*'); star != item.npos) {
    const auto count = parse_count(item.substr(star + 1));
    if (!count) throw bad_list(list, fmt::format("\"{}\" does not repeat a device 1 to {} times", item, kMostDevices));
    repeats = *count;
    item = item.substr(0, star);
  }
  if (const size_t equals = item.find('='); equals != item.npos) {
    share.ests = parse_count(item.substr(equals + 1));
    if (!share.ests) throw bad_list(list, fmt::format("\"{}\" does not name a number of ESTs", item));
    item = item.substr(0, equals);
  }
  const std::optional<Device> device = placement::parse_device(item);
  if (!device && !item.empty() && item.find_first_not_of("0123456789") == item.npos)
    throw bad_list(list, fmt::format("a job has 1 to {} workers", kMostDevices));
  if (!device) {
    throw bad_list(list, item.empty()
                             ? std::string("an empty name")
                             : fmt::format("\"{}\" is no known device; known are {}", item, placement::known_kinds()));
  }
  if (std::ssize(shares) + repeats > kMostDevices)
    throw bad_list(list.substr(0, 80), fmt::format("more than {} devices", kMostDevices));
  share.device = *device;
  shares.insert(shares.end(), static_cast<size_t>(repeats), share);
}

void refuse_shared_gpus(const Devices& devices) {
  std::set<Device> gpus;
  for (const Device& device : devices) {
    if (!device.is_gpu() || gpus.insert(device).second) continue;
    throw Error::make(Fault::infeasible, "{} stands in the device list more than once", device.text())
        .advise(
            "a worker has a GPU of its own, and hosts many ESTs on it: cuda:0=8. Several workers on one GPU are for "
            "tests: --oversubscribe");
  }
}

void refuse_background(const Devices& devices, const std::string& own) {
  for (const Device& device : devices) {
    if (!device.is_gpu() && device.host == own) continue;
    throw Error::make(Fault::infeasible, "--background: a worker on {} would not give way to others", device.text())
        .advise("take CPUs of this host, or leave --background out");
  }
}

bool machine_has(std::string_view kind) {
  if (kind == "cpu:avx512") return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
  if (kind == "cpu:avx2") return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return true;
}

void group_by_host(Assignment& list, const std::string& own) {
  std::vector<std::string> order = {own};
  for (const Share& share : list) {
    if (std::ranges::find(order, share.device.host) == order.end()) order.push_back(share.device.host);
  }
  std::ranges::stable_sort(
      list, {}, [&](const Share& share) { return std::ranges::find(order, share.device.host) - order.begin(); });
}

}  // namespace

Assignment parse_devices(std::string_view list, const std::string& own) {
  Assignment shares;
  if (const auto count = parse_count(list)) {
    shares.resize(static_cast<size_t>(*count));
  } else {
    for (std::string_view item : split(list, ',')) append_item(shares, list, item);
  }
  for (Share& share : shares) {
    if (share.device.host.empty()) share.device.host = own;
  }
  number_gpus(shares);
  group_by_host(shares, own);
  return shares;
}

std::vector<std::string> other_hosts(const Devices& devices, const std::string& own) {
  std::vector<std::string> hosts;
  for (const Device& device : devices) {
    if (device.host != own && std::ranges::find(hosts, device.host) == hosts.end()) hosts.push_back(device.host);
  }
  return hosts;
}

Assignment on_own_host(const Assignment& assignment, const std::string& own) {
  Assignment here = assignment;
  std::erase_if(here, [&](const Share& share) { return share.device.host != own; });
  return here;
}

bool can_be_led(const Devices& devices, const std::string& own) {
  return devices.empty() || std::ranges::any_of(devices, [&](const Device& device) { return device.host == own; });
}

void check_hosts(const Devices& devices, const spec::JobSpec& spec, const std::string& own) {
  if (other_hosts(devices, own).empty()) return;
  if (!can_be_led(devices, own)) {
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

Assignment choose_devices(std::string_view list, const spec::JobSection& job, int64_t cores, const std::string& own) {
  if (list != automatic_devices) return parse_devices(list, own);
  return choose_over_hosts({{own, cores}}, job);
}

Assignment choose_over_hosts(const std::vector<HostOffer>& hosts, const spec::JobSection& job) {
  const int64_t most = std::min(job.ests, kMostDevices);
  if (std::ssize(hosts) > most) {
    throw Error::make(Fault::infeasible, "{} hosts for {} ESTs: each needs at least one", hosts.size(), most)
        .advise("name fewer hosts, or use a job with more ESTs");
  }
  std::vector<int64_t> workers(hosts.size(), 0);
  int64_t all = 0;
  for (bool more = true; more;) {
    more = false;
    for (size_t host = 0; host < hosts.size() && all < most; ++host) {
      if (workers[host] >= std::max<int64_t>(1, hosts[host].cores / job.threads)) continue;
      ++workers[host];
      ++all;
      more = true;
    }
  }
  Assignment shares;
  for (size_t host = 0; host < hosts.size(); ++host)
    shares.insert(shares.end(), static_cast<size_t>(workers[host]), Share{.device = {.host = hosts[host].name}});
  return shares;
}

std::map<std::string, int64_t> count_devices(const Devices& devices) {
  std::map<std::string, int64_t> counts;
  for (const Device& device : devices) counts[device.text()] += 1;
  return counts;
}

std::string counted_devices(const Devices& devices) {
  if (devices.size() == 1) return devices[0].text();
  std::vector<std::string> parts;
  for (const auto& [device, count] : count_devices(devices)) parts.push_back(fmt::format("{} x {}", count, device));
  return fmt::format("{}", fmt::join(parts, " + "));
}

bool are_of_one_kind(const Devices& devices) {
  return std::ranges::all_of(devices, [&](const Device& device) { return device.kind == devices.front().kind; });
}

void check_devices(const Devices& devices, const Permissions& permissions) {
  if (!permissions.oversubscribed) refuse_shared_gpus(devices);
  if (permissions.background) refuse_background(devices, permissions.own);
  for (const Device& device : devices) {
    const bool is_here = device.host == permissions.own;  // another host's agent looks at its own devices
    if (is_here && device.is_gpu()) resources::require_gpu_support(resources::GpuSupport::here(), device.text());
    if (is_here && !machine_has(device.kind)) {
      throw Error::make(Fault::device, "device \"{}\": this machine's processor lacks its instructions", device.text())
          .advise("use cpu, or a kind that this processor has");
    }
    if (!permissions.mixed && device.kind != devices.front().kind) {
      throw Error::make(Fault::infeasible, "devices of different kinds ({} and {}) give different bits below D2",
                        devices.front().text(), device.text())
          .advise("use one kind, or job.determinism = \"D2\", or accept other bits with --allow-mixed");
    }
  }
}

std::vector<std::pair<std::string, std::string>> device_environment(const Device& device, const spec::JobSection& job,
                                                                    const resources::Environment& inherited) {
  const std::string count = std::to_string(job.threads);
  std::vector<std::pair<std::string, std::string>> environment = {
      {"OMP_NUM_THREADS", count}, {"MKL_NUM_THREADS", count}, {"GLIBC_TUNABLES", kMallocSettings}};
  if (device.is_gpu()) {
    // The order of nvidia-smi; cuBLAS's workspace in fixed pieces, without which its sums may differ from run to run;
    // NVIDIA's libraries without TF32 even if a caller asks for TF32. The ban is left out where the job wants TF32, and
    // where LibTorch's flags, which forbid TF32 too, must lead to the same algorithms as in a script of PyTorch.
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

bool gpus_may_keep_state(const spec::JobSpec& spec) {
  return spec.ema.decay == 0 && spec.train.weight == spec::Weight::ests;
}

bool gpus_may_exchange(const spec::JobSpec& spec) {
  return spec.job.exchange == spec::Exchange::automatic && gpus_may_keep_state(spec);
}

// The host updates, whatever the job.
SumOverHosts sum_over_hosts(const spec::JobSpec& spec, const Devices& devices) {
  const bool is_automatic = spec.job.exchange == spec::Exchange::automatic;
  const bool have_own_gpus = std::ranges::all_of(devices, &Device::is_gpu) &&
                             std::set<Device>(devices.begin(), devices.end()).size() == devices.size();
  if (!is_automatic || !have_own_gpus) return SumOverHosts::by_couriers;
  return spec.network.secrecy == spec::Secrecy::control ? SumOverHosts::by_gpus : SumOverHosts::in_secret;
}

bool may_send_factors(const spec::JobSpec& spec, const Devices& devices) {
  return spec.network.factors != spec::SendFactors::never && !spec.model.is_python() &&
         std::ranges::none_of(devices, &Device::is_gpu);
}

}  // namespace estrain::launch
