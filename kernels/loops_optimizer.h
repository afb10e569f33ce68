#pragma once
// The loops of optimizer.h. Included once by each variant_<isa>.cpp.

#include "kernels/loops.h"
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

// Whether the new values may go past the caches: only whole, aligned vectors can.
static inline bool may_stream(const OptimizerPiece& piece) {
  return piece.stream && piece.first_word % width == 0 && on_vector_boundary(piece.new_parameter) &&
         on_vector_boundary(piece.new_slots[0]);
}

// Evidence that a number was not finite, gathered lane by lane: x - x is +0, but NaN where x is NaN or infinite. The
// bits are collected, not the numbers: no iteration waits for the addition of the one before.
using Evidence = int32_t __attribute__((vector_size(sizeof(Floats))));

static inline Evidence with(Evidence evidence, Floats x) { return evidence | reinterpret_cast<Evidence>(x - x); }

static inline bool is_clean(Evidence evidence) {
  int32_t all = 0;
  for (size_t i = 0; i < width; ++i) all |= evidence[i];
  return all == 0;
}

// Applies rule(parameter, gradient, momentum buffer) to a piece, in place on registers, and digests what it writes.
// Nothing but a new parameter is asked whether it is finite: a gradient or a momentum buffer that is not leaves none.
template <bool has_buffer, bool past_caches, typename Rule>
static inline OptimizerDigest sweep(const OptimizerPiece& piece, float gradient_factor, Rule rule) {
  const Floats factor = broadcast(gradient_factor);
  OptimizerDigest digest = {};
  Evidence evidence = {};
  for_digest_blocks(piece.n, piece.first_word, [&](size_t begin, size_t end, const uint32_t* table, uint64_t key) {
    Words parameter_words = no_words(), buffer_words = no_words();
    Evidence found = {};
    for_vectors(begin, end, [&](size_t i, auto part) {
      Floats parameter = part.read(piece.parameter + i);
      const Floats gradient = part.read(piece.gradient + i) * factor;
      Floats buffer = has_buffer ? part.read(piece.slots[0] + i) : Floats{};
      rule(parameter, gradient, buffer);
      put<past_caches>(part, piece.new_parameter + i, parameter);
      const Floats written = part.keep(parameter);
      found = with(found, written);
      parameter_words = add_weighted(parameter_words, written, table + (i - begin));
      if (!has_buffer) return;
      put<past_caches>(part, piece.new_slots[0] + i, buffer);
      buffer_words = add_weighted(buffer_words, part.keep(buffer), table + (i - begin));
    });
    digest.parameter += total(parameter_words) * key;
    digest.slots[0] += total(buffer_words) * key;
    evidence |= found;
  });
  digest.finite = is_clean(evidence);
  if (past_caches) fence();
  return digest;
}

template <bool has_buffer, typename Rule>
static inline OptimizerDigest sweep(const OptimizerPiece& piece, float gradient_factor, Rule rule) {
  return may_stream(piece) ? sweep<has_buffer, true>(piece, gradient_factor, rule)
                           : sweep<has_buffer, false>(piece, gradient_factor, rule);
}

static OptimizerDigest sgd(const SgdScalars& scalars, const OptimizerPiece& piece) {
  const SgdRule rule(scalars);
  const auto plain = [=](Floats& parameter, Floats gradient, Floats&) { rule.plain(parameter, gradient); };
  const auto with_momentum = [=](Floats& parameter, Floats gradient, Floats& buffer) {
    rule.with_momentum(parameter, gradient, buffer);
  };
  return scalars.has_momentum ? sweep<true>(piece, scalars.gradient_factor, with_momentum)
                              : sweep<false>(piece, scalars.gradient_factor, plain);
}

// Three passes over one block of the digest at a time, which stays in the first-level cache between them: the square
// roots in the middle may be another library's. A gradient that is not finite leaves no second moment that is.
static OptimizerDigest adam(const AdamScalars& scalars, const OptimizerPiece& piece) {
  const AdamScalars k = scalars;
  const AdamRule rule(k);
  const Floats factor = broadcast(k.gradient_factor);
  OptimizerDigest digest = {};
  Evidence evidence = {};
  for_digest_blocks(piece.n, piece.first_word, [&](size_t begin, size_t end, const uint32_t* table, uint64_t key) {
    Evidence found = {};
    Words words[3] = {no_words(), no_words(), no_words()};
    for_vectors(begin, end, [&](size_t i, auto part) {
      Floats gradient = part.read(piece.gradient + i) * factor;
      if (rule.pull) gradient = rule.pulled(gradient, part.read(piece.parameter + i));
      Floats average = part.read(piece.slots[0] + i), square = part.read(piece.slots[1] + i);
      rule.moments(gradient, average, square);
      part.write(piece.new_slots[0] + i, average);
      part.write(piece.new_slots[1] + i, square);
      words[1] = add_weighted(words[1], part.keep(average), table + (i - begin));
      const Floats written = part.keep(square);
      found = with(found, written);
      words[2] = add_weighted(words[2], written, table + (i - begin));
    });
    alignas(64) float roots[digest_block];
    k.square_roots(roots, piece.new_slots[1] + begin, end - begin);
    for_vectors(begin, end, [&](size_t i, auto part) {
      const Floats parameter =
          rule.moved(part.read(piece.parameter + i), part.read(piece.new_slots[0] + i), part.read(roots + (i - begin)));
      part.write(piece.new_parameter + i, parameter);
      const Floats written = part.keep(parameter);
      found = with(found, written);
      words[0] = add_weighted(words[0], written, table + (i - begin));
    });
    digest.parameter += total(words[0]) * key;
    digest.slots[0] += total(words[1]) * key;
    digest.slots[1] += total(words[2]) * key;
    evidence |= found;
  });
  digest.finite = is_clean(evidence);
  return digest;
}

// The default of Adam::square_roots.
static void square_roots(float* roots, const float* values, size_t n) {
  for_vectors(0, n, [&](size_t i, auto part) { part.write(roots + i, square_root(part.read(values + i))); });
}

}  // namespace estrain::kernels::ESTRAIN_ISA
