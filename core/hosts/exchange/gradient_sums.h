#pragma once
// The sum of a step's gradients over hosts, piece by piece (pieces.h): the owner of a piece is sent what the other
// hosts' workers have summed of it, finishes the tree, and sends the sum to all.
//
// A piece leaves as soon as all workers of the host have folded its parameters, while they go on with the backward pass
// (core/comm/meetings/sum_progress.h). When its sum is there, workers may apply it. So the network, the backward pass
// and the update go on side by side. The order within every sum is reduction_tree.h's, which pieces do not change.
//
// Values that arrive wait in memory of this process. A sum goes to where the host's first partial sum was: that has
// been sent by then, and nobody needs it any more, since a step that is not committed is folded anew.

#include <cstdint>
#include <vector>

#include "core/comm/job_memory.h"
#include "core/comm/sums/reduction_tree.h"
#include "core/hosts/exchange/inflow.h"
#include "core/hosts/exchange/outbox.h"
#include "core/hosts/exchange/pieces.h"
#include "core/hosts/exchange/shared_parts.h"

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
  // Sums and sends those own pieces that all have sent.
  void finish_pieces();

  // On their way from another host: its partial sums of this host's pieces, and the sums of its own pieces. A sum of
  // what this host has not sent is refused with Fault::corrupt.
  Inflow& partial(size_t host) { return peers_.at(host).partial; }
  Inflow& sum(size_t host);
  // A frame of such a sum is there.
  void received_sum(size_t host);

  // All of the host's workers have folded everything.
  bool is_all_folded() const;
  // All sums are where the workers look for them.
  bool complete() const { return is_open_ && summed_ == pieces_.size(); }
  // Until the next begin(), nothing is folded. Frames of other hosts are of the next step.
  void end();

 private:
  struct Peer {
    std::vector<std::byte> presence;    // of its partial sums: for each own piece a row for each
    std::vector<float> partial_floats;  // a row for each: this host's pieces
    std::vector<std::byte> sum_presence;
    std::vector<float> sum_floats;  // both of one piece at a time
    size_t rows = 0;
    Inflow partial, sum;
    std::vector<const Piece*> pieces;  // that it owns
    size_t summed = 0;                 // of them
  };
  // A partial sum of any host, from the first float and the first parameter of a piece on.
  struct Source {
    float* floats = nullptr;
    const uint8_t* presence = nullptr;
  };
  // A sum that the host passes on, and the sources of fold_ that it sums.
  struct PassedOn {
    int64_t slot = 0;
    std::vector<size_t> sources;
    std::vector<uint8_t> present;  // [parameter]
  };

  bool is_own(size_t host) const { return host == plan_.own; }
  template <typename Visit>
  void for_others(Visit&& visit);
  void lay_out_peer(size_t host);
  void plan_fold();
  bool is_ready(const Piece& piece) const;
  bool is_folded(const Piece& piece) const { return static_cast<size_t>(&piece - pieces_.data()) < folded_; }
  void note_presence();
  void fold(const Piece& piece);
  void send_partial(const Piece& piece);
  bool has_partial(const Peer& peer, const Piece& piece) const;
  std::vector<Source> sources_of(const Piece& piece);
  void finish(const Piece& piece);
  void note_flags(const Piece& piece, const std::vector<Source>& sources);
  void send_sum(const Piece& piece);
  void note_sums();

  comm::JobMemory& memory_;
  const HostPlan& plan_;
  const SharedParts& parts_;
  Outbox& outbox_;
  const std::vector<Piece> pieces_;  // in the order in which they are folded
  size_t own_floats_ = 0;
  comm::FinishPlan fold_, finish_;   // over the host's workers; over all hosts
  std::vector<int64_t> fold_slots_;  // of each source of fold_
  std::vector<PassedOn> passed_on_;
  std::vector<std::vector<uint8_t>> present_;  // [source of fold_][parameter]
  std::vector<Peer> peers_;                    // [hosts]; of the own one, only its pieces
  int64_t step_ = 0;
  bool is_open_ = false;
  size_t ready_ = 0;                // parameters that all workers have folded, from the last one back
  size_t folded_ = 0, summed_ = 0;  // pieces
};

}  // namespace estrain::hosts
