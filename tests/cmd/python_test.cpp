// model.name = "python": users' modules in their own Python, of scripts/setup --peers. The bits are those of Python's
// DistributedDataParallel and do not depend on the placement; the module is examples/python/net.py, which draws from
// torch's, Python's and numpy's random streams. Errors in the user's code are told with its traceback.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "core/base/files/files.h"
#include "in_time.h"
#include "job.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

namespace fs = std::filesystem;

bool is_here() { return fs::exists(ESTRAIN_PEERS_PYTHON); }

// Code that does `what` in its forward, or in its function.
std::string code(const std::string& what, const std::string& build = "return Net()") {
  return "import torch\n"
         "class Net(torch.nn.Module):\n"
         "    def __init__(self):\n"
         "        super().__init__()\n"
         "        self.fc = torch.nn.Linear(784, 4)\n"
         "        self.calls = 0\n"
         "    def forward(self, images, labels):\n"
         "        self.calls += 1\n"
         "        " +
         what +
         "\n"
         "        return torch.nn.functional.cross_entropy(self.fc(images.flatten(1)), labels)\n"
         "def build():\n"
         "    " +
         build + "\n";
}

struct PythonFiles {
  ScratchFolder folder;
  std::string net = std::string(ESTRAIN_SOURCE_DIR) + "/examples/python/net.py:build";
  std::string data = "format = \"idx\"\n" + images("train") + images("test_");

  // 60 grey images of four classes, written as idx files.
  std::string images(const std::string& name) {
    std::string pixels("\0\0\x08\x03\0\0\0\x3c\0\0\0\x1c\0\0\0\x1c", 16), labels("\0\0\x08\x01\0\0\0\x3c", 8);
    for (int i = 0; i < 60; ++i) {
      labels.push_back(static_cast<char>(i % 4));
      for (int p = 0; p < 28 * 28; ++p) pixels.push_back(static_cast<char>((p * (i % 4 + 3) + 31 * i) % 251));
    }
    const std::string key = name == "train" ? "" : name;
    return key + "images = \"" + folder.write(name + ".images", pixels) + "\"\n" + key + "labels = \"" +
           folder.write(name + ".labels", labels) + "\"\n";
  }

  std::string spec(const std::string& file, const std::string& python = ESTRAIN_PEERS_PYTHON) {
    return folder.write("job.toml",
                        "job = { name = \"python\", seed = 21, ests = 4 }\n[model]\nname = \"python\"\n"
                        "file = \"" +
                            file + "\"\npython = \"" + python + "\"\n[data]\n" + data +
                            "batch = 4\n[optimizer]\nname = \"adamw\"\nlr = 0.01\n[train]\nsteps = 8\n"
                            "eval_every = 4\neval_batch = 7\n");
  }
};

// Fails with the error and leaves nothing behind.
Ended refused(const PythonFiles& files, const std::string& spec, int code) {
  const Ended ended = estrain({"train", spec, "--run", files.folder / "refused"});
  INFO(ended.shown());
  CHECK(ended.code == code);
  CHECK(!fs::exists(files.folder / "refused/checkpoints/latest"));
  fs::remove_all(files.folder / "refused");
  return ended;
}

TEST_CASE("a module in Python trains as under DDP, without a trace of the placement" * doctest::skip(!is_here())) {
  PythonFiles files;
  const std::string spec = files.spec(files.net);
  const std::string alone = train_on(files.folder, spec, "1");
  CHECK(metric_steps(alone) == first_steps(8));
  for (const std::string devices : {"2", "cpu=1,cpu=3"}) {
    CAPTURE(devices);
    CHECK(difference(alone, train_on(files.folder, spec, devices)).text == "");
  }
  const std::string compare =
      fmt::format("{} {}/scripts/peers/ddp_bits.py --run {}", ESTRAIN_PEERS_PYTHON, ESTRAIN_SOURCE_DIR, alone);
  CHECK(std::system(compare.c_str()) == 0);
}

TEST_CASE("it goes on over a resize, a killed worker, a stop and a resume" * doctest::skip(!is_here())) {
  PythonFiles files;
  check_disturbed_job(files.folder, files.spec(files.net), {"cpu=1,cpu=3"});
}

// A module whose file notes, when it is imported, in which process that is, with how many threads, and the next numbers
// of random streams that nobody has seeded; and starts a thread.
std::string noting_module(const PythonFiles& files, const std::string& notes) {
  return files.folder.write("noting.py",
                            "import os, random, numpy, threading\n"
                            "threads = len(os.listdir('/proc/self/task'))\n"
                            "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
                            "with open('" +
                                notes +
                                "', 'a') as file:\n"
                                "    print(os.getpid(), threads, random.random(), numpy.random.random(), file=file)\n" +
                                code("pass"));
}

bool are_copies(const Job& job) {
  const std::vector<ProcessInfo> children = job.children();
  return std::ranges::all_of(children, [](const ProcessInfo& child) {  // a copy shows the words of its program
    return !child.is("worker") || child.arguments[0].find("python") == std::string::npos;
  });
}

void check_copies(Timed& timed) {
  PythonFiles files;
  const std::string notes = files.folder / "notes";
  Job job(files.spec(noting_module(files, notes) + ":build"), files.folder / "run",
          {"--devices", "2", "--set", "train.steps=1000000", "--set", "train.eval_every=never"});
  job.reach(3);
  ::kill(job.workers().at(0), SIGKILL);
  job.reach(job.step() + 20);
  timed.check(are_copies(job) && job.fork_servers().size() == 1, "a fork server answers within a second");
  REQUIRE(job.stop().code == 0);
  CHECK(job.launcher().wait().code == 75);
  std::ifstream lines(notes);
  std::set<std::string> processes, drawn;
  int64_t imports = 0;
  for (std::string process, threads, one, other; lines >> process >> threads >> one >> other; ++imports) {
    CHECK(threads == "1");
    processes.insert(process);
    drawn.insert({one, other});
  }
  CHECK(imports == 3);
  CHECK(processes.size() == 3);
  CHECK(drawn.size() == 6);  // as where each process begins by itself
}

TEST_CASE("workers are copies of a Python that has imported torch, and import the user's file themselves" *
          doctest::skip(!is_here())) {
  in_time("copies of a user's Python", check_copies);
}

TEST_CASE("a resume continues from the checkpoint" * doctest::skip(!is_here())) {
  PythonFiles files;
  const std::string run = train_on(files.folder, files.spec(files.net), "1");
  const Ended resumed = estrain({"train", "--resume", "--run", run, "--set", "train.steps=12"});
  INFO(resumed.shown());
  CHECK(resumed.code == 0);
  CHECK(resumed.says("4 of 12 steps to go"));
}

// JSON tells the run's paths to the Python, and JSON's texts are UTF-8.
TEST_CASE("in a run whose path is not UTF-8, module and metrics work as elsewhere, after a resume too" *
          doctest::skip(!is_here())) {
  PythonFiles files;
  const std::string spec = files.spec(files.net), runs = files.folder / "runs", run = runs + "/latin1 \xe9\xff";
  const std::string score = files.folder.write("score.py",
                                               "def score(outputs):\n"
                                               "    return {'rows': len(next(iter(outputs.values())))}\n");
  fs::create_directory(runs);
  const Words metrics = {"--set", "train.metrics_file=" + score + ":score", "--set", "train.metrics_names=[\"rows\"]"};
  const Ended trained =
      estrain(with({"train", spec, "--run", run, "--devices", "2", "--set", "logging.trace=[3, 4]"}, metrics));
  INFO(trained.shown());
  REQUIRE(trained.code == 0);
  CHECK(trained.says("rows 60"));
  const Ended resumed = estrain({"train", "--resume", "--run", run, "--set", "train.steps=12"});
  INFO(resumed.shown());
  CHECK(resumed.code == 0);
  CHECK(metric_steps(run) == first_steps(12));
  CHECK(std::distance(fs::directory_iterator(runs), fs::directory_iterator()) == 1);
}

TEST_CASE("at D2 it has the same bits on every kind of CPU; what has no portable kernel is refused when it is called" *
          doctest::skip(!is_here())) {
  PythonFiles files;
  const Words d2 = {"--set", "job.determinism=D2"};
  const std::string spec = files.spec(files.net);
  const std::string alone = train_on(files.folder, spec, "1", d2);
  CHECK(difference(alone, train_on(files.folder, spec, "cpu:avx2,cpu:sse", d2)).text == "");
  const std::string inverse = "torch.linalg.inv(torch.eye(3) + images.mean())";
  const std::string first = files.folder.write("first.py", code(inverse)) + ":build";
  const Ended refused = estrain(with({"train", files.spec(first), "--run", files.folder / "first"}, d2));
  INFO(refused.shown());
  CHECK(refused.code == 2);
  CHECK(refused.says("D2 cannot be had with this model: no portable kernel for aten::linalg_inv_ex"));
  const std::string later = files.folder.write("later.py", code("if self.calls > 30: " + inverse)) + ":build";
  const Ended stopped = estrain(with({"train", files.spec(later), "--run", files.folder / "later"}, d2));
  INFO(stopped.shown());
  CHECK(stopped.code == 2);
  CHECK(stopped.says("the model's Python code called aten::linalg_inv_ex, which has no portable kernel"));
  CHECK(!metric_steps(files.folder / "later").empty());
}

TEST_CASE("what the portable kernels refuse is a row of the table, and auto takes D1" * doctest::skip(!is_here())) {
  PythonFiles files;
  const std::string volumes = "torch.nn.functional.conv3d(images.reshape(-1, 1, 4, 14, 14), torch.ones(2, 1, 2, 2, 2))";
  const std::string drawn = "torch.distributions.Beta(self.fc.bias.exp(), torch.ones(4)).rsample()";
  const std::string halves =
      "torch.autocast('cpu', torch.bfloat16)(torch.nn.functional.conv2d)(images.reshape(-1, 1, 28, 28), "
      "torch.ones(2, 1, 3, 3))";
  const std::string file = files.folder.write("net.py", code(volumes + "; " + drawn + "; " + halves)) + ":build";
  const Ended check = estrain({"check", files.spec(file), "--run", files.folder / "run", "--operators"});
  INFO(check.shown());
  CHECK(check.code == 0);
  CHECK(check.says("aten::convolution on BFloat16"));
  CHECK(check.says("aten::_sample_dirichlet"));
  CHECK(check.says("\"auto\" would be D1: no portable kernel for"));
  const Ended trained =
      estrain({"train", files.spec(file), "--run", files.folder / "auto", "--set", "job.determinism=auto"});
  INFO(trained.shown());
  CHECK(trained.code == 0);
  CHECK(trained.says("\"auto\" is D1"));
}

TEST_CASE("check judges GPUs without a GPU" * doctest::skip(!is_here())) {
  PythonFiles files;
  const auto checked = [&](const std::string& line, const Words& more = {}) {
    const std::string net = files.folder.write("net.py", code(line)) + ":build";
    return estrain(with({"check", files.spec(net), "--run", files.folder / "run", "--operators"}, more));
  };
  const Ended fine =
      checked("images = images + torch.nn.functional.pad(self.fc.weight[None], (0, 1), 'replicate').sum()");
  INFO(fine.shown());
  CHECK(fine.code == 0);
  CHECK(fine.says("composed"));
  CHECK_FALSE(fine.says("below D2 a GPU fails"));
  // Composed for float32 alone.
  const Ended warned = checked(
      "images = images + torch.nn.functional.ctc_loss(self.fc.weight.double()[:, None, :4].log_softmax(2), "
      "torch.tensor([[1, 2]]), [4], [2]).float()");
  INFO(warned.shown());
  CHECK(warned.code == 0);
  CHECK(
      warned.says("warning  below D2 a GPU fails: LibTorch has no deterministic kernel for aten::_ctc_loss_backward"));
}

TEST_CASE("at D2 what build() computes without a portable kernel is the state's first value" *
          doctest::skip(!is_here())) {
  PythonFiles files;
  const Words d2 = {"--set", "job.determinism=D2"};
  const std::string begins =
      "net = Net(); torch.nn.init.orthogonal_(net.fc.weight); torch.nn.init.trunc_normal_(net.fc.bias)\n"
      "    schedule = torch.linspace(0.5, 1, 9, dtype=torch.float64).cumprod(0)\n    ";
  const std::string kept = files.folder.write(
      "kept.py", code("images = images * float(self.schedule[3])",
                      begins + "net.register_buffer('schedule', schedule, persistent=False)\n    return net"));
  const std::string spec = files.spec(kept + ":build");
  const std::string alone = train_on(files.folder, spec, "cpu:sse", d2);
  CHECK(difference(alone, train_on(files.folder, spec, "cpu:sse,cpu:avx2", d2)).text == "");
  const std::string outside = files.folder.write(
      "outside.py",
      code("images = images * float(self.schedule[3])", begins + "net.schedule = schedule\n    return net"));
  const std::string second = files.spec(outside + ":build");
  const Ended refused = estrain(with({"train", second, "--run", files.folder / "outside"}, d2));
  INFO(refused.shown());
  CHECK(refused.code == 2);
  CHECK(refused.says("in the module's function, for (schedule)"));
  const Ended automatic = estrain({"train", second, "--run", files.folder / "auto", "--set", "job.determinism=auto"});
  INFO(automatic.shown());
  CHECK(automatic.code == 0);
  CHECK(automatic.says("\"auto\" is D1"));
}

TEST_CASE("check tells the operators with module and line of the user's code" * doctest::skip(!is_here())) {
  PythonFiles files;
  fs::create_directory(files.folder / "parts");
  files.folder.write("parts/own.py", "def halve(x):\n    return x / 2\n");
  const std::string net = files.folder.write("net.py", code("import parts.own; images = parts.own.halve(images)"));
  const Ended check = estrain({"check", files.spec(net + ":build"), "--run", files.folder / "run", "--operators"});
  INFO(check.shown());
  CHECK(check.code == 0);
  const auto line_of = [&](const std::string& name) {
    const size_t at = check.text.find(name + " ");
    return at == std::string::npos ? "" : check.text.substr(at, check.text.find('\n', at) - at);
  };
  CHECK(line_of("aten::linear").ends_with("fc (net.py:10)"));
  CHECK(line_of("aten::div.Tensor").ends_with("parts/own.py:2"));
  CHECK(line_of("aten::_log_softmax").ends_with("  net.py:10"));
}

TEST_CASE("check names a SyncBatchNorm, and calls that would gather over ranks" * doctest::skip(!is_here())) {
  PythonFiles files;
  const std::string net =
      files.folder.write("net.py", code("if torch.distributed.is_initialized(): torch.distributed.all_reduce(images)",
                                        "net = Net(); net.norm = torch.nn.SyncBatchNorm(4); return net"));
  const Ended check = estrain({"check", files.spec(net + ":build"), "--run", files.folder / "run", "--operators"});
  INFO(check.shown());
  CHECK(check.code == 0);
  CHECK(check.says("warning  norm is a SyncBatchNorm: each EST takes the statistics of its own mini-batch"));
  CHECK(check.says("warning  net.py:9 calls is_initialized of torch.distributed: each EST computes alone"));
  const Ended other = estrain(
      {"check", files.spec(files.folder.write("net.py", code("pass")) + ":build"), "--run", files.folder / "b"});
  INFO(other.shown());
  CHECK_FALSE(other.says("warning  norm"));
  CHECK_FALSE(other.says("torch.distributed"));
}

TEST_CASE("plan --burst times a module as one block, and says why" * doctest::skip(!is_here())) {
  PythonFiles files;
  const Ended ended = estrain({"plan", "--burst", files.spec(files.net), "--seconds", "0.01", "--json"});
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  const Json plan = parse_json(ended.text.substr(ended.text.find('{')), "plan");
  const Json& job = plan.at("job");
  REQUIRE(job.at("blocks").size() == 1);
  CHECK(job.at("blocks")[0].at("block") == "the whole module");
  CHECK(job.at("blocks")[0].at("forward_seconds").get<double>() > 0);
  CHECK(job.at("blocks")[0].at("parameter_bytes").get<int64_t>() > 0);
  REQUIRE(job.at("notes").size() == 1);
  CHECK(job.at("notes")[0].get<std::string>().find("estrain export") != std::string::npos);
  CHECK(plan.at("no_gain") == "the network is a single block");
}

TEST_CASE("what the code raises ends the run with its traceback, and with what was reached" *
          doctest::skip(!is_here())) {
  PythonFiles files;
  const std::string net = files.folder.write("net.py", code("if self.calls > 30: labels.no_such()"));
  const Ended ended = estrain({"train", files.spec(net + ":build"), "--run", files.folder / "run"});
  INFO(ended.shown());
  CHECK(ended.code == 1);
  CHECK(ended.says("the model's Python code raised AttributeError: 'Tensor' object has no attribute 'no_such'"));
  CHECK(ended.says("net.py\", line 9, in forward"));
  CHECK(ended.says("if self.calls > 30: labels.no_such()"));
  CHECK(!ended.says("/proc/self/fd"));
  const std::vector<Json> failed = events(files.folder / "run", "failed");
  REQUIRE(failed.size() == 1);
  CHECK(failed[0].at("cause") == "user_code");
  CHECK(failed[0].at("class") == "user");
  CHECK(failed[0].at("what").get<std::string>().find("Traceback") != std::string::npos);
  CHECK(!metric_steps(files.folder / "run").empty());
  CHECK(fs::exists(files.folder / "run/checkpoints/latest"));
}

TEST_CASE("code that cannot be trained is refused before the job begins" * doctest::skip(!is_here())) {
  struct Wrong {
    std::string forward, build;
    int code;
    std::string says;
  };
  const std::string net = "return Net()";
  const std::vector<Wrong> all = {
      {"pass", "raise ValueError('no network today')", 1, "raised ValueError: no network today"},
      {"pass", "return 3", 2, "build returned a int, not a torch.nn.Module"},
      {"pass", "return Net().double()", 1, "parameter fc.weight is float64, but must be float32"},
      {"with torch.no_grad(): self.fc.weight.mul_(0.5)", net, 2, "forward wrote fc.weight"},
      {"self.fc.weight.data = self.fc.weight.data.clone()", net, 2, "forward gave fc.weight other memory"},
      {"return 'loss'", net, 2, "forward returned a str where a tensor"},
      {"return", net, 2, "forward returned None: end it with a `return`"},
      {"return images.sum()", net, 2, "the model's loss depends on no parameter that is trained"},
      {"return self.fc(images.flatten(1))", net, 2, "the model's first output is [4, 4], not one number"},
  };
  PythonFiles files;
  for (const Wrong& wrong : all) {
    CAPTURE(wrong.says);
    const std::string file = files.folder.write("net.py", code(wrong.forward, wrong.build));
    CHECK(refused(files, files.spec(file + ":build"), wrong.code).says(wrong.says));
  }
  const std::string file =
      files.folder.write("net.py", code("pass", net) + "\ndef of(width, *, depth, bias=True): pass\n");
  CHECK(refused(files, files.spec(file + ":of"), 2).says("of needs width, depth, but is called without arguments"));
}

TEST_CASE("a Python or a file that will not do is refused by name" * doctest::skip(!is_here())) {
  PythonFiles files;
  const std::string file = files.folder.write("net.py", code("pass")), net = file + ":build";
  CHECK(refused(files, files.spec(file + ":make"), 2).says("net.py has no function make"));
  CHECK(refused(files, files.spec(file), 2).says("FILE.py:FUNCTION"));
  CHECK(refused(files, files.spec(files.folder / "none.py:build"), 1).says("none.py: No such file or directory"));
  CHECK(refused(files, files.spec(net, files.folder / "python"), 2).says("/python is no program"));
  CHECK(refused(files, files.spec(net, "/bin/ls"), 2).says("model.python: /bin/ls is no Python"));
  // Pythons of another torch, and of none.
  fs::create_directory(files.folder / "other");
  files.folder.write("other/torch.py", "__version__ = '2.10.0+cpu'\n");
  fs::create_directory(files.folder / "empty");
  files.folder.write("empty/torch.py", "raise ImportError('gone')\n");
  const auto python_with = [&](const std::string& setting) {
    const std::string path =
        files.folder.write("python", "#!/bin/sh\n" + setting + " exec " + ESTRAIN_PEERS_PYTHON + " \"$@\"\n");
    fs::permissions(path, fs::perms::owner_all);
    return path;
  };
  const Ended other = refused(files, files.spec(net, python_with("PYTHONPATH=" + (files.folder / "other"))), 1);
  CHECK(other.says("has torch 2.10.0+cpu; this estrain is built with LibTorch 2.11.0"));
  CHECK(refused(files, files.spec(net, python_with("PYTHONPATH=" + (files.folder / "empty"))), 1)
            .says("torch cannot be imported: gone"));
  // The same version, and a library of LibTorch's name that was built otherwise.
  fs::create_symlink(ESTRAIN_REFUSES_MKL, files.folder / "libtorch_cpu.so");
  const Ended built =
      refused(files, files.spec(net, python_with("LD_PRELOAD=" + (files.folder / "libtorch_cpu.so"))), 1);
  CHECK(built.says("this Python's libtorch_cpu.so is another build (build id "));
  CHECK(built.says("install PyPI's wheel of torch"));
}

TEST_CASE("without model.python the Python is that of ESTRAIN_PYTHON" * doctest::skip(!is_here())) {
  PythonFiles files;
  const std::string spec = files.spec(files.net, "");
  const auto train_with = [&](const std::string& python) {
    return Command({"train", spec, "--run", files.folder / "run"}, {.before = "export ESTRAIN_PYTHON=" + python})
        .wait();
  };
  CHECK(train_with("/bin/ls").says("ESTRAIN_PYTHON: /bin/ls is no Python"));
  CHECK(train_with(files.folder / "python").says("ESTRAIN_PYTHON: " + (files.folder / "python") + " is no program"));
  CHECK(train_with(ESTRAIN_PEERS_PYTHON).code == 0);
}

// A module that takes its layer from a package beside it, which takes a number from another file; forward imports one
// more.
std::string importing_module(const PythonFiles& files) {
  fs::create_directories(files.folder / "parts");
  files.folder.write("parts/__init__.py", "from .layer import size\n");
  files.folder.write("parts/layer.py", "size = 4\n");
  files.folder.write("late.py", "factor = 1.0\n");
  return files.folder.write("importing.py",
                            "from parts import size\n" + code("import late; images = images * late.factor"));
}

TEST_CASE("a module that net.py imports is edited while the job runs: the worker that starts then is refused by name" *
          doctest::skip(!is_here())) {
  PythonFiles files;
  const std::string net = importing_module(files), run = files.folder / "run";
  for (const char* name : {"parts/layer.py", "late.py"}) {
    CAPTURE(name);
    importing_module(files);
    fs::remove_all(run);
    Job job(files.spec(net + ":build"), run,
            {"--devices", "2", "--set", "train.steps=1000000", "--set", "train.eval_every=never"});
    job.reach(3);
    files.folder.write(name, read_file(files.folder / name) + "# edited\n");
    ::kill(job.workers().at(0), SIGKILL);
    const Ended ended = job.launcher().wait();
    INFO(ended.shown());
    CHECK(ended.code == 1);
    CHECK(ended.says("the data have changed since the run began: " + (files.folder / name)));
    CHECK(events(run, "fault").back().at("cause") == "data_changed");
  }
}

TEST_CASE("a resume refuses an edited module that net.py imports, unless it is accepted" * doctest::skip(!is_here())) {
  PythonFiles files;
  const std::string spec = files.spec(importing_module(files) + ":build"), layer = files.folder / "parts/layer.py";
  const std::string run = train_on(files.folder, spec, "2"), original = read_file(layer);
  const Words more = {"--set", "train.steps=12"};
  files.folder.write("parts/layer.py", original + "# edited\n");
  const Ended refused = estrain(with({"train", "--resume", "--run", run}, more));
  INFO(refused.shown());
  CHECK(refused.code == 1);
  CHECK(refused.says("the data have changed since the run began: " + layer + ": "));
  CHECK(refused.says("--accept-data"));
  fs::remove(layer);
  const Ended gone = estrain(with({"train", "--resume", "--run", run}, more));
  CHECK(gone.code == 1);
  CHECK(gone.says(layer + ": no longer a file of the data (module parts/layer.py)"));

  files.folder.write("parts/layer.py", original + "# edited\n");
  const Ended accepted = estrain(with({"train", "--resume", "--accept-data", "--run", run}, more));
  INFO(accepted.shown());
  CHECK(accepted.code == 0);
  REQUIRE(changes_of(run).size() == 1);
  CHECK(changes_of(run)[0].at("path") == layer);
  // From here on the edited module is the job's.
  CHECK(estrain({"train", "--resume", "--run", run, "--set", "train.steps=14"}).code == 0);
  files.folder.write("parts/layer.py", original);
  CHECK(estrain({"train", "--resume", "--run", run, "--set", "train.steps=16"}).code == 1);
}

TEST_CASE("what is installed or not imported may change" * doctest::skip(!is_here())) {
  PythonFiles files;
  const std::string net = importing_module(files);
  const fs::path installed = fs::path(files.folder / "venv/lib/python3.11/site-packages");
  fs::create_directories(installed);
  files.folder.write("venv/lib/python3.11/site-packages/thing.py", "x = 1\n");
  files.folder.write("unused.py", "x = 1\n");
  files.folder.write("importing.py",
                     "import sys; sys.path.append('" + installed.string() + "'); import thing\n" + read_file(net));
  const std::string run = train_on(files.folder, files.spec(net + ":build"), "1");
  files.folder.write("venv/lib/python3.11/site-packages/thing.py", "x = 2\n");
  files.folder.write("unused.py", "x = 2\n");
  const Ended resumed = estrain({"train", "--resume", "--run", run, "--set", "train.steps=12"});
  INFO(resumed.shown());
  CHECK(resumed.code == 0);
}

TEST_CASE("without the environment of scripts/setup --peers there is no Python to try" * doctest::skip(is_here())) {
  fmt::print("skipped: no Python with torch\n");
}

}  // namespace
}  // namespace estrain::testing
