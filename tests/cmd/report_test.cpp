// `estrain report` on runs of the program itself.

#include <doctest/doctest.h>

#include <filesystem>

#include "job.h"
#include "job_specs.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

TEST_CASE("a report of a run with a resize, and of its difference from others") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job()), html = folder / "report.html";
  const std::string run = train_on(folder, spec, "cpu,cpu"), same = train_on(folder, spec, "cpu");
  const std::string other = train_on(folder, spec, "cpu", {"--set", "job.seed=12"});

  const Ended one = estrain({"report", run, "--html", html});
  INFO(one.shown());
  CHECK(one.code == 0);
  CHECK(one.says(html));
  const std::string page = bytes_of(html);
  CHECK(page.find("<title>mlp - estrain report</title>") != page.npos);
  CHECK(page.find("13 recorded, last 13") != page.npos);
  CHECK(page.find("cpu #2") != page.npos);
  CHECK(page.find("id=\"difference\"") == page.npos);

  REQUIRE(estrain({"report", run, same, other, "--html", html}).code == 0);
  const std::string three = bytes_of(html);
  CHECK(three.find("Run 2 from run 1: <strong>none: all bits are equal</strong>") != three.npos);
  CHECK(three.find("Run 3 from run 1: <strong>first at step 0</strong>") != three.npos);
}

TEST_CASE("a report of damaged records says so, and is made") {
  const ScratchFolder folder;
  const std::string run = train_on(folder, folder.write("job.toml", mlp_job()), "cpu"), html = folder / "report.html";
  replace_bytes(run + "/metrics.jsonl", "\n" + bytes_of(run + "/metrics.jsonl"));
  const Ended ended = estrain({"report", run, "--html", html});
  INFO(ended.shown());
  CHECK(ended.code == 0);
  CHECK(ended.says("warning: damaged: 1 line(s) cannot be read and are left out, first " + run + "/metrics.jsonl:1"));
  CHECK(bytes_of(html).find("13 recorded, last 13") != std::string::npos);
}

TEST_CASE("without --html the page is here, named after the runs; a file that is no report stays") {
  const ScratchFolder folder;
  const std::string run = train_on(folder, folder.write("job.toml", mlp_job()), "cpu");
  const std::string name = std::filesystem::path(run).filename().string() + ".html";
  const auto report = [&] { return Command({"report", run}, {.before = "cd " + folder.path()}).wait(); };
  for (int i = 0; i < 2; ++i) {
    const Ended ended = report();
    INFO(ended.shown());
    CHECK(ended.code == 0);
    CHECK(ended.says(name));
    CHECK(bytes_of(folder / name).find(" - estrain report</title>") != std::string::npos);
  }
  replace_bytes(folder / name, "<title>mine</title>");
  const Ended refused = report();
  INFO(refused.shown());
  CHECK(refused.code == 2);
  CHECK(refused.says("name another file: --html FILE"));
  CHECK(bytes_of(folder / name) == "<title>mine</title>");
}

TEST_CASE("what report cannot do: words, an exit code, and what was there stays") {
  const ScratchFolder folder;
  const std::string html = folder.write("report.html", "what was there");
  const Ended nothing = estrain({"report", folder / "none", "--html", html});
  CHECK(nothing.code == 2);
  CHECK(nothing.says(folder / "none: no run there"));
  CHECK(bytes_of(html) == "what was there");
  const std::string run = train_on(folder, folder.write("job.toml", mlp_job()), "cpu");
  CHECK(estrain({"report", run, "--html", ""}).code == 2);
  const Ended nowhere = estrain({"report", run, "--html", folder / "no/such/folder/report.html"});
  INFO(nowhere.shown());
  CHECK(nowhere.code == 1);
  CHECK(nowhere.says("no/such/folder"));
}

}  // namespace
}  // namespace estrain::testing
