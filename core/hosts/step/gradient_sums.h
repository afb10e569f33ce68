#pragma once
// The sum of a step's gradients over hosts, piece by piece (pieces.h): the other hosts send their partial
// sums of a piece to its owner, which finishes the tree and sends the sum to all.
//
// A piece leaves as soon as all workers of the host have folded its parameters, while they go on with the backward pass
// (core/state/comm/meetings/sum_progress.h). When its sum is there, workers may apply it. So the network, the backward
// pass and the update go on side by side. The order within every sum is reduction_tree.h's; pieces do not change it.
//
// The host's own partial sums are in shared memory (own_partials.h). Values that arrive wait in memory of this process
// (peer_sums.h). A sum goes to the place of the host's first partial sum, which has been sent by then. Nobody
// needs that one any more, since a step that is not committed is folded anew.

#include <cstdint>
#include <map>
#include <vector>

#include "core/hosts/exchange/inflow.h"
#include "core/hosts/exchange/outbox.h"
#include "core/hosts/exchange/shared_parts.h"
#include "core/hosts/step/own_partials.h"
#include "core/hosts/step/peer_sums.h"
#include "core/hosts/step/pieces.h"
#include "core/state/comm/job_memory.h"
#include "core/state/comm/sums/reduction_tree.h"

namespace estrain::hosts {

inline constexpr size_t floats_of_piece = 64 << 10;  // a frame of 256 KiB

class GradientSums {
 public:
  // `plan`, `parts` and `outbox` outlive it. A piece has at most `most` floats, which fit a frame.
  GradientSums(comm::JobMemory& memory, const HostPlan& plan, const SharedParts& parts, Outbox& outbox, size_t most);

  // The step after `step` begins; workers may have folded some of it.
  void begin(int64_t step);
  // Folds a piece that is ready and sends it, or does nothing. Returns whether another one is ready.
  bool fold_piece();
  // Sums and sends those own pieces of which all partial sums are there.
  void finish_pieces();

  // On their way from another host: its partial sums of this host's pieces, and the sums of its own pieces. A sum of
  // a piece that this host has not sent is refused with Fault::corrupt.
  Inflow& partial(size_t host) { return peers_.at(host).partials(); }
  Inflow& sum(size_t host);
  // A frame of such a sum is there.
  void received_sum(size_t host);

  // All of the host's workers have folded everything.
  bool is_all_folded() const { return own_.is_all_folded(); }
  // All sums are where the workers look for them.
  bool complete() const { return is_open_ && summed_ == pieces_.size(); }
  // Until the next begin(), nothing is folded. Frames of other hosts are of the next step.
  void end();

 private:
  std::vector<const Piece*> pieces_of(size_t host) const;
  bool is_folded(const Piece& piece) const { return static_cast<size_t>(&piece - pieces_.data()) < folded_; }
  bool is_summed(const Piece& piece) const;
  bool is_everywhere(const Piece& piece) const;  // all hosts have folded it, and what they send is there
  void send_partials(const Piece& piece);
  void finish(const Piece& piece);
  void send_sum(const Piece& piece);
  void note_sums();

  comm::JobMemory& memory_;
  const HostPlan& plan_;
  const SharedParts& parts_;
  Outbox& outbox_;
  const std::vector<Piece> pieces_;             // in the order in which they are folded
  const std::vector<const Piece*> own_pieces_;  // that this host finishes
  const comm::FinishPlan finish_;               // over all hosts
  OwnPartials own_;
  std::map<size_t, PeerSums> peers_;  // [other host]
  int64_t step_ = 0;
  bool is_open_ = false;
  size_t folded_ = 0, finished_ = 0, summed_ = 0;  // pieces; own pieces; pieces
};

}  // namespace estrain::hosts
