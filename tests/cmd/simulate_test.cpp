// `estrain simulate` and `estrain plan --burst`: results and refusals.

#include <doctest/doctest.h>

#include "command.h"
#include "core/base/files/files.h"
#include "core/base/json/json.h"
#include "setting.h"
#include "tests/scratch_folder.h"

namespace estrain::testing {
namespace {

const std::string kTrace = "job,submit_s,num_gpus,duration_s\na,0,2,100\nb,0,2,100\n";

TEST_CASE("simulate prints a table and writes JSON and a page; the same again byte by byte") {
  const ScratchFolder folder;
  const std::string trace = folder.write("t.csv", kTrace);
  const auto run = [&](const std::string& name) {
    const Ended ended =
        estrain({"simulate", trace, "--cluster", "1x2", "--policy", "fifo,estrain", "--charge", "5", "--seed", "3",
                 "--json", folder / (name + ".json"), "--html", folder / (name + ".html")});
    INFO(ended.shown());
    CHECK(ended.code == 0);
    CHECK(ended.says("mean JCT"));
  };
  run("one");
  run("two");
  const std::string text = read_file(folder / "one.json");
  CHECK(text == read_file(folder / "two.json"));
  CHECK(read_file(folder / "one.html") == read_file(folder / "two.html"));
  const Json json = parse_json(text, "one.json");
  REQUIRE(json.size() == 2);
  CHECK(json[0].at("policy") == "fifo");
  CHECK(json[0].at("seed") == 3);
  CHECK(json[0].at("charge_s") == 5);
  CHECK(json[0].at("jct_s").at("a") == 165);
  CHECK(json[0].at("jct_s").at("b") == 285);
  CHECK(json[1].at("policy") == "estrain");
}

TEST_CASE("what a change costs can be taken from a run that was resized") {
  const ScratchFolder folder;
  const std::string trace = folder.write("t.csv", kTrace);
  const Words words = {"simulate", trace, "--cluster", "1x2", "--policy", "fifo", "--charge", "measured"};
  const Setting none("ESTRAIN_PROFILES", folder / "none.json");
  CHECK(estrain(words).says("no change of devices has been measured"));
  CHECK(estrain(with(words, {"--run", folder.path()})).says("has no resize"));
  std::string events = "{\"event\": \"start\"}\n";
  for (const char* still : {"1", "2", "30"}) {
    events += std::string("{\"event\": \"resize\", \"stood_still_seconds\": ") + still +
              ", \"lost_while_warming_seconds\": 0.5}\n";
  }
  folder.write("events.jsonl", events);
  const Ended ended = estrain(with(words, {"--run", folder.path(), "--json", "-"}));
  INFO(ended.shown());
  CHECK(ended.says("\"charge_s\":2.5"));
  const std::string profiles = folder.write("profiles.json", R"({"format": "estrain profiles 1", "profiles": [
      {"work": {"device": "cpu"}, "mini_batch": [], "exchange": [],
       "change": {"seconds": 0.25, "spread": 0, "samples": 1, "measured": 1}}]})");
  const Setting seen("ESTRAIN_PROFILES", profiles);
  CHECK(estrain(words).says("a change of devices costs 0.250 s, as measured"));
}

TEST_CASE("simulate refuses what it cannot do with exit code 2 and words") {
  const ScratchFolder folder;
  const std::string trace = folder.write("t.csv", kTrace);
  const auto refused = [&](const Words& words, const std::string& says) {
    const Ended ended = estrain(with({"simulate"}, words));
    INFO(ended.shown());
    CHECK(ended.code == 2);
    CHECK(ended.says(says));
  };
  refused({trace, "--cluster", "1x2", "--policy", "fifi"}, "did you mean \"fifo\"?");
  refused({trace, "--cluster", "1x1", "--policy", "fifo"}, "job a asks for 2 devices, the cluster has 1");
  refused({trace, "--policy", "fifo"}, "--cluster HOSTSxDEVICES");
  refused({trace, "--cluster", "1x2", "--policy", "fifo", "--charge", "-1"}, "--charge");
  refused({trace, "--cluster", "1x2", "--policy", "fifo", "--workload", "9"}, "it has 1");
  const std::string pool = folder.write("p.jsonl", "{\"pool\": {\"devices\": [\"cpu\"], \"cores\": 1}}\n");
  refused({pool, "--policy", "fifo"}, "p.jsonl: no jobs");
  refused({pool, "--cluster", "1x4", "--policy", "fifo"}, "leave out --world, --cluster");
  refused({trace, "--world", folder / "none", "--policy", "fifo"}, "is not a folder");
  refused(
      {folder.write("n.csv", "job,submit_s,num_gpus,duration_s\na,-1,1,1\n"), "--cluster", "1x2", "--policy", "fifo"},
      "n.csv:2: column submit_s: -1 is below 0");
  refused({folder.write("m.csv", "job,submit_s\na,1\n"), "--cluster", "1x2", "--policy", "fifo"}, "no column");
}

TEST_CASE("plan --burst prints the plan and data parallel plans") {
  const ScratchFolder folder;
  std::string rows = "model,set,order,layer,params,batch_per_gpu,input_dims,total_ms\n";
  for (const char* row : {"m,s,0,relu,{},4,8,4", "m,s,1,relu,{},4,8,1", "m,s,0,relu,{},1,8,1", "m,s,1,relu,{},1,8,1"}) {
    rows += std::string(row) + "\n";
  }
  const std::string table = folder.write("l.csv", rows);
  const Ended ended =
      estrain({"plan", "--burst", "--table", table, "--limit", "1.5", "--global-batch", "4", "--gpus", "4", "--json"});
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  const Json json = parse_json(ended.text, "plan");
  CHECK(json.at("layers")[0].at("devices") == 4);
  CHECK(json.at("layers")[1].at("devices") == 1);
  CHECK(json.at("data_parallel").size() == 3);
  CHECK(json.at("speed_up").get<double>() < 1);  // 2 ms and a transfer, beside 2 ms on four devices
  CHECK(json.at("no_gain").get<std::string>().starts_with("data parallel over 4 devices is faster, and exceeds"));
  CHECK_FALSE(json.contains("job"));
  CHECK(estrain({"plan", "--burst", "--table", table, "--limit", "0.5"}).code == 2);
}

}  // namespace
}  // namespace estrain::testing
