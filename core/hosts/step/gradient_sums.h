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
// (PeerSums). A sum overwrites the host's first partial sum, which has been sent by then and is not needed any more,
// since an uncommitted step is folded anew.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "core/hosts/exchange/inflow.h"
#include "core/hosts/exchange/outbox.h"
#include "core/hosts/exchange/shared_parts.h"
#include "core/hosts/step/own_partials.h"
#include "core/hosts/step/pieces.h"
#include "core/state/comm/job_memory.h"
#include "core/state/comm/sums/reduction_tree.h"

namespace estrain::hosts {

inline constexpr size_t floats_of_piece = 64 << 10;  // a frame of 256 KiB

// Bytes of a partial sum over the owner's pieces before `piece`, and over the same pieces with `piece`.
uint64_t bytes_before(const Piece& piece);
uint64_t bytes_through(const Piece& piece);

// Keeps sums of a step from another host in memory of this process: the other host's partial sums of this host's
// pieces, and the whole sums of the other host's own pieces, one at a time.
class PeerSums {
 public:
  // `rows`: partial sums passed on by the other host. `here`: this host's pieces; `there`: the other host's. The pieces
  // outlive this object.
  PeerSums(size_t rows, const std::vector<const Piece*>& here, std::vector<const Piece*> there);
  PeerSums(const PeerSums&) = delete;

  // Where frames go.
  Inflow& partials() { return partials_; }
  Inflow& sums() { return sums_; }

  // True if all of the other host's partial sums of `piece`, a piece of this host, have arrived.
  bool has_partials(const Piece& piece) const { return partials_.bytes() >= rows_ * bytes_through(piece); }
  PieceSource row(size_t row, const Piece& piece);

  size_t taken() const { return taken_; }  // sums of this step
  const Piece* due() const;                // the piece of the next sum; null: no sum is left in this step
  // Copies the sum of the due piece to `slot`. Returns false if the sum has not arrived yet.
  bool take_sum(const comm::GradientSlot& slot);

  // The next frames belong to the next step.
  void begin_anew();

 private:
  void lay_out_partials(const std::vector<const Piece*>& here);
  void lay_out_sums();

  const size_t rows_;
  const std::vector<const Piece*> there_;
  size_t floats_ = 0;              // of this host's pieces
  std::vector<uint8_t> presence_;  // of this host's pieces, one piece after another, with a row for each partial sum
  // [rows][floats_]. Not written before frames arrive: of a large job this memory takes seconds to fill, and the
  // courier must give signs of life meanwhile.
  std::unique_ptr<float[]> partial_floats_;
  std::vector<uint8_t> sum_presence_;  // of the arriving sum
  std::vector<float> sum_floats_;
  Inflow partials_, sums_;
  size_t taken_ = 0;
};

class GradientSums {
 public:
  // `plan`, `parts` and `outbox` outlive this object. A piece has at most `most` floats, which fit a frame. `left_out`:
  // parameters that the workers sum themselves, [parameter]; empty: none.
  GradientSums(comm::JobMemory& memory, const HostPlan& plan, const SharedParts& parts, StepOutbox& outbox, size_t most,
               const std::vector<bool>& left_out = {});

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
