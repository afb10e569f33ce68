#pragma once
// An agent's host without its coordinator: carries out the decisions of succession.h, until the host leads, follows the
// next coordinator, or ends.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/base/clock.h"
#include "core/base/files/unique_fd.h"
#include "core/hosts/agents/host_file.h"
#include "core/hosts/courier/courier.h"
#include "core/hosts/succession/succession.h"
#include "core/run/launch/launcher/processes/processes.h"
#include "core/state/run_directory/run_directory.h"
#include "core/state/run_directory/term.h"

namespace estrain::hosts {

class OrphanHost {
 public:
  struct Options {
    std::string name;
    int64_t term = 0;
    bool sees_run = true, sees_locks = false;
    Nanoseconds patience{};
    launch::SharedDescriptors shared{};  // without a lock
    HostFile own_file = {};              // removed when this host leads
    // For a host that was in no stage: its devices that the coordinator asked for, and the options of the resumed run.
    std::string own_devices = {};
    HostPlan alone = {};
    std::function<void(const std::string& why)> end;
  };
  // The coordinator is lost. No worker of this host is in its loop any more.
  OrphanHost(net::Loop& loop, Courier& courier, const run_directory::RunDirectory& directory, Options options);

  void lose(const std::string& host) { happened(HostUnreached{host}); }
  void hear(const std::string& host, const LeadClaim& claim) { happened(ClaimArrived{host, claim}); }
  // A host without a stage has no part in the succession to a run that has ended.
  bool opened_a_stage() const { return succession_.orphan.stage > 0; }

 private:
  void happened(const SuccessionEvent& event);
  void carry_out(const TellOthers& deed, const std::string& reason);
  void carry_out(const KeepWaiting& deed, const std::string& reason);
  void carry_out(const TryLease& deed, const std::string& reason);
  void carry_out(const TakeOver& deed, const std::string& reason);
  void carry_out(const EndOnThisHost& deed, const std::string& reason);
  [[noreturn]] void lead(UniqueFd lock, bool at_checkpoint);

  Courier& courier_;
  const run_directory::RunDirectory& directory_;
  const Options options_;
  const MonotonicTime lost_;
  MonotonicTime said_ = lost_;
  Succession succession_;
  std::optional<UniqueFd> lock_;  // taken
  std::shared_ptr<net::Loop::Timer> timer_;
};

}  // namespace estrain::hosts
