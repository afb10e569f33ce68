#pragma once
// A Ledger is the queue and history of a pool in a SQLite database. Any program may read the tables at any time:
//
//   jobs       a row for each job: the fields, one JSON object (dispatch::Job::fields)
//   paces      steps as seen from outside piece by piece, from one moment to another, and their seconds
//   slots      the devices: the holding job, and since when; the guest
//   usage      device-seconds of each user; half of the seconds are forgotten in a day
//   ends       an end of a job: time, user, outcome, cause of the fault table and its class, step, seconds with devices
//              and device-seconds since the job's end before, devices, and the files that the failure names (a JSON
//              list): planning/dispatch/ends/ends.h
//   history    events with time, job and reason, and the devices meant for the job from then on
//   hosts      cores of the hosts brought by agents
//   settings   policy, seed, charge, tolerance, last_job, last_slot, seen, troubles (what holds jobs: one JSON object),
//              memory (bytes for jobs on each host: a JSON object), gpu_memory (bytes of each GPU: a JSON object),
//              racks (of hosts: a JSON object)
//
// Times are seconds since 1970. PRAGMA user_version is the format's number.

#include <string>
#include <vector>

#include "core/formats/sqlite/database.h"
#include "core/planning/dispatch/action.h"
#include "core/planning/dispatch/state.h"

namespace estrain::pool {

struct Line {
  double time = 0;
  dispatch::JobId job = 0;
  std::string what;
  int64_t devices = 0;
  std::string reason;
  std::vector<std::string> names = {};  // of the devices
};

class Ledger {
 public:
  // Makes the tables of a new database. Throws Fault::usage for a database of another estrain or of another program,
  // and as sqlite::Database.
  static Ledger open(const std::string& path);

  // Throws Fault::corrupt for a job whose fields cannot be read.
  dispatch::State load();
  // Writes the differences from the state saved or loaded last, and the lines: everything at once, or nothing.
  void save(const dispatch::State& state, const std::vector<Line>& lines,
            const std::vector<dispatch::JobEnd>& ends = {});
  std::vector<Line> history() const;
  std::vector<dispatch::JobEnd> ends() const;
  // Returns the time of the last request for other devices to the job; 0: never.
  double asked(dispatch::JobId job) const;

 private:
  explicit Ledger(sqlite::Database database) : database_(std::move(database)) {}
  void write_jobs(const dispatch::State& state, dispatch::State& changed) const;
  void write_slots(const std::vector<dispatch::Slot>& slots) const;
  void write_settings(const dispatch::State& state) const;
  void write_history(const std::vector<Line>& lines) const;
  void write_ends(const std::vector<dispatch::JobEnd>& ends) const;
  void read_settings(dispatch::State& state) const;
  void read_slots(dispatch::State& state) const;
  void read_jobs(dispatch::State& state) const;

  sqlite::Database database_;
  dispatch::State saved_;  // the content of the tables, if known
  bool is_known_ = false;
};

}  // namespace estrain::pool
