#include "core/hosts/step/own_partials.h"

#include <doctest/doctest.h>

#include "core/state/comm/sums/tree_cut.h"
#include "tests/core/hosts/step/hosts_in_memory.h"

namespace estrain::hosts {
namespace {

using namespace in_memory;

// The largest nodes of the tree below [lo, hi) that lie in `range`, from the left.
std::vector<EstRange> nodes_in(EstRange range, int64_t lo, int64_t hi) {
  if (hi <= range.begin.value || lo >= range.end.value) return {};
  if (lo >= range.begin.value && hi <= range.end.value) return {{VirtualRank(lo), VirtualRank(hi)}};
  const int64_t middle = comm::middle_of(lo, hi);
  std::vector<EstRange> nodes = nodes_in(range, lo, middle);
  std::ranges::copy(nodes_in(range, middle, hi), std::back_inserter(nodes));
  return nodes;
}

void check_row(const PieceSource& row, const Piece& piece, const Sum& expected, const SharedParts& parts) {
  for (size_t i = piece.first_parameter; i < piece.last_parameter; ++i) {
    CAPTURE(i);
    REQUIRE((row.presence[i - piece.first_parameter] != 0) == expected.present[i]);
    if (!expected.present[i]) continue;
    const ParameterRange& parameter = parts.parameters()[i];
    const size_t begin = std::max(parameter.begin, piece.floats.begin);
    const size_t end = std::min(parameter.end, piece.floats.end);
    const float* values = row.values + begin - piece.floats.begin;
    REQUIRE(std::memcmp(values, expected.values.data() + begin, (end - begin) * sizeof(float)) == 0);
  }
}

TEST_CASE("a host's rows are the largest nodes of the tree in its range, with the bits of the tree") {
  std::mt19937_64 random(5);
  for (const Split& split : kSplits) {
    for (size_t own = 0; own < split.size(); ++own) {
      Host host(split, own, 0, 0);
      const SharedParts parts(host.memory, host.plan);
      OwnPartials partials(host.memory, host.plan, parts);
      const int64_t ests = host.plan.ests();
      const Gradients gradients = random_gradients(ests, random);
      const Presence presence = random_presence(ests, random);
      for (Folding& worker : workers_of(host)) {
        CHECK(!partials.is_all_folded());
        while (!worker.is_done()) worker.fold_next(gradients, presence);
      }
      CHECK(partials.is_all_folded());
      partials.look();
      const std::vector<EstRange> nodes = nodes_in(host.plan.here().ests(), 0, ests);
      REQUIRE(partials.rows() == nodes.size());
      for (const Piece& piece : cut_pieces(parts.parameters(), split.size(), kFloatsOfPiece)) {
        REQUIRE(partials.is_ready(piece));
        partials.fold(piece);
        for (size_t row = 0; row < nodes.size(); ++row) {
          const Sum expected = tree(gradients, presence, nodes[row].begin.value, nodes[row].end.value);
          check_row(partials.row(row, piece), piece, expected, parts);
        }
      }
    }
  }
}

TEST_CASE("a piece is ready when the slowest worker has folded its parameters, and keeps its flags from then on") {
  Host host({{1, 1}, {1}}, 0, 0, 0);
  const SharedParts parts(host.memory, host.plan);
  OwnPartials partials(host.memory, host.plan, parts);
  const Gradients gradients(3, std::vector<float>(parts.floats()));
  std::vector<Folding> workers = workers_of(host);
  const Piece last = cut_pieces(parts.parameters(), 2, kFloatsOfPiece).front();  // of the last parameters
  REQUIRE(last.first_parameter + 2 == kParameters);
  const auto is_ready = [&] {
    partials.look();
    return partials.is_ready(last);
  };
  for (int i = 0; i < 3; ++i) workers[0].fold_next(gradients, all_present(3));
  CHECK(!is_ready());
  workers[1].fold_next(gradients, all_present(3));
  CHECK(!is_ready());
  workers[1].fold_next(gradients, all_present(3));
  CHECK(is_ready());
  for (int64_t slot = 0; slot < 2; ++slot) host.memory.gradients()[slot].presence[kParameters - 1] = 0;
  CHECK(is_ready());
  CHECK(partials.row(0, last).presence[1] == 1);
  partials.begin();
  CHECK(!partials.is_ready(last));
}

}  // namespace
}  // namespace estrain::hosts
