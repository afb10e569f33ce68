// model.name = "python" on simulated GPUs (tests/simulated_gpu): users' modules in their own Python, of scripts/setup
// --peers, whose torch computes on the GPUs.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "core/base/files/files.h"
#include "job.h"
#include "run_files.h"
#include "setting.h"

namespace estrain::testing {
namespace {

namespace fs = std::filesystem;

const Words kOnAllAtD2 = {"--set", "job.determinism=D2", "--allow-mixed"};
const Words kEndless = {"--set", "train.steps=1000000", "--set", "train.eval_every=never"};

// The backward pass of Twice is Python. The module has a tied weight, a buffer with two names, and a buffer outside the
// state that is written in the first mini-batch; the module draws from the streams of torch, Python and numpy.
std::string net_of(const std::string& forward = "pass", const std::string& backward = "pass",
                   const std::string& build = "return Net()") {
  return fmt::format(R"(import os, random, threading, time
import numpy, torch
asked, answered = threading.Event(), threading.Event()
def answer():
    while True:
        asked.wait()
        asked.clear()
        answered.set()
threading.Thread(target=answer, daemon=True).start()
def ask():
    answered.clear()
    asked.set()
    assert answered.wait(60)
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x * 2
    @staticmethod
    def backward(context, gradient):
        {}
        return gradient * 2
class Part(torch.nn.Module):
    def __init__(self, weight, seen):
        super().__init__()
        self.weight = weight
        self.register_buffer("seen", seen)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(24, 24)
        seen = torch.zeros(24)
        self.a, self.b = Part(self.first.weight, seen), Part(torch.nn.Parameter(torch.ones(24)), seen)
        self.register_buffer("written", torch.zeros(()), persistent=False)
        self.register_buffer("scale", torch.full((24,), 0.5), persistent=False)
        self.dropout, self.calls = torch.nn.Dropout(0.25), 0
        self.kept = torch.ones(24)
    def forward(self, x):
        self.calls += 1
        {}
        if self.training:
            noise = numpy.random.standard_normal(24).astype("float32")
            x = x * (1 + random.random()) + torch.from_numpy(noise).to(x.device)
        x = self.dropout(Twice.apply(self.first(x))) @ self.a.weight * self.b.weight * self.scale
        if self.training:
            self.b.seen += x.detach()[0]
            self.written += 1
        return ((x + self.a.seen * 0.01) ** 2).mean() + 0 * self.written
def build():
    {}
)",
                     backward, forward, build);
}

// A module with these members, and this body of forward(self, x).
std::string plain_net(const std::string& members, const std::string& forward) {
  return fmt::format(R"(import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        {}
    def forward(self, x):
        {}
def build():
    return Net()
)",
                     members, forward);
}

struct PythonOnGpus {
  ScratchFolder folder;

  std::string spec_of(const std::string& net, const std::string& python = ESTRAIN_PEERS_PYTHON) const {
    return folder.write(
        "job.toml",
        "job = { name = \"python\", seed = 21, ests = 4 }\n[model]\nname = \"python\"\nfile = \"" +
            folder.write("net.py", net) + ":build\"\npython = \"" + python +
            "\"\n[data]\nformat = \"synthetic\"\nshape = [24]\nsamples = 96\nbatch = 4\n[optimizer]\nname = "
            "\"adamw\"\nlr = 0.001\n[train]\nsteps = 6\neval_every = 3\n");
  }
  std::string on(const std::string& devices, const Words& more = {}, const std::string& net = net_of()) const {
    return train_on(folder, spec_of(net), devices, more);
  }
  Ended refused(const std::string& net, const std::string& python = ESTRAIN_PEERS_PYTHON) const {
    fs::remove_all(folder / "refused");
    Ended ended = estrain({"train", spec_of(net, python), "--run", folder / "refused", "--devices", "cuda:0"});
    INFO(ended.shown());
    CHECK(ended.code != 0);
    return ended;
  }
};

TEST_CASE("a build without CUDA says so" * doctest::skip(has_simulated_gpus())) {
  fmt::print("skipped: this build has no simulated GPUs\n");
}

TEST_CASE("without a Python that has torch nothing is tried" * doctest::skip(fs::exists(ESTRAIN_PEERS_PYTHON))) {
  fmt::print("skipped: no Python with torch\n");
}

TEST_SUITE_BEGIN("simulated GPU" * doctest::skip(!has_simulated_gpus() || !fs::exists(ESTRAIN_PEERS_PYTHON)));

TEST_CASE("at D1 a module in Python has no trace of the number of GPUs, nor of where the sums are made") {
  const PythonOnGpus python;
  const std::string one = python.on("cuda:0");
  CHECK(metric_steps(one) == first_steps(6));
  CHECK(difference(one, python.on("cuda:0,cuda:1")).text == "");
  CHECK(difference(one, python.on("cuda:1=3,cuda:0=1", {"--set", "job.exchange=host"})).text == "");
}

TEST_CASE("at D2 a module in Python has the CPU's bits on GPUs, from the first values on") {
  const PythonOnGpus python;
  const std::string on_cpu = python.on("cpu", kOnAllAtD2);
  for (const char* devices : {"cuda:0", "cuda:0,cuda:1", "cuda:0,cpu"}) {
    CAPTURE(devices);
    CHECK(difference(on_cpu, python.on(devices, kOnAllAtD2)).text == "");
  }
}

// An absent gradient adds +0, which makes +0 of -0: in a worker's own sums, and in sums of workers. With momentum the
// sign is in the state.
TEST_CASE("zeros of a parameter that some ESTs do not reach have the same sign on any number of GPUs") {
  const PythonOnGpus python;
  const std::string net =
      plain_net("self.often, self.rare = torch.nn.Linear(24, 4), torch.nn.Parameter(torch.ones(8))",
                "return (self.often(x) ** 2).mean() + ((self.rare * -0.0).sum() if float(x[0, 0]) > 0 else 0)");
  const Words momentum = {"--set", "optimizer.name=sgd", "--set", "optimizer.momentum=0.9"};
  const std::string one = python.on("cuda:0", momentum, net);
  for (const char* devices : {"cuda:0,cuda:1", "cuda:0,cuda:1,cuda:2,cuda:3"}) {
    CAPTURE(devices);
    CHECK(difference(one, python.on(devices, momentum, net)).text == "");
  }
}

// Trains at D1 on GPUs, disturbed; the bits are those of one GPU, undisturbed.
TEST_CASE("a module in Python goes on over resizes of GPUs, a killed worker, a stop and a resume") {
  const PythonOnGpus python;
  check_disturbed_job(python.folder, python.spec_of(net_of()), {"cuda:0,cuda:1", "cuda:1", "cuda:0=1,cuda:1=3"},
                      {.first = "cuda:0", .resumed = "cuda:1", .steps = 2});
}

// cuDNN would give the weights memory of their own.
TEST_CASE("flatten_parameters() of a recurrent layer leaves the weights in the state") {
  const PythonOnGpus python;
  const std::string net =
      plain_net("self.lstm = torch.nn.LSTM(4, 6, batch_first=True)",
                "self.lstm.flatten_parameters(); return (self.lstm(x.view(-1, 6, 4))[0] ** 2).mean()");
  CHECK(difference(python.on("cuda:0", {}, net), python.on("cuda:0,cuda:1", {}, net)).text == "");
  CHECK(difference(python.on("cpu", kOnAllAtD2, net), python.on("cuda:0", kOnAllAtD2, net)).text == "");
}

TEST_CASE("a pass of a module in Python is never replayed: its Python code runs for each mini-batch") {
  const PythonOnGpus python;
  // Without values on the host, so that CUDA could capture the pass.
  const std::string net =
      ("import random, torch\n"
       "class Net(torch.nn.Module):\n"
       "    def __init__(self):\n"
       "        super().__init__()\n"
       "        self.first = torch.nn.Linear(24, 24)\n"
       "    def forward(self, x):\n"
       "        return (self.first(x * random.random()) ** 2).mean()\n"
       "def build():\n"
       "    return Net()\n");
  const std::string run = python.on("cuda:0", {}, net);
  CHECK(difference(run, python.on("cuda:0", {"--set", "job.cuda_graphs=auto"}, net)).text == "");
}

// The other thread needs the interpreter's lock to answer: on a GPU backward runs on a thread of autograd's.
TEST_CASE("other threads of the user's Python run while forward and backward do") {
  const PythonOnGpus python;
  CHECK(difference(python.on("cuda:0,cuda:1", {}, net_of("ask()", "ask()")), python.on("cuda:0")).text == "");
}

TEST_CASE("other threads of the user's Python run while the worker waits for another GPU") {
  const PythonOnGpus python;
  const std::string ticks = python.folder / "ticks.";
  const std::string net = net_of("pass", "pass",
                                 "def tick():\n"
                                 "        with open('" +
                                     ticks +
                                     "' + str(os.getpid()), 'w') as file:\n"
                                     "            while file.write('.') and not file.flush(): time.sleep(0.01)\n"
                                     "    threading.Thread(target=tick, daemon=True).start()\n"
                                     "    return Net()");
  Job job(python.spec_of(net), python.folder / "run", with({"--devices", "cuda:0,cuda:1"}, kEndless));
  job.reach(3);
  const std::vector<pid_t> workers = job.workers();
  const std::string file = ticks + std::to_string(workers.at(0));
  ::kill(workers.at(1), SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // by now the first worker waits
  const uintmax_t before = fs::file_size(file);
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  CHECK(fs::file_size(file) > before);
  ::kill(workers.at(1), SIGCONT);
  CHECK(job.stop().code == 0);
}

// tests/core/engine/cuda/kept_settings_test.cpp has all settings.
TEST_CASE("a setting that forward or backward leaves changed ends the run by its name") {
  const PythonOnGpus python;
  const auto says = [&](const std::string& net, const std::string& name) {
    const Ended ended = python.refused(net);
    INFO(ended.shown());
    CHECK(ended.says(fmt::format("forward or backward of the model's Python code left {} changed", name)));
    CHECK(events(python.folder / "refused", "failed").at(0).at("cause") == "user_code");
  };
  says(net_of("torch.use_deterministic_algorithms(False)"), "torch.use_deterministic_algorithms");
  says(net_of("torch.cuda.set_stream(torch.cuda.Stream())"), "torch.cuda.set_stream");
  says(net_of("pass", "torch.backends.cudnn.benchmark = True"), "torch.backends.cudnn.benchmark");
  says(net_of("if not self.training: torch.set_float32_matmul_precision('high')"),
       "torch.backends.cuda.matmul.allow_tf32");
}

TEST_CASE("at D2 a backward pass that later calls an operator without a portable kernel ends the run") {
  const PythonOnGpus python;
  const std::string net = net_of("pass",
                                 "random.seen = getattr(random, 'seen', 0) + 1\n"
                                 "        if random.seen > 12: torch.linalg.inv(torch.eye(3))");
  const Ended ended =
      estrain(with({"train", python.spec_of(net), "--run", python.folder / "run", "--devices", "cuda:0"}, kOnAllAtD2));
  INFO(ended.shown());
  CHECK(ended.code == 2);
  CHECK(ended.says("the model's Python code called aten::linalg_inv_ex, which has no portable kernel"));
}

TEST_CASE("a setting that the user's file or function makes is not applied, and is told") {
  const PythonOnGpus python;
  const std::string net = net_of("pass", "pass",
                                 "torch.backends.cudnn.benchmark = torch.backends.cuda.matmul.allow_tf32 = True\n"
                                 "    torch.use_deterministic_algorithms(False)\n"
                                 "    torch.cuda.set_stream(torch.cuda.Stream()); torch.cuda.set_device(3)\n"
                                 "    return Net()");
  CHECK(difference(python.on("cuda:0"), python.on("cuda:0", {}, net)).text == "");
  const Ended told =
      estrain({"train", python.spec_of(net), "--run", python.folder / "told", "--devices", "cuda:0,cuda:1"});
  INFO(told.shown());
  for (const char* name : {"torch.use_deterministic_algorithms", "torch.backends.cudnn.benchmark",
                           "torch.backends.cuda.matmul.allow_tf32", "torch.cuda.set_device", "torch.cuda.set_stream"})
    CHECK(told.says(std::string(name) + " of the model's Python code is not applied"));
}

TEST_CASE("code that is tied to a device is refused with its line, once") {
  const PythonOnGpus python;
  const Ended built = python.refused(net_of("pass", "pass", "return Net().to('cuda:0')"));
  CHECK(built.says("parameter first.weight is on cuda:0, but must be on the CPU"));
  const Ended kept = python.refused(net_of("x = x + self.kept"));
  INFO(kept.shown());
  CHECK(kept.says("Expected all tensors to be on the same device"));
  CHECK(kept.says("x = x + self.kept"));
  CHECK(events(python.folder / "refused", "failed").at(0).at("cause") == "user_code");
}

TEST_CASE("a Python whose libtorch_cuda.so is another build is refused") {
  const PythonOnGpus python;
  fs::create_symlink(ESTRAIN_REFUSES_MKL, python.folder / "libtorch_cuda.so");
  const std::string other =
      python.folder.write("python", "#!/bin/sh\nLD_PRELOAD=" + (python.folder / "libtorch_cuda.so") +
                                        ":$LD_PRELOAD exec " + ESTRAIN_PEERS_PYTHON + " \"$@\"\n");
  fs::permissions(other, fs::perms::owner_all);
  CHECK(python.refused(net_of(), other).says("this Python's libtorch_cuda.so is another build (build id "));
}

TEST_CASE("check tries a module in Python on the GPU, and foretells the GPU's memory") {
  const PythonOnGpus python;
  const std::string net =
      "import torch\n"
      "class Net(torch.nn.Module):\n"
      "    def __init__(self):\n"
      "        super().__init__()\n"
      "        self.first = torch.nn.Linear(24, 24)\n"
      "    def forward(self, x):\n"
      "        x = self.first(x).view(-1, 4, 6)\n"
      "        return (x @ x.transpose(1, 2)).sum()\n"
      "def build():\n"
      "    torch.backends.cudnn.benchmark = True\n"
      "    return Net()\n";
  for (const char* precision : {"fp32", "bf16"}) {
    const Ended check = estrain({"check", python.spec_of(net), "--run", python.folder / "run", "--devices", "cuda:0",
                                 "--set", std::string("job.precision=") + precision});
    INFO(check.shown());
    CHECK(check.code == 0);
    CHECK(check.says("GPU memory     ok"));
    CHECK(check.says("torch.backends.cudnn.benchmark of the model's Python code is not applied"));
  }
  const Ended on_cpu = estrain(
      {"check", python.spec_of(net_of()), "--run", python.folder / "run", "--devices", "cpu", "--gpu-memory", "80"});
  INFO(on_cpu.shown());
  CHECK(on_cpu.code == 0);
  CHECK(on_cpu.says("the fewest that hold the job need "));
}

TEST_SUITE_END();

}  // namespace
}  // namespace estrain::testing
