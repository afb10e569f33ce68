// GPU workers on simulated GPUs (tests/simulated_gpu): all of core/engine/cuda with LibTorch's own CUDA library. The
// GPUs compute as late as allowed, or at random times. The portable kernels are CUDA's source.
//
// These tests take each path of the code once or twice; scripts/check at_length tries more combinations.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "at_length.h"
#include "core/base/files/files.h"
#include "in_time.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"
#include "setting.h"

namespace estrain::testing {
namespace {

const Words kMixedD2 = {"--set", "job.determinism=D2", "--oversubscribe", "--allow-mixed"};
const Words kD1 = {"--oversubscribe"};
const Words kSmall = {"--set", "train.steps=2", "--set", "job.ests=3", "--set", "data.batch=2"};
// resnet18 with fewer pixels, and evaluations.
const Words kEvaluated = {"--set", "data.shape=[3, 8, 8]", "--set", "data.crop=[8, 8]", "--set", "train.eval_every=2"};
const Words kInBf16 = {"--set", "job.precision=bf16"};

// The GPUs of one run are slow where those of another are fast.
void take_another_order() {
  static int times = 0;
  constexpr std::array orders = {"late", "random", "early"};
  ::setenv("ESTRAIN_SIMULATED_GPU", orders[static_cast<size_t>(times++) % orders.size()], 1);
}

std::string train_in_another_order(const ScratchFolder& folder, const std::string& spec, const std::string& devices,
                                   const Words& more) {
  if (devices.starts_with("cuda")) take_another_order();
  return train_on(folder, spec, devices, more);
}

// A run on this device that several tests compare others with: it is trained once.
const std::string& reference(const std::string& text, const std::string& device, const Words& more) {
  static const ScratchFolder folder;
  static std::map<std::string, std::string> runs;
  std::string key = device;
  for (const std::string& word : more) key += ' ' + word;
  std::string& run = runs[key + text];
  if (run.empty()) {
    const std::string spec = folder.write(fmt::format("job-{}.toml", runs.size()), text);
    run = train_in_another_order(folder, spec, device, more);
  }
  return run;
}

void check_as_on_the_cpu(const std::string& text, const Words& more, const Words& lists_of_devices) {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", text);
  const std::string& one = reference(text, "cpu", with(kMixedD2, more));
  CHECK(fingerprint_steps(one) == metric_steps(one));
  for (const std::string& devices : lists_of_devices) {
    CAPTURE(devices);
    CHECK(difference(one, train_in_another_order(folder, spec, devices, with(kMixedD2, more))).text == "");
  }
}

void check_on_any_number_of_gpus(const std::string& text, const Words& lists_of_devices, const Words& more = {}) {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", text);
  const std::string& one = reference(text, "cuda:0", with(kD1, more));
  for (const std::string& devices : lists_of_devices) {
    CAPTURE(devices);
    CHECK(difference(one, train_in_another_order(folder, spec, devices, with(kD1, more))).text == "");
  }
}

// With its text, which is there until the end.
const std::string& gpt_with_text() {
  static const ScratchFolder folder;
  static const std::string spec = gpt_job(folder.write("book.txt", some_text(1600)));
  return spec;
}

TEST_CASE("a build without CUDA says so" * doctest::skip(has_simulated_gpus())) {
  fmt::print("skipped: this build has no simulated GPUs\n");
}

TEST_SUITE_BEGIN("simulated GPU" * doctest::skip(!has_simulated_gpus()));

// A GPU that keeps the state, GPUs that exchange it, and GPUs that exchange it with a CPU in host memory.
TEST_CASE("mlp with dropout, AdamW and clipping at D2: a GPU's bits are the CPU's") {
  check_as_on_the_cpu(mlp_job(), {}, at_length({"cuda:0", "cuda:0,cuda:1", "cuda:0,cuda:1,cpu"}, {"cuda:0"}));
}
// The host updates, in the state that it shares with the GPUs.
TEST_CASE("LAMB on two GPUs has the CPU's bits at D2, and one GPU's at D1") {
  const Words lamb = {"--set", "optimizer.name=lamb", "--set", "train.steps=4"};
  check_as_on_the_cpu(mlp_job(), lamb, {"cuda:0,cuda:1"});
  check_on_any_number_of_gpus(mlp_job(), {"cuda:0,cuda:1"}, lamb);
}
TEST_CASE("lenet at D2: a GPU's bits are the CPU's") {
  check_as_on_the_cpu(lenet_job(), {"--set", "train.steps=4"},
                      at_length({"cuda:0", "cuda:0,cuda:1,cpu"}, {"cuda:0,cuda:1", "cuda:0"}));
}
TEST_CASE("resnet18 at D2: a GPU's bits are the CPU's") {
  check_as_on_the_cpu(resnet18_job(), kSmall, at_length({"cuda:0,cuda:1"}, {"cuda:0", "cuda:0,cuda:1,cpu", "cuda:0"}));
}
TEST_CASE("gpt with dropout at D2: a GPU's bits are the CPU's") {
  check_as_on_the_cpu(gpt_with_text(), {"--set", "train.steps=3"},
                      at_length({"cuda:0", "cuda:0,cuda:1"}, {"cuda:0,cuda:1,cpu", "cuda:0"}));
}

TEST_CASE("D1 on GPUs: no trace of the number of workers") {
  check_on_any_number_of_gpus(lenet_job(), at_length({"cuda:0,cuda:1,cuda:2", "cuda:0*2,cuda:1"}, {"cuda:0,cuda:1"}));
  check_on_any_number_of_gpus(gpt_with_text(),
                              at_length({"cuda:0,cuda:1"}, {"cuda:0,cuda:1,cuda:2", "cuda:0*2,cuda:1"}));
  check_on_any_number_of_gpus(resnet18_job(), at_length({"cuda:0,cuda:1"}, {"cuda:0,cuda:1,cuda:2", "cuda:0*2,cuda:1"}),
                              with(kSmall, kEvaluated));
}

TEST_CASE("who sums what: GPUs among themselves where each worker has one, else the host") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", lenet_job());
  const auto exchange = [&](const char* devices, const Words& more) {
    return events(train_in_another_order(folder, spec, devices, with(kD1, more)), "stage")
        .at(0)
        .at("exchange")
        .get<std::string>();
  };
  const Words short_job = {"--set", "train.steps=2"};
  CHECK(exchange("cuda:0,cuda:1", short_job) == "GPUs");
  CHECK(exchange("cuda:0,cuda:1", with(short_job, {"--set", "job.exchange=host"})) == "host");
  CHECK(exchange("cuda:0*2,cuda:1", short_job) == "host");
  CHECK(exchange("cuda:0", short_job) == "host");
}

TEST_CASE("auto takes the GPUs of the allocation; below D2 a resumed run keeps to the kind that it began on") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", lenet_job());
  const auto train = [&](const char* visible, const std::string& run, const Words& more) {
    const Setting granted("CUDA_VISIBLE_DEVICES", visible);
    return estrain(with({"train", spec, "--run", folder / run, "--resume"}, more));
  };
  const auto devices = [&](const std::string& run) {
    return events(folder / run, "start").back().at("devices").get<std::string>();
  };
  const Words automatic = {"--devices", "auto", "--set", "train.steps=2"};
  const Words longer = {"--devices", "auto", "--set", "train.steps=3"};
  const Ended ended = train("0,1", "on GPUs", automatic);
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  CHECK(ended.says("devices \"auto\" are cuda:0,cuda:1 here: GPUs 2 (CUDA_VISIBLE_DEVICES), ESTs 8"));
  CHECK(devices("on GPUs") == "cuda:0,cuda:1");

  const Ended without = train("", "on GPUs", longer);
  INFO(without.shown());
  CHECK(without.code == 2);
  CHECK(without.says("the run began on GPUs, and none is usable here"));
  REQUIRE(train("0", "on GPUs", longer).code == 0);
  CHECK(devices("on GPUs") == "cuda:0");

  REQUIRE(train("", "on CPUs", automatic).code == 0);
  const Ended with_gpus = train("0,1", "on CPUs", longer);
  INFO(with_gpus.shown());
  REQUIRE(with_gpus.code == 0);
  CHECK(with_gpus.says("warning: 2 GPUs are visible and not used: the run began on CPUs"));
  CHECK(devices("on CPUs").starts_with("cpu"));
}

void check_replayed(const std::string& text, const Words& lists_of_devices, const Words& more = {}) {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", text);
  if (lists_of_devices.empty()) return;
  const std::string& plain = reference(text, "cuda:0", with(kD1, more));
  for (const std::string& devices : lists_of_devices) {
    CAPTURE(devices);
    const std::string run =
        train_in_another_order(folder, spec, devices, with(with(kD1, more), {"--set", "job.cuda_graphs=auto"}));
    CHECK(difference(plain, run).text == "");
    CHECK(read_file(run + "/worker-0.log").find("not captured") == std::string::npos);
  }
}

TEST_CASE("D1: passes that a GPU replays give the bits of those that it does not") {
  const Words alone = at_length({"cuda:0"}, {"cuda:0*2", "cuda:0"});
  check_replayed(lenet_job(), alone);
  check_replayed(mlp_job(), at_length({"cuda:0", "cuda:0*2"}, {"cuda:0"}));  // with random numbers
  check_replayed(gpt_with_text(), alone);                                    // its backward passes repeat the draws
  check_replayed(resnet18_job(), alone, with(kSmall, with(kEvaluated, kInBf16)));
  check_replayed(resnet18_job(), at_length({}, {"cuda:0", "cuda:0*2", "cuda:0"}), with(kSmall, kEvaluated));
}

// Worker 0's operations in a step from its trace, in time order.
std::vector<std::string> deeds(const std::string& run, int64_t first_traced, int64_t step) {
  std::ifstream file(fmt::format("{}/traces/step-{}-worker-0.json", run, first_traced));
  const Json events = Json::parse(file).at("traceEvents");
  double begin = 0, end = 0;
  std::map<double, std::string> by_time;
  for (const Json& event : events) {
    if (event.value("cat", "") != "user_annotation") continue;
    const double at = event.at("ts");
    const std::string name = event.at("name");
    if (name == fmt::format("ProfilerStep#{}", step)) {
      begin = at;
      end = at + event.at("dur").get<double>();
    } else if (!name.starts_with("ProfilerStep")) {
      by_time[at] = name;
    }
  }
  std::vector<std::string> names;
  for (const auto& [at, name] : by_time) {
    if (at >= begin && at <= end) names.push_back(name);
  }
  return names;
}

TEST_CASE("a GPU that trains alone begins the next step before this one is committed, unless it is evaluated first") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", lenet_job());
  const Words traced =
      with(kD1, {"--set", "train.steps=4", "--set", "train.eval_every=3", "--set", "logging.trace=[1, 4]"});
  const std::string alone = train_in_another_order(folder, spec, "cuda:0", traced);
  const auto of = [](const std::string& run, int64_t step) { return deeds(run, 1, step); };
  const std::string begins = "EST 0: forward", goes_on = "EST 0: backward";
  REQUIRE(of(alone, 2).size() == 17);
  CHECK(of(alone, 1).front() == begins);
  CHECK(of(alone, 2).front() == goes_on);
  CHECK(of(alone, 2)[15] == begins);
  CHECK(of(alone, 2).back() == "update");
  CHECK(of(alone, 3).size() == 16);  // evaluated
  CHECK(of(alone, 4).front() == begins);
  CHECK(of(alone, 4)[16 - 1] == "EST 7: backward");  // and nothing comes after it
  for (const std::string& devices : at_length({"cuda:0,cuda:1"}, {"cuda:0*2"})) {
    CAPTURE(devices);
    CHECK(of(train_in_another_order(folder, spec, devices, traced), 2).front() == begins);
  }
}

// A worker alone on its GPU keeps the state there; two workers on one GPU share it in host memory.
TEST_CASE("D1: clipped and saved steps are the same in a GPU's memory and in shared memory") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  const Words more =
      with(kD1, {"--set", "train.clip_grad_norm=0.05", "--set", "checkpoint.every=3", "--set", "checkpoint.keep=9"});
  const std::string alone = train_in_another_order(folder, spec, "cuda:0", more);
  for (const std::string& devices : at_length({"cuda:0*2", "cuda:0=1,cuda:1=5,cuda:2=2"}, {"cuda:0,cuda:1"})) {
    CAPTURE(devices);
    const std::string other = train_in_another_order(folder, spec, devices, more);
    CHECK(difference(alone, other).text == "");
    CHECK(checkpoint_steps(alone) == checkpoint_steps(other));
    for (const int64_t step : checkpoint_steps(alone)) {
      const std::string file = fmt::format("/checkpoints/step-{:09}.h5", step);
      CHECK(checkpoint_difference(alone + file, other + file) == "");
    }
  }
}

TEST_CASE("updates that are not finite are left out on a GPU as on the CPU") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  for (const bool clipped : {false, true}) {
    CAPTURE(clipped);
    const std::string clip = clipped ? "train.clip_grad_norm=0.5" : "train.clip_grad_norm=0";
    const Words more = with(kMixedD2, {"--set", "optimizer.lr=1e38", "--set", "train.nonfinite=skip", "--set", clip,
                                       "--set", "train.eval_every=\"never\""});
    const std::string on_cpu = train_in_another_order(folder, spec, "cpu", more);
    for (const std::string& devices : at_length({clipped ? "cuda:0,cuda:1" : "cuda:0"}, {"cuda:0", "cuda:0,cuda:1"})) {
      CAPTURE(devices);
      const std::string on_gpu = train_in_another_order(folder, spec, devices, more);
      CHECK(events(on_gpu, "skipped").size() > 3);
      CHECK(difference(on_cpu, on_gpu).text == "");
      CHECK(metric_steps(on_gpu) == metric_steps(on_cpu));
    }
  }
}

bool has_loaded(pid_t pid, const std::string& library) {
  return text_if_readable("/proc/" + std::to_string(pid) + "/maps").find(library) != std::string::npos;
}

// Fails once, in one of a run's processes (tests/simulated_gpu/machine.h).
class SimulatedFault {
 public:
  SimulatedFault(const ScratchFolder& folder, const std::string& what)
      : file_(folder / "struck"), seen_("ESTRAIN_SIMULATED_FAULT", what + " " + file_) {}

  bool struck() const { return std::filesystem::exists(file_); }

 private:
  const std::string file_;
  const Setting seen_;
};

TEST_CASE("what a GPU or NCCL fails at costs a worker, and no bit") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  const std::string& on_cpu = reference(mlp_job(), "cpu", kMixedD2);
  const std::pair<std::string, std::string> causes[] = {{"kernel 1500", "invalid_memory_access"},
                                                        {"transfer 20", "mpi_runtime_failure"}};
  for (const auto& [what, cause] : causes) {
    CAPTURE(what);
    const ScratchFolder files;
    const SimulatedFault fault(files, what);
    const std::string run = train_in_another_order(folder, spec, "cuda:0,cuda:1", kMixedD2);
    REQUIRE(fault.struck());
    CHECK(difference(on_cpu, run).text == "");
    const std::vector<Json> faults = events(run, "fault");
    REQUIRE(faults.size() == 1);
    CHECK(faults[0].at("cause") == cause);
  }
}

TEST_CASE("workers of GPUs are copies of a process with CUDA's libraries, where the driver serves copies") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  bool serves = true;
  SUBCASE("it does") {}
  SUBCASE("it does not: the workers start anew") { serves = false; }
  const Setting fault("ESTRAIN_SIMULATED_FAULT", serves ? "" : "copies");
  Job job(spec, folder / "run", with({"--devices", "cuda:0,cuda:1", "--set", "train.steps=1000000"}, kD1));
  job.reach(3);
  const std::vector<pid_t> servers = job.fork_servers();
  REQUIRE(servers.size() == 1);
  CHECK(has_loaded(servers[0], "libtorch_cuda.so"));
  const std::vector<pid_t> workers = job.workers();
  REQUIRE(workers.size() == 2);
  CHECK(are_copies_of(workers, servers[0]) == serves);
  ::kill(workers[0], SIGKILL);
  job.reach(job.step() + 3);
  CHECK(are_copies_of(job.workers(), servers[0]) == serves);
  CHECK(job.fork_servers() == servers);
}

TEST_CASE("the noise of gradients is measured on GPUs as on the CPU") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job() + "[elastic]\nbatch = \"adaptive\"\n");
  // Each step has all samples, and the parameters stay: the noise hardly depends on the number of steps.
  const Words stays = {"--set", "optimizer.name=sgd", "--set", "optimizer.lr=1e-9",  "--set", "optimizer.groups=[]",
                       "--set", "data.samples=32",    "--set", "train.steps=100000", "--set", "model.dropout=0"};
  const auto noise_on = [&](const std::string& devices) {
    take_another_order();
    Job job(spec, folder / ("on " + devices), with(with(kMixedD2, stays), {"--devices", devices}));
    Json found;
    wait_until("some steps are measured", [&] {
      const Json status = job.status();
      found = status.contains("gradient_noise") ? status.at("gradient_noise") : Json();
      return found.is_object() && found.at("steps").get<int64_t>() >= 60;
    });
    CHECK(job.stop().code == 0);
    job.launcher().wait();
    return found.at("scale").get<double>();
  };
  const double on_cpu = noise_on("cpu");
  for (const char* devices : {"cuda:0", "cuda:0,cuda:1", "cuda:0=1,cuda:1=7"}) {
    CAPTURE(devices);
    CHECK(noise_on(devices) == doctest::Approx(on_cpu).epsilon(0.1));
  }
}

TEST_CASE("transfers that never end, time and again, end the job") {
  const ScratchFolder folder;
  const Setting fault("ESTRAIN_SIMULATED_FAULT", "silence 30 -");
  const Ended ended = estrain(with(
      {"train", folder.write("job.toml", mlp_job()), "--run", folder / "run", "--devices", "cuda:0,cuda:1"}, kMixedD2));
  INFO(ended.shown());
  CHECK(ended.code == 1);
  CHECK(ended.says("all workers wait for each other: begun again"));
  CHECK(ended.says("fault 4 at step"));
  CHECK(ended.says("NCCL_DEBUG=INFO"));
  CHECK(events(folder / "run", "stalled").size() == 5);
}

TEST_CASE("a GPU without memory for the job ends it, and says so") {
  const ScratchFolder folder;
  const SimulatedFault fault(folder, "memory 2");
  const Ended ended = estrain(
      with({"train", folder.write("job.toml", lenet_job()), "--run", folder / "run", "--devices", "cuda:0"}, kMixedD2));
  INFO(ended.shown());
  CHECK(fault.struck());
  CHECK(ended.code == 1);
  CHECK(ended.says("CUDA out of memory. Tried to allocate"));
  CHECK(ended.says("data.batch"));
  CHECK_FALSE(ended.says("PYTORCH"));
}

// Returns the most memory that one GPU of a run needed (tests/simulated_gpu/runtime.cpp).
size_t most_memory(const std::string& spec, const std::string& devices, const Words& more) {
  const ScratchFolder folder;
  const Setting noted("ESTRAIN_SIMULATED_MEMORY", folder.path());
  const std::string run = train_in_another_order(folder, spec, devices, with(kMixedD2, more));
  size_t most = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    size_t bytes = 0;
    if (file.is_regular_file() && std::ifstream(file.path()) >> bytes) most = std::max(most, bytes);
  }
  REQUIRE(most > 0);
  return most;
}

// A network of wide layers with AdamW. `job`: more lines of the section.
std::string wide_job(std::string_view job, std::string_view hidden) {
  return fmt::format(R"([job]
{}
[model]
name = "mlp"
hidden = [{}]
classes = 10
[data]
format = "synthetic"
shape = [64]
samples = 64
batch = 1
[optimizer]
name = "adamw"
[train]
steps = 2
eval_every = "never"
)",
                     job, hidden);
}

// Layers of 16 MB: the gradients of one layer are a small part of all gradients.
constexpr size_t kWideParameters = 21'135'370;
const std::string kWideJob = wide_job("name = \"wide\"", "2048, 2048, 2048, 2048, 2048, 2048");

// State, gradients and sums take 4 bytes each for a parameter, of a GPU or of its share.
struct MemoryOfGpu {
  const char* name;
  std::string devices;
  size_t gpus;
  Words more;
  double least, most;  // bytes for each parameter
};

// The foretold number of bytes, from a mini-batch on the CPU.
double foretold_memory(const std::string& spec, size_t gpus, const Words& more) {
  const Ended ended = estrain(with({"check", spec, "--devices", "cpu", "--gpu-memory", "80", "--json"}, more));
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  return Json::parse(ended.text).at("gpu_bytes").at(gpus - 1).get<double>();
}

const Words kD2 = {"--set", "job.determinism=D2"};
const Words kSgd = {"--set", "optimizer.name=sgd", "--set", "optimizer.momentum=0.9"};
const Words kClipped = {"--set", "train.clip_grad_norm=0.1"};
const Words kSlotsInHost = {"--set", "job.state=host"};
Words ests(int number) { return {"--set", fmt::format("job.ests={}", number)}; }

void check_memory(const std::vector<MemoryOfGpu>& cases) {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", kWideJob);
  for (const MemoryOfGpu& one : cases) {
    CAPTURE(one.name);
    const double bytes = static_cast<double>(most_memory(spec, one.devices, one.more)) / kWideParameters;
    const double foretold = foretold_memory(spec, one.gpus, with(kD2, one.more)) / kWideParameters;
    fmt::print("GPU memory, {}: {:.2f} bytes a parameter, foretold: {:.2f}\n", one.name, bytes, foretold);
    CHECK(foretold >= 0.9 * bytes);
    CHECK(foretold <= 1.1 * bytes);
    CHECK(bytes >= one.least);
    CHECK(bytes <= one.most);
  }
}

TEST_CASE("a GPU has one copy of parameters and slots, and room for gradients: 16 bytes a parameter with AdamW") {
  check_memory({{"AdamW", "cuda:0", 1, ests(1), 16, 17},
                {"AdamW, clipped", "cuda:0", 1, with(ests(1), kClipped), 16, 17},
                {"SGD with momentum", "cuda:0", 1, with(ests(1), kSgd), 12, 13},
                {"AdamW, 4 ESTs", "cuda:0", 1, ests(4), 20, 25}});  // two partial sums
  if (is_at_length())
    check_memory({{"AdamW, 16 ESTs", "cuda:0", 1, ests(16), 28, 33},  // four partial sums
                  {"AdamW, slots in host memory", "cuda:0", 1, with(ests(1), kSlotsInHost), 8, 9}});
}
TEST_CASE("each of several GPUs has its own share of the slots, and sums of one bucket") {
  check_memory({{"AdamW on 4 GPUs", "cuda*4", 4, ests(4), 7, 12}});
  if (is_at_length())
    check_memory({{"AdamW on 8 GPUs", "cuda*8", 8, ests(8), 6, 11},
                  {"AdamW on 8 GPUs, clipped", "cuda*8", 8, with(ests(8), kClipped), 6, 12}});
}

// A job whose optimizer slots take half of a GPU's memory.
const std::string kTightJob = wide_job("name = \"tight\"\nests = 2\ndeterminism = \"D2\"", "1024, 1024, 1024");
const char* const kTightMemory = "56000000";  // bytes: the job needs 65 MB, or 46 MB without the slots

TEST_CASE("a job that a GPU cannot hold trains with its slots in host memory, through a resize, a kill and a resume") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", kTightJob);
  const Words in_host = with(kSlotsInHost, {"--set", "train.steps=1000000"});
  std::string run;
  {
    const Setting small("ESTRAIN_SIMULATED_CAPACITY", kTightMemory);
    const Ended refused = estrain({"train", spec, "--run", folder / "refused", "--devices", "cuda:0"});
    INFO(refused.shown());
    CHECK(refused.code == 1);
    CHECK(refused.says("CUDA out of memory"));
    CHECK(refused.says("job.state = \"host\""));

    Job job(spec, folder / "in host memory", with({"--devices", "cuda:0"}, in_host));
    job.reach(1);
    REQUIRE(job.resize("cuda:0,cuda:1").code == 0);
    job.reach(job.step() + 1);
    REQUIRE(::kill(job.workers().at(1), SIGKILL) == 0);
    job.reach(job.step() + 1);
    REQUIRE(job.stop().code == 0);
    job.launcher().wait();
    run = job.run();
    const std::string more = fmt::format("train.steps={}", last_step(run) + 1);
    const Ended resumed = estrain({"train", "--resume", "--run", run, "--devices", "cuda:1", "--set", more});
    INFO(resumed.shown());
    REQUIRE(resumed.code == 0);
  }
  const Words as_long = {"--set", fmt::format("train.steps={}", last_step(run))};
  CHECK(difference(run, train_in_another_order(folder, spec, "cuda:0", as_long)).text == "");
  CHECK(metric_steps(run) == first_steps(last_step(run)));
}

TEST_CASE("slots in host memory: the CPU's bits, clipped, on one GPU and on several with several ESTs") {
  check_as_on_the_cpu(mlp_job(), kSlotsInHost, at_length({"cuda:0", "cuda*4"}, {"cuda:0,cuda:1"}));
}

// The calls of a step of one worker (tests/simulated_gpu/machine.h).
struct StepCalls {
  int64_t groups = 0, transfers = 0, gathers = 0, stream_waits = 0, host_waits = 0;
};

// Returns the number of calls of `steps` steps, over all workers.
std::array<int64_t, 5> calls_of_run(const std::string& spec, const std::string& devices, int steps, const Words& more) {
  const ScratchFolder folder;
  const Setting counted("ESTRAIN_SIMULATED_CALLS", folder.path());
  const std::string number = fmt::format("train.steps={}", steps);
  train_in_another_order(folder, spec, devices, with(kMixedD2, with({"--set", number}, more)));
  std::array<int64_t, 5> all = {};
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    std::array<int64_t, 5> calls = {};
    std::ifstream in(file.path(), std::ios::binary);
    if (!file.is_regular_file() || !in.read(reinterpret_cast<char*>(calls.data()), sizeof calls) || calls[0] == 0)
      continue;
    for (size_t i = 0; i < all.size(); ++i) all[i] += calls[i];
  }
  return all;
}

StepCalls calls_of_step(const std::string& spec, const std::string& devices, int64_t workers, const Words& more) {
  constexpr int few = 2, more_steps = 8;
  const std::array<int64_t, 5> long_run = calls_of_run(spec, devices, few + more_steps, more),
                               short_run = calls_of_run(spec, devices, few, more);
  const auto each = [&](size_t i) { return (long_run[i] - short_run[i]) / (more_steps * workers); };
  return {each(0), each(1), each(2), each(3), each(4)};
}

TEST_CASE("several GPUs pass on their sums in one group for each bucket, and the host waits for results alone") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  const Words brief = {"--set", "train.eval_every=\"never\""};
  constexpr int64_t buckets = 7, sharing = 1, reads = 2 + 2;  // two losses, the time and the results
  const StepCalls plain =
      calls_of_step(spec, "cuda:0,cuda:1", 2, with(with(brief, ests(4)), {"--set", "train.clip_grad_norm=0"}));
  CHECK(plain.groups == buckets + sharing);
  CHECK(plain.transfers <= 2 * (buckets + sharing));  // bucket 0 has unequal shares
  CHECK(plain.gathers <= 2 * buckets);                // what workers tell each other, and new parameters
  CHECK(plain.host_waits == reads);
  CHECK(plain.stream_waits <= buckets + sharing + 1 + reads + 2);  // to share, to go on, and for the mini-batches
}

TEST_CASE(
    "check tries a mini-batch on a GPU with LibTorch's own products and convolutions, and with the portable ones") {
  const ScratchFolder folder;
  const auto check = [&](const std::string& text, const Words& more, const std::string& kernels) {
    const std::string spec = folder.write("job.toml", text);
    take_another_order();
    const Ended ended = estrain(with({"check", spec, "--run", folder / "run", "--devices", "cuda:0"}, more));
    INFO(ended.shown());
    CHECK(ended.code == 0);
    CHECK(ended.says(" parameters on cuda:0: forward and backward in "));
    CHECK(ended.says(kernels));
    CHECK(ended.says("GPU memory     ok"));
  };
  check(mlp_job(), {}, " ms with the portable ones");
  check(lenet_job(), {}, " ms with the portable ones");
  check(lenet_job(), kInBf16, " ms with LibTorch's kernels; ");
  check(resnet18_job(), kSmall, " ms with the portable ones");
}

TEST_CASE("check and plan name what each GPU needs, and the fewest GPUs that hold the job") {
  const ScratchFolder folder;
  const Setting profiles("ESTRAIN_PROFILES", folder / "profiles.json");
  const std::string spec = folder.write("job.toml", mlp_job());
  const auto says = [&](const Words& command, const std::string& words, int code = 0) {
    const Ended ended = estrain(with({command.front(), spec}, Words(command.begin() + 1, command.end())));
    INFO(ended.shown());
    CHECK(ended.code == code);
    CHECK(ended.says(words));
  };
  says({"check", "--devices", "cpu", "--gpu-memory", "0.1"}, "no number of GPUs holds the job", 1);
  says({"check", "--devices", "cpu", "--gpu-memory", "80"}, "the fewest that hold the job need ");
  const std::string tight = folder.write("tight.toml", kTightJob);
  const Ended advised = estrain({"check", tight, "--devices", "cpu", "--gpu-memory", "0.7"});
  INFO(advised.shown());
  CHECK(advised.says("job.state = \"host\" on 1 GPU: "));
  says(with({"plan", "--devices", "cuda:0,cuda:1", "--seconds", "0.01"}, kD2),
       "GPU memory: a GPU has 64.0 GiB; needed: ");
}

TEST_CASE("an audit of a GPU computes with the parameters before the step's update") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  for (const char* devices : {"cuda:0", "cuda:0,cuda:1"}) {
    CAPTURE(devices);
    const std::string run = train_in_another_order(folder, spec, devices, with(kD1, {"--set", "audit.every=2"}));
    CHECK(difference(reference(mlp_job(), "cuda:0", kD1), run).text == "");
    CHECK(events(run, "fault").empty());
  }
}

TEST_CASE("an audit between GPUs computes with the random streams of the other GPU's ESTs") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  const std::string run = train_in_another_order(folder, spec, "cuda:0,cuda:1", with(kD1, {"--set", "audit.every=1"}));
  CHECK(difference(reference(mlp_job(), "cuda:0", kD1), run).text == "");
  CHECK(events(run, "fault").empty());
}

TEST_CASE("a job moves between GPUs and the CPU, and nothing shows it") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  const Words long_run = with(kMixedD2, {"--set", "train.steps=1000000", "--set", "train.eval_every=\"never\""});
  Job job(spec, folder / "moved", with({"--devices", "cuda:0"}, long_run));
  for (const char* devices : {"cpu", "cuda:0,cpu", "cuda:0,cuda:1", "cuda:1"}) {
    CAPTURE(devices);
    job.reach(job.step() + 2);
    const Ended ended = job.resize(devices);
    INFO(ended.shown());
    REQUIRE(ended.code == 0);
  }
  job.reach(job.step() + 2);
  REQUIRE(job.stop().code == 0);
  job.launcher().wait();
  const int64_t last = last_step(job.run());
  const std::string steps = "train.steps=" + std::to_string(last);
  const std::string still = train_in_another_order(
      folder, spec, "cpu", with(kMixedD2, {"--set", steps, "--set", "train.eval_every=\"never\""}));
  CHECK(difference(still, job.run()).text == "");
}

constexpr int kMeetingMs = 3000;  // of the GPUs of a stage, simulated

// A job on two GPUs whose meetings are slow.
class SlowMeetings {
 public:
  explicit SlowMeetings(const std::string& spec = mlp_job()) : spec_(folder_.write("job.toml", spec)) {}

  Job& job() { return job_; }

  // Returns how many workers have begun to meet others, over all stages.
  int64_t begun() const {
    const std::string lines = read_file(file_);
    return std::ranges::count(lines, '\n');
  }
  // Ends the job. Its bits must be the CPU's. The stop may come while GPUs repeat steps because of a later step that is
  // not finite, so the rest of the recorded steps, and one more, are trained on the CPU.
  void check_bits() {
    job_.reach(job_.step() + 2);
    REQUIRE(job_.stop().code == 0);
    job_.launcher().wait();
    const int64_t last = last_step(job_.run()) + 1;
    const Words more = with(kMixedD2, {"--set", "train.steps=" + std::to_string(last)});
    REQUIRE(estrain(with({"train", "--resume", "--run", job_.run(), "--devices", "cpu"}, more)).code == 0);
    CHECK(difference(train_in_another_order(folder_, spec_, "cpu", with(more, never_)), job_.run()).text == "");
    CHECK(metric_steps(job_.run()) == first_steps(last));
  }

 private:
  const ScratchFolder folder_;
  const std::string file_ = folder_.write("meetings", "");
  const std::string spec_;
  const Words never_ = {"--set", "train.eval_every=\"never\""};
  const Setting slow_{"ESTRAIN_SIMULATED_MEETING", fmt::format("{} {}", kMeetingMs, file_)};
  Job job_{spec_, folder_ / "changed",
           with({"--devices", "cuda:0,cuda:1", "--set", "train.steps=1000000"}, with(kMixedD2, never_))};
};

TEST_CASE("the GPUs of the next stage meet while this stage trains: a change does not stand still for it") {
  in_time("a change of GPUs that meet slowly", [](Timed& timed) {
    SlowMeetings slow;
    slow.job().reach(2);
    for (const char* devices : {"cuda:0,cuda:1,cuda:2", "cuda:1,cuda:2"}) {
      CAPTURE(devices);
      const int64_t before = slow.job().step();
      const Ended ended = slow.job().resize(devices);
      INFO(ended.shown());
      REQUIRE(ended.code == 0);
      CHECK(slow.job().step() > before + 2);
      const double stood_still = events(slow.job().run(), "resize").back().at("stood_still_seconds");
      timed.check(1e3 * stood_still < kMeetingMs / 2.0, fmt::format("the job stood still for {:.3f} s", stood_still));
    }
    CHECK(slow.begun() == 2 + 3 + 2);  // once for each stage
    slow.check_bits();
  });
}

TEST_CASE("a worker is lost while GPUs meet for a change: the job goes on, and changes later") {
  for (const bool new_one : {false, true}) {
    if (new_one && !is_at_length()) continue;
    CAPTURE(new_one);
    SlowMeetings slow;
    slow.job().reach(2);
    const std::vector<pid_t> old = slow.job().workers();
    Command change({"resize", slow.job().run(), "--devices", "cuda:0,cuda:1,cuda:2"});
    wait_until("all meet for the change", [&] { return slow.begun() == 2 + 3; });
    pid_t lost = old.at(1);
    for (const ProcessInfo& child : slow.job().children()) {
      if (new_one && child.is("worker") && std::ranges::find(old, child.pid) == old.end()) lost = child.pid;
    }
    CHECK((lost != old.at(1)) == new_one);
    REQUIRE(::kill(lost, SIGKILL) == 0);
    CHECK(change.wait().code == (new_one ? 1 : 0));  // a lost worker of the stage is replaced as part of the change
    REQUIRE(slow.job().resize("cuda:1,cuda:2").code == 0);
    slow.check_bits();
  }
}

// Every 24 steps the rate is beyond a float, and the update is left out.
std::string job_with_leaps() {
  std::string points = "0", factors = "1";
  for (int step = 23; step < 48'000; step += 24) {
    points += fmt::format(", {}, {}", step, step + 1);
    factors += ", 1e41, 1";
  }
  std::string text = mlp_job();
  const size_t schedule = text.find("[schedule]"), next = text.find("\n[", schedule);
  text.replace(
      schedule, next == text.npos ? text.npos : next + 1 - schedule,
      fmt::format("[schedule]\nname = \"table\"\nunit = \"step\"\npoints = [{}]\nfactors = [{}]\n", points, factors));
  return text + "nonfinite = \"skip\"\n";
}

TEST_CASE("steps that are not finite, before and behind a change of GPUs that have met for it, cost no worker") {
  SlowMeetings slow(job_with_leaps());
  slow.job().reach(30);
  for (const char* devices : {"cuda:0,cuda:1,cuda:2", "cuda:1,cuda:2", "cuda:0,cuda:1,cuda:2"}) {
    CAPTURE(devices);
    REQUIRE(slow.job().resize(devices).code == 0);
    slow.job().reach(slow.job().step() + 50);
  }
  CHECK(events(slow.job().run(), "skipped").size() > 3);
  CHECK(events(slow.job().run(), "device_lost").empty());
  CHECK(slow.job().workers().size() == 3);
  slow.check_bits();
}

void lose_a_worker(const std::string& devices, Timed& timed) {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  const Words never = {"--set", "train.eval_every=\"never\""};
  Job job(spec, folder / "lost", with({"--devices", devices, "--set", "train.steps=1000000"}, with(kMixedD2, never)));
  job.reach(200);
  const int64_t before = job.step();
  // Stop it first, so that the others wait for it, most likely in a transfer.
  const pid_t lost = job.workers().at(0);
  ::kill(lost, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ::kill(lost, SIGKILL);
  job.reach(before + 50);
  REQUIRE(job.stop().code == 0);
  job.launcher().wait();
  const std::vector<Json> recovered = events(job.run(), "recovered");
  REQUIRE(recovered.size() == 1);
  timed.check(recovered[0].at("committed_steps_redone") > 0, "a worker stopped between two saves of its state");
  CHECK(events(job.run(), "faults").at(0).at("faults").size() == 1);  // no other worker was lost
  const int64_t last = last_step(job.run());
  CHECK(metric_steps(job.run()) == first_steps(last));
  const std::string steps = "train.steps=" + std::to_string(last);
  const std::string whole = train_in_another_order(folder, spec, "cpu", with(kMixedD2, with(never, {"--set", steps})));
  CHECK(difference(whole, job.run()).text == "");
}

void check_loss_of_a_worker(const std::string& devices) {
  in_time("a GPU's lost worker", [&](Timed& timed) { lose_a_worker(devices, timed); });
}

TEST_CASE("a GPU's worker is lost, with the steps that only its memory held: they are done again") {
  check_loss_of_a_worker("cuda:0");
}
TEST_CASE("one of two GPUs' workers is lost: the other does not wait for it") {
  check_loss_of_a_worker("cuda:0,cuda:1");
}

TEST_CASE("the launcher is killed while the state is a GPU's: the run continues from the last that was saved") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  const Words never = {"--set", "train.eval_every=\"never\""};
  {
    Job job(spec, folder / "cut",
            with({"--devices", "cuda:0,cuda:1", "--set", "train.steps=1000000"}, with(kMixedD2, never)));
    job.reach(100);
    job.launcher().kill();
  }
  const int64_t saved = checkpoint_steps(folder / "cut").back();
  const std::string steps = "train.steps=" + std::to_string(saved + 20);
  const Ended resumed = estrain({"train", "--resume", "--run", folder / "cut", "--devices", "cuda:0", "--set", steps});
  INFO(resumed.shown());
  REQUIRE(resumed.code == 0);
  const std::string whole = train_in_another_order(folder, spec, "cpu", with(kMixedD2, with(never, {"--set", steps})));
  CHECK(difference(whole, folder / "cut").text == "");
}

TEST_SUITE_END();

}  // namespace
}  // namespace estrain::testing
