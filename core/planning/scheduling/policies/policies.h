#pragma once
// The policies, a function for each. policy.h defines the interface. make_policy() checks the range of each option;
// the functions here do not. Options that count are doubles too: make_policy() parses all options alike.

#include <cstdint>
#include <memory>

#include "core/planning/scheduling/policy.h"

namespace estrain::scheduling {

// A single job at a time, in order of submission, like EasyScale's published baseline "YARN-CS".
std::unique_ptr<Policy> make_fifo_serial();

// Gangs of the requested size in order of submission, without preemption. Without backfill, a job too large for the
// free devices blocks all later jobs; with backfill, later jobs may start if they fit.
std::unique_ptr<Policy> make_fifo(bool backfill);

// Shortest remaining service (device-seconds) first, as gangs, preempting jobs with more remaining.
std::unique_ptr<Policy> make_srtf();

// Tiresias (NSDI'19) with two queues: when a job's attained service reaches the limit, the job moves permanently to the
// second queue; each queue is in order of arrival.
struct TiresiasOptions {
  double limit = 57'600;  // device-seconds, 16 device-hours
};
std::unique_ptr<Policy> make_tiresias(const TiresiasOptions& options);

// Optimus (EuroSys'18) with known speeds: a device for each job, then each further device to the job whose remaining
// time shrinks most.
std::unique_ptr<Policy> make_optimus();

// Philly's scheduler (ATC'19, sections 2.3 and 3.1): queues of virtual clusters with quotas, and gangs on as few hosts
// as possible. A job without such a place within the timeout backs off and tries again, and after some tries takes any
// devices. Free devices go to any job, owners below their quota first; if most devices are in use, such owners preempt
// the youngest jobs of owners above quota. Devices held during a try are not modelled.
struct PhillyOptions {
  double timeout = 150;   // s, "2-3 minutes"
  double back_off = 120;  // s
  double tries = 3;       // the paper: "a fixed number"
  double busy = 0.9;      // fraction of devices in use above which jobs are preempted
};
std::unique_ptr<Policy> make_philly(const PhillyOptions& options);

// EasyScale's cluster scheduler (section 3.4): jobs propose to grow, and the pool accepts the proposals with the
// highest speed-up per device, with more devices among equals. With `mixes`, jobs mix types if they may.
struct EasyscaleOptions {
  bool mixes = false;
  double growth = 2;  // a job proposes at most this many times its current devices
  // Whether the rules of EasyScale's published simulator hold, not the paper's: see easyscale_policy.cpp. Jobs that mix
  // types may then hold more devices than JobView::most.
  bool as_simulated = false;
};
std::unique_ptr<Policy> make_easyscale(const EasyscaleOptions& options);

// Pollux (OSDI'21): see pollux_policy.cpp. Jobs change their batch, and the pool learns each job's speed.
struct PolluxOptions {
  double population = 100;
  double generations = 100;  // per round
};
std::unique_ptr<Policy> make_pollux(const PolluxOptions& options, uint64_t seed);

// ONES (SC'21): an evolution of schedules; see ones_policy.cpp.
struct OnesOptions {
  double population = 64;
  double generations = 4;  // per round
  double rate = 0.1;       // of mutation: a job's chance to lose its devices
  double patience = 20;    // a change of devices costs this many times View::charge
  // A job's limit on devices is multiplied by about 2 / (1 + age x arrivals of jobs per second x the job's seconds with
  // devices), at most 1. The paper has age = 1; 0: a long run lowers no limit.
  double age = 5;
  // Whether a job takes as long as its outlook says, or its progress is drawn at random. by_outlook: expected where the
  // outlook is learnt (Outlook::Epochs::is_learnt), drawn elsewhere.
  enum class Belief { expected, drawn, by_outlook };
  Belief belief = Belief::by_outlook;
};
std::unique_ptr<Policy> make_ones(const OnesOptions& options, uint64_t seed);

// Two policies for jobs with deadlines: ElasticFlow (ASPLOS'23), and ours; see elasticflow_policy.cpp.
struct ElasticflowOptions {
  // false: ElasticFlow admits a job at its arrival or never. true: ours chooses the jobs to meet their deadlines anew
  // at each decision, and decides at every submission and completion.
  bool reconsiders = false;
};
std::unique_ptr<Policy> make_elasticflow(const ElasticflowOptions& options);

// DeepPool (MLSys'22): foreground jobs in order of submission, on the devices over which each job bursts; background
// jobs, in order of submission too, on the devices left and in the gaps of the foreground's.
std::unique_ptr<Policy> make_deeppool();

// Ours; see estrain_policy.cpp.
struct EstrainOptions {
  double exponent = 0.78;  // a job's worth grows with (remaining time)^-exponent
  double alone = 0;        // and with (remaining time on one device)^alone
  double makespan = 0;     // the makespan counts like the completion times of so many jobs; 0: lengths do not count
  double patience = 11;    // a change of devices costs this many times View::charge
  double horizon = 1e12;   // s; a job pays for a change once in each horizon of its remaining time, at least once
  double aging = 0;        // a job's worth grows with (1 + its age / 10,000 s)^aging
  bool exact = false;      // the best share-out instead of a greedy one
};
std::unique_ptr<Policy> make_estrain(const EstrainOptions& options);

}  // namespace estrain::scheduling
