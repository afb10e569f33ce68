#pragma once
// Evolving schedules (ONES, SC'21, section 3.2.2). A schedule names the job of each device; operators make new
// schedules from old. Of hosts, a schedule knows only the order of devices: devices of a host lie side by side.

#include <cstdint>
#include <functional>
#include <random>
#include <utility>
#include <vector>

namespace estrain::scheduling {

inline constexpr int32_t kIdle = -1;

// The job of each device, or kIdle.
using Schedule = std::vector<int32_t>;

std::vector<int64_t> devices_by_job(const Schedule& schedule, size_t jobs);

// The operators' knowledge of jobs.
struct Evolving {
  std::vector<int64_t> limits;       // the most devices of each job now; 0: the job may not run
  std::vector<bool> is_new;          // the job has never had a device
  std::vector<double> held_seconds;  // time with devices: the jobs with most give way to new jobs
  // Returns the gain in left utilisation by a further device for a job with so many. May draw random numbers.
  std::function<double(size_t job, int64_t devices)> added;
};

// Takes devices back from jobs above their limits. Gives each new job a device: an idle device, else a device of the
// jobs with the longest run. Then calls fill().
void refresh(Schedule& schedule, const Evolving& jobs);

// Gives idle devices out, each to the job below its limit for which a further device adds least. Devices stay idle only
// if all jobs are at their limits.
void fill(Schedule& schedule, const Evolving& jobs);

// Gives, for each device, the jobs of both parents to the two children at random.
std::pair<Schedule, Schedule> crossed(const Schedule& one, const Schedule& other, std::mt19937_64& random);

// Takes all devices from each job with probability `rate`, and gives the devices to jobs below their limits.
void mutate(Schedule& schedule, const Evolving& jobs, double rate, std::mt19937_64& random);

// Puts the devices of a job side by side, jobs in the order of their first occurrence, idle devices last.
void reorder(Schedule& schedule);

}  // namespace estrain::scheduling
