#include "core/engine/train/job/job.h"

#include <doctest/doctest.h>

#include <string>

#include "core/data/job_data.h"
#include "core/job/spec/parsing/parse.h"
#include "tests/error_of.h"

namespace estrain::train {
namespace {

spec::JobSpec spec_with(const std::string& schedule) {
  return spec::parse_text(
      "[job]\nests = 2\n[model]\nname = \"mlp\"\nhidden = [4]\n[data]\nformat = \"synthetic\"\nshape = [7]\n"
      "samples = 60\nbatch = 5\n[elastic]\nbatch = \"adaptive\"\nchanges = [{ after = 2, batch = 6, lr_factor = 2.0 "
      "}]\n"
      "[optimizer]\nname = \"sgd\"\nlr = 0.1\n[train]\nepochs = 4\n" +
          schedule,
      "test");
}

data::DataPair data_of(const spec::JobSpec& spec) {
  return data::open(spec.data, spec.model.context, 0, spec.model.classes);
}

TEST_CASE("a job that takes changes of the batch between stages is the job that was built with them") {
  for (const char* schedule : {"[schedule]\nname = \"step\"\nunit = \"epoch\"\nperiod = 1\ngamma = 0.5\n",
                               "[schedule]\nname = \"cosine\"\nunit = \"step\"\nperiod = 30\n"}) {
    CAPTURE(std::string(schedule));
    const spec::JobSpec launched = spec_with(schedule);
    spec::JobSpec recorded = launched;
    recorded.elastic.changes = {{2, 6, 2}, {9, 2, 0.5}, {12, 3, 1}};
    const data::DataPair data = data_of(launched);
    TrainingJob job(launched, data, false), built(recorded, data, false);
    job.schedules().rates_at(Step(20));
    CHECK_FALSE(job.take_changes({}));
    CHECK(job.take_changes({{9, 4, 1}, {9, 2, 0.5}}));  // the later one of a step counts
    CHECK(job.take_changes({{9, 4, 1}, {9, 2, 0.5}, {12, 3, 1}}));
    CHECK_FALSE(job.take_changes({{9, 4, 1}, {9, 2, 0.5}, {12, 3, 1}}));
    CHECK((job.timetable().batches() == built.timetable().batches()));
    const int64_t total = built.timetable().total_steps();
    CHECK(job.timetable().total_steps() == total);
    CHECK(job.manifest().to_json() == built.manifest().to_json());
    for (int64_t step = 0; step <= total; ++step) {
      CHECK(job.timetable().evaluates_after(Step(step)) == built.timetable().evaluates_after(Step(step)));
      CHECK((job.schedules().rates_at(Step(step)) == built.schedules().rates_at(Step(step))));
    }
    for (int64_t step = 0; step < total; ++step) {
      const auto samples = job.samples().sampler().indices(Step(step), VirtualRank(1));
      CHECK((samples == built.samples().sampler().indices(Step(step), VirtualRank(1))));
    }
  }
}

TEST_CASE("a change of the batch that makes the job longer than its schedule is refused") {
  const spec::JobSpec spec = spec_with("[schedule]\nname = \"onecycle\"\nunit = \"step\"\nperiod = 24\n");
  const data::DataPair data = data_of(spec);
  TrainingJob job(spec, data, false);
  CHECK(error_of([&] { job.take_changes({{9, 2, 1}}); }).fault() == Fault::spec);
}

}  // namespace
}  // namespace estrain::train
