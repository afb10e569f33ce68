#pragma once
// The coordinator's patience while a stage is being opened: decides which host is set aside if the stage does not open.
// A pure function from the words of the hosts to a name. tests/hosts_in_virtual_time drives this class.
//
// Once a second, a host that waits for the stage reports the reasons. No host is set aside as long as anything changes,
// even if only more bytes of the state arrive: a state may take long. After opening_patience without a change, the
// coordinator sets one host aside: a host that the coordinator waits for; else a host without a report; else the host
// for which most hosts wait. The job continues without this host, as without any lost host.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/json/fields.h"

namespace estrain::hosts {

// Longer than a connection takes to be given up (2 x net::handshake_limit).
inline constexpr Nanoseconds opening_patience = 15s;

// The reasons why a host has not opened a stage.
struct OpeningWait {
  std::vector<std::string> hosts =
      {};              // not connected, or with a share of the state that has not arrived yet; "": the coordinator
  uint64_t bytes = 0;  // of the state received so far

  bool operator==(const OpeningWait&) const = default;
  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(hosts, bytes)
};

class OpeningPatience {
 public:
  // `hosts`: all but the coordinator, in the order of the plan.
  explicit OpeningPatience(std::vector<std::string> hosts) : hosts_(std::move(hosts)) {}

  // Takes the wait of a host. The coordinator's own has the name "".
  void hear(const std::string& host, OpeningWait wait);
  void note_opened(const std::string& host);

  struct Unanswered {
    std::string host, why;
  };
  // Called at least every 100 ms: longer pauses are this process's own, and do not count.
  std::optional<Unanswered> look(MonotonicTime now);

 private:
  bool is_waited_for(const std::string& host, const std::string& by) const;
  std::string why(const std::string& host) const;

  std::vector<std::string> hosts_;
  std::map<std::string, OpeningWait> waits_;
  std::set<std::string> opened_;
  std::optional<MonotonicTime> looked_;
  Nanoseconds idle_{};
};

}  // namespace estrain::hosts
