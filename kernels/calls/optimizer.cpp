#include "kernels/optimizer.h"

#include <tuple>

#include "kernels/average.h"
#include "kernels/loops/optimizer.h"

namespace estrain::kernels {

uint64_t OptimizerDigest::combined() const {
  return parameter + 0x9E3779B97F4A7C15 * slots[0] + 0xC2B2AE3D27D4EB4F * slots[1] + 0x165667B19E3779F9 * slots[2];
}

template <typename Settings>
OptimizerDigest update(const Settings& settings, const OptimizerPiece& piece, Isa isa) {
  const UpdateLoop<Settings>& loop = optimizer_loops(isa, piece.portable).updates;
  return loop.update(settings, piece);
}

// Compiles update() for every optimizer of the list.
template <typename List>
struct AllUpdates;
template <typename... Settings>
struct AllUpdates<OptimizerList<Settings...>> {
  static auto all() { return std::tuple(&update<Settings>...); }
};
template struct AllUpdates<Optimizers>;

void average(float* dst, const float* average, const float* value, size_t n, const Averaging& how) {
  optimizer_loops(how.isa, how.portable).average(dst, average, value, how.weight, n);
}

}  // namespace estrain::kernels
