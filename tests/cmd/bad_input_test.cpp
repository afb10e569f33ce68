// User errors before a job runs: each has its exit code and an actionable message, and nothing is lost.

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "core/base/files/files.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

namespace fs = std::filesystem;

struct Case {
  std::string what;
  Words arguments;  // after `train SPEC --run RUN`
  int code;
  Words says;
};

void check_refused(const Case& bad, const Ended& ended) {
  CAPTURE(bad.what);
  INFO(ended.shown());
  CHECK(ended.code == bad.code);
  for (const std::string& words : bad.says) CHECK(ended.says(words));
}

TEST_CASE("what --set and --devices get wrong") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  const Case cases[] = {
      {"unknown key", {"--set", "data.batchh=4"}, 2, {"data.batchh", "data.batch"}},
      {"unknown table", {"--set", "optimiser.lr=4"}, 2, {"optimiser", "optimizer"}},
      {"wrong type", {"--set", "data.batch=\"four\""}, 2, {"data.batch", "integer"}},
      {"no value", {"--set", "data.batch"}, 2, {"data.batch"}},
      {"no ESTs", {"--set", "job.ests=0"}, 2, {"job.ests", "1"}},
      {"unknown model", {"--set", "model.name=lenett"}, 2, {"lenett", "lenet"}},
      {"more workers than ESTs", {"--devices", "9"}, 2, {"9", "8"}},
      {"ESTs that do not add up", {"--devices", "cpu=4,cpu=5"}, 2, {"hosts 9 ESTs, the job has 8"}},
      {"unknown device", {"--devices", "cpuu"}, 2, {"\"cpuu\" is no known device", "cpu:avx2"}},
      {"mixed kinds", {"--devices", "cpu,cpu:avx2"}, 2, {"different kinds", "--allow-mixed"}},
      {"D2 on LibTorch", {"--set", "job.determinism=D2", "--set", "job.kernels=torch"}, 2, {"job.kernels", "D2"}},
      {"unknown option", {"--devicess", "2"}, 2, {"--devicess"}},
      {"rules that are not there", {"--set", "recovery.rules=/nowhere"}, 2, {"recovery.rules", "/nowhere"}},
      {"augmenting vectors", {"--set", "data.rand_augment=[2, 9]"}, 2, {"data.rand_augment", "needs images"}},
      {"erasing vectors", {"--set", "data.erase=0.5"}, 2, {"data.erase", "needs images"}},
      {"mixing vectors", {"--set", "data.mixup=0.5"}, 2, {"data.mixup", "needs images"}},
      {"orientation of no photos", {"--set", "data.orient=true"}, 2, {"data.orient", "belongs to data.format"}},
      {"a name too long", {"--set", "job.name=" + std::string(300, 'x')}, 2, {"job.name", "255 bytes"}},
  };
  for (const Case& bad : cases) {
    Words arguments = {"train", spec, "--run", folder / "run"};
    arguments.insert(arguments.end(), bad.arguments.begin(), bad.arguments.end());
    check_refused(bad, estrain(arguments));
    CHECK_FALSE(fs::exists(folder / "run/job.toml"));
  }
}

TEST_CASE("a spec file that is wrong is told by line and column") {
  const ScratchFolder folder;
  const std::string syntax = folder.write("syntax.toml", "[job]\nname = \n");
  check_refused({"syntax", {}, 2, {syntax + ":2"}}, estrain({"train", syntax, "--run", folder / "run"}));
  const std::string key = folder.write("key.toml", "[job]\nests = 2\nsteps = 4\n[model]\nname = \"mlp\"\n");
  check_refused({"key", {}, 2, {key + ":3:1", "job.steps"}}, estrain({"train", key, "--run", folder / "run"}));
  check_refused({"no file", {}, 2, {"nowhere.toml"}}, estrain({"train", folder / "nowhere.toml"}));
  for (const char* verb : {"train", "plan", "check"}) {
    check_refused({verb, {}, 2, {"nowhere.toml: No such file", "estrain init"}},
                  estrain({verb, folder / "nowhere.toml"}));
    check_refused({verb, {}, 2, {folder.path() + ": Is a directory"}}, estrain({verb, folder.path()}));
  }
  fs::create_symlink("loop", folder / "loop");
  const std::string loop = folder / "loop", says = loop + ": Too many levels of symbolic links";
  for (const Words& words :
       {Words{"train", key, "--run", loop, "--set", "job.steps=1"}, {"status", loop}, {"verify", loop, loop}})
    check_refused({words.front(), {}, 2, words.front() == "train" ? Words{} : Words{says}}, estrain(words));
  check_refused({"no spec", {}, 2, {"no job spec given"}}, estrain({"train"}));
  check_refused({"no verb", {}, 2, {"subcommand"}}, estrain({}));
  check_refused({"verb", {}, 2, {"unknown command \"trian\"; did you mean \"train\"?"}}, estrain({"trian", "x"}));
  check_refused({"no verb near", {}, 2, {"known are", "\"resize\""}}, estrain({"frobnicate"}));
}

TEST_CASE("options that are times, and lists that are empty") {
  for (const Words& words : {Words{"train", "--grace", "-1"},
                             {"train", "--grace", "nan"},
                             {"train", "--grace", "1e12"},
                             {"plan", "x.toml", "--seconds", "0"},
                             {"reclaim", "r", "1", "--within", "99999999999s"}}) {
    const Ended ended = estrain(words);
    check_refused({words.back(), {}, 2, {"must be a number of seconds from", "to 1000000000"}}, ended);
  }
  for (const char* verb : {"train", "check", "plan"})
    check_refused({verb, {}, 2, {"--devices", "must not be empty"}}, estrain({verb, "x.toml", "--devices", ""}));
}

TEST_CASE("whoever asks for JSON gets JSON, of errors too") {
  const ScratchFolder folder;
  const std::string nowhere = folder / "nowhere";
  for (const Words& words : {Words{"status", nowhere},
                             {"stop", nowhere},
                             {"resize", nowhere, "--devices", "2"},
                             {"offer", nowhere, "2"},
                             {"reclaim", nowhere, "2"},
                             {"verify", nowhere, nowhere},
                             {"plan", nowhere},
                             {"status", "--nonsense"}}) {
    CAPTURE(words.front());
    Words arguments = words;
    arguments.push_back("--json");
    const Ended ended = estrain(arguments);
    CHECK(ended.code == 2);
    const size_t begin = ended.text.find('{');  // stderr's text comes before the JSON
    REQUIRE(begin != std::string::npos);
    const Json answer = parse_json(ended.text.substr(begin, ended.text.find('\n', begin) - begin), "stdout");
    CHECK(answer.at("ok") == false);
    CHECK(answer.at("fault") == (words.front() == "plan" ? "spec" : "usage"));
    CHECK(answer.at("error") != "");
  }
}

TEST_CASE("data files that are missing, cut short or do not fit") {
  const ScratchFolder folder;
  std::string wrong_label(16, '\1');
  wrong_label[11] = '\12';
  const std::string images = folder.write("images", idx({16, 28, 28}, std::string(16 * 28 * 28, 'x')));
  const std::string cut = folder.write("cut", idx({16, 28, 28}, std::string(15 * 28 * 28, 'x')));
  const std::string small = folder.write("small", idx({16, 8, 8}, std::string(16 * 8 * 8, 'x')));
  const std::string labels = folder.write("labels", idx({16}, std::string(16, '\1')));
  const std::string few = folder.write("few", idx({15}, std::string(15, '\1')));
  const std::string wrong = folder.write("wrong", idx({16}, wrong_label));
  int runs = 0;
  const auto train = [&](const std::string& image_file, const std::string& label_file) {
    return estrain({"train", folder.write("job.toml", idx_job(image_file, label_file)), "--devices", "2", "--run",
                    folder / ("run-" + std::to_string(runs++))});
  };
  check_refused({"fine", {}, 0, {"done: 3 steps"}}, train(images, labels));
  check_refused({"missing", {}, 1, {folder / "nowhere"}}, train(folder / "nowhere", labels));
  check_refused({"cut short", {}, 1, {cut}}, train(cut, labels));
  check_refused({"fewer labels", {}, 1, {"15", "16"}}, train(images, few));
  check_refused({"label out of range", {}, 1, {wrong, "10"}}, train(images, wrong));
  check_refused({"image too small", {}, 2, {"lenet", "8"}}, train(small, labels));
}

TEST_CASE("a run directory that cannot be written") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job()), file = folder.write("file", "");
  check_refused({"below a file", {}, 1, {file}}, estrain({"train", spec, "--run", file + "/run"}));
  check_refused({"a device", {}, 1, {"/dev/null"}}, estrain({"train", spec, "--run", "/dev/null/run"}));
}

TEST_CASE("run directories that are in use, not fresh, or no run") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run", empty = folder / "empty";
  fs::create_directory(empty);
  Job job(spec, run);
  job.reach(3);
  const Words in_use = {run, "another launcher is at work", std::to_string(job.pid())};
  check_refused({"second launcher", {}, 2, in_use}, estrain({"train", spec, "--run", run}));
  const std::string before = read_file(run + "/job.toml");
  check_refused({"another job there", {}, 2, in_use},
                estrain({"train", folder.write("other.toml", mlp_job()), "--run", run}));
  CHECK(read_file(run + "/job.toml") == before);
  job.reach(job.step() + 3);
  REQUIRE(job.stop().code == 0);
  REQUIRE(job.launcher().wait().code == 75);
  const std::vector<int64_t> steps = metric_steps(run);

  check_refused({"no spec", {}, 2, {"no job spec given", run, "--resume"}}, estrain({"train", "--run", run}));
  check_refused({"not fresh", {}, 2, {run, "there is a run already", "--resume"}},
                estrain({"train", spec, "--run", run}));
  check_refused({"changed key", {}, 2, {"data.batch"}},
                estrain({"train", "--resume", "--run", run, "--set", "data.batch=16"}));
  check_refused({"changed keys", {}, 2, {"job.ests", "optimizer.lr"}},
                estrain({"train", spec, "--resume", "--run", run, "--set", "optimizer.lr=0.5", "--set", "job.ests=3"}));
  CHECK(read_file(run + "/job.toml") == before);
  CHECK(metric_steps(run) == steps);
  for (const std::string& nowhere : {run, empty, folder / "nowhere"}) {
    check_refused({"resize " + nowhere, {}, 2, {nowhere, "no job is running there"}},
                  estrain({"resize", nowhere, "--devices", "2"}));
    check_refused({"stop " + nowhere, {}, 2, {nowhere, "no job is running there"}}, estrain({"stop", nowhere}));
  }
  check_refused({"resume nothing", {}, 2, {empty, "no run to resume there"}},
                estrain({"train", "--resume", "--run", empty}));
  check_refused({"status of nothing", {}, 2, {empty, "no run there"}}, estrain({"status", empty}));
  const Ended status = estrain({"status", run, "--json"});
  const Json json = parse_json(status.text, "status");
  CHECK(json.at("state") == "stopped");
  CHECK(json.at("step") == steps.back());
}

TEST_CASE("started without stdin, stdout and stderr a job runs all the same") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job()), run = folder / "run";
  Command train({"train", spec, "--run", run, "--set", "train.steps=3"}, {.before = "exec <&- >&- 2>&-"});
  CHECK(train.wait().code == 0);
  CHECK(metric_steps(run) == first_steps(3));
}

std::string nested(size_t depth) {
  std::string key = "a";
  for (size_t i = 1; i < depth; ++i) key += ".a";
  return key;
}

TEST_CASE("specs without end, of any depth, or that are no files are refused at once") {
  const ScratchFolder folder;
  const std::string deep = folder.write("deep.toml", nested(60'000) + " = 1\n"), fifo = folder / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const std::string huge = folder.write("huge.toml", "");
  fs::resize_file(huge, uint64_t{1} << 40);
  for (const char* verb : {"train", "plan", "check"}) {
    check_refused({verb, {}, 2, {deep + ":1:", "a key of more than 16 parts"}}, estrain({verb, deep}));
    check_refused({verb, {}, 2, {"/dev/zero: a character device, not a regular file"}}, estrain({verb, "/dev/zero"}));
    check_refused({verb, {}, 2, {huge + ": larger than the limit of 1048576 bytes"}}, estrain({verb, huge}));
  }
  check_refused({"pipe", {}, 2, {fifo + ": a pipe without data for 10 s"}}, estrain({"train", fifo}));
  const std::string spec = folder.write("job.toml", mlp_job());
  for (const std::string& rules : {fifo, std::string("/dev/zero"), deep})
    check_refused({rules, {}, 2, {rules}}, estrain({"check", spec, "--set", "recovery.rules=" + rules}));
}

TEST_CASE("a run whose spec is of any depth, or a pipe, does not keep the others from being told") {
  const ScratchFolder folder;
  for (const char* name : {"deep", "pipe", "sound"}) fs::create_directories(folder / "runs/" + name);
  folder.write("runs/deep/job.toml", nested(60'000) + " = 1\n");
  REQUIRE(::mkfifo((folder / "runs/pipe/job.toml").c_str(), 0600) == 0);
  folder.write("runs/sound/job.toml", mlp_job());
  const Ended ended = Command({"status"}, {.before = "cd " + folder.path()}).wait();
  INFO(ended.shown());
  CHECK(ended.code == 0);
  CHECK(ended.says("runs/sound                   not running"));
  CHECK(ended.says("runs/deep                    not told"));
  CHECK(ended.says("runs/pipe                    not told"));
  const Ended verified = estrain({"verify", folder / "runs/deep", folder / "runs/deep"});
  INFO(verified.shown());
  CHECK(verified.code < 128);
}

TEST_CASE("a spec may come by a pipe; its relative paths are those of the current folder") {
  const ScratchFolder folder;
  const std::string fifo = folder / "fifo", text = folder.write("text.txt", some_text(4000));
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  Command check({"check", fifo}, {.before = "cd " + folder.path()});
  std::ofstream(fifo) << gpt_job("text.txt");
  const Ended ended = check.wait();
  INFO(ended.shown());
  CHECK(ended.code == 0);
}

TEST_CASE("data that is no file is named for what it is") {
  const ScratchFolder folder;
  const std::string fifo = folder / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const std::string labels = folder.write("labels", idx({2}, std::string(2, '\1')));
  for (const std::string& path : {fifo, std::string("/dev/zero")}) {
    const std::string kind = path == fifo ? "a FIFO" : "a character device";
    const Words says = {"cannot read " + path + ": " + kind + ", not a regular file"};
    const std::string images = folder.write("images.toml", idx_job(path, labels));
    const std::string run = folder / (path == fifo ? "fifo-run" : "device-run");
    check_refused({path, {}, 1, says}, estrain({"train", images, "--run", run + "-images"}));
    const std::string text = folder.write("text.toml", gpt_job(path));
    check_refused({path, {}, 1, says}, estrain({"train", text, "--run", run + "-text"}));
    check_refused({path, {}, 2, {path}}, estrain({"verify", path, path}));
  }
}

TEST_CASE("a link in a prepared run directory is named, and what it leads to stays as it is") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job()), precious = folder.write("precious", "content");
  for (const char* name : {"lock", "metrics.jsonl", "scribe.log", "worker-0.log", "fingerprints", "job.toml.tmp",
                           "checkpoints/latest.tmp", "checkpoints/step-000000000.h5.tmp"}) {
    CAPTURE(name);
    const std::string run = folder / "run";
    fs::remove_all(run);
    fs::create_directories(run + "/checkpoints");
    fs::create_symlink(precious, run + "/" + name);
    const Ended ended = estrain({"train", spec, "--run", run, "--set", "train.steps=2"});
    INFO(ended.shown());
    const bool is_temporary = std::string_view(name).ends_with(".tmp");
    CHECK(ended.code == (is_temporary ? 0 : 2));
    CHECK(ended.says(run + "/" + name + ": refusing to write to it: a symbolic link to " + precious) == !is_temporary);
    CHECK(read_file(precious) == "content");
  }
}

}  // namespace
}  // namespace estrain::testing
