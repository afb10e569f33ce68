// `estrain plan --burst SPEC`: times the blocks of a job's network, and plans with them.

#include <doctest/doctest.h>

#include <cmath>

#include "job.h"
#include "job_specs.h"
#include "tests/program_file.h"

namespace estrain::testing {
namespace {

Json burst_plan(const std::string& spec, const Words& more = {}) {
  const Ended ended = estrain(with({"plan", "--burst", spec, "--seconds", "0.01", "--json"}, more));
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  return parse_json(ended.text.substr(ended.text.find('{')), "plan --burst");
}

std::vector<std::string> names_of(const Json& plan) {
  std::vector<std::string> names;
  for (const Json& block : plan.at("job").at("blocks")) names.push_back(block.at("block").get<std::string>());
  return names;
}

TEST_CASE("a built-in network's blocks have their times and bytes, and the plan is of whole ESTs") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());  // 8 ESTs of 4 samples; clipped
  const Json plan = burst_plan(spec, {"--gpus", "5"}), &job = plan.at("job"), &blocks = job.at("blocks");
  CHECK(names_of(plan) == std::vector<std::string>{"layers.0", "layers.1", "layers.2"});
  const int64_t outputs[] = {4 * 48 * 4, 4 * 32 * 4, 0},
                parameters[] = {(24 * 48 + 48) * 4, (48 * 32 + 32) * 4, (32 * 10 + 10) * 4};
  REQUIRE(plan.at("layers").size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    CAPTURE(i);
    const Json &block = blocks[i], &layer = plan.at("layers")[i];
    CHECK(block.at("output_bytes") == outputs[i]);
    CHECK(block.at("parameter_bytes") == parameters[i]);
    const double forward = block.at("forward_seconds"), backward = block.at("backward_seconds");
    CHECK(forward > 0);
    CHECK(backward > 0);
    const double each = std::ceil(8.0 / layer.at("devices").get<double>());
    CHECK(layer.at("layer") == block.at("block"));
    CHECK(layer.at("compute_seconds").get<double>() ==
          doctest::Approx(each * (forward + backward) + block.at("update_seconds").get<double>()));
  }
  CHECK(plan.at("data_parallel").size() == 3);  // on 1, 2 and 4
  CHECK(job.at("devices") == 5);
  CHECK(job.at("ests") == 8);
  CHECK(job.at("batch") == 4);
  CHECK(job.at("device") == "cpu");
  CHECK(job.at("bandwidth") == 266e9);
  CHECK(job.at("links").get<std::string>().starts_with("assumed"));
  CHECK(job.at("timed").at("ests") == 4);
  CHECK(job.at("timed").at("rounds").get<int64_t>() >= 2);
  const double by_blocks = job.at("timed").at("seconds_by_blocks"), whole = job.at("timed").at("step_seconds");
  CHECK(by_blocks > 0);
  CHECK(whole > 0);
}

TEST_CASE("devices pass on factors of gradients, unless the job's hosts never do") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  const auto factored = [&](const std::string& choice) {
    const Json plan = burst_plan(spec, {"--gpus", "2", "--set", "job.ests=2", "--set", "network.factors=" + choice});
    return plan.at("data_parallel").at(1).at("factored").get<int64_t>();
  };
  CHECK(factored("always") == 2);  // [48, 24] and [32, 48]; [10, 32] is too small
  CHECK(factored("never") == 0);
}

TEST_CASE("the text says what the plan gains, or why nothing, and that nothing trains so") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", lenet_job());
  // So slow that each sum of gradients takes seconds: all on one device.
  const Ended slow = estrain({"plan", "--burst", spec, "--seconds", "0.01", "--bandwidth", "1e-6", "--delay", "1e6"});
  INFO(slow.shown());
  CHECK(slow.code == 0);
  for (const char* words :
       {"timing the blocks of lenet on cpu\n", "lenet on cpu: 8 ESTs of 5 samples, at most 8 devices\n", "\nconv1 ",
        "\nfc3 ", "links: 1e-06 GB/s, 1e+06 us: as given\n", "\nburst parallel ", "\ndata parallel on 8 ",
        "\nno gain, because every block is fastest on one device: more would save ",
        "\ncheck: on one cpu, a step of 4 ESTs takes ", "\nestrain does not train by such plans"})
    CHECK_MESSAGE(slow.says(words), words);
  const Json one = burst_plan(spec, {"--devices", "cpu"});
  CHECK(one.at("job").at("devices") == 1);
  CHECK(one.at("no_gain") == "there is one device, or one EST: nothing can be divided");
  CHECK(one.at("trained") == false);
}

TEST_CASE("a program's blocks are those of its modules; a program that cannot be cut is one block, and says so") {
  const ScratchFolder folder;
  const auto spec_of = [&](const std::string& name, const ProgramParts& parts) {
    const std::string program = folder.write(name + ".pt2", parts.file());
    return folder.write(name + ".toml",
                        "job.ests = 4\n[model]\nname = \"program\"\nfile = \"" + program +
                            "\"\n[data]\nformat = \"synthetic\"\nshape = [3]\nsamples = 300\nbatch = 8\n"
                            "[train]\nsteps = 9\n");
  };
  const Json plan = burst_plan(spec_of("two", program_of_two_layers())), &blocks = plan.at("job").at("blocks");
  CHECK(names_of(plan) == std::vector<std::string>{"layer", "layer.norm"});
  CHECK(blocks[0].at("output_bytes") == 8 * 2 * 4);
  CHECK(blocks[0].at("parameter_bytes") == (2 * 3 + 2) * 4);
  CHECK(blocks[1].at("parameter_bytes") == 2 * 2 * 4);
  CHECK(plan.at("job").at("notes").empty());

  const Json whole = burst_plan(spec_of("whole", small_program()));
  CHECK(names_of(whole) == std::vector<std::string>{"layer"});
  CHECK(whole.at("no_gain") == "the network is a single block");
  REQUIRE(whole.at("job").at("notes").size() == 1);
  CHECK(whole.at("job").at("notes")[0].get<std::string>().starts_with("the program is one block"));
}

TEST_CASE("words that do not go together are refused before anything is timed") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  const auto refused = [&](const Words& words, const std::string& says) {
    const Ended ended = estrain(with({"plan", "--burst"}, words));
    INFO(ended.shown());
    CHECK(ended.code == 2);
    CHECK(ended.says(says));
    CHECK_FALSE(ended.says("timing the blocks"));
  };
  refused({}, "plan --burst needs a job, SPEC.toml or --run RUN, or --table FILE");
  refused({spec, "--table", "t.csv"}, "SPEC does not go with plan --burst --table");
  refused({"--table", "t.csv", "--run", folder / "run"}, "--run does not go with plan --burst --table");
  refused({"--table", "t.csv", "--devices", "2"}, "--devices does not go with plan --burst --table");
  refused({"--table", "t.csv", "--set", "job.ests=2"}, "--set does not go with plan --burst --table");
  refused({spec, "--model", "vgg11"}, "--model does not go with a job");
  refused({spec, "--global-batch", "8"}, "--set data.batch=N");
  refused({spec, "--gpus", "4", "--devices", "2"}, "--devices does not go with --gpus");
  refused({spec, "--offer", "cpu"}, "--offer does not go with plan --burst");
  refused({spec, "--profile", "always"}, "--profile does not go with plan --burst");
  refused({spec, "--allow-mixed"}, "--allow-mixed does not go with plan --burst");
  refused({spec, "--limit", "0.5"}, "limit of 0.5 is below 1");
  refused({spec, "--devices", "cpu,cuda:0"}, "devices of one kind, not");
  refused({spec, "--devices", "elsewhere/cpu"}, "--devices names none of this host");
  refused({spec, "--devices", "cpu,elsewhere/cpu"}, "how far the other hosts are is not known");
  refused({folder / "none.toml"}, "none.toml");
  CHECK(estrain({"plan", spec, "--table", "t.csv"}).code == 2);  // without --burst
}

}  // namespace
}  // namespace estrain::testing
