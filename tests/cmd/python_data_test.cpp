// data.format = "python": a job on a user's Dataset, read by processes of the Python of scripts/setup --peers. The bits
// do not depend on the placement, the number of these processes, or their loss.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <csignal>
#include <filesystem>

#include "core/base/files/files.h"
#include "job.h"
#include "run_files.h"
#include "tests/contains.h"

namespace estrain::testing {
namespace {

namespace fs = std::filesystem;

bool has_peers() { return fs::exists(ESTRAIN_PEERS_PYTHON); }

struct PythonData {
  ScratchFolder folder;

  std::string spec(const std::string& code = "pass", const std::string& name = "Train") const {
    folder.write("data.py",
                 "import os, random, time\nimport numpy, torch\n"
                 "class Train(torch.utils.data.Dataset):\n"
                 "    classes = 3\n"
                 "    def __len__(self):\n"
                 "        return 50\n"
                 "    def __getitem__(self, i):\n"
                 "        " +
                     code +
                     "\n"
                     "        numbers = torch.linspace(0, i, 12) * random.random() + float(numpy.random.rand())\n"
                     "        return numbers + torch.rand(12), i % 3\n"
                     "class Stream(torch.utils.data.IterableDataset):\n"
                     "    pass\n");
    return folder.write(
        "job.toml", fmt::format("job = {{ name = \"python-data\", seed = 5, ests = 4 }}\n"
                                "model = {{ name = \"mlp\", hidden = [8] }}\n"
                                "[data]\nformat = \"python\"\nfile = \"data.py:{}\"\ntest_file = \"data.py:Train\"\n"
                                "python = \"{}\"\nbatch = 3\nreaders = 2\n[optimizer]\nlr = 0.01\n"
                                "[train]\nsteps = 8\neval_every = 4\neval_batch = 7\n",
                                name, ESTRAIN_PEERS_PYTHON));
  }
};

TEST_CASE("a job on a Dataset has the same bits on any devices, with any number of data workers" *
          doctest::skip(!has_peers())) {
  const PythonData data;
  const std::string spec = data.spec();
  const std::string alone = train_on(data.folder, spec, "1", {"--set", "data.readers=1"});
  CHECK(metric_steps(alone) == first_steps(8));
  CHECK(difference(alone, train_on(data.folder, spec, "cpu=1,cpu=3")).text == "");
}

TEST_CASE("it goes on over a resize, a killed worker, a stop and a resume" * doctest::skip(!has_peers())) {
  const PythonData data;
  check_disturbed_job(data.folder, data.spec("time.sleep(0.002)"), {"cpu=1,cpu=3"});
}

TEST_CASE("a lost data worker is a fault that the run recovers from" * doctest::skip(!has_peers())) {
  const PythonData data;
  const std::string spec = data.spec();
  const std::string alone = train_on(data.folder, spec, "1");
  const std::string once = data.folder / "once";
  data.spec("i == 20 and not os.path.exists('" + once + "') and (open('" + once + "', 'w'), os.kill(os.getpid(), 9))");
  const std::string run = data.folder / "killed";
  const Ended ended = estrain({"train", spec, "--run", run});
  INFO(ended.shown());
  CHECK(ended.code == 0);
  const std::vector<Json> faults = events(run, "fault");
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].at("cause") == "data_worker_lost");
  CHECK(contains(faults[0].dump(), "data.py:Train: sample 20: the data worker that read the sample ended: SIGKILL"));
  CHECK(difference(alone, run).text == "");
}

TEST_CASE("an exception of the Dataset ends the run with its sample and traceback; a stream is refused" *
          doctest::skip(!has_peers())) {
  const PythonData data;
  const Ended raised = estrain({"train", data.spec("assert i != 20"), "--run", data.folder / "run"});
  INFO(raised.shown());
  CHECK(raised.code == 1);
  CHECK(raised.says("data.py:Train: sample 20 raised AssertionError"));
  CHECK(raised.says("line 8, in __getitem__"));
  const Ended refused = estrain({"train", data.spec("pass", "Stream"), "--run", data.folder / "refused"});
  CHECK(refused.code != 0);
  CHECK(refused.says("data.py:Stream: is an IterableDataset"));
  CHECK(refused.says("write a map-style Dataset"));
}

TEST_CASE("samples that raise are left out with data.skip_bad, the same on any devices" * doctest::skip(!has_peers())) {
  const PythonData data;
  const std::string spec = data.spec("assert i not in (20, 49)");
  const Words skips = {"--set", "data.skip_bad=4"};  // both sets have both samples
  const std::string alone = train_on(data.folder, spec, "1", skips);
  CHECK(events(alone, "left_out").size() == 4);
  CHECK(events(alone, "left_out").at(0).at("why").get<std::string>().starts_with("data.py:Train: sample "));
  CHECK(difference(alone, train_on(data.folder, spec, "cpu=1,cpu=3", skips)).text == "");
}

}  // namespace
}  // namespace estrain::testing
