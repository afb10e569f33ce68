#include "core/hosts/step/pieces.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/state/comm/meetings/sum_progress.h"
#include "core/state/comm/sums/partial_sum.h"

namespace estrain::hosts {
namespace {

constexpr size_t kUnit = comm::SumProgress::floats_of_unit;
// A host has this many pieces unless they become too small: the host can send the first while the last is not folded.
constexpr size_t kFewest = 4, kSmall = 8 << 10;

size_t divided_up(size_t value, size_t by) { return (value + by - 1) / by; }

size_t pieces_of_host(size_t floats, size_t hosts, size_t most) {
  const size_t at_most_so_large = divided_up(floats, hosts * most);
  return std::max(at_most_so_large, std::min(kFewest, divided_up(floats, hosts * kSmall)));
}

void note_parameters(const std::vector<ParameterRange>& parameters, Piece& piece) {
  const auto first = std::ranges::upper_bound(parameters, piece.floats.begin, {}, &ParameterRange::end);
  const auto last = std::ranges::lower_bound(parameters, piece.floats.end, {}, &ParameterRange::begin);
  piece.first_parameter = static_cast<size_t>(first - parameters.begin());
  piece.last_parameter = static_cast<size_t>(last - parameters.begin());
}

// The floats between parameters that are left out, the last first.
std::vector<ParameterRange> runs_of(const std::vector<ParameterRange>& parameters, const std::vector<bool>& left_out) {
  std::vector<ParameterRange> runs;
  bool is_open = false;
  for (size_t i = parameters.size(); i-- > 0;) {
    const bool is_in = left_out.empty() || !left_out[i];
    if (is_in && !is_open) runs.push_back({0, parameters[i].end});
    if (is_in) runs.back().begin = parameters[i].begin;
    is_open = is_in;
  }
  return runs;
}

constexpr size_t kChunk = 4096;  // floats

// Runs the program over `n` floats at each of `values`. Returns where the bottom of the stack lies then.
float* run(const comm::FinishPlan& plan, float* const* values, const bool* present, size_t n) {
  struct Item {
    float* values;
    bool present;
  };
  std::array<Item, comm::kDeepestStack> stack;
  size_t height = 0;
  for (const int instruction : plan.program) {
    if (instruction >= 0) {
      stack[height++] = {values[instruction], present[instruction]};
      continue;
    }
    --height;
    Item& left = stack[height - 1];
    const Item& right = stack[height];
    left.present = comm::add_partials({left.values, left.present}, {right.values, right.present}, left.values, n);
  }
  return stack[0].values;
}

// Sums the piece chunk by chunk. `visit(bottom, at, n)`: the bottom of the stack for floats [at, at + n) of the piece.
template <typename Visit>
void sum_chunks(const comm::FinishPlan& plan, const std::vector<PieceSource>& sources, const Piece& piece,
                const std::vector<ParameterRange>& parameters, Visit&& visit) {
  std::vector<float*> values(sources.size());
  std::vector<uint8_t> flags(sources.size());
  const auto* present = reinterpret_cast<const bool*>(flags.data());
  for (size_t i = piece.first_parameter; i < piece.last_parameter; ++i) {
    for (size_t source = 0; source < sources.size(); ++source)
      flags[source] = sources[source].presence[i - piece.first_parameter] != 0 ? 1 : 0;
    const size_t end = std::min(parameters[i].end, piece.floats.end) - piece.floats.begin;
    for (size_t at = std::max(parameters[i].begin, piece.floats.begin) - piece.floats.begin; at < end; at += kChunk) {
      for (size_t source = 0; source < sources.size(); ++source) values[source] = sources[source].values + at;
      const size_t n = std::min(kChunk, end - at);
      visit(run(plan, values.data(), present, n), at, n);
    }
  }
}

}  // namespace

std::vector<Piece> cut_pieces(const std::vector<ParameterRange>& parameters, size_t hosts, size_t most,
                              const std::vector<bool>& left_out) {
  std::vector<Piece> pieces, totals(hosts);
  size_t next_owner = 0;
  for (const ParameterRange& run : runs_of(parameters, left_out)) {
    const size_t count = hosts * pieces_of_host(run.size(), hosts, most), units = divided_up(run.size(), kUnit);
    const auto cut = [&](size_t at) { return run.begin + std::min(run.size(), units * at / count * kUnit); };
    for (size_t i = 0; i < count; ++i) {
      const size_t owner = next_owner++ % hosts;
      Piece piece = totals[owner];
      piece.owner = owner;
      piece.floats = {cut(count - 1 - i), cut(count - i)};
      if (piece.floats.size() == 0) continue;
      note_parameters(parameters, piece);
      pieces.push_back(piece);
      Piece& total = totals[owner];
      ++total.number;
      total.floats_before += piece.floats.size();
      total.parameters_before += piece.parameters();
    }
  }
  return pieces;
}

void sum_in_place(const comm::FinishPlan& plan, const std::vector<PieceSource>& sources, const Piece& piece,
                  const std::vector<ParameterRange>& parameters) {
  sum_chunks(plan, sources, piece, parameters, [](const float*, size_t, size_t) {});
}

void sum_into(float* sum, const comm::FinishPlan& plan, const std::vector<PieceSource>& sources, const Piece& piece,
              const std::vector<ParameterRange>& parameters) {
  sum_chunks(plan, sources, piece, parameters, [sum](const float* bottom, size_t at, size_t n) {
    if (bottom != sum + at) std::memcpy(sum + at, bottom, n * sizeof(float));
  });
}

uint8_t present_in_any(const std::vector<PieceSource>& sources, size_t i) {
  return std::ranges::any_of(sources, [i](const PieceSource& source) { return source.presence[i] != 0; }) ? 1 : 0;
}

}  // namespace estrain::hosts
