#pragma once
// The launcher's part in audits (core/state/audit/audit.h): their price, requests for them, how they stand, and how a
// run goes back after a finding.

#include <map>
#include <optional>
#include <string>

#include "core/run/faults/diagnosis.h"
#include "core/run/launch/control/status.h"
#include "core/run/launch/launcher/parts/run.h"
#include "core/state/audit/roles.h"

namespace estrain::launch {

class Audits {
 public:
  explicit Audits(Run& run) : run_(run) {}

  // Prints the price, if the job asks for audits.
  void note_price() const;
  AuditStatus status();
  // Throws Fault::usage if the job does not train.
  void ask(ClientId client) const;

  // A worker says that an audit found something wrong; it ends after that.
  void note_found(decisions::WorkerId id, Step vouched) { found_[id] = vouched; }
  // The scribe found the state of that step damaged in memory.
  void note_damaged_state(Step step);
  // The worker is lost. Adds what the audit vouches for to `details`. Changes the diagnosis to the end of this launch
  // if the run goes back.
  void weigh(const decisions::Member& member, faults::Diagnosis& diagnosis, Json& details);
  // Prints which devices were found wrong.
  void report_end();
  // Sets aside the checkpoints for which audits do not vouch, and returns advice. Throws GoBack if the run continues by
  // itself. Returns "" without a finding that takes the run back. Call it after the files are closed.
  std::string go_back(const Error& error);

 private:
  struct Way {  // back
    Step vouched;
    std::string cause;
    Devices devices;  // that the run continues on
  };

  double share() const;
  std::vector<WrongDevice>& wrong_devices();
  bool may_continue(Step from) const;
  std::vector<std::string> arguments_of_new_launch() const;

  Run& run_;
  std::map<decisions::WorkerId, Step> found_;
  std::optional<Way> way_;
  std::optional<std::vector<WrongDevice>> wrong_devices_;  // as in status(); empty: not read yet
};

}  // namespace estrain::launch
