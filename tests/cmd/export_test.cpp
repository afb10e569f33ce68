// `estrain export`: programs of a user's module, by the user's Python of scripts/setup --peers. One function serves an
// export and a job in Python. What cannot be exported is refused, and no file is written.

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "core/base/files/files.h"
#include "core/base/json/json.h"
#include "core/state/record/logs/metrics.h"
#include "job.h"

namespace estrain::testing {
namespace {

namespace fs = std::filesystem;

bool has_python() { return fs::exists(ESTRAIN_PEERS_PYTHON); }

const Words kPython = {"--python", ESTRAIN_PEERS_PYTHON};

struct ExportFiles {
  ScratchFolder folder;

  // A module with dropout on vectors of three numbers. `returned`: the end of `build`.
  std::string net(const std::string& returned, const std::string& forward = "pass") {
    return folder.write("net.py",
                        "import torch\n"
                        "class Net(torch.nn.Module):\n"
                        "    def __init__(self):\n"
                        "        super().__init__()\n"
                        "        self.fc = torch.nn.Linear(3, 2)\n"
                        "    def forward(self, x, y):\n"
                        "        " +
                            forward +
                            "\n"
                            "        logits = self.fc(torch.nn.functional.dropout(x, 0.3, self.training))\n"
                            "        return torch.nn.functional.cross_entropy(logits, y)\n"
                            "def build():\n"
                            "    net, batch = Net(), (torch.randn(4, 3), torch.tensor([0, 1, 1, 0]))\n"
                            "    print('building')\n"
                            "    " +
                            returned + "\n") +
           ":build";
  }

  std::string job(const std::string& model) {
    return folder.write("job.toml", "job = { name = \"exported\", seed = 21, ests = 4 }\nmodel = { classes = 2, " +
                                        model +
                                        " }\ndata = { format = \"synthetic\", shape = [3], samples = 300, "
                                        "batch = 8 }\noptimizer = { name = \"sgd\", lr = 0.1 }\n"
                                        "train = { steps = 6, eval_every = 3 }\n");
  }
};

Ended exported(const std::string& function, const Words& more) {
  return estrain(with(with({"export", function}, kPython), more));
}

// The exact losses of all ESTs, step by step.
std::vector<Json> losses_of(const std::string& run) {
  std::vector<Json> losses;
  std::ifstream lines(run + "/metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const Json row = Json::parse(line);
    if (row.contains("est_loss_bits")) losses.push_back(row.at("est_loss_bits"));
  }
  return losses;
}

TEST_CASE("what export writes trains with the bits of the module in Python, from one function" *
          doctest::skip(!has_python())) {
  ExportFiles files;
  const std::string net = files.net("return net, batch"), program = files.folder / "net.pt2";
  const Ended written = exported(net, {"--output", files.folder.path(), "--seed", "21"});
  INFO(written.shown());
  REQUIRE(written.code == 0);
  CHECK(written.says(program + ": " + net + " in train() mode"));
  CHECK(written.says(files.folder / "net-eval.pt2: in eval() mode"));
  const std::string as_program = train_on(
      files.folder,
      files.job("name = \"program\", file = \"" + program + "\", eval_file = \"" + files.folder / "net-eval.pt2\""),
      "1");
  const std::string in_python = train_on(
      files.folder, files.job("name = \"python\", file = \"" + net + "\", python = \"" ESTRAIN_PEERS_PYTHON "\""), "2");
  CHECK(losses_of(as_program).size() == 6);
  CHECK(losses_of(as_program) == losses_of(in_python));
}

TEST_CASE("a program sums a table by the rows looked up, in the bits of the module in Python, and check foretells it" *
          doctest::skip(!has_python())) {
  ExportFiles files;
  const std::string net =
      files.net("net.table = torch.nn.Embedding(1 << 15, 16)\n    return net, batch",
                "x = x + self.table(((x * 1000).long() % (1 << 15))[:, 0])[:, :3]");  // rows with gaps between them
  const Ended written = exported(net, {"--output", files.folder.path(), "--seed", "21"});
  INFO(written.shown());
  REQUIRE(written.code == 0);
  const std::string program =
      "name = \"program\", file = \"" + files.folder / "net.pt2\", eval_file = \"" + files.folder / "net-eval.pt2\"";
  const std::string in_python = train_on(
      files.folder, files.job("name = \"python\", file = \"" + net + "\", python = \"" ESTRAIN_PEERS_PYTHON "\""), "1");
  for (const char* devices : {"1", "2"})
    CHECK(losses_of(train_on(files.folder, files.job(program), devices)) == losses_of(in_python));

  const auto size_of = [&](const std::string& more) {
    const std::string spec = files.folder.write("checked.toml", read_file(files.job(program)) + more);
    const Ended checked = estrain({"check", spec, "--json"});
    INFO(checked.shown());
    return parse_json(checked.text, "check --json").at("size");
  };
  CHECK(size_of("").at("table_bytes") == (1 << 15) * 16 * 4);
  CHECK(size_of("").at("row_bytes").get<int64_t>() > 0);
  CHECK(size_of("").at("row_bytes").get<int64_t>() <= 8 * (16 + 1) * 4);
  CHECK(size_of("elastic = { batch = \"adaptive\" }\n").at("table_bytes") == 0);
}

TEST_CASE("an export that the machine ends is told by name, and leaves no file" * doctest::skip(!has_python())) {
  ExportFiles files;
  std::string returned = "return net, batch", before;
  Words words;
  SUBCASE("killed") {
    returned = "import os; os.kill(os.getpid(), 9)";
    words = {"ended with SIGKILL", "free memory"};
  }
  SUBCASE("without room for the file") {
    returned = "net.table = torch.nn.Embedding(1 << 17, 16)\n    return net, batch";
    before = "ulimit -f 4096";  // KiB
    words = {"the file cannot be written: File too large", "--output"};
  }
  SUBCASE("without memory") {
    returned = "raise MemoryError('no room')";
    words = {"there is not enough memory: MemoryError: no room", "free memory"};
  }
  const std::string net = files.net(returned, returned.starts_with("net") ? "x = x + self.table(y)[:, :3]" : "pass");
  const Ended ended =
      Command(with({"export", net, "--output", files.folder.path()}, kPython), {.before = before}).wait();
  INFO(ended.shown());
  CHECK(ended.code == 1);
  for (const std::string& word : words) CHECK(ended.says(word));
  for (const auto& file : fs::directory_iterator(files.folder.path())) CHECK(file.path().extension() == ".py");
}

TEST_CASE("export keeps files that are there, and tells what it wrote as JSON" * doctest::skip(!has_python())) {
  ExportFiles files;
  const std::string net = files.net("return net, batch"), out = files.folder.write("out.pt2", "mine");
  const Ended refused = exported(net, {"--output", out});
  CHECK(refused.code == 2);
  CHECK(refused.says("out.pt2 exists already"));
  CHECK(read_file(out) == "mine");
  const std::string told = files.folder / "told";
  const Ended replaced = Command(with({"export", net, "--output", out, "--force", "--no-eval", "--json"}, kPython),
                                 {.before = "exec >" + told})
                             .wait();
  INFO(replaced.shown());
  REQUIRE(replaced.code == 0);
  CHECK(replaced.says("building"));
  const Json answer = Json::parse(read_file(told));
  CHECK(answer.at("written") == Json::array({out}));
  CHECK(read_file(out) != "mine");
  CHECK(!fs::exists(files.folder / "out-eval.pt2"));
}

TEST_CASE("what cannot be exported is refused with its line, and nothing is written" * doctest::skip(!has_python())) {
  struct Wrong {
    std::string returned, forward;
    int code;
    Words says;
  };
  const std::string pair = "return net, batch";
  const std::vector<Wrong> all = {
      {pair,
       "x = x if x.sum() > 0 else -x",
       2,
       {"cannot be exported: ", "net.py:7, in forward: x = x if", "name = \"python\""}},
      {"return net", "pass", 2, {"build returned no example mini-batch", "return net, (images, labels)"}},
      {"return net, batch[:1] + (batch[1][:1],)", "pass", 2, {"needs two or more samples"}},
      {"return 3", "pass", 2, {"build returned a int, not a torch.nn.Module, alone or with an example mini-batch"}},
      {"raise ValueError('no network today')",
       "pass",
       1,
       {"raised ValueError: no network today", "net.py\", line 13, in build"}},
      {"import os; os._exit(7)", "pass", 1, {"ended with exit status 7 before it was done"}},
  };
  ExportFiles files;
  fs::create_directory(files.folder / "out");
  for (const Wrong& wrong : all) {
    CAPTURE(wrong.returned);
    const Ended ended = exported(files.net(wrong.returned, wrong.forward), {"--output", files.folder / "out"});
    INFO(ended.shown());
    CHECK(ended.code == wrong.code);
    for (const std::string& words : wrong.says) CHECK_MESSAGE(ended.says(words), words);
    CHECK(!ended.says("/proc/self/fd"));
    CHECK(fs::is_empty(files.folder / "out"));
  }
}

// A module by Lightning's protocol, without Lightning. `more`: lines of training_step before its return.
std::string lightning_net(const ScratchFolder& folder, const std::string& more = "pass") {
  return folder.write("lit.py",
                      "import torch\n"
                      "from torch.nn.functional import cross_entropy, dropout\n"
                      "class Lit(torch.nn.Module):\n"
                      "    def __init__(self):\n"
                      "        super().__init__()\n"
                      "        self.fc = torch.nn.Linear(3, 2)\n"
                      "    def log(self, name, value, prog_bar=False): raise RuntimeError('no trainer')\n"
                      "    def log_dict(self, values): raise RuntimeError('no trainer')\n"
                      "    def forward(self, x): return self.fc(dropout(x, 0.3, self.training))\n"
                      "    def training_step(self, batch, batch_idx):\n"
                      "        x, y = batch\n"
                      "        out = self(x)\n"
                      "        penalty = self.fc.weight.square().sum()\n"
                      "        loss = cross_entropy(out, y) + 0.1 * penalty\n"
                      "        self.log('train_loss', loss, prog_bar=True)\n"
                      "        self.log_dict({'penalty': penalty, 'right': (out.argmax(1) == y).sum(), 'lr': 0.1})\n"
                      "        " +
                          more +
                          "\n"
                          "        return {'loss': loss}\n"
                          "    def validation_step(self, batch):\n"
                          "        out = self(batch[0])\n"
                          "        self.log('val_right', (out.argmax(1) == batch[1]).float().mean())\n"
                          "        self.log('val_loss', cross_entropy(out, batch[1]))\n"
                          "def build(): return Lit(), (torch.randn(4, 3), torch.tensor([0, 1, 1, 0]))\n") +
         ":build";
}

TEST_CASE("a LightningModule trains by its steps, and what they log becomes terms and metrics" *
          doctest::skip(!has_python())) {
  ExportFiles files;
  const std::string net = lightning_net(files.folder), program = files.folder / "lit.pt2";
  const Ended written = exported(net, {"--output", files.folder.path(), "--seed", "21"});
  INFO(written.shown());
  REQUIRE(written.code == 0);
  CHECK(written.says("name the arrays of the data input, target: the parts of the mini-batch"));
  CHECK(written.says("training_step logs penalty, right: train.terms = [\"penalty\", \"right\"] keeps it"));
  CHECK(written.says("validation_step logs val_right: train.metrics = [\"val_right\"] keeps it"));
  CHECK(written.says("lr is logged as float and not kept"));
  const Words keys = {"--set", "train.terms=[\"penalty\", \"right\"]", "--set", "train.metrics=[\"val_right\"]"};
  const auto rows_of = [&](const std::string& run, const std::string& model) {
    const Ended trained =
        estrain(with({"train", files.job(model), "--run", files.folder / run, "--devices", "cpu*2"}, keys));
    INFO(trained.shown());
    REQUIRE(trained.code == 0);
    std::vector<Json> terms, metrics;
    std::ifstream lines(files.folder / run + "/metrics.jsonl");
    for (std::string line; std::getline(lines, line);) {
      const Json row = Json::parse(line);
      if (row.contains("terms")) terms.push_back(row.at("terms"));
      if (row.contains("eval")) metrics.push_back(row.at("eval").at("metrics"));
    }
    return std::pair(terms, metrics);
  };
  const auto [terms, metrics] = rows_of("program", "name = \"program\", file = \"" + program + "\", eval_file = \"" +
                                                       (files.folder / "lit-eval.pt2") + "\"");
  REQUIRE(terms.size() == 6);
  CHECK(terms.front().at("penalty").get<double>() > 0);
  CHECK(terms.front().at("right").get<double>() > 1);  // of 8 samples
  REQUIRE(metrics.size() == 2);
  CHECK(metrics.front().at("val_right").get<double>() <= 1);
  const auto in_python =
      rows_of("python", "name = \"python\", file = \"" + net + "\", python = \"" ESTRAIN_PEERS_PYTHON "\"");
  CHECK(in_python.first == terms);
  CHECK(in_python.second == metrics);
  CHECK(losses_of(files.folder / "python") == losses_of(files.folder / "program"));

  // A term has its own name, whichever others are named.
  const std::string models[] = {
      "name = \"program\", file = \"" + program + "\", eval_file = \"" + (files.folder / "lit-eval.pt2") + "\"",
      "name = \"python\", file = \"" + net + "\", python = \"" ESTRAIN_PEERS_PYTHON "\""};
  for (const std::string& model : models) {
    CAPTURE(model);
    const auto trained = [&](const std::string& run, const std::string& names, const std::string& of_evaluations) {
      return estrain({"train", files.job(model), "--run", files.folder / run, "--devices", "2", "--set",
                      "train.terms=" + names, "--set", "train.metrics=" + of_evaluations});
    };
    std::filesystem::remove_all(files.folder / "one");
    const Ended one = trained("one", "[\"right\"]", "[]");
    INFO(one.shown());
    REQUIRE(one.code == 0);
    const auto steps = record::read_metrics(files.folder / "one/metrics.jsonl").steps;
    REQUIRE(steps.size() == terms.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      REQUIRE(steps[i].terms.size() == 1);
      CHECK(static_cast<double>(steps[i].terms[0].second) == terms[i].at("right").get<double>());
    }
    const Ended unknown = trained("none", "[\"wrong\"]", "[]"), late = trained("late", "[]", "[\"val_wrong\"]");
    INFO(unknown.shown());
    CHECK(unknown.code == 2);
    CHECK(unknown.says("train.terms names wrong, and"));
    CHECK(unknown.says("penalty, right"));
    INFO(late.shown());
    CHECK(late.code == 2);
    CHECK(late.says("train.metrics names val_wrong, and"));
    std::filesystem::remove_all(files.folder / "none");
    std::filesystem::remove_all(files.folder / "late");
  }
}

TEST_CASE("a LightningModule that steps its optimizers itself, or gives no loss, is refused" *
          doctest::skip(!has_python())) {
  ScratchFolder folder;
  const Ended without = exported(lightning_net(folder, "return None"), {"--output", folder.path()});
  CHECK(without.code != 0);
  CHECK(without.says("training_step gives no loss: return it as a tensor, or under the key \"loss\""));
  const std::string net = lightning_net(folder);
  folder.write("own.py",
               "import lit\ndef build():\n    net, batch = lit.build()\n    net.automatic_optimization = False\n    "
               "return net, batch\n");
  const Ended own = exported(folder / "own.py:build", {"--output", folder.path()});
  CHECK(own.code == 2);
  CHECK(own.says("automatic_optimization is False"));
  CHECK(!fs::exists(folder / "lit.pt2"));
}

TEST_CASE("export tells which torch is needed, and which was found" * doctest::skip(!has_python())) {
  ExportFiles files;
  const std::string net = files.net("return net, batch");
  fs::create_directory(files.folder / "other");
  files.folder.write("other/torch.py", "__version__ = '2.10.0+cpu'\n");
  fs::create_directory(files.folder / "empty");
  files.folder.write("empty/torch.py", "raise ImportError('gone')\n");
  const auto export_with = [&](const std::string& torch) {
    return Command({"export", net, "--output", files.folder.path()},
                   {.before = "export ESTRAIN_PYTHON=" ESTRAIN_PEERS_PYTHON " PYTHONPATH=" + files.folder / torch})
        .wait();
  };
  const Ended other = export_with("other");
  CHECK(other.code == 1);
  CHECK(other.says("has torch 2.10.0+cpu; this estrain is built with LibTorch 2.11.0"));
  CHECK(other.says("or name another one: --python"));
  const Ended none = export_with("empty");
  CHECK(none.code == 1);
  CHECK(none.says("torch cannot be imported: gone; torch 2.11.0"));
}

TEST_CASE("export refuses a function or a Python that is not there") {
  ExportFiles files;
  const std::string net = files.net("return net, batch"), file = files.folder / "net.py";
  const auto refused = [&](const Words& arguments, const std::string& words) {
    const Ended ended = estrain(with({"export"}, arguments));
    INFO(ended.shown());
    CHECK(ended.code == 2);
    CHECK(ended.says(words));
  };
  refused({file}, "names no function");
  refused({files.folder / "none.py:build"}, "there is no file");
  refused({net, "--python", files.folder / "python"}, "--python: " + files.folder / "python is no program");
  refused({net, "--python", "/bin/ls"}, "--python: /bin/ls is no Python");
  refused({net, "--output", files.folder / "net.onnx"}, "the name of a program ends in .pt2");
  CHECK(estrain({"export", net, "--output", files.folder / "none/net.pt2"}).code == 1);
}

}  // namespace
}  // namespace estrain::testing
