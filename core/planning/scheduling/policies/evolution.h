#pragma once
// Schedules that evolve (ONES, SC'21, section 3.2.2). A schedule names the job of each device; operators make new
// schedules from them. It knows nothing of hosts but the order of devices: those of a host lie side by side.

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
  std::vector<int64_t> limits;       // devices that each may have now; 0: it may not run
  std::vector<bool> is_new;          // it has never had a device
  std::vector<double> held_seconds;  // how long it has had devices: those with most give way to new ones
  // The gain in left utilisation by one device more for a job that has so many. May draw random numbers.
  std::function<double(size_t job, int64_t devices)> added;
};

// Jobs above their limits give devices back; each new job gets one, from those that have run longest where none is
// idle; then fill().
void refresh(Schedule& schedule, const Evolving& jobs);

// Idle devices go, one at a time, to the job below its limit for which one more adds least. Devices stay idle only
// where all are at their limits.
void fill(Schedule& schedule, const Evolving& jobs);

// For each device, the jobs of both parents go to the two children at random.
std::pair<Schedule, Schedule> crossed(const Schedule& one, const Schedule& other, std::mt19937_64& random);

// Each job loses its devices with probability `rate`; they are filled with others where those are below their limits.
void mutate(Schedule& schedule, const Evolving& jobs, double rate, std::mt19937_64& random);

// The devices of a job side by side, jobs in the order in which they first occur, idle devices last.
void reorder(Schedule& schedule);

}  // namespace estrain::scheduling
