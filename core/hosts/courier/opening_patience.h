#pragma once
// The coordinator's patience while a stage is being opened: who is set aside if the stage does not open. Pure: what the
// hosts say goes in, a name comes out. tests/hosts_in_virtual_time drives it.
//
// A host that has not opened the stage says once a second what it waits for. As long as anything changes, be it only
// that more bytes of the state are there, nobody is set aside: a state may take long. Otherwise one host is, after
// opening_patience_ns: one that the coordinator itself waits for; else one that has said nothing; else the one for
// which most others wait. The job goes on without it, as without any lost host.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/json/json.h"

namespace estrain::hosts {

// Longer than a connection takes that is given up (2 x net::handshake_milliseconds).
inline constexpr int64_t opening_patience_ns = 15'000'000'000;

// What a host that has not opened a stage waits for.
struct OpeningWait {
  std::vector<std::string> hosts =
      {};              // not connected, or with a share of the state that is not here; "": the coordinator
  uint64_t bytes = 0;  // of the state that are here

  bool operator==(const OpeningWait&) const = default;
  Json to_json() const;
  static OpeningWait from_json(const Json& json);  // throws Fault::corrupt
};

class OpeningPatience {
 public:
  // `hosts`: all but the coordinator, in the order of the plan.
  explicit OpeningPatience(std::vector<std::string> hosts) : hosts_(std::move(hosts)) {}

  // The coordinator's own has the name "".
  void hear(const std::string& host, OpeningWait wait);
  void note_opened(const std::string& host);

  struct Unanswered {
    std::string host, why;
  };
  // Called at least every 100 ms: longer pauses are this process's own, and do not count.
  std::optional<Unanswered> look(int64_t now_ns);

 private:
  bool is_waited_for(const std::string& host, const std::string& by) const;
  std::string why(const std::string& host) const;

  std::vector<std::string> hosts_;
  std::map<std::string, OpeningWait> waits_;
  std::set<std::string> opened_;
  std::optional<int64_t> looked_ns_;
  int64_t idle_ns_ = 0;
};

}  // namespace estrain::hosts
