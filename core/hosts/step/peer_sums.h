#pragma once
// Sums of a step from another host, kept in memory of this process: the other host's partial sums of this host's
// pieces, and the whole sums of the other host's own pieces, one at a time.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/hosts/exchange/inflow.h"
#include "core/hosts/step/piece_sum.h"
#include "core/hosts/step/pieces.h"
#include "core/state/comm/job_memory.h"

namespace estrain::hosts {

// Bytes of a partial sum over the owner's pieces before `piece`, and over the same pieces with `piece`.
uint64_t bytes_before(const Piece& piece);
uint64_t bytes_through(const Piece& piece);

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
  std::vector<float> partial_floats_;  // [rows][floats_]
  std::vector<uint8_t> sum_presence_;  // of the arriving sum
  std::vector<float> sum_floats_;
  Inflow partials_, sums_;
  size_t taken_ = 0;
};

}  // namespace estrain::hosts
