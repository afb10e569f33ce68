#pragma once
// The launcher's part in audits (core/state/audit/audit.h): their price, requests for audits, their status, and how a
// run returns to an older checkpoint after a finding.

#include <map>
#include <optional>
#include <string>

#include "core/run/faults/diagnosis.h"
#include "core/run/launch/control/status.h"
#include "core/run/launch/launcher/parts/run_view.h"
#include "core/state/audit/roles.h"

namespace estrain::launch {

class Audits {
 public:
  explicit Audits(const RunView& run) : run_(run) {}

  // Prints the price, if the job asks for audits.
  void note_price() const;
  AuditStatus status();
  // Asks for an audit, and returns the answer for the client. Throws Fault::usage if the job does not train.
  Json ask() const;

  // Notes a worker's message about a wrong result in an audit; the worker then ends.
  void note_found(decisions::WorkerId id, Step vouched) { found_[id] = vouched; }
  // Notes that the scribe found the state of the step damaged in memory.
  void note_damaged_state(Step step);
  // Weighs the loss of a worker: adds the step vouched for by the audit to `details`. If the run returns to an older
  // checkpoint, changes the diagnosis so that this launch ends.
  void weigh(const decisions::Member& member, faults::Diagnosis& diagnosis, Json& details);
  // Prints the devices found wrong.
  void report_end();
  // Sets aside the checkpoints for which audits do not vouch, and returns advice. Throws GoBack if the run continues
  // without the user. Returns "" if no finding takes the run back. The files must be closed before.
  std::string go_back(const Error& error);

 private:
  struct WayBack {  // back
    Step vouched;
    std::string cause;
    Devices devices;  // for the continued run
  };

  double share() const;
  std::vector<WrongDevice>& wrong_devices();
  bool may_continue(Step from) const;
  std::vector<std::string> arguments_of_new_launch() const;

  const RunView run_;
  std::map<decisions::WorkerId, Step> found_;
  std::optional<WayBack> way_;
  std::optional<std::vector<WrongDevice>> wrong_devices_;  // as in status(); empty: not read yet
};

}  // namespace estrain::launch
