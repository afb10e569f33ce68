#pragma once
// The sum of a step's gradients over hosts. Each host owns a share of the parameters: it is sent what the others'
// workers have summed of it, finishes the tree, and sends the sum to all.
//
// All of that goes piece by piece, so that the network is busy while a host computes: what a host folds goes to its
// owner before the next piece is folded, and a piece that all have sent is summed and sent on at once. A piece is of
// one share; the order within every sum is reduction_tree.h's, which pieces do not change.
//
// Parts from other hosts wait in memory of this process until take().

#include <cstdint>
#include <vector>

#include "core/comm/job_memory.h"
#include "core/comm/sums/reduction_tree.h"
#include "core/hosts/exchange/inflow.h"
#include "core/hosts/exchange/outbox.h"
#include "core/hosts/exchange/shared_parts.h"

namespace estrain::hosts {

inline constexpr size_t floats_of_piece = 64 << 10;  // a frame of 256 KiB

class GradientSums {
 public:
  // `plan`, `parts` and `outbox` outlive it. A piece has at most `piece` floats, which fit a frame.
  GradientSums(comm::JobMemory& memory, const HostPlan& plan, const SharedParts& parts, Outbox& outbox, size_t piece);

  // The host's workers have written their partial sums.
  void begin(int64_t step);
  // Folds a piece and sends it, or does nothing. Returns whether there are more to fold.
  bool fold_piece();
  // Sums and sends those pieces of the own share that all have sent.
  void finish_pieces();

  // On their way from another host: its partial sums of this host's share, and the sum of its own share.
  Inflow& partial(size_t host) { return peers_.at(host).partial; }
  Inflow& sum(size_t host) { return peers_.at(host).sum; }
  bool has_begun() const { return has_begun_; }

  // All sums are here.
  bool complete() const;
  // The sums go to where the workers look for them. The next step may begin.
  void take();

 private:
  struct Peer {
    std::vector<std::byte> presence;    // of its partial sums: a row for each
    std::vector<float> partial_floats;  // of its partial sums: this host's share of each
    std::vector<float> sum_floats;      // the sum of its share
    size_t rows = 0;
    Inflow partial, sum;
    uint64_t sent_partial = 0;  // bytes of this host's partial sums that went there
    bool has_piece(size_t end, size_t parameters) const;
  };
  // A sum that the host passes on, and the sources of fold_ that it sums.
  struct PassedOn {
    int64_t slot = 0;
    std::vector<size_t> sources;
  };
  // A partial sum of any host.
  struct Source {
    float* floats = nullptr;  // those of this host's share
    const uint8_t* presence = nullptr;
  };
  struct Piece {
    size_t owner = 0;
    FloatRange floats;
  };

  bool is_own(size_t host) const { return host == plan_.own; }
  void lay_out_peer(size_t host);
  void plan_fold();
  void plan_finish();
  void cut_pieces(size_t piece);
  void note_presence();
  void fold(const FloatRange& floats);
  void send_presence();
  void send_partial(const Piece& piece);
  void finish(const FloatRange& floats);
  void send_sum(const FloatRange& floats);

  comm::JobMemory& memory_;
  const HostPlan& plan_;
  const SharedParts& parts_;
  Outbox& outbox_;
  const FloatRange own_share_;
  comm::FinishPlan fold_, finish_;   // over the host's workers; over all hosts
  std::vector<int64_t> fold_slots_;  // of each source of fold_
  std::vector<PassedOn> passed_on_;
  std::vector<std::vector<uint8_t>> present_;  // [source of fold_][parameter], before they are folded
  std::vector<Source> sources_;                // of each source of finish_
  std::vector<Peer> peers_;                    // [hosts]; the own one is not used
  std::vector<Piece> pieces_;                  // in the order in which they are folded
  std::vector<FloatRange> own_pieces_;
  int64_t step_ = 0;
  bool has_begun_ = false;
  size_t folded_ = 0, own_folded_ = 0, finished_ = 0;  // pieces; of the own share; of that, summed
};

}  // namespace estrain::hosts
