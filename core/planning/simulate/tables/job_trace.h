#pragma once
// The jobs of a trace: when each was submitted, how long it ran, and on how many devices. Published traces name their
// columns differently (Philly, ITP, Helios, Tiresias, ElasticFlow, Alibaba); each column has several names here.
//
// | what | columns |
// |---|---|
// | submission | submit_s, submit_time, submission_time, submitted, arrival_s, arrival_time, creation_time |
// | duration | duration_s, duration, run_time, runtime; otherwise the end minus the start |
// | start | start_s, start_time, scheduled_time, started |
// | end | end_s, end_time, finish_time, deletion_time, finished |
// | devices | num_gpus, num_gpu, gpu_num, gpus, gpu_count, devices |
// | optional | name, job, job_name, jobname, job_id; owner: vc, user, owner, queue |
// | optional | model, model_name; deadline_s; cluster |
//
// Times are seconds, or dates such as "2020-04-01 00:13:21" (UTC). A row without a device or without an end is left
// out: such a job used processors alone, or never ran.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace estrain::simulate {

struct TracedJob {
  std::string name, owner, model;
  std::string workload;                // the column cluster; "1" without a cluster
  double submitted = 0, duration = 0;  // s
  int64_t devices = 1;
  std::optional<double> deadline;  // s, on the clock of `submitted`
};

struct JobTrace {
  std::vector<TracedJob> jobs;                   // in the order of the file
  int64_t without_devices = 0, without_end = 0;  // rows left out
};

// Throws Fault::spec for a trace without these columns, or with wrong content; otherwise as CsvTable::read.
JobTrace read_job_trace(const std::string& path);

}  // namespace estrain::simulate
