#pragma once
// The queue of a pool and its history in a SQLite database. Its tables may be read by anything at any time:
//
//   jobs       a row for each job, as far as it is: its fields, one JSON object (dispatch::Job::fields)
//   paces      steps as seen from outside piece by piece, from one moment to another, and the seconds that they took
//   slots      the devices: who holds them, and since when
//   usage      device-seconds of each user, of which half are forgotten in a day
//   history    what happened to which job when, with the devices that it was to have from then on, and why
//   hosts      cores of the hosts that agents have brought
//   settings   policy, seed, charge, last_job, last_slot, seen
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
  // Makes the tables of a new database. Throws Fault::usage for the database of another estrain or of something
  // else, and as sqlite::Database.
  static Ledger open(const std::string& path);

  // Throws Fault::corrupt for a job whose fields cannot be read.
  dispatch::State load();
  // Writes what differs from the state saved or loaded last, and the lines: all of it at once or nothing.
  void save(const dispatch::State& state, const std::vector<Line>& lines);
  std::vector<Line> history() const;
  // When the job was asked for other devices last; 0: never.
  double asked(dispatch::JobId job) const;

 private:
  explicit Ledger(sqlite::Database database) : database_(std::move(database)) {}
  void write_jobs(const dispatch::State& state, dispatch::State& changed) const;
  void write_slots(const std::vector<dispatch::Slot>& slots) const;
  void write_settings(const dispatch::State& state) const;
  void write_history(const std::vector<Line>& lines) const;
  void read_settings(dispatch::State& state) const;
  void read_slots(dispatch::State& state) const;
  void read_jobs(dispatch::State& state) const;

  sqlite::Database database_;
  dispatch::State saved_;  // what is in the tables, where that is known
  bool is_known_ = false;
};

}  // namespace estrain::pool
