#pragma once
// The kinds of frames between hosts (core/hosts/net/frame.h; kind 1 is the greeting), and what `number` counts in each.

#include <cstdint>

#include "core/hosts/exchange/host_plan.h"
#include "core/hosts/net/frame.h"

namespace estrain::hosts {

enum Kind : uint32_t {
  message = 2,  // JSON, at most most_message_bytes; number: 0
  // A sign of life; number: the stage. To the coordinator: a WorkerBeat of each of the sender's workers. From the
  // coordinator: no WorkerBeat, and the offset is the step up to which the run's files have all records. Between two
  // other hosts: neither.
  beat,
  // The next kinds belong to a step; number: round_number().
  partial,      // a host's partial sums of the receiver's share, after their presence flags
  sum,          // the sum over all hosts of the sender's share
  factors,      // factors of gradients of the sender's ESTs (core/state/comm/gradient_factors.h)
  context,      // what the sender's ESTs leave: where a value was non-finite, random streams, losses, digests; EST 0's
                // host: buffers
  done,         // StepDone: the step is whole on the sender
  evaluation,   // the results of an evaluation
  mail_even,    // a round of the mail behind these results (core/state/comm/output_mail.h), with an even number
  mail_odd,     // with an odd number
  exchange_id,  // 128 bytes; of the first host: the id by which the GPUs of all hosts meet
  // Once in a stage.
  state,  // the committed state; number: round_number() of the state's step
  // Bytes without meaning, to measure a link (agents/link_meter.h), or none, to try a link (courier/host_links.h); the
  // receiver ignores `number`.
  bulk,
};

inline constexpr uint32_t most_message_bytes = net::most_frame_bytes;

inline uint64_t round_number(uint64_t stage, int64_t step) { return stage << 40 | static_cast<uint64_t>(step); }
inline uint64_t stage_of(uint64_t number) { return number >> 40; }
inline int64_t step_of(uint64_t number) { return static_cast<int64_t>(number & ((uint64_t{1} << 40) - 1)); }

struct StepDone {
  uint64_t digest = 0;  // of all digests of the step's record: the same on all hosts
  uint32_t pause = 0;   // 1: the sender was asked to pause; only the coordinator's word counts
  uint32_t reserved = 0;
};

struct WorkerBeat {
  int64_t age_ns = 0;        // since the worker's last sign of life
  int64_t computing_ns = 0;  // the rest as in comm::WorkerPulse
  int64_t mini_batches = 0;
  int64_t reading_ns = 0;
  int64_t measured_steps = 0;
  double est_squares = 0, mean_squares = 0;
  uint32_t activity = 0;
  uint32_t reserved = 0;
};

}  // namespace estrain::hosts
