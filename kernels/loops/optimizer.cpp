#include "kernels/loops/optimizer.h"

#include "kernels/loops/walks.h"
#include "kernels/optimizer_rules.h"

namespace estrain::kernels::ESTRAIN_ISA {

template <bool past_caches, typename Part>
static inline void put(Part part, float* to, Floats x) {
  if (past_caches) {
    part.write_past_caches(to, x);
  } else {
    part.write(to, x);
  }
}

static inline bool on_vector_boundary(const float* address) {
  return reinterpret_cast<uintptr_t>(address) % (width * sizeof(float)) == 0;
}

// Whether the new values may bypass the caches: only whole, aligned vectors can.
static inline bool may_stream(const OptimizerPiece& piece, int slots) {
  bool aligned = piece.first_word % width == 0 && on_vector_boundary(piece.new_parameter);
  for (int s = 0; s < slots; ++s) aligned &= on_vector_boundary(piece.new_slots[s]);
  return piece.stream && aligned;
}

static constexpr size_t floats_of_line = 16;
// A processor's own prefetching ends with the page of 4 KiB, and a sweep reads several arrays.
static constexpr size_t fetch_distance = 32 * floats_of_line;

// Prefetches what a sweep past the caches will read at i + fetch_distance. Past the end of an array a prefetch does
// nothing.
template <typename Rule>
static inline void fetch_ahead(const OptimizerPiece& piece, size_t i) {
  if (width < floats_of_line && i % floats_of_line != 0) return;
  __builtin_prefetch(piece.parameter + i + fetch_distance);
  __builtin_prefetch(piece.gradient + i + fetch_distance);
  for (int s = 0; s < Rule::slots; ++s) __builtin_prefetch(piece.slots[s] + i + fetch_distance);
}

// Evidence of a non-finite number, collected lane by lane: x - x is +0, but NaN if x is NaN or infinite. Combines the
// bits instead of adding the numbers, so an iteration need not wait for the previous addition.
using Evidence = int32_t __attribute__((vector_size(sizeof(Floats))));

static inline Evidence with(Evidence evidence, Floats x) { return evidence | reinterpret_cast<Evidence>(x - x); }

static inline bool is_clean(Evidence evidence) {
  int32_t all = 0;
  for (size_t i = 0; i < width; ++i) all |= evidence[i];
  return all == 0;
}

// Applies a rule without square roots to a piece in registers, and digests the new values. Checks new parameters for
// being finite, and slots only if the new parameters do not show them.
template <bool past_caches, typename Rule>
static inline OptimizerDigest sweep(const Rule& rule, const OptimizerPiece& piece) {
  const Floats factor = broadcast(piece.gradient_factor);
  OptimizerDigest digest = {};
  Evidence evidence = {};
  for_digest_blocks(piece.n, piece.first_word, [&](size_t begin, size_t end, const uint32_t* table, uint64_t key) {
    Words words[1 + Rule::slots];
    for (Words& some : words) some = no_words();
    Evidence found = {};
    for_vectors(begin, end, [&](size_t i, auto part) {
      if (past_caches) fetch_ahead<Rule>(piece, i);
      Floats parameter = part.read(piece.parameter + i);
      const Floats gradient = part.read(piece.gradient + i) * factor;
      Floats slots[most_slots];
      for (int s = 0; s < Rule::slots; ++s) slots[s] = part.read(piece.slots[s] + i);
      rule.update(parameter, gradient, slots);
      put<past_caches>(part, piece.new_parameter + i, parameter);
      const Floats written = part.keep(parameter);
      found = with(found, written);
      words[0] = add_weighted(words[0], written, table + (i - begin));
      for (int s = 0; s < Rule::slots; ++s) {
        put<past_caches>(part, piece.new_slots[s] + i, slots[s]);
        const Floats kept = part.keep(slots[s]);
        if (!Rule::shows_slots) found = with(found, kept);
        words[1 + s] = add_weighted(words[1 + s], kept, table + (i - begin));
      }
    });
    digest.parameter += total(words[0]) * key;
    for (int s = 0; s < Rule::slots; ++s) digest.slots[s] += total(words[1 + s]) * key;
    evidence |= found;
  });
  digest.finite = is_clean(evidence);
  if (past_caches) fence();
  return digest;
}

// The square roots that are used if the settings name no function.
static void square_roots(float* roots, const float* values, size_t n) {
  for_vectors(0, n, [&](size_t i, auto part) { part.write(roots + i, square_root(part.read(values + i))); });
}

// Whether a gradient of +0 leaves the parameter as it is, whatever the root.
template <typename Rule>
static inline bool rests_on_zeros(const Rule& rule, float gradient_factor) {
  if constexpr (requires { rule.rests_on_zeros; }) {
    return rule.rests_on_zeros && gradient_factor > 0 && gradient_factor <= __FLT_MAX__;
  } else {
    return false;
  }
}

// Whether all bits of the gradients are 0, and no radicand is negative or NaN.
static bool is_at_rest(const float* gradient, const float* radicand, size_t n) {
  constexpr uint32_t infinity = 0x7f800000;
  uint32_t set = 0, largest = 0;
  for (size_t i = 0; i < n; ++i) set |= __builtin_bit_cast(uint32_t, gradient[i]);
  if (set != 0) return false;
  for (size_t i = 0; i < n; ++i) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, radicand[i]);
    largest = bits > largest ? bits : largest;
  }
  return largest <= infinity;
}

// Takes the roots of a block, but for runs of elements at rest: a large table of embeddings has many. There the update
// is the same for every positive number.
static void take_roots_in_motion(SquareRoots take_roots, float* roots, const float* radicands, const float* gradient,
                                 size_t n) {
  constexpr size_t run = 64;
  size_t taken = 0;
  const auto take = [&](size_t end) {
    if (end > taken) take_roots(roots + taken, radicands + taken, end - taken);
  };
  for (size_t begin = 0; begin < n; begin += run) {
    const size_t size = n - begin < run ? n - begin : run;
    if (!is_at_rest(gradient + begin, radicands + begin, size)) continue;
    take(begin);
    for (size_t i = begin; i < begin + size; ++i) roots[i] = 1;
    taken = begin + size;
  }
  take(n);
}

// Makes three passes over each block of the digest. A block stays in the first-level cache. The middle pass takes the
// square roots, possibly by another library. Past the caches, a block's new slots wait in `waiting` for the last pass.
template <bool past_caches, typename Rule>
static inline OptimizerDigest sweep_with_roots(const Rule& rule, SquareRoots take_roots, const OptimizerPiece& piece) {
  const Floats factor = broadcast(piece.gradient_factor);
  const bool rests = rests_on_zeros(rule, piece.gradient_factor);
  OptimizerDigest digest = {};
  Evidence evidence = {};
  for_digest_blocks(piece.n, piece.first_word, [&](size_t begin, size_t end, const uint32_t* table, uint64_t key) {
    constexpr bool own_radicands = Rule::root_of_slot < 0;
    alignas(64) float roots[digest_block];  // before the square roots: the radicands, unless they are in a slot
    if (own_radicands) roots[0] = 0;
    alignas(64) float waiting[past_caches ? Rule::slots : 1][past_caches ? digest_block : 1];
    for (auto& block : waiting) block[0] = 0;
    float* early[Rule::slots];  // new slots that later passes read, from element `begin` on
    for (int s = 0; s < Rule::slots; ++s) early[s] = past_caches ? waiting[s] : piece.new_slots[s] + begin;
    Evidence found = {};
    Words words[1 + Rule::slots];
    for (Words& some : words) some = no_words();
    const auto digest_slot = [&](size_t i, auto part, int s, Floats value) {
      const Floats written = part.keep(value);
      found = with(found, written);
      words[1 + s] = add_weighted(words[1 + s], written, table + (i - begin));
    };
    // Reads the old parameter again only for a weight decay: reading it twice costs a tenth of the time.
    const auto gradient_at = [&](size_t i, auto part) {
      const Floats gradient = part.read(piece.gradient + i) * factor;
      return rule.decays() ? rule.decayed(gradient, part.read(piece.parameter + i)) : gradient;
    };
    for_vectors(begin, end, [&](size_t i, auto part) {
      if (past_caches) fetch_ahead<Rule>(piece, i);
      Floats slots[most_slots];
      for (int s = 0; s < Rule::slots; ++s) slots[s] = part.read(piece.slots[s] + i);
      const Floats gradient = gradient_at(i, part);
      const Floats radicand = rule.radicand(gradient, slots);
      if (own_radicands) part.write(roots + (i - begin), radicand);
      for (int s = 0; s < Rule::slots; ++s) {
        if (Rule::is_late(s)) continue;
        part.write(early[s] + (i - begin), slots[s]);
        digest_slot(i, part, s, slots[s]);
      }
    });
    const float* radicands = roots;
    if constexpr (!own_radicands) radicands = early[Rule::root_of_slot];
    if (rests) {
      take_roots_in_motion(take_roots, roots, radicands, piece.gradient + begin, end - begin);
    } else {
      take_roots(roots, radicands, end - begin);
    }
    for_vectors(begin, end, [&](size_t i, auto part) {
      Floats parameter = part.read(piece.parameter + i), slots[most_slots];
      const Floats gradient = gradient_at(i, part);
      for (int s = 0; s < Rule::slots; ++s)
        slots[s] = part.read(Rule::is_late(s) ? piece.slots[s] + i : early[s] + (i - begin));
      rule.move(parameter, gradient, slots, part.read(roots + (i - begin)));
      for (int s = 0; s < Rule::slots; ++s) {
        if (past_caches || Rule::is_late(s)) put<past_caches>(part, piece.new_slots[s] + i, slots[s]);
        if (Rule::is_late(s)) digest_slot(i, part, s, slots[s]);
      }
      put<past_caches>(part, piece.new_parameter + i, parameter);
      const Floats written = part.keep(parameter);
      found = with(found, written);
      words[0] = add_weighted(words[0], written, table + (i - begin));
    });
    digest.parameter += total(words[0]) * key;
    for (int s = 0; s < Rule::slots; ++s) digest.slots[s] += total(words[1 + s]) * key;
    evidence |= found;
  });
  digest.finite = is_clean(evidence);
  if (past_caches) fence();
  return digest;
}

template <typename Rule, typename Settings>
static OptimizerDigest update_by(const Rule& rule, const Settings& settings, const OptimizerPiece& piece) {
  if constexpr (Rule::takes_root) {
    const SquareRoots given = settings.rounding.square_roots;
    const SquareRoots roots = given ? given : square_roots;
    return may_stream(piece, Rule::slots) ? sweep_with_roots<true>(rule, roots, piece)
                                          : sweep_with_roots<false>(rule, roots, piece);
  } else {
    return may_stream(piece, Rule::slots) ? sweep<true>(rule, piece) : sweep<false>(rule, piece);
  }
}

template <typename Settings>
static OptimizerDigest update_piece(const Settings& settings, const OptimizerPiece& piece) {
  return with_rule(settings, [&](const auto& rule) { return update_by(rule, settings, piece); });
}

template <typename... Settings>
static constexpr UpdateLoops<OptimizerList<Settings...>> loops_of(OptimizerList<Settings...>) {
  return {{update_piece<Settings>}...};
}

static void average(float* dst, const float* from, const float* values, double weight, size_t n) {
  const Lerp lerp(weight);
  for_vectors(0, n,
              [&](size_t i, auto part) { part.write(dst + i, lerp(part.read(from + i), part.read(values + i))); });
}

extern const OptimizerLoops optimizer_loops = {.updates = loops_of(Optimizers{}), .average = average};

}  // namespace estrain::kernels::ESTRAIN_ISA
