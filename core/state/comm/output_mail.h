#pragma once
// What hosts send each other behind the results of an evaluation, if a user's function asks for all outputs of the
// evaluation (train.metrics_file): rows of outputs, and then the numbers of the function. The mail is a part of the
// job's shared memory, the end of EvaluationResults::numbers:
//
//   round, hosts, own | the slot of host 0 | the slot of host 1 | ...
//
// In a round each host fills its own slot, and finds the slots of all hosts after the round. The last worker of a host
// to arrive at a meeting sets the round (1, 2, ...) and asks the courier by HostAsk::evaluation; round 0 stands for the
// results of the evaluation themselves, which come first. `hosts` and `own`, this host's place among the hosts of the
// stage, are from the courier, and valid after round 0. Host 0 is the coordinator's.

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/state/comm/job_memory.h"

namespace estrain::comm {

class OutputMail {
 public:
  static constexpr size_t bytes = size_t{1} << 20;
  static constexpr int64_t numbers = bytes / sizeof(double);  // a part of MemoryPlan::evaluation_numbers

  // Tells whether the job's memory has a mail.
  static bool is_in(const EvaluationResults& results) {
    return reinterpret_cast<const std::byte*>(results.losses) - reinterpret_cast<const std::byte*>(results.numbers) >=
           static_cast<ptrdiff_t>(bytes);
  }
  static size_t bytes_of_slot(size_t hosts) { return (bytes - sizeof(Head)) / hosts / 8 * 8; }

  // Of results with a mail.
  explicit OutputMail(const EvaluationResults& results)
      : head_(*reinterpret_cast<Head*>(reinterpret_cast<std::byte*>(results.losses) - bytes)) {}

  uint64_t round() const { return head_.round; }
  void set_round(uint64_t round) { head_.round = round; }
  size_t hosts() const { return head_.hosts; }
  size_t own() const { return head_.own; }
  void set_hosts(size_t hosts, size_t own) { head_ = {head_.round, hosts, own, 0}; }
  std::span<std::byte> slot(size_t host, size_t hosts) const {
    const size_t room = bytes_of_slot(hosts);
    return {reinterpret_cast<std::byte*>(&head_ + 1) + host * room, room};
  }

 private:
  struct Head {
    uint64_t round, hosts, own, reserved;
  };

  Head& head_;
};

}  // namespace estrain::comm
