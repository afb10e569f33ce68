#pragma once
// Beats between hosts. A beat shows that the sender lives. The coordinator's beat also shows the progress of the run's
// files. The other hosts' beats also show the coordinator the signs of life of the workers. host_links.h says between
// which hosts beats go.

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/hosts/courier/holding.h"
#include "core/hosts/courier/host_links.h"
#include "core/hosts/courier/running_stage.h"
#include "core/hosts/exchange/wire.h"

namespace estrain::hosts {

inline constexpr int beat_milliseconds = 100;

class Heartbeats {
 public:
  Heartbeats(HostLinks& links, Holding& holding, RunningStage& stage, bool leads)
      : links_(links), holding_(holding), stage_(stage), leads_(leads) {}

  void begin_stage() { counted_begun_ = false; }
  // Called every 10 ms. Sooner than usual where many records have been written. Also tries the links without beats,
  // every 10 s.
  void send_in_time();
  void send();
  Landing landing(const std::string& host, const net::FrameHead& head);

 private:
  int64_t step_of_records();
  void note_recorded(int64_t step);
  void take(size_t host, std::span<const WorkerBeat> beats);

  HostLinks& links_;
  Holding& holding_;
  RunningStage& stage_;
  const bool leads_;
  int ticks_ = 0;
  bool counted_begun_ = false;
};

}  // namespace estrain::hosts
