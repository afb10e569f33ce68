#include <cmath>
#include <cstring>
#include <list>
#include <numeric>

#include "kernels/device_updates.h"
#include "kernels/digest.h"
#include "kernels/portable/reduction.h"
#include "kernels/sum.h"
#include "tests/kernels/cuda/families.h"
#include "tests/kernels/cuda/twin.h"

namespace estrain::kernels::test {

namespace {

constexpr Isa kIsas[] = {Isa::baseline, Isa::fma128, Isa::avx2, Isa::avx512};

// The words of an OptimizerDigest, from both sides.
std::vector<uint64_t> words_of(const OptimizerDigest& d) {
  return {d.parameter, d.slots[0], d.slots[1], d.slots[2], !d.finite};
}
constexpr size_t kFiniteWord = 4;

// A parameter with its state, and the target of its update.
struct Parameter {
  Parameter(Draw& draw, int64_t n, uint64_t begin)
      : first_word(begin),
        gradient(draw.floats(n)),
        parameter(draw.normal(n)),
        slots{Twin<float>(draw.positive(n)), Twin<float>(draw.positive(n)), Twin<float>(draw.normal(n))},
        new_parameter(Draw::blank(n)),
        new_slots{Twin<float>(Draw::blank(n)), Twin<float>(Draw::blank(n)), Twin<float>(Draw::blank(n))},
        digest(std::vector<uint64_t>(kFiniteWord + 1, 0)) {}

  OptimizerPiece here(float gradient_factor) {
    return {.n = gradient.size(),
            .first_word = first_word,
            .gradient = gradient.here(),
            .gradient_factor = gradient_factor,
            .parameter = parameter.here(),
            .new_parameter = new_parameter.here(),
            .slots = {slots[0].here(), slots[1].here(), slots[2].here()},
            .new_slots = {new_slots[0].here(), new_slots[1].here(), new_slots[2].here()},
            .portable = true};
  }
  UpdatePiece there() {
    static_assert(sizeof(UpdateDigest) == (kFiniteWord + 1) * sizeof(uint64_t));
    return {.n = gradient.size(),
            .first_word = first_word,
            .gradient = gradient.there(),
            .parameter = parameter.there(),
            .new_parameter = new_parameter.there(),
            .slots = {slots[0].there(), slots[1].there(), slots[2].there()},
            .new_slots = {new_slots[0].there(), new_slots[1].there(), new_slots[2].there()},
            .digest = reinterpret_cast<UpdateDigest*>(digest.there())};
  }
  std::string difference() {
    // A digest covers NaN payloads, which depend on the machine, so it is compared only if all values are finite.
    const std::string digests = digest.here()[kFiniteWord] == 0 ? digest.difference("digest") : "";
    std::string differences =
        new_parameter.difference("parameter") + gradient.difference("in the gradient's place") + digests;
    for (Twin<float>& slot : new_slots) differences += slot.difference("slot");
    return differences;
  }

  uint64_t first_word;
  Twin<float> gradient, parameter, slots[most_slots], new_parameter, new_slots[most_slots];
  Twin<uint64_t> digest;
};

// One to three arrays, or too many small ones for one launch; some are empty.
std::vector<int64_t> draw_sizes(Draw& draw) {
  std::vector<int64_t> sizes;
  if (draw.chance(20)) {
    for (int64_t left = draw.integer(100, 130); left > 0; --left) sizes.push_back(draw.integer(0, 9));
  } else {
    for (int64_t left = draw.integer(1, 3); left > 0; --left)
      sizes.push_back(draw.one_of<int64_t>({0, 1, 255, 1024, 1025, draw.integer(1, 4000)}));
  }
  return sizes;
}

// Settings of any optimizer: its fields, by name.
template <typename Settings>
Settings draw_settings(Draw& draw) {
  Settings s;
  s.lr = draw.one_of<double>({0.1, 1e-3});
  s.weight_decay = draw.one_of<double>({0, 1e-2});
  if constexpr (requires { s.momentum; }) s.momentum = draw.one_of<double>({0, 0.9});
  if constexpr (requires { s.dampening; }) s.dampening = draw.one_of<double>({0, 0.25});
  if constexpr (requires { s.nesterov; }) s.nesterov = draw.chance(50);
  if constexpr (requires { s.first; }) s.first = draw.chance(30);
  if constexpr (requires { s.beta1; }) s.beta1 = draw.one_of<double>({0.9, 0.3});
  if constexpr (requires { s.alpha; }) s.alpha = draw.one_of<double>({0.99, 0.3});
  if constexpr (requires { s.decoupled; }) s.decoupled = draw.chance(50);
  if constexpr (requires { s.amsgrad; }) s.amsgrad = draw.chance(30);
  if constexpr (requires { s.momentum_decay; }) s.momentum_decay = draw.one_of<double>({4e-3, 0.3});
  if constexpr (requires { s.centered; }) s.centered = draw.chance(50);
  if constexpr (requires { s.lr_decay; }) s.lr_decay = draw.one_of<double>({0, 0.1});
  if constexpr (requires { s.initial_accumulator_value; }) s.initial_accumulator_value = draw.one_of<double>({0, 0.5});
  if constexpr (requires { s.step; }) s.step = draw.one_of<int64_t>({1, draw.integer(2, 50)});
  if constexpr (requires { s.rounding; }) s.rounding.as_on_cuda = draw.chance(50);
  return s;
}

// Whether an update has written the array, which was blank.
bool is_written(Twin<float>& array) {
  return std::memcmp(array.here(), Draw::blank(static_cast<int64_t>(array.size())).data(),
                     sizeof(float) * array.size()) != 0;
}

// The expected values and digest of a parameter that no gradient reached, after an update of the same slots.
OptimizerDigest keep(Parameter& parameter) {
  const auto kept = [&](Twin<float>& to, Twin<float>& from) {
    std::copy_n(from.here(), from.size(), to.here());
    return digest(from.here(), sizeof(float) * from.size(), parameter.first_word);
  };
  OptimizerDigest expected;
  expected.parameter = kept(parameter.new_parameter, parameter.parameter);
  for (size_t s = 0; s < most_slots; ++s)
    if (is_written(parameter.new_slots[s])) expected.slots[s] = kept(parameter.new_slots[s], parameter.slots[s]);
  return expected;
}

template <typename Settings>
std::string update_case(Draw& draw, uint32_t seed) {
  const auto settings = draw_settings<Settings>(draw);
  const bool scaled = draw.chance(30);
  Twin<float> factor(std::vector<float>{0.625f});
  const Isa isa = kIsas[static_cast<size_t>(draw.integer(0, static_cast<int64_t>(best_isa())))];
  std::list<Parameter> parameters;
  std::vector<UpdatePiece> pieces;
  Twin<float> reached(std::vector<float>{0, 1, 3});
  for (const int64_t n : draw_sizes(draw)) {
    Parameter& parameter = parameters.emplace_back(draw, n, static_cast<uint64_t>(seed) * 777);
    pieces.push_back(parameter.there());
    const OptimizerPiece here = parameter.here(scaled ? 0.625f : 1);
    OptimizerDigest expected = update(settings, here, isa);
    if (const auto which = draw.integer(0, 3); which < 3) {
      pieces.back().reached = reached.there() + which;
      if (which == 0) expected = keep(parameter);
    }
    if (draw.chance(25)) {  // in the gradient's place
      std::swap_ranges(parameter.new_parameter.here(), parameter.new_parameter.here() + n, parameter.gradient.here());
      pieces.back().new_parameter = parameter.gradient.there();
      const std::vector<float> blank = Draw::blank(n);
      std::copy(blank.begin(), blank.end(), parameter.new_parameter.here());
    }
    const std::vector<uint64_t> words = words_of(expected);
    std::copy(words.begin(), words.end(), parameter.digest.here());
  }
  const float* gradient_factor = scaled ? factor.there() : nullptr;
  const DeviceQueue& queue = *on_device().device;
  queue.updates->update(settings, pieces, gradient_factor, queue);
  std::string differences;
  for (Parameter& parameter : parameters) differences += parameter.difference();
  return report(differences, shape_of("arrays", pieces.size()));
}

template <typename... Settings>
std::string one_of_all(OptimizerList<Settings...>, uint32_t seed) {
  constexpr std::string (*cases[])(Draw&, uint32_t) = {update_case<Settings>...};
  Draw draw(seed);
  const size_t which = seed % std::size(cases);
  return report(cases[which](draw, seed), shape_of("optimizer", which));
}

}  // namespace

std::string optimizer_case(uint32_t seed) { return one_of_all(Optimizers{}, seed); }

// Some gradients folded into consecutive sums, and others in between that must not change.
std::string fold_case(uint32_t seed) {
  Draw draw(seed);
  const std::vector<int64_t> sizes = draw_sizes(draw);
  const int64_t all = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  const size_t depth = static_cast<size_t>(draw.integer(0, 3));
  const float scale = draw.one_of<float>({1, 0.3f, -0.7f});
  Twin<float> a(draw.floats(all)), b(draw.floats(all)), c(draw.floats(all)), gradients(draw.floats(all));
  const bool in_place = depth > 0 && draw.chance(50);
  Twin<float> elsewhere(Draw::blank(all));
  Twin<float>& out = in_place ? a : elsewhere;
  std::vector<FoldPiece> pieces;
  size_t offset = 0;
  for (const int64_t n : sizes) {
    const auto count = static_cast<size_t>(n);
    if (draw.chance(80)) {
      const float* operands[] = {a.here() + offset, b.here() + offset, c.here() + offset};
      if (depth == 0) kernels::scale(out.here() + offset, gradients.here() + offset, scale, count);
      if (depth > 0) fold_scaled(out.here() + offset, operands, depth, gradients.here() + offset, scale, count);
      pieces.push_back({gradients.there() + offset, offset, count});
    }
    offset += count;
  }
  const float* operands[] = {a.there(), b.there(), c.there()};
  const DeviceQueue& queue = *on_device().device;
  queue.updates->fold_scaled(out.there(), {operands, depth}, scale, pieces, queue);
  return report(out.difference("out"), shape_of("depth, arrays", depth, sizes.size()));
}

std::string digest_case(uint32_t seed) {
  Draw draw(seed);
  std::list<Twin<float>> arrays;
  std::list<Twin<uint64_t>> sums;
  std::vector<DigestPiece> pieces;
  for (const int64_t n : draw_sizes(draw)) {
    Twin<float>& array = arrays.emplace_back(draw.floats(n));
    Twin<uint64_t>& sum = sums.emplace_back(std::vector<uint64_t>(1, 0));
    *sum.here() = digest(array.here(), 4 * array.size(), seed);
    pieces.push_back({array.there(), array.size(), seed, reinterpret_cast<unsigned long long*>(sum.there())});
  }
  const DeviceQueue& queue = *on_device().device;
  queue.updates->digest(pieces, queue);
  std::string differences;
  for (Twin<uint64_t>& sum : sums) differences += sum.difference("digest");
  return report(differences, shape_of("arrays", pieces.size()));
}

std::string norm_case(uint32_t seed) {
  Draw draw(seed);
  std::vector<int64_t> sizes = draw_sizes(draw);
  sizes.push_back(draw.one_of<int64_t>({4095, 4096, 4097, draw.integer(8000, 40000)}));
  std::erase(sizes, 0);
  std::list<Twin<float>> arrays;
  Twin<float> norms(Draw::blank(static_cast<int64_t>(sizes.size())));
  std::vector<NormPiece> pieces;
  for (size_t i = 0; i < sizes.size(); ++i) {
    Twin<float>& array = arrays.emplace_back(draw.floats(sizes[i]));
    portable::l2_norm(norms.here() + i, array.here(), {1, sizes[i], 1}, on_cpu());
    pieces.push_back({array.there(), array.size(), norms.there() + i});
  }
  const DeviceQueue& queue = *on_device().device;
  queue.updates->norms(pieces, queue);
  return report(norms.difference("norm"), shape_of("arrays", pieces.size()));
}

// Norms of some parameters, and the norm of these without a trace of the others.
std::string compact_case(uint32_t seed) {
  Draw draw(seed);
  const int64_t n = draw.one_of<int64_t>({1, 255, 256, 257, draw.integer(1, 3000), 5000});
  std::vector<float> norms = draw.positive(n), reached, counted;
  const bool all = draw.chance(20);
  for (float& norm : norms) {
    if (draw.chance(5)) norm = draw.chance(50) ? -1 : NAN;
    reached.push_back(draw.chance(60) ? static_cast<float>(draw.integer(1, 4)) : 0);
    if (!(norm < 0) && (all || reached.back() != 0)) counted.push_back(norm);
  }
  Twin<float> values(norms), flags(reached), total(std::vector<float>(1, 0));
  if (!counted.empty())
    portable::l2_norm(total.here(), counted.data(), {1, static_cast<int64_t>(counted.size()), 1}, on_cpu());
  counted.resize(norms.size(), 0);
  std::copy(counted.begin(), counted.end(), values.here());
  const DeviceQueue& queue = *on_device().device;
  const NormPiece piece = {values.there(), values.size(), total.there()};
  queue.updates->compact_norms(values.there(), all ? nullptr : flags.there(), values.size(), queue);
  queue.updates->norms({&piece, 1}, queue);
  return report(values.difference("norm") + total.difference("norm of norms"), shape_of("norms", n));
}

std::string sum_case(uint32_t seed) {
  if (seed % 7 == 6) return compact_case(seed);
  if (seed % 5 == 4) return norm_case(seed);
  if (seed % 4 == 0) return fold_case(seed);
  if (seed % 4 == 1) return digest_case(seed);
  Draw draw(seed);
  const auto n = static_cast<size_t>(draw.one_of<int64_t>({1, 256, draw.integer(1, 3000)}));
  const auto count = static_cast<int64_t>(n);
  Twin<float> a(draw.floats(count)), b(draw.floats(count)), out(Draw::blank(count));
  Twin<float> norm(draw.positive(1)), factor(Draw::blank(1));
  const int which = static_cast<int>(draw.integer(0, 2));
  const DeviceQueue& queue = *on_device().device;
  const DeviceUpdates& updates = *queue.updates;
  if (which == 0) add(out.here(), a.here(), b.here(), n), updates.add(out.there(), a.there(), b.there(), n, queue);
  if (which == 1) add_zero(out.here(), a.here(), n), updates.add_zero(out.there(), a.there(), n, queue);
  if (which == 2) {
    *factor.here() = portable::clip_factor(*norm.here(), 1);
    updates.clip_factor(factor.there(), norm.there(), 1, queue);
  }
  return report(out.difference("out") + factor.difference("factor"), shape_of("function, n", which, count));
}

}  // namespace estrain::kernels::test
