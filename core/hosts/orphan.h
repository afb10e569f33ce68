#pragma once
// An agent's host without its coordinator: carries out the decisions of succession.h, until the host leads, follows the
// next coordinator, or ends.

#include <functional>
#include <memory>
#include <string>

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
    int64_t patience_ns = 0;
    launch::SharedDescriptors shared{};  // without a lock
    HostFile own_file = {};              // removed when this host leads
    // For a host that was in no stage: its devices that the coordinator asked for, and the options of the resumed run.
    std::string own_devices = {};
    HostPlan alone = {};
    std::function<void(const std::string& why)> end;
  };
  // The coordinator is lost. No worker of this host is in its loop any more.
  OrphanHost(net::Loop& loop, Courier& courier, const run_directory::RunDirectory& directory, Options options);

  void lose(const std::string& host) { succession_.lose(host); }
  void hear(const std::string& host, const Claim& claim) { succession_.hear(host, claim); }

 private:
  void look();
  void tell_claim();
  void say_now_and_then(const char* why);  // why this host does not lead yet
  [[noreturn]] void lead(UniqueFd lock, bool at_checkpoint);

  Courier& courier_;
  const run_directory::RunDirectory& directory_;
  const Options options_;
  const int64_t lost_ns_;
  int64_t said_ns_ = lost_ns_;
  Succession succession_;
  Claim told_;
  int64_t told_ns_ = 0;
  std::shared_ptr<net::Loop::Timer> timer_;
};

}  // namespace estrain::hosts
