// Optimizers and schedules with their own state give the same bits on every placement and after a stop; weights can be
// written by `estrain weights` and imported into another run.

#include <doctest/doctest.h>

#include <filesystem>
#include <set>

#include "core/base/files/files.h"
#include "core/state/record/logs/metrics.h"
#include "cpu_kinds.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

const std::string kRmsprop = "[optimizer]\nname = \"rmsprop\"\nlr = 0.003\nmomentum = 0.9\ncentered = true\n";
const std::string kAdagrad = "[optimizer]\nname = \"adagrad\"\nlr_decay = 0.01\ninitial_accumulator_value = 0.1\n";
// Each optimizer and schedule that has no state but slots, in pairs.
const std::vector<std::string> kPairs = {
    "[optimizer]\nname = \"adamw\"\namsgrad = true\n[schedule]\nname = \"restarts\"\nunit = \"step\"\nperiod = 4\n"
    "period_factor = 2\nwarmup = 3\n",
    "[optimizer]\nname = \"nadam\"\nweight_decay = 0.1\n[schedule]\nname = \"inverse_sqrt\"\nunit = \"step\"\n"
    "period = 5\nwarmup = 5\n",
    "[optimizer]\nname = \"radam\"\ndecoupled_weight_decay = true\nweight_decay = 0.1\n[schedule]\nname = \"wsd\"\n"
    "unit = \"step\"\nperiod = 10\ndecay = 8\nmin_factor = 0.1\n",
    "[optimizer]\nname = \"lion\"\nweight_decay = 0.1\nlayer_decay = 0.7\nlayers = [\"*0.weight\", \"*\"]\n"
    "[schedule]\nname = \"table\"\nunit = \"step\"\npoints = [0, 5, 15]\nfactors = [0.5, 2, 0.25]\n",
    "[optimizer]\nname = \"adam\"\n[[optimizer.groups]]\nmatch = [\"*.bias\"]\nbetas = [0.5, 0.9]\neps = 1e-4\n"
    "[schedule]\nname = \"exponential\"\ngamma = 0.8\n",
    // those that update whole parameters; the train table goes on
    "clip_grad_norm = 0.5\n[ema]\ndecay = 0.9\n[optimizer]\nname = \"muon\"\nlr = 0.02\nlayer_decay = 0.7\n"
    "layers = [\"*0.*\", \"*\"]\n"
    "[[optimizer.groups]]\nmatch = [\"*.bias\"]\nname = \"adamw\"\nlr = 3e-3\nbetas = [0.8, 0.95]\n",
    "[optimizer]\nname = \"adafactor\"\nweight_decay = 0.1\n"
    "[[optimizer.groups]]\nmatch = [\"*0.weight\"]\nname = \"lamb\"\n"};
const std::string kPlateau = "[schedule]\nname = \"plateau\"\npatience = 0\nfactor = 0.5\nthreshold = 0.3\n";

// A small network on vectors, evaluated after every second step.
std::string job_with(const std::string& tables) {
  return "[job]\nname = \"small\"\nseed = 3\nests = 4\n[model]\nname = \"mlp\"\nhidden = [24]\ndropout = 0.2\n"
         "classes = 10\n[data]\nformat = \"synthetic\"\nshape = [24]\nsamples = 96\nbatch = 4\n"
         "[train]\nsteps = 24\neval_every = 2\n" +
         tables;
}

std::set<double> rates_of(const std::string& run) {
  std::set<double> rates;
  for (const auto& step : record::read_metrics(run + "/metrics.jsonl").steps) rates.insert(step.lr);
  return rates;
}

// Placements, and a stop in the middle, before and after an evaluated step.
void check_no_trace_of(const std::string& tables, const ScratchFolder& folder) {
  const std::string spec = folder.write("job.toml", job_with(tables));
  const std::string alone = train_on(folder, spec, "1");
  REQUIRE(metric_steps(alone) == first_steps(24));
  CHECK(difference(alone, train_on(folder, spec, "3")).text == "");
  CHECK(difference(alone, train_in_two(folder, spec, "10", "24")).text == "");
  // The first half is evaluated after its last step, which is none of those that the whole run evaluates.
  const std::string odd = train_in_two(folder, spec, "9", "24");
  CHECK(checkpoint_difference(latest_checkpoint(alone), latest_checkpoint(odd)) == "");
  CHECK(rates_of(odd) == rates_of(alone));
}

TEST_CASE("RMSprop with a rate that falls when evaluations get no better: no trace of placements and stops") {
  const ScratchFolder folder;
  check_no_trace_of(kRmsprop + kPlateau, folder);
  const std::string run = train_on(folder, folder.write("again.toml", job_with(kRmsprop + kPlateau)), "2");
  CHECK(rates_of(run).size() > 2);  // it fell, and more than once
}

TEST_CASE("Adagrad over one cycle: no trace of placements and stops") {
  const ScratchFolder folder;
  check_no_trace_of(kAdagrad + "[schedule]\nname = \"onecycle\"\nunit = \"step\"\nperiod = 24\n", folder);
}

TEST_CASE("RMSprop at D2: no trace of the kind") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", job_with(kRmsprop + kPlateau));
  const Words d2 = {"--set", "job.determinism=D2"};
  const std::string one = train_on(folder, spec, kinds()[0], d2);
  CHECK(difference(one, train_on(folder, spec, kinds().back(), d2)).text == "");
  CHECK(difference(one, train_on(folder, spec, all_kinds(), d2)).text == "");
}

// A live resize, a killed launcher and a resume.
void check_no_trace_of_disturbances(const std::string& tables) {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", job_with(tables));
  const Words longer = {"--set", "train.steps=6000", "--set", "checkpoint.every=50"};
  Job job(spec, folder / "moved", with({"--devices", "2"}, longer));
  job.reach(60);
  REQUIRE(job.resize("3").code == 0);
  job.reach(job.step() + 60);
  job.launcher().kill();
  wait_until("the run's end", [&] { return !anyone_left(job.run()); });
  const int64_t last = 100 * (last_step(job.run()) / 100 + 1);
  const Words to_there = {"--set", "train.steps=" + std::to_string(last)};
  const Ended ended = estrain(with({"train", "--resume", "--run", job.run(), "--devices", "1"}, to_there));
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  CHECK(difference(train_on(folder, spec, "1", with(longer, to_there)), job.run()).text == "");
}

TEST_CASE("a live resize and a killed launcher leave no trace in a rate that goes by evaluations") {
  check_no_trace_of_disturbances(kRmsprop + kPlateau);
}

TEST_CASE("a live resize and a killed launcher leave no trace in other optimizers and schedules") {
  for (const std::string& tables : kPairs) {
    CAPTURE(tables);
    check_no_trace_of_disturbances(tables);
  }
}

TEST_CASE("optimizers and schedules without a state but slots: no trace of placements and stops") {
  for (const std::string& tables : kPairs) {
    CAPTURE(tables);
    const ScratchFolder folder;
    check_no_trace_of(tables, folder);
  }
}

TEST_CASE("at D2 the newer optimizers leave no trace of the kind") {
  for (const std::string& tables : kPairs) {
    CAPTURE(tables);
    const ScratchFolder folder;
    const std::string spec = folder.write("job.toml", job_with(tables));
    const Words d2 = {"--set", "job.determinism=D2"};
    CHECK(difference(train_on(folder, spec, kinds()[0], d2), train_on(folder, spec, all_kinds(), d2)).text == "");
  }
}

TEST_CASE("layers that the names of the parameters do not have are refused at once") {
  const ScratchFolder folder;
  const std::string layers = "[optimizer]\nlayer_decay = 0.7\nlayers = [\"stem.*\", \"*\"]\n";
  const Ended ended = estrain({"train", folder.write("job.toml", job_with(layers)), "--run", folder / "run"});
  INFO(ended.shown());
  CHECK(ended.code == 2);
  CHECK(ended.says("optimizer.layers: \"stem.*\" is the first match of no parameter"));
}

TEST_CASE("a cycle that ends before the job, and a rate by evaluations that nobody makes, are refused at once") {
  const ScratchFolder folder;
  const std::string cycle = "[schedule]\nname = \"onecycle\"\nunit = \"step\"\nperiod = 23\n";
  const Ended ended = estrain({"train", folder.write("job.toml", job_with(cycle)), "--run", folder / "run"});
  INFO(ended.shown());
  CHECK(ended.code == 2);
  CHECK(ended.says("schedule.period: the cycle ends after 23 steps, the job after 24"));
  CHECK(ended.says("set schedule.period to 24"));
  const std::string spec = folder.write("plateau.toml", job_with(kPlateau));
  CHECK(estrain({"train", spec, "--run", folder / "run2", "--set", "train.eval_every=never"}).code == 2);
}

TEST_CASE("exported weights start another run with the bits of the checkpoint, in both formats") {
  const ScratchFolder folder;
  const std::string text = folder.write("book.txt", some_text(1600));
  const std::string spec = folder.write("job.toml", gpt_job(text));  // its output shares the embedding's weights
  const std::string run = train_on(folder, spec, "2");
  const auto started_from = [&](const std::string& file) {
    return train_on(folder, spec, "1", {"--set", "model.init=" + file, "--set", "train.steps=2"});
  };
  const std::string expected = started_from(latest_checkpoint(run));
  for (const std::string format : {"safetensors", "hdf5"}) {
    CAPTURE(format);
    const std::string out = folder / ("weights." + format);
    const Ended ended = estrain({"weights", run, out, "--format", format});
    INFO(ended.shown());
    REQUIRE(ended.code == 0);
    CHECK(difference(expected, started_from(out)).text == "");
    const std::string before = read_file(out);
    const Ended again = estrain({"weights", run, out, "--format", format});
    CHECK(again.code == 2);
    CHECK(again.says("exists already"));
    CHECK(estrain({"weights", run, out, "--format", format, "--force"}).code == 0);
    CHECK(read_file(out) == before);
  }
}

TEST_CASE("weights says what it cannot do, and leaves nothing") {
  const ScratchFolder folder;
  const std::string run = train_on(folder, folder.write("job.toml", job_with("")), "1");
  const std::string out = folder / "weights";
  const auto refused = [&](const Words& arguments, const std::string& words) {
    const Ended ended = estrain(with({"weights"}, arguments));
    INFO(ended.shown());
    CHECK(ended.code != 0);
    CHECK(ended.says(words));
    CHECK_FALSE(std::filesystem::exists(out));
  };
  refused({run, out, "--step", "7"}, "has no checkpoint of step 7");
  refused({folder.path(), out}, "no usable checkpoint");
  refused({folder / "nothing", out}, "nothing");
  refused({run + "/metrics.jsonl", out}, "metrics.jsonl");
  refused({run, out, "--format", "onnx"}, "onnx");
  refused({run, out, "--format", "pt2"}, "no exported program");
  refused({run, out, "--program", "net.pt2"}, "--program is for --format pt2");
}

}  // namespace
}  // namespace estrain::testing
