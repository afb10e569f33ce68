#include "core/run/launch/preflight/devices.h"

#include <doctest/doctest.h>

#include <map>

#include "tests/error_of.h"

namespace estrain::launch {
namespace {

Share share(std::string_view device, std::optional<int64_t> ests = {}) {
  return {placement::parse_device(device).value(), ests};
}

Devices devices_in(std::string_view list) { return devices_of(parse_devices(list)); }

TEST_CASE("a number means so many plain CPU workers") {
  CHECK(parse_devices("1") == Assignment{share("cpu")});
  CHECK(parse_devices("3") == Assignment{share("cpu"), share("cpu"), share("cpu")});
  CHECK(parse_devices("4096").size() == 4096);
}

TEST_CASE("lists name kinds, repeat them and say how many ESTs each hosts") {
  CHECK(parse_devices("cpu") == Assignment{share("cpu")});
  CHECK(parse_devices("cpu,cpu:avx2") == Assignment{share("cpu"), share("cpu:avx2")});
  CHECK(parse_devices("cpu*2,cpu:sse") == Assignment{share("cpu"), share("cpu"), share("cpu:sse")});
  CHECK(parse_devices("cpu=3,cpu=5") == Assignment{share("cpu", 3), share("cpu", 5)});
  CHECK(parse_devices("cpu:avx512=3*2") == Assignment{share("cpu:avx512", 3), share("cpu:avx512", 3)});
}

TEST_CASE("a list of any length names at most 4096 devices in all") {
  CHECK(parse_devices("cpu*4095,cpu").size() == 4096);
  std::string list = "cpu*4096";
  for (int i = 0; i < 5000; ++i) list += ",cpu*4096";
  const Error error = error_of([&] { parse_devices(list); });
  CHECK(error.fault() == Fault::usage);
  CHECK(error.message().find("more than 4096 devices") != std::string::npos);
}

TEST_CASE("what is wrong with a list is said, with the list") {
  const std::pair<const char*, const char*> wrong[] = {
      {"", "an empty name"},
      {"cpu,", "an empty name"},
      {",cpu", "an empty name"},
      {"=3", "an empty name"},
      {"0", "a job has 1 to 4096 workers"},
      {"-1", "\"-1\" is no known device"},
      {"4097", "a job has 1 to 4096 workers"},
      {"2.5", "\"2.5\" is no known device"},
      {"99999999999999999999", "a job has 1 to 4096 workers"},
      {"gpu", "\"gpu\" is no known device; known are cpu, cpu:avx512, cpu:avx2, cpu:sse, cuda, cuda:N"},
      {"cpu cpu", "\"cpu cpu\" is no known device"},
      {"cpu:", "\"cpu:\" is no known device"},
      {"CPU", "\"CPU\" is no known device"},
      {"cpu*", "\"cpu*\" does not repeat a device 1 to 4096 times"},
      {"cpu*0", "\"cpu*0\" does not repeat"},
      {"cpu*4097", "\"cpu*4097\" does not repeat"},
      {"cpu*2=3", "\"cpu*2=3\" does not repeat"},
      {"cpu=", "\"cpu=\" does not name a number of ESTs"},
      {"cpu=0", "\"cpu=0\" does not name a number of ESTs"},
      {"cpu=two", "\"cpu=two\" does not name a number of ESTs"},
      {"cuda:", "\"cuda:\" is no known device"},
      {"cuda:-1", "\"cuda:-1\" is no known device"},
      {"cuda:01", "\"cuda:01\" is no known device"},
      {"cuda:4097", "\"cuda:4097\" is no known device"},
      {"cuda:0x1", "\"cuda:0x1\" is no known device"},
      {"cuda0", "\"cuda0\" is no known device"},
  };
  for (const auto& [list, what] : wrong) {
    CAPTURE(list);
    const Error error = error_of([&] { parse_devices(list); });
    CHECK(error.fault() == Fault::usage);
    CHECK(error.message().starts_with("device list \"" + std::string(list) + "\": "));
    CHECK(error.message().find(what) != std::string::npos);
    CHECK_FALSE(error.advice().empty());
  }
}

TEST_CASE("auto: a worker for each core, or for as many cores as it has threads; never more than ESTs, never none") {
  const auto workers = [](int64_t cores, int64_t threads, int64_t ests) {
    spec::JobSection job;
    job.threads = threads;
    job.ests = ests;
    const Assignment devices = choose_devices("auto", job, cores);
    for (const Share& one : devices) CHECK(one == Share{});
    return devices.size();
  };
  CHECK(workers(6, 1, 8) == 6);
  CHECK(workers(6, 1, 4) == 4);
  CHECK(workers(7, 2, 8) == 3);
  CHECK(workers(1, 1, 8) == 1);
  CHECK(workers(2, 4, 8) == 1);
  CHECK(workers(6, 1, 1) == 1);
  CHECK(workers(1'000'000, 1, 65536) == 4096);
}

TEST_CASE("auto stands alone: in a list it is no device, and other lists do not ask for cores") {
  CHECK(choose_devices("cpu*3", {}, 1) == parse_devices("cpu*3"));
  CHECK(error_of([] { parse_devices("auto"); }).fault() == Fault::usage);
  CHECK(error_of([] { choose_devices("auto,cpu", {}, 2); }).fault() == Fault::usage);
  CHECK(error_of([] { choose_devices("auto*2", {}, 2); }).fault() == Fault::usage);
}

TEST_CASE("GPUs are named one by one; without a number, the first that the list does not hold") {
  const auto named = [](std::string_view list) { return placement::format_devices(parse_devices(list)); };
  CHECK(named("cuda:0,cuda:1") == "cuda:0,cuda:1");
  CHECK(named("cuda") == "cuda:0");
  CHECK(named("cuda*3") == "cuda:0,cuda:1,cuda:2");
  CHECK(named("cuda,cuda:0,cuda:2,cuda,cuda") == "cuda:1,cuda:0,cuda:2,cuda:3,cuda:4");
  CHECK(named("cuda:7*2,cpu") == "cuda:7,cuda:7,cpu");
  CHECK(parse_devices("cuda=3,cuda:4=5") == Assignment{share("cuda:0", 3), share("cuda:4", 5)});
  CHECK(named("nodeB/cuda*2,cuda,nodeB/cuda:1") == "cuda:0,nodeB/cuda:0,nodeB/cuda:2,nodeB/cuda:1");
}

TEST_CASE("a GPU has one worker unless asked otherwise") {
  const Error error = error_of([] { check_devices(devices_in("cuda:1,cuda:0,cuda:1"), {}); });
  CHECK(error.fault() == Fault::infeasible);
  CHECK(error.message() == "cuda:1 stands in the device list more than once");
  CHECK(error.advice().find("--oversubscribe") != std::string::npos);
}

TEST_CASE("GPUs are one kind whatever their numbers, and no kind of CPU") {
  CHECK(are_of_one_kind(devices_in("cuda:0,cuda:3")));
  CHECK_FALSE(are_of_one_kind(devices_in("cuda:0,cpu")));
  CHECK_FALSE(are_of_one_kind(devices_in("cpu,cpu:sse")));
  CHECK(are_of_one_kind({}));
}

TEST_CASE("a list is printed by its kinds") {
  CHECK(placement::format_devices(parse_devices("2")) == "cpu,cpu");
  CHECK(placement::format_devices(parse_devices("cpu:avx2*2,cpu")) == "cpu:avx2,cpu:avx2,cpu");
  CHECK(placement::format_devices({}).empty());
}

std::vector<std::pair<int64_t, int64_t>> placed(std::string_view list, int64_t ests) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const EstRange& range : placement::place_ests(parse_devices(list), ests))
    ranges.emplace_back(range.begin.value, range.end.value);
  return ranges;
}

TEST_CASE("ESTs are placed evenly, or as the list says") {
  using Ranges = std::vector<std::pair<int64_t, int64_t>>;
  CHECK(placed("3", 8) == Ranges{{0, 3}, {3, 6}, {6, 8}});
  CHECK(placed("cpu=1,cpu=7", 8) == Ranges{{0, 1}, {1, 8}});
  CHECK(placed("cpu=2*4", 8) == Ranges{{0, 2}, {2, 4}, {4, 6}, {6, 8}});
}

TEST_CASE("placements that do not work out are refused") {
  CHECK(error_of([] { placed("5", 4); }).fault() == Fault::infeasible);
  CHECK(error_of([] { placed("cpu,cpu=3", 4); }).fault() == Fault::usage);
  for (const char* list : {"cpu=3", "cpu=3,cpu=2"}) {
    const Error error = error_of([&] { placed(list, 4); });
    CHECK(error.fault() == Fault::infeasible);
    CHECK(error.advice() == "make the numbers behind = add up to job.ests");
  }
}

TEST_CASE("kinds are not mixed unless asked to") {
  check_devices(devices_in("cpu,cpu"), {});
  check_devices(devices_in("cpu,cpu:sse"), {.mixed = true});
  const Error error = error_of([] { check_devices(devices_in("cpu,cpu:sse"), {}); });
  CHECK(error.fault() == Fault::infeasible);
  CHECK(error.message() == "devices of different kinds (cpu and cpu:sse) give different bits below D2");
}

TEST_CASE("a job over several hosts has a worker on the launcher's own, keeps to the tree, and is resized by hand") {
  spec::JobSpec spec;
  const auto refusal = [&](std::string_view list) {
    return error_of([&] { check_hosts(devices_in(list), spec, ""); }).message();
  };
  CHECK_NOTHROW(check_hosts(devices_in("cpu,nodeB/cpu"), spec, ""));
  CHECK(refusal("nodeB/cpu,nodeC/cpu").find("the launcher's own host") != std::string::npos);
  spec.elastic.mode = spec::ElasticMode::automatic;
  CHECK(refusal("cpu,nodeB/cpu").find("elastic.mode") != std::string::npos);
  spec.job.determinism = spec::Determinism::d0;
  CHECK(refusal("cpu,nodeB/cpu").find("at D0") != std::string::npos);
  CHECK_NOTHROW(check_hosts(devices_in("cpu,cpu"), spec, ""));
}

TEST_CASE("a host with a name is the launcher's own, with the name or without") {
  CHECK(placement::format_devices(parse_devices("nodeB/cpu,cpu,nodeA/cpu", "nodeA")) ==
        "nodeA/cpu,nodeA/cpu,nodeB/cpu");
  CHECK(placement::format_devices(parse_devices("2", "nodeA")) == "nodeA/cpu,nodeA/cpu");
  CHECK(other_hosts(devices_of(parse_devices("cpu,nodeB/cpu", "nodeA")), "nodeA") == std::vector<std::string>{"nodeB"});
  spec::JobSpec spec;
  CHECK_NOTHROW(check_hosts(devices_in("nodeA/cpu,nodeB/cpu"), spec, "nodeA"));
  CHECK(error_of([&] { check_hosts(devices_in("nodeA/cpu,nodeB/cpu"), spec, ""); }).fault() == Fault::infeasible);
}

TEST_CASE("auto over hosts: a worker for each core, in turn, no more than ESTs, and no host without one") {
  spec::JobSection job;
  const auto chosen = [&](int64_t ests, int64_t threads) {
    job.ests = ests;
    job.threads = threads;
    return placement::format_devices(choose_over_hosts({{"a", 4}, {"b", 1}, {"c", 2}}, job));
  };
  CHECK(chosen(16, 1) == "a/cpu,a/cpu,a/cpu,a/cpu,b/cpu,c/cpu,c/cpu");
  CHECK(chosen(5, 1) == "a/cpu,a/cpu,b/cpu,c/cpu,c/cpu");
  CHECK(chosen(16, 2) == "a/cpu,a/cpu,b/cpu,c/cpu");
  CHECK(error_of([&] { chosen(2, 1); }).fault() == Fault::infeasible);
}

TEST_CASE("GPUs of several hosts sum gradients among themselves, each with a worker, where the network may see them") {
  spec::JobSpec spec;
  const auto way = [&spec](std::string_view list) { return sum_over_hosts(spec, devices_in(list)); };
  CHECK(way("cuda:0,nodeB/cuda:0") == SumOverHosts::in_secret);
  spec.network.secrecy = spec::Secrecy::control;
  CHECK(way("cuda:0,nodeB/cuda:0") == SumOverHosts::by_gpus);
  CHECK(way("cuda:0,cuda:1,nodeB/cuda:1") == SumOverHosts::by_gpus);
  CHECK(way("cuda:0,nodeB/cuda:0*2") == SumOverHosts::by_couriers);
  CHECK(way("cuda:0,nodeB/cpu") == SumOverHosts::by_couriers);
  spec.ema.decay = 0.9;                            // the host averages either way
  spec.elastic.batch = spec::BatchMode::adaptive;  // the GPUs measure the noise of the gradients
  CHECK(way("cuda:0,nodeB/cuda:0") == SumOverHosts::by_gpus);
  spec.job.exchange = spec::Exchange::host;
  CHECK(way("cuda:0,nodeB/cuda:0") == SumOverHosts::by_couriers);
}

TEST_CASE("a kind that the processor cannot be is refused, and only that") {
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
  const auto check = [] { check_devices(devices_in("cpu:avx512"), {}); };
  if (avx512) {
    CHECK_NOTHROW(check());
  } else {
    CHECK(error_of(check).fault() == Fault::device);
  }
}

TEST_CASE("devices are counted by kind for a reader") {
  CHECK(counted_devices(placement::devices_from({"cpu"})) == "cpu");
  CHECK(counted_devices(placement::devices_from({"cpu", "cpu"})) == "2 x cpu");
  CHECK(counted_devices(placement::devices_from({"cpu:sse", "cuda:0", "cpu:sse"})) == "2 x cpu:sse + 1 x cuda:0");
}

TEST_CASE("the environment makes a worker behave as its kind, with the job's number of threads") {
  const auto environment = [](const char* kind, spec::Precision precision = spec::Precision::fp32,
                              spec::Algorithms algorithms = spec::Algorithms::measured) {
    resources::Environment all;
    const spec::JobSection job = {.threads = 3, .precision = precision, .algorithms = algorithms};
    for (const auto& [name, value] : device_environment(*placement::parse_device(kind), job, {})) {
      CHECK(all.emplace(name, value).second);
      if (name == "GLIBC_TUNABLES") all.erase(name);  // does not affect the bits
    }
    return all;
  };
  const resources::Environment threads = {{"OMP_NUM_THREADS", "3"}, {"MKL_NUM_THREADS", "3"}};
  const auto with_threads = [&](resources::Environment more) {
    more.insert(threads.begin(), threads.end());
    return more;
  };
  CHECK(environment("cpu") == threads);
  CHECK(environment("cpu:avx2") == with_threads({{"ATEN_CPU_CAPABILITY", "avx2"}, {"ONEDNN_MAX_CPU_ISA", "AVX2"}}));
  CHECK(environment("cpu:avx512") ==
        with_threads({{"ATEN_CPU_CAPABILITY", "avx512"}, {"ONEDNN_MAX_CPU_ISA", "AVX512_CORE"}}));
  CHECK(environment("cuda:1") == with_threads({{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
                                               {"CUBLAS_WORKSPACE_CONFIG", ":4096:8"},
                                               {"NVIDIA_TF32_OVERRIDE", "0"}}));
  CHECK(environment("cuda:1", spec::Precision::bf16) == environment("cuda:1"));
  CHECK(environment("cuda:1", spec::Precision::tf32).at("NVIDIA_TF32_OVERRIDE") == "");  // does not exist
  const auto by_torch = environment("cuda:1", spec::Precision::fp32, spec::Algorithms::torch);
  CHECK(by_torch.at("NVIDIA_TF32_OVERRIDE") == "");
  CHECK(environment("cpu", spec::Precision::tf32) == threads);
  CHECK(
      environment("cpu:sse") ==
      with_threads({{"ATEN_CPU_CAPABILITY", "default"}, {"ONEDNN_MAX_CPU_ISA", "SSE41"}, {"MKL_CBWR", "COMPATIBLE"}}));
}

TEST_CASE("what tells libraries how to compute does not reach a worker, unless its kind says so; the rest does") {
  const resources::Environment inherited = {{"ATEN_CPU_CAPABILITY", "default"},
                                            {"CUBLASLT_LOG_LEVEL", "2"},
                                            {"CUBLAS_EMULATE_SINGLE_PRECISION", "1"},
                                            {"CUDA_VISIBLE_DEVICES", "1"},
                                            {"DISABLE_ADDMM_CUDA_LT", "1"},
                                            {"HOME", "/home/somebody"},
                                            {"LD_PRELOAD", "libjemalloc.so"},
                                            {"MKL_CBWR", "COMPATIBLE"},
                                            {"MKL_VERBOSE", "1"},
                                            {"NCCL_DEBUG", "INFO"},
                                            {"OMP_DYNAMIC", "true"},
                                            {"OMP_NUM_THREADS", "7"},
                                            {"OMP_PLACES", "cores"},
                                            {"OMP_THREAD_LIMIT", "1"},
                                            {"ONEDNN_DEFAULT_FPMATH_MODE", "BF16"},
                                            {"ONEDNN_MAX_CPU_ISA", "SSE41"},
                                            {"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"},
                                            {"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "1"},
                                            {"TORCH_LINEAR_FLATTEN_3D", "1"},
                                            {"TORCH_SHOW_CPP_STACKTRACES", "1"}};
  const auto environment = [&](const char* kind) {
    resources::Environment all;
    for (const auto& [name, value] : device_environment(*placement::parse_device(kind), {.threads = 2}, inherited))
      CHECK(all.emplace(name, value).second);
    return all;
  };
  const resources::Environment taken_away = {{"ATEN_CPU_CAPABILITY", ""},
                                             {"CUBLAS_EMULATE_SINGLE_PRECISION", ""},
                                             {"DISABLE_ADDMM_CUDA_LT", ""},
                                             {"MKL_CBWR", ""},
                                             {"OMP_DYNAMIC", ""},
                                             {"OMP_THREAD_LIMIT", ""},
                                             {"ONEDNN_DEFAULT_FPMATH_MODE", ""},
                                             {"ONEDNN_MAX_CPU_ISA", ""},
                                             {"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", ""},
                                             {"TORCH_LINEAR_FLATTEN_3D", ""}};
  const auto expected = [&](resources::Environment own) {
    own.insert({{"OMP_NUM_THREADS", "2"},
                {"MKL_NUM_THREADS", "2"},
                {"GLIBC_TUNABLES",
                 "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=2147483647:"
                 "glibc.malloc.top_pad=67108864:glibc.malloc.mxfast=0"}});
    own.insert(taken_away.begin(), taken_away.end());
    return own;
  };
  CHECK(environment("cpu") == expected({}));
  CHECK(environment("cpu:avx2") == expected({{"ATEN_CPU_CAPABILITY", "avx2"}, {"ONEDNN_MAX_CPU_ISA", "AVX2"}}));
  CHECK(environment("cuda:0") == expected({{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
                                           {"CUBLAS_WORKSPACE_CONFIG", ":4096:8"},
                                           {"NVIDIA_TF32_OVERRIDE", "0"}}));
}

}  // namespace
}  // namespace estrain::launch
