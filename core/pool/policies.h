#pragma once
// The policies, one function for each. policy.h says what a policy is.

#include <cstdint>
#include <memory>

#include "core/pool/policy.h"

namespace estrain::pool {

// One job at a time, in order of submission. What EasyScale's published baseline "YARN-CS" does.
std::unique_ptr<Policy> make_fifo_serial();

// Gangs of the size asked for, never taken back, in order of submission. Without backfill, who does not fit holds up
// all behind; with it, later jobs that fit may start.
std::unique_ptr<Policy> make_fifo(bool backfill);

// Shortest remaining service (device-seconds) first, as gangs, taking devices from jobs with more left.
std::unique_ptr<Policy> make_srtf();

// Tiresias (NSDI'19) with two queues: jobs whose attained service reaches the limit move behind those that have had
// less; each queue in order of arrival; no way back.
struct TiresiasOptions {
  double limit = 57'600;  // device-seconds, 16 device-hours
};
std::unique_ptr<Policy> make_tiresias(const TiresiasOptions& options);

// Optimus (EuroSys'18) with known speeds: a device each, then one at a time to the job whose remaining time it shortens
// most.
std::unique_ptr<Policy> make_optimus();

// Philly's scheduler (ATC'19, sections 2.3 and 3.1): queues of virtual clusters with quotas, gangs on as few hosts as
// can hold them; who does not get that within the timeout backs off and tries again, and after so many tries takes any
// devices. Free devices go to whoever asks, those below their quota first; when most devices are in use, such jobs take
// the youngest ones of those above theirs. What a try holds meanwhile is not modelled.
struct PhillyOptions {
  double timeout = 150;   // s, "2-3 minutes"
  double back_off = 120;  // s
  double tries = 3;       // the paper: "a fixed number"
  double busy = 0.9;      // part of all devices in use from which on jobs are preempted
};
std::unique_ptr<Policy> make_philly(const PhillyOptions& options);

// EasyScale's cluster scheduler (section 3.4): jobs propose to grow, the pool accepts the proposals with most speed-up
// per device, among equals those with more devices. With `mixes`, jobs that may mix types do.
struct EasyscaleOptions {
  bool mixes = false;
  double growth = 2;  // a job proposes at most so many times the devices that it has
};
std::unique_ptr<Policy> make_easyscale(const EasyscaleOptions& options);

// Pollux (OSDI'21): see pollux_policy.cpp. Jobs change their batch, and what is known of their speed is learnt.
struct PolluxOptions {
  double population = 100;
  double generations = 100;  // of a round
};
std::unique_ptr<Policy> make_pollux(const PolluxOptions& options, uint64_t seed);

// ONES (SC'21); see ones_policy.cpp.
struct OnesOptions {
  double population = 64;
  double generations = 4;  // of a round
  double rate = 0.1;       // of mutation
  double patience = 20;    // a change counts with this many times its charge
  double age = 5;          // how much long runs lower limits: times the rate of arrivals (the paper: 1)
  double belief = 1;       // 0: outlooks are believed, nothing is drawn
};
std::unique_ptr<Policy> make_ones(const OnesOptions& options, uint64_t seed);

// ElasticFlow (ASPLOS'23), and ours for jobs with deadlines; see elasticflow_policy.cpp.
struct ElasticflowOptions {
  bool reconsiders = false;
};
std::unique_ptr<Policy> make_elasticflow(const ElasticflowOptions& options);

// Ours; see estrain_policy.cpp.
struct EstrainOptions {
  double exponent = 0.78;  // a device goes where the sum of (remaining time)^-exponent grows most
  double patience = 11;    // a change counts with this many times its charge
};
std::unique_ptr<Policy> make_estrain(const EstrainOptions& options);

}  // namespace estrain::pool
