#pragma once
// The partial sums that this host passes on: its workers' partial sums, summed as far as the tree allows. They lie in
// the gradient slots of the workers, each sum in the place of the first of its parts.

#include <cstdint>
#include <vector>

#include "core/hosts/exchange/shared_parts.h"
#include "core/hosts/step/pieces.h"
#include "core/state/comm/job_memory.h"
#include "core/state/comm/sums/reduction_tree.h"

namespace estrain::hosts {

class OwnPartials {
 public:
  // `plan` and `parts` outlive this object.
  OwnPartials(comm::JobMemory& memory, const HostPlan& plan, const SharedParts& parts);

  // The next step begins.
  void begin() { ready_ = 0; }
  // Reads the progress of the host's workers. Copies the workers' presence flags, which the sum's flags will overwrite.
  void look();
  // At the last look(), all workers had folded the parameters of the piece.
  bool is_ready(const Piece& piece) const { return ready_ + piece.first_parameter >= parts_.parameters().size(); }
  // Right now, all workers have folded all parameters.
  bool is_all_folded() const;
  // Sums the parts of a ready piece.
  void fold(const Piece& piece);

  size_t rows() const { return passed_on_.size(); }  // partial sums
  // A partial sum. Its values are valid once the piece is folded.
  PieceSource row(size_t row, const Piece& piece) const;

 private:
  struct PassedOn {
    int64_t slot = 0;
    std::vector<size_t> sources;   // of fold_
    std::vector<uint8_t> present;  // [parameter]
  };

  comm::JobMemory& memory_;
  const HostPlan& plan_;
  const SharedParts& parts_;
  comm::FinishPlan fold_;                      // over the host's workers
  std::vector<int64_t> fold_slots_;            // of each source of fold_
  std::vector<PassedOn> passed_on_;            // [rows]
  std::vector<std::vector<uint8_t>> present_;  // [source of fold_][parameter]
  size_t ready_ = 0;                           // parameters that all workers have folded, from the last parameter back
};

}  // namespace estrain::hosts
