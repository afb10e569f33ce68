#include "kernels/device_updates.h"
#include "kernels/digest.h"
#include "kernels/portable/reduction.h"
#include "kernels/sum.h"
#include "tests/kernels/cuda/families.h"
#include "tests/kernels/cuda/twin.h"

namespace estrain::kernels::test {

namespace {

constexpr Isa kIsas[] = {Isa::baseline, Isa::fma128, Isa::avx2, Isa::avx512};

// The words of an OptimizerDigest, as both sides have them.
std::vector<uint64_t> words_of(const OptimizerDigest& d) { return {d.parameter, d.slots[0], d.slots[1], !d.finite}; }

}  // namespace

std::string optimizer_case(uint32_t seed) {
  Draw draw(seed);
  const int64_t n = draw.one_of<int64_t>({1, 255, 1024, draw.integer(1, 4000)});
  Twin<float> gradient(draw.floats(n)), parameter(draw.normal(n)), average(draw.normal(n)), square(draw.positive(n));
  Twin<float> new_parameter(Draw::blank(n)), new_average(Draw::blank(n)), new_square(Draw::blank(n));
  Twin<float> factor(std::vector<float>{0.625f});
  Twin<uint64_t> digest(std::vector<uint64_t>(4, 0));
  static_assert(sizeof(UpdateDigest) == 4 * sizeof(uint64_t));
  const bool uses_adam = draw.chance(50), decays = draw.chance(50), replaced = draw.chance(30);
  const Sgd sgd = {.lr = 0.1,
                   .momentum = draw.one_of<double>({0, 0.9}),
                   .dampening = draw.one_of<double>({0, 0.25}),
                   .weight_decay = decays ? 1e-2 : 0,
                   .nesterov = draw.chance(50),
                   .first = draw.chance(30)};
  const Adam adam = {.beta1 = draw.one_of<double>({0.9, 0.3}),
                     .weight_decay = decays ? 1e-2 : 0,
                     .decoupled = draw.chance(50),
                     .step = draw.integer(1, 50)};
  const auto piece_of = [&](auto at) {
    OptimizerPiece piece;
    piece.n = static_cast<size_t>(n);
    piece.first_word = static_cast<uint64_t>(seed) * 777;
    piece.gradient = at(gradient);
    piece.gradient_factor = replaced ? 0.625f : 1.25f;
    piece.parameter = at(parameter);
    piece.new_parameter = at(new_parameter);
    piece.slots[0] = at(average);
    piece.slots[1] = at(square);
    piece.new_slots[0] = at(new_average);
    piece.new_slots[1] = at(new_square);
    piece.portable = true;
    return piece;
  };
  const OptimizerPiece here = piece_of([](Twin<float>& twin) { return twin.here(); });
  const Isa isa = kIsas[static_cast<size_t>(draw.integer(0, static_cast<int64_t>(best_isa())))];
  const std::vector<uint64_t> words = words_of(uses_adam ? update(adam, here, isa) : update(sgd, here, isa));
  std::copy(words.begin(), words.end(), digest.here());
  OptimizerPiece there = piece_of([](Twin<float>& twin) { return twin.there(); });
  if (replaced) there.gradient_factor = 99;
  const float* replacement = replaced ? factor.there() : nullptr;
  auto* sums = reinterpret_cast<UpdateDigest*>(digest.there());
  const DeviceQueue& queue = *on_device().device;
  if (uses_adam) {
    queue.updates->adam(adam, there, replacement, sums, queue);
  } else {
    queue.updates->sgd(sgd, there, replacement, sums, queue);
  }
  // A digest covers words whose NaNs are those of one machine: it is compared where all is finite.
  const std::string digests = words[3] == 0 ? digest.difference("digest") : "";
  return report(new_parameter.difference("parameter") + new_average.difference("average") +
                    new_square.difference("square") + digests,
                shape_of("adam, n", uses_adam, n));
}

std::string sum_case(uint32_t seed) {
  Draw draw(seed);
  const auto n = static_cast<size_t>(draw.one_of<int64_t>({1, 256, draw.integer(1, 3000)}));
  const auto count = static_cast<int64_t>(n);
  Twin<float> a(draw.floats(count)), b(draw.floats(count)), c(draw.floats(count)), out(Draw::blank(count));
  Twin<uint64_t> sum(std::vector<uint64_t>(1, 0));
  Twin<float> norm(draw.positive(1)), factor(Draw::blank(1));
  const int which = static_cast<int>(seed % 6);
  const DeviceQueue& queue = *on_device().device;
  const DeviceUpdates& updates = *queue.updates;
  const float* operands[] = {b.here(), c.here()};
  const float* device_operands[] = {b.there(), c.there()};
  if (which == 0)
    scale(out.here(), a.here(), -0.7f, n), updates.fold_scaled(out.there(), nullptr, 0, a.there(), -0.7f, n, queue);
  if (which == 1) add(out.here(), a.here(), b.here(), n), updates.add(out.there(), a.there(), b.there(), n, queue);
  if (which == 2) add_zero(out.here(), a.here(), n), updates.add_zero(out.there(), a.there(), n, queue);
  if (which == 3) {
    fold_scaled(out.here(), operands, 2, a.here(), 0.3f, n);
    updates.fold_scaled(out.there(), device_operands, 2, a.there(), 0.3f, n, queue);
  }
  if (which == 4) {
    *sum.here() = digest(a.here(), 4 * n, seed);
    updates.digest(a.there(), count, seed, reinterpret_cast<unsigned long long*>(sum.there()), queue);
  }
  if (which == 5) {
    *factor.here() = portable::clip_factor(*norm.here(), 1);
    updates.clip_factor(factor.there(), norm.there(), 1, queue);
  }
  return report(out.difference("out") + sum.difference("digest") + factor.difference("factor"),
                shape_of("function, n", which, count));
}

}  // namespace estrain::kernels::test
