#include "core/planning/simulate/tables/job_trace.h"

#include <doctest/doctest.h>

#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::simulate {
namespace {

JobTrace read(const std::string& text) {
  const ScratchFolder folder;
  return read_job_trace(folder.write("t.csv", text));
}

TEST_CASE("published traces are read by the names of their columns") {
  const auto reads = [](const std::string& text, const TracedJob& wanted) {
    const JobTrace trace = read(text);
    REQUIRE(trace.jobs.size() == 1);
    const TracedJob& job = trace.jobs[0];
    CHECK(job.name == wanted.name);
    CHECK(job.owner == wanted.owner);
    CHECK(job.model == wanted.model);
    CHECK(job.workload == wanted.workload);
    CHECK(job.submitted == wanted.submitted);
    CHECK(job.duration == wanted.duration);
    CHECK(job.devices == wanted.devices);
    CHECK(job.deadline == wanted.deadline);
  };
  SUBCASE("Philly") {
    reads("job,vc,submit_s,num_gpus,duration_s\n7,ee9e8c,60,8,3000\n", {"7", "ee9e8c", "", "1", 60, 3000, 8, {}});
  }
  SUBCASE("ITP") {
    reads("cluster,job,submit_s,duration_s,num_gpu,deadline_s\n3,a,1932025,2429,64,1933904\n",
          {"a", "", "", "3", 1932025, 2429, 64, 1933904});
  }
  SUBCASE("Tiresias") {
    reads("job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n5,1,30,606,vgg19,164,30\n",
          {"5", "", "vgg19", "1", 30, 164, 1, {}});
  }
  SUBCASE("Helios: dates, and the queue beside the virtual cluster") {
    reads(
        "job_id,user,vc,jobname,gpu_num,state,submit_time,start_time,end_time,duration,queue\n"
        "9,u1,vcA,train,4,COMPLETED,2020-04-01 00:13:21,2020-04-01 00:13:24,2020-04-01 01:00:24,2820,3\n",
        {"train", "vcA", "", "1", 1585700001, 2820, 4, {}});
  }
  SUBCASE("dates of start and end make a duration") {
    reads("gpu_num,submit_time,start_time,end_time\n2,2020-04-01 00:00:00,2020-04-01T00:00:30Z,2020-04-01 00:01:00\n",
          {"0", "", "", "1", 1585699200, 30, 2, {}});
  }
  SUBCASE("Alibaba: a pod begins when it is scheduled") {
    reads("name,num_gpu,creation_time,deletion_time,scheduled_time\np,1,427061,12902960,427065\n",
          {"p", "", "", "1", 427061, 12902960 - 427065, 1, {}});
  }
}

TEST_CASE("jobs without a device or an end are left out, and counted") {
  const JobTrace trace =
      read("job,submit_time,start_time,end_time,gpus\na,0,0,9,0\nb,1,2,8,1\nc,2,2,,1\nd,3,None,7,1\ne,4,4,5,\n");
  REQUIRE(trace.jobs.size() == 1);
  CHECK(trace.jobs[0].name == "b");
  CHECK(trace.without_devices == 2);
  CHECK(trace.without_end == 2);
  CHECK(read("submit_s,num_gpus,duration_s\n0,1,None\n").without_end == 1);
}

TEST_CASE("a trace that is none is refused with the names that its columns may have") {
  const auto error = [](const std::string& text) { return error_of([&] { read(text); }); };
  const Error no_time = error("time,num_gpu,duration\n");
  CHECK(
      no_time.message().ends_with("no column tells when a job was submitted; the columns are time, num_gpu, duration"));
  CHECK(no_time.advice().starts_with("name the column submit_s or submit_time"));
  CHECK(error("submit_s,duration\n").message().find("how many devices a job asks for") != std::string::npos);
  CHECK(error("submit_s,gpus\n").message().find("how long a job ran, or when the job ended") != std::string::npos);
  CHECK(error("submit_s,gpus,end_s\n").message().find("when a job started") != std::string::npos);
  CHECK(error("submit_s,gpus,start_s,end_s\n0,1,5,4\n")
            .message()
            .ends_with("t.csv:2: column end_s: the job ends before it starts"));
  CHECK(error("submit_time,gpus,duration\n2020-13-01 00:00:00,1,4\n").message().find("is not a number") !=
        std::string::npos);
  CHECK(error("submit_s,gpus,duration\n0,-1,4\n").message().find("-1 is not from 0") != std::string::npos);
}

}  // namespace
}  // namespace estrain::simulate
