// Updates many arrays in one launch: each block of threads has a part of one array, and adds the part's digest.

#include <stdexcept>

#include "kernels/cuda/arithmetic.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/lanes.h"
#include "kernels/digest_weights.h"
#include "kernels/optimizer_rules.h"

namespace estrain::kernels::cuda {
namespace {

constexpr int kEach = 4;  // elements per thread
constexpr int64_t kBlockElements = int64_t{kThreads} * kEach;
constexpr size_t kMostParameterBytes = 4096;  // limit of a kernel's parameters

// The pieces of a launch, passed with the kernel's other parameters.
template <typename Piece, unsigned most>
struct Table {
  Piece pieces[most];
  unsigned first_block[most];
  unsigned count = 0;
};
using Updates = Table<UpdatePiece, 36>;
using Folds = Table<FoldPiece, 96>;
using Digests = Table<DigestPiece, 64>;
using Norms = Table<NormPiece, 96>;

// Calls launch_table(table, blocks) for as many tables as needed, with block_elements elements per block.
template <typename Filled, int64_t block_elements, typename Piece, typename Launch>
void fill_blocks(std::span<const Piece> pieces, Launch launch_table) {
  constexpr unsigned most = sizeof(Filled::pieces) / sizeof(Piece);
  Filled table;
  int64_t blocks = 0;
  const auto flush = [&] {
    if (table.count > 0) launch_table(table, blocks);
    table.count = 0;
    blocks = 0;
  };
  for (const Piece& piece : pieces) {
    if (piece.n == 0) continue;
    const int64_t more = (static_cast<int64_t>(piece.n) + block_elements - 1) / block_elements;
    if (table.count == most || blocks + more > INT32_MAX) flush();
    table.pieces[table.count] = piece;
    table.first_block[table.count++] = static_cast<unsigned>(blocks);
    blocks += more;
  }
  flush();
}
// Calls launch_table(table, grid), with one block of threads per kBlockElements elements.
template <typename Filled, typename Piece, typename Launch>
void fill_tables(std::span<const Piece> pieces, Launch launch_table) {
  fill_blocks<Filled, kBlockElements>(pieces,
                                      [&](const Filled& table, int64_t blocks) { launch_table(table, Grid{blocks}); });
}

// Returns the piece with the block `block`.
template <typename Piece, unsigned most>
__device__ unsigned piece_of(const Table<Piece, most>& table, unsigned block) {
  unsigned low = 0, high = table.count;
  while (high - low > 1) {
    const unsigned middle = (low + high) / 2;
    (table.first_block[middle] <= block ? low : high) = middle;
  }
  return low;
}
// Returns the piece of this block of threads.
template <typename Piece, unsigned most>
__device__ unsigned own_piece(const Table<Piece, most>& table) {
  return piece_of(table, blockIdx.x);
}

// This thread's elements: first(), first() + kThreads, and so on, kEach in all; only elements below n exist.
template <typename Piece, unsigned most>
__device__ int64_t first_element(const Table<Piece, most>& table, unsigned piece) {
  return static_cast<int64_t>(blockIdx.x - table.first_block[piece]) * kBlockElements + threadIdx.x;
}

__device__ unsigned long long weighted(float value, uint64_t word) {
  const uint64_t table = static_cast<uint32_t>(splitmix64(word % digest_block) >> 32) | 1;
  return bits_of(value) * (table * digest_key(word / digest_block));
}

// Adds the threads' numbers to *to[0], *to[1], ...
template <int sums>
__device__ void add_to(unsigned long long* const (&to)[sums], const unsigned long long (&own)[sums]) {
  __shared__ unsigned long long all[sums][kThreads];
#pragma unroll
  for (int s = 0; s < sums; ++s) all[s][threadIdx.x] = own[s];
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
#pragma unroll
      for (int s = 0; s < sums; ++s) all[s][threadIdx.x] += all[s][threadIdx.x + half];
    }
    __syncthreads();
  }
  if (threadIdx.x > 0) return;
#pragma unroll
  for (int s = 0; s < sums; ++s) atomicAdd(to[s], all[s][0]);
}

__device__ bool is_finite(float x) { return x - x == 0; }

// values[i] for i < n, otherwise 0.
__device__ float read(const float* values, int64_t i, int64_t n) { return i < n ? values[i] : 0.0f; }

template <typename Rule>
__global__ void update_elements(Rule rule, const float* gradient_factor, Updates table) {
  constexpr int slots = Rule::slots;
  const unsigned own = own_piece(table);
  const UpdatePiece& piece = table.pieces[own];
  const int64_t first = first_element(table, own), n = static_cast<int64_t>(piece.n);
  const float factor = gradient_factor == nullptr ? 1.0f : *gradient_factor;
  const bool reached = piece.reached == nullptr || *piece.reached != 0;
  float parameter[kEach], gradient[kEach], slot[kEach][slots + 1] = {};
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    const int64_t i = first + e * int64_t{kThreads};
    parameter[e] = read(piece.parameter, i, n);
    gradient[e] = read(piece.gradient, i, n) * factor;
#pragma unroll
    for (int s = 0; s < slots; ++s)
      if (rule.reads_slots() || !reached) slot[e][s] = read(piece.slots[s], i, n);
  }
  unsigned long long words[1 + slots] = {};
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    const int64_t i = first + e * int64_t{kThreads};
    if (i >= n) break;
    if (reached) update_element(rule, parameter[e], gradient[e], slot[e]);
    const uint64_t word = piece.first_word + static_cast<uint64_t>(i);
    piece.new_parameter[i] = parameter[e];
    words[0] += weighted(parameter[e], word);
    bool finite = is_finite(parameter[e]);
#pragma unroll
    for (int s = 0; s < slots; ++s) {
      piece.new_slots[s][i] = slot[e][s];
      words[1 + s] += weighted(slot[e][s], word);
      finite &= is_finite(slot[e][s]);
    }
    if (reached && !finite) atomicOr(&piece.digest->not_finite, 1);
  }
  unsigned long long* sums[1 + slots] = {&piece.digest->parameter};
#pragma unroll
  for (int s = 0; s < slots; ++s) sums[1 + s] = &piece.digest->slots[s];
  add_to(sums, words);
}

__global__ void digest_words(Digests table) {
  const unsigned own = own_piece(table);
  const DigestPiece& piece = table.pieces[own];
  const int64_t first = first_element(table, own), n = static_cast<int64_t>(piece.n);
  const auto* words = static_cast<const float*>(piece.words);
  unsigned long long sum[1] = {0};
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    const int64_t i = first + e * int64_t{kThreads};
    if (i < n) sum[0] += weighted(words[i], piece.first_word + static_cast<uint64_t>(i));
  }
  add_to({piece.sum}, sum);
}

// One warp per block of kLaneBlock elements.
__global__ void square_blocks(Norms table, unsigned blocks, float* partials) {
  const auto block = static_cast<unsigned>(warp_index());
  if (block >= blocks) return;
  const unsigned own = piece_of(table, block);
  const NormPiece& piece = table.pieces[own];
  const auto n = static_cast<int64_t>(piece.n);
  const int64_t begin = static_cast<int64_t>(block - table.first_block[own]) * portable::kLaneBlock;
  const int64_t end = begin + portable::kLaneBlock < n ? begin + portable::kLaneBlock : n;
  float sum[1];
  block_sums<1>(
      begin, end, sum, [&](int64_t i) { return piece.values[i]; },
      [](float x, float(&lanes)[1]) { lanes[0] = fused(x, x, lanes[0]); });
  if (threadIdx.x == 0) partials[block] = sum[0];
}
// One warp per piece.
__global__ void finish_norms(Norms table, unsigned blocks, const float* partials) {
  const auto own = static_cast<unsigned>(warp_index());
  if (own >= table.count) return;
  const unsigned first = table.first_block[own], end = own + 1 < table.count ? table.first_block[own + 1] : blocks;
  const float total = warp_total(partials + first, end - first);
  if (threadIdx.x == 0) *table.pieces[own].norm = square_root(total);
}

// One block of threads.
__global__ void compact(float* norms, const float* reached, int64_t n) {
  __shared__ int counts[kThreads];
  int64_t end = 0;
  for (int64_t begin = 0; begin < n; begin += kThreads) {
    const int64_t i = begin + threadIdx.x;
    const float norm = read(norms, i, n);
    counts[threadIdx.x] = i < n && !(norm < 0) && (reached == nullptr || reached[i] != 0) ? 1 : 0;
    __syncthreads();
    int before = 0, all = 0;
    for (unsigned t = 0; t < static_cast<unsigned>(kThreads); ++t) {
      if (t < threadIdx.x) before += counts[t];
      all += counts[t];
    }
    if (counts[threadIdx.x] != 0) norms[end + before] = norm;
    end += all;
    __syncthreads();
  }
  for (int64_t i = end + threadIdx.x; i < n; i += kThreads) norms[i] = 0;
}

__global__ void compute_clip_factor(float* factor, const float* norm, float max_norm) {
  if (threadIdx.x != 0) return;
  const float x = max_norm * (1 / (*norm + 1e-6f));
  *factor = x > 1 ? 1 : x;
}

struct Operands {
  const float* at[kMostDeviceOperands];
};

__global__ void fold(float* dst, Operands operands, int count, float factor, Folds table) {
  const unsigned own = own_piece(table);
  const FoldPiece& piece = table.pieces[own];
  const int64_t first = first_element(table, own), n = static_cast<int64_t>(piece.n);
  float sum[kEach];
#pragma unroll
  for (int e = 0; e < kEach; ++e) sum[e] = read(piece.src, first + e * int64_t{kThreads}, n) * factor;
  for (int k = count - 1; k >= 0; --k) {
#pragma unroll
    for (int e = 0; e < kEach; ++e)
      sum[e] = read(operands.at[k] + piece.offset, first + e * int64_t{kThreads}, n) + sum[e];
  }
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    const int64_t i = first + e * int64_t{kThreads};
    if (i < n) dst[piece.offset + i] = sum[e];
  }
}

__global__ void add_arrays(float* dst, const float* a, const float* b, int64_t n) {
  const int64_t i = thread_index();
  if (i < n) dst[i] = a[i] + (b == nullptr ? 0.0f : b[i]);
}

Grid grid_of(size_t n) { return grid_for(static_cast<int64_t>(n)); }

static_assert(sizeof(Folds) + sizeof(Operands) + 2 * sizeof(float*) <= kMostParameterBytes);
static_assert(sizeof(Digests) <= kMostParameterBytes);
static_assert(sizeof(Norms) + 2 * sizeof(float*) <= kMostParameterBytes);

template <typename Settings>
void update(const Settings& settings, std::span<const UpdatePiece> pieces, const float* gradient_factor,
            const DeviceQueue& queue) {
  with_rule(settings, [&]<typename Rule>(const Rule& rule) {
    static_assert(sizeof(Updates) + sizeof(Rule) + sizeof(float*) <= kMostParameterBytes);
    fill_tables<Updates>(pieces, [&](const Updates& table, Grid grid) {
      launch("update", queue, grid, update_elements<Rule>, rule, gradient_factor, table);
    });
  });
}
template <typename... Settings>
constexpr DeviceUpdateLoops<OptimizerList<Settings...>> loops_of(OptimizerList<Settings...>) {
  return {{update<Settings>}...};
}

void digest(std::span<const DigestPiece> pieces, const DeviceQueue& queue) {
  fill_tables<Digests>(pieces,
                       [&](const Digests& table, Grid grid) { launch("digest", queue, grid, digest_words, table); });
}

void norms(std::span<const NormPiece> pieces, const DeviceQueue& queue) {
  fill_blocks<Norms, portable::kLaneBlock>(pieces, [&](const Norms& table, int64_t blocks) {
    const Scratch<float> partials(queue, blocks);
    launch("norms", queue, grid_of_warps(blocks), square_blocks, table, static_cast<unsigned>(blocks), partials.get());
    launch("norms", queue, grid_of_warps(table.count), finish_norms, table, static_cast<unsigned>(blocks),
           partials.get());
  });
}

void compact_norms(float* norms, const float* reached, size_t n, const DeviceQueue& queue) {
  launch("compact_norms", queue, Grid{1, kThreads}, compact, norms, reached, static_cast<int64_t>(n));
}

void clip_factor(float* factor, const float* norm, float max_norm, const DeviceQueue& queue) {
  launch("clip_factor", queue, Grid{1, 32}, compute_clip_factor, factor, norm, max_norm);
}

void fold_scaled(float* dst, std::span<const float* const> operands, float factor, std::span<const FoldPiece> pieces,
                 const DeviceQueue& queue) {
  if (operands.size() > kMostDeviceOperands) throw std::invalid_argument("fold_scaled: more than 32 operands");
  Operands list = {};
  for (size_t k = 0; k < operands.size(); ++k) list.at[k] = operands[k];
  fill_tables<Folds>(pieces, [&](const Folds& table, Grid grid) {
    launch("fold_scaled", queue, grid, fold, dst, list, static_cast<int>(operands.size()), factor, table);
  });
}

void add(float* dst, const float* a, const float* b, size_t n, const DeviceQueue& queue) {
  launch("add", queue, grid_of(n), add_arrays, dst, a, b, static_cast<int64_t>(n));
}

void add_zero(float* dst, const float* a, size_t n, const DeviceQueue& queue) {
  launch("add_zero", queue, grid_of(n), add_arrays, dst, a, nullptr, static_cast<int64_t>(n));
}

}  // namespace

const DeviceUpdates device_updates = {.optimizers = loops_of(Optimizers{}),
                                      .digest = digest,
                                      .norms = norms,
                                      .compact_norms = compact_norms,
                                      .clip_factor = clip_factor,
                                      .fold_scaled = fold_scaled,
                                      .add = add,
                                      .add_zero = add_zero};

}  // namespace estrain::kernels::cuda
