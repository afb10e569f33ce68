#pragma once
// The committed state on the way to hosts that lack the state: each host with the state sends a share. The coordinator
// tells all hosts the senders and receivers (../courier/entrance.h).

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json/fields.h"

namespace estrain::hosts {

struct StateShares {
  std::vector<std::string> from, to;  // names of hosts; "" is the coordinator's
  double lr = 0;                      // the learning rate of the state's step
  int64_t evaluated = -1;             // the step of the last evaluation; -1: none

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(from, to, lr, evaluated)
  // Throws Fault::corrupt if no host sends the state.
  void require_sender() const;
};

struct ByteRange {
  size_t begin = 0, end = 0;
};
// Returns the range of the sender at `place`: all ranges together are [0, bytes), about equal. Ranges begin at
// multiples of 4 KiB.
ByteRange state_share(size_t bytes, size_t senders, size_t place);

}  // namespace estrain::hosts
