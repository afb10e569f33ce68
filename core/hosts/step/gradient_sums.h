#pragma once
// The sum of a step's gradients over hosts, piece by piece (pieces.h): all hosts send their partial sums of a piece to
// the piece's owner. The owner finishes the tree and sends the sum to all hosts.
//
// A piece leaves as soon as all workers of the host have folded its parameters, during the workers' backward pass
// (core/state/comm/meetings/sum_progress.h). When the sum has arrived, workers may apply the sum. So network, backward
// pass and update run side by side. The order within every sum is state/comm/sums/reduction_tree.h's; pieces do not
// matter.
//
// The host's own partial sums are in shared memory (own_partials.h). Arriving values wait in memory of this process
// (peer_sums.h). A sum overwrites the host's first partial sum, which has been sent by then and is not needed any more,
// since an uncommitted step is folded anew.

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
  // `plan`, `parts` and `outbox` outlive this object. A piece has at most `most` floats, which fit a frame.
  GradientSums(comm::JobMemory& memory, const HostPlan& plan, const SharedParts& parts, StepOutbox& outbox,
               size_t most);

  // The step after `step` begins; workers may have folded a part of it.
  void begin(int64_t step);
  // Folds a ready piece and sends it, or does nothing. Returns true if another piece is ready.
  bool fold_piece();
  // Sums and sends the own pieces whose partial sums have all arrived.
  void finish_pieces();

  // Inflows from another host: its partial sums of this host's pieces, and the sums of its own pieces. A sum of a piece
  // that this host has not sent is refused with Fault::corrupt.
  Inflow& partial(size_t host) { return peers_.at(host).partials(); }
  Inflow& sum(size_t host);
  // A frame of such a sum has arrived.
  void received_sum(size_t host);

  // All of the host's workers have folded everything.
  bool is_all_folded() const { return own_.is_all_folded(); }
  // True if all sums lie in the places where workers read sums.
  bool complete() const { return is_open_ && summed_ == pieces_.size(); }
  // Nothing is folded until the next begin(). Frames of other hosts are of the next step.
  void end();

 private:
  std::vector<const Piece*> pieces_of(size_t host) const;
  bool is_folded(const Piece& piece) const { return static_cast<size_t>(&piece - pieces_.data()) < folded_; }
  bool is_summed(const Piece& piece) const;
  bool is_everywhere(const Piece& piece) const;  // all hosts have folded the piece, and their partial sums have arrived
  void send_partials(const Piece& piece);
  void finish(const Piece& piece);
  void send_sum(const Piece& piece);
  void note_sums();

  comm::JobMemory& memory_;
  const HostPlan& plan_;
  const SharedParts& parts_;
  StepOutbox& outbox_;
  const std::vector<Piece> pieces_;             // in the order of folding
  const std::vector<const Piece*> own_pieces_;  // finished by this host
  const comm::FinishPlan finish_;               // over all hosts
  OwnPartials own_;
  std::map<size_t, PeerSums> peers_;  // [other host]
  int64_t step_ = 0;
  bool is_open_ = false;
  size_t folded_ = 0, finished_ = 0, summed_ = 0;  // pieces; own pieces; pieces
};

}  // namespace estrain::hosts
