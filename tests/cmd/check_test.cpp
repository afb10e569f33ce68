// `estrain check` reports everything that would prevent a job from running; `estrain train` runs the quick checks.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "job.h"
#include "job_specs.h"

namespace estrain::testing {
namespace {

namespace fs = std::filesystem;

// A lower soft limit, inherited by commands, for the object's lifetime.
class Limited {
 public:
  Limited(__rlimit_resource resource, rlim_t value) : resource_(resource) {
    REQUIRE(::getrlimit(resource_, &before_) == 0);
    const rlimit lower{value, before_.rlim_max};
    REQUIRE(::setrlimit(resource_, &lower) == 0);
  }
  ~Limited() { ::setrlimit(resource_, &before_); }
  Limited(const Limited&) = delete;

 private:
  __rlimit_resource resource_;
  rlimit before_{};
};

struct Checked {
  int code;
  Json report;

  // "outcome: seen" for all lines about `check`.
  Words about(const std::string& check) const {
    Words lines;
    for (const Json& line : report.at("checks")) {
      if (line.at("check") == check)
        lines.push_back(line.at("outcome").get<std::string>() + ": " + line.at("seen").get<std::string>());
    }
    return lines;
  }
  bool says(const std::string& check, const std::string& words) const {
    for (const std::string& line : about(check))
      if (line.find(words) != std::string::npos) return true;
    return false;
  }
  int64_t count(const std::string& outcome) const {
    return std::ranges::count_if(report.at("checks"), [&](const Json& line) { return line.at("outcome") == outcome; });
  }
};

Checked check(Words arguments) {
  arguments.insert(arguments.begin(), "check");
  arguments.emplace_back("--json");
  const Ended ended = estrain(arguments);
  INFO(ended.shown());
  REQUIRE(ended.text.starts_with("{"));
  return {ended.code, parse_json(ended.text, "check --json")};
}

TEST_CASE("a job that can run: a line for everything, exit code 0, nothing left behind") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  const Checked found = check({spec, "--run", folder / "run", "--devices", "2"});
  CAPTURE(found.report.dump(1));
  CHECK(found.code == 0);
  CHECK(found.count("error") == 0);
  for (const char* word :
       {"spec", "devices", "data", "steps", "mini-batch", "determinism", "run directory", "disk space", "memory",
        "shared memory", "file size", "address space", "open files", "tasks", "cores", "readers", "clock"})
    CHECK(found.about(word).size() == 1);
  CHECK(found.says("devices", "2 workers"));
  // 150 samples: each of 8 ESTs has 19, in mini-batches of 4.
  CHECK(
      found.says("steps", fmt::format("{} in all; the first epoch has 5", found.report.at("total_steps").get<int>())));
  CHECK(found.says("memory", "2 workers"));
  CHECK(found.report.at("operators").size() > 5);
  CHECK(found.report.at("verdict").get<std::string>().starts_with("D"));
  CHECK(found.report.at("reason") != "");
  CHECK(found.report.at("work").at("model.name") == "mlp");
  CHECK(found.report.at("work").at("determinism") == "D1");
  CHECK_FALSE(found.report.at("work").contains("device"));
  CHECK(found.report.at("memory").at("peak").get<int64_t>() > (50 << 20));
  // 24 x 48 + 48 + 48 x 32 + 32 + 32 x 10 + 10 weights, each with two moments, and 8 generators of 5 KB
  CHECK(found.report.at("size").at("parameters") == 3098);
  CHECK(found.report.at("size").at("gradient_bytes").get<int64_t>() >= 3098 * 4);
  CHECK(found.report.at("size").at("state_bytes").get<int64_t>() >= 3098 * 12 + 8 * 5000);
  CHECK(found.report.at("size").at("steps") == 13);
  CHECK_FALSE(fs::exists(folder / "run"));
  const Ended table = estrain({"check", spec, "--run", folder / "run"});
  CHECK(table.code == 0);
  CHECK(table.says("errors: 0"));
  CHECK(table.says("disk space     ok"));
}

TEST_CASE("spec, model, data and run directory are all wrong: all of it is told") {
  const ScratchFolder folder;
  std::string labels(16, '\1');
  labels.back() = '\12';
  const std::string images = folder.write("images", idx({16, 8, 8}, std::string(16 * 8 * 8, 'x')));
  const std::string spec = folder.write("job.toml", idx_job(images, folder.write("labels", idx({16}, labels))));
  const std::string file = folder.write("file", "");
  const Checked found = check({spec, "--run", file + "/run", "--devices", "3"});
  CAPTURE(found.report.dump(1));
  CHECK(found.code == 2);
  CHECK(found.says("labels",
                   "error: " + folder / "labels: 1 of 16 labels are out of range, the first is 10 of sample 15"));
  CHECK(found.says("devices", "error: "));  // 3 workers for 2 ESTs
  CHECK(found.says("mini-batch", "error: "));
  CHECK(found.says("mini-batch", "lenet"));
  CHECK(found.says("run directory", "error: " + file + " is not a folder"));
  CHECK(found.report.at("verdict") == nullptr);
  CHECK(found.report.at("operators").empty());
}

TEST_CASE("labels are wrong, and the model is tried on made-up images of the same shape") {
  const ScratchFolder folder;
  const std::string images = folder.write("images", idx({16, 28, 28}, std::string(16 * 28 * 28, 'x')));
  const std::string spec = folder.write("job.toml", idx_job(images, folder / "nowhere"));
  const Checked found = check({spec, "--run", folder / "run"});
  CAPTURE(found.report.dump(1));
  CHECK(found.code == 2);
  CHECK(found.count("error") == 1);
  CHECK(found.says("data", "error: cannot open " + folder / "nowhere"));
  CHECK(found.says("mini-batch", "ok: 2 samples (made up)"));
  CHECK(found.says("memory", "ok: "));
  const Checked nothing = check({folder.write("none.toml", idx_job(folder / "no", folder / "nowhere"))});
  CHECK(nothing.code == 2);
  CHECK(nothing.says("mini-batch", "warning: not tried"));
  CHECK(nothing.count("error") == 2);
}

TEST_CASE("every mistake of a spec is a line") {
  const ScratchFolder folder;
  const std::string spec =
      folder.write("job.toml", "[job]\nests = 0\nsteps = 4\n[model]\nname = \"lenett\"\n[train]\nsteps = -1\n");
  const Checked found = check({spec});
  CAPTURE(found.report.dump(1));
  CHECK(found.code == 2);
  CHECK(found.about("spec").size() == 4);
  CHECK(found.says("spec", spec + ":2:"));
  CHECK(found.says("spec", "lenett"));
  CHECK(found.about("shared memory").size() == 1);
  CHECK(check({folder / "absent.toml"}).code == 2);
}

TEST_CASE("text that is empty, or too short for a context") {
  const ScratchFolder folder;
  const std::string text = folder.write("book.txt", "");
  const std::string spec = folder.write("job.toml", gpt_job(text));
  const Checked empty = check({spec});
  CHECK(empty.code == 2);
  CHECK(empty.says("data", "the text is empty"));
  folder.write("book.txt", some_text(20));
  const Checked brief = check({spec});
  CHECK(brief.says("data", "18 bytes for the training set are too few for a sample of 32 tokens: 33 are needed"));
  CHECK(brief.says("data", "2 bytes for the test set"));
}

TEST_CASE("initial weights that do not fit the model") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  const Checked found = check({spec, "--set", "model.init=\"" + spec + "\""});
  CAPTURE(found.report.dump(1));
  CHECK(found.code == 2);
  CHECK(found.says("model.init", "error: "));
  CHECK(found.says("mini-batch", "ok: "));
}

TEST_CASE("what only the machine lacks exits with 1") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  {
    const Limited files(RLIMIT_FSIZE, 100 << 10);
    const Checked found = check({spec, "--run", folder / "run"});
    CAPTURE(found.report.dump(1));
    CHECK(found.code == 1);
    CHECK(found.count("error") == 1);
    CHECK(found.says("file size", "error: limited to 100.0 KiB"));
  }
  const Checked below_file = check({spec, "--run", spec + "/run"});
  CHECK(below_file.code == 1);
  CHECK(below_file.says("run directory", "error: " + spec + " is not a folder"));
}

TEST_CASE("a run that is there already is pointed out") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  REQUIRE(estrain({"train", spec, "--run", folder / "run"}).code == 0);
  const Checked found = check({spec, "--run", folder / "run"});
  CHECK(found.code == 0);
  CHECK(found.says("run directory", "warning: " + folder / "run" + ": a run exists already"));
}

TEST_CASE("train refuses before it starts what surely fails, and warns of the rest") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  {
    const Limited files(RLIMIT_NOFILE, 18);
    const Ended refused = estrain({"train", spec, "--run", folder / "run", "--devices", "8"});
    INFO(refused.shown());
    CHECK(refused.code == 1);
    CHECK(refused.says("open files: limited to 18; the launcher of 8 workers needs "));
    CHECK(refused.says("ulimit -n"));
    CHECK_FALSE(fs::exists(folder / "run"));
  }
  const timespec future = {::time(nullptr) + 100'000, 0}, times[2] = {future, future};
  REQUIRE(::utimensat(AT_FDCWD, spec.c_str(), times, 0) == 0);
  const Ended warned = estrain({"train", spec, "--run", folder / "run"});
  INFO(warned.shown());
  CHECK(warned.code == 0);
  CHECK(warned.says("warning: clock: " + spec + " was changed "));
  CHECK(warned.says("done: 13 steps"));
}

}  // namespace
}  // namespace estrain::testing
