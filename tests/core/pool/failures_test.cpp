#include "core/pool/failures.h"

#include <doctest/doctest.h>

namespace estrain::pool {
namespace {

using dispatch::JobEnd;
using dispatch::Outcome;

JobEnd end_of(int64_t job, Outcome outcome, double seconds, int64_t devices) {
  return {.job = job,
          .user = job % 2 == 0 ? "bert" : "anna",
          .outcome = outcome,
          .seconds = seconds,
          .device_seconds = seconds * static_cast<double>(devices),
          .devices = devices};
}

JobEnd failure(int64_t job, Outcome outcome, const std::string& cause, double seconds, int64_t devices,
               std::vector<std::string> files = {}) {
  JobEnd end = end_of(job, outcome, seconds, devices);
  end.cause = cause;
  end.fault_class = cause == "hung" ? "infrastructure" : "user";
  end.files = std::move(files);
  return end;
}

// Jobs 1 and 2 pass, job 1 at the second try; job 3 is cancelled; jobs 4, 5, 6 and 7 fail; job 8 is tried again still.
std::vector<JobEnd> some_ends() {
  return {failure(1, Outcome::retried, "hung", 10, 2),
          end_of(1, Outcome::passed, 20, 2),
          end_of(2, Outcome::passed, 40, 1),
          end_of(3, Outcome::killed, 0, 0),
          failure(4, Outcome::unsuccessful, "incorrect_inputs", 1, 1, {"/d/a b", "/d/c"}),
          failure(5, Outcome::unsuccessful, "incorrect_inputs", 3, 4, {"/d/c"}),
          failure(6, Outcome::unsuccessful, "incorrect_inputs", 100, 8),
          failure(7, Outcome::unsuccessful, "check", 0, 0),
          failure(8, Outcome::retried, "hung", 5, 1)};
}

TEST_CASE("jobs are counted by how they ended, with the device-seconds of all of their tries") {
  const Json statuses = failures_json(some_ends()).at("statuses");
  REQUIRE(statuses.size() == 4);
  CHECK(statuses[0].at("status") == "passed");
  CHECK(statuses[0].at("jobs") == 2);
  CHECK(statuses[0].at("jobs_part") == doctest::Approx(2.0 / 7));
  CHECK(statuses[0].at("device_seconds") == 100);
  CHECK(statuses[1].at("status") == "killed");
  CHECK(statuses[1].at("jobs") == 1);
  CHECK(statuses[2].at("status") == "unsuccessful");
  CHECK(statuses[2].at("jobs") == 4);
  CHECK(statuses[2].at("device_seconds") == 813);
  CHECK(statuses[2].at("device_seconds_part") == doctest::Approx(813.0 / 913));
  CHECK(statuses[3].at("status") == "total");
  CHECK(statuses[3].at("jobs") == 7);
  CHECK(statuses[3].at("jobs_part") == 1);
}

TEST_CASE("causes are counted with their trials, jobs, users, seconds to the failure and devices, most trials first") {
  const Json causes = failures_json(some_ends()).at("causes");
  REQUIRE(causes.size() == 3);
  const Json& inputs = causes[0];
  CHECK(inputs.at("cause") == "incorrect_inputs");
  CHECK(inputs.at("class") == "user");
  CHECK(inputs.at("trials") == 3);
  CHECK(inputs.at("jobs") == 3);
  CHECK(inputs.at("users") == 2);
  CHECK(inputs.at("seconds").at("median") == 3);
  CHECK(inputs.at("seconds").at("p90") == 100);
  CHECK(inputs.at("seconds").at("total") == 104);
  CHECK(inputs.at("seconds").at("part") == doctest::Approx(104.0 / 119));
  CHECK(inputs.at("trials_on") == Json{{"1", 1}, {"2-4", 1}, {"5+", 1}});
  CHECK(inputs.at("device_seconds") == 813);
  CHECK(inputs.at("device_seconds_part") == doctest::Approx(813.0 / 838));
  CHECK(inputs.at("files") == Json::array({"/d/c", "/d/a b"}));
  CHECK(causes[1].at("cause") == "hung");
  CHECK(causes[1].at("trials") == 2);
  CHECK(causes[1].at("users") == 2);
  CHECK(causes[2].at("cause") == "check");
  CHECK(causes[2].at("trials_on") == Json{{"1", 0}, {"2-4", 0}, {"5+", 0}});
}

TEST_CASE("the tables are readable, show at most five files of a cause, and let no name act on a terminal") {
  std::vector<JobEnd> ends = some_ends();
  for (int i = 0; i < 9; ++i)
    ends.push_back(failure(9, Outcome::unsuccessful, "incorrect_inputs", 1, 1, {"/d/\x1b[2J" + std::to_string(i)}));
  const std::string text = format_failures(failures_json(ends));
  INFO(text);
  CHECK(text.find("\x1b") == std::string::npos);
  CHECK(text.find("[2J8") != std::string::npos);
  CHECK(text.find("[2J3") == std::string::npos);
  const std::string few = format_failures(failures_json(some_ends()));
  INFO(few);
  CHECK(
      few.starts_with("status                     jobs            device-seconds\n"
                      "passed               2 (28.6 %)              100 (11.0 %)\n"
                      "killed               1 (14.3 %)                 0 (0.0 %)\n"
                      "unsuccessful         4 (57.1 %)              813 (89.0 %)\n"
                      "total               7 (100.0 %)             913 (100.0 %)\n"));
  CHECK(few.find("incorrect_inputs         user                 3     3     2       3.0    100.0    100.0   87.4 %     "
                 "1    1    1        813 (97.0 %)\n") != std::string::npos);
}

TEST_CASE("a pool without ends has empty tables") {
  CHECK(failures_json({}).at("causes").empty());
  CHECK(failures_json({}).at("statuses")[3].at("device_seconds_part") == 0);
  CHECK(format_failures(failures_json({})).ends_with("no job has failed\n"));
}

}  // namespace
}  // namespace estrain::pool
