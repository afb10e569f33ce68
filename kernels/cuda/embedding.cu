// The gradient of an embedding's weight (kernels/portable/embedding.h). A counting sort, in chunks of indices, collects
// the occurrences of each row in order. Then blocks of threads walk over a row's occurrences, one thread per column.
// Atomic operations only count integers.

#include "kernels/cuda/ahead.h"
#include "kernels/cuda/families.h"
#include "kernels/portable/order.h"

namespace estrain::kernels::cuda {
namespace {

using portable::EmbeddingShape;

constexpr int64_t kMostCounts = int64_t{1} << 24;  // 64 MiB of counts

// Chunks of indices, each with a count for each row of the weight.
struct Sorting {
  int64_t vocabulary, n, chunk, chunks;
  int* counts;      // [chunks][vocabulary]; later the position of the chunk's first occurrence among the row's
  int64_t* starts;  // [vocabulary + 1]: start of the row's occurrences in `order`
  int64_t* order;   // [n]
};

__device__ bool is_row(const Sorting& s, int64_t v) { return v >= 0 && v < s.vocabulary; }

__global__ void clear_counts(Sorting s) {
  const int64_t i = thread_index();
  if (i < s.chunks * s.vocabulary) s.counts[i] = 0;
}

__global__ void count(Sorting s, const int64_t* indices) {
  const int64_t i = thread_index();
  if (i < s.n && is_row(s, indices[i])) atomicAdd(s.counts + i / s.chunk * s.vocabulary + indices[i], 1);
}

// Turns the counts of a row's chunks into start positions; stores the row's number of occurrences in starts[row].
__global__ void add_chunks(Sorting s) {
  const int64_t v = thread_index();
  if (v >= s.vocabulary) return;
  int* at = s.counts + v;
  int sum = 0;
  in_order<8>(
      s.chunks, [&](int64_t c) { return s.counts[c * s.vocabulary + v]; },
      [&](int count) {
        *at = sum;
        at += s.vocabulary;
        sum += count;
      });
  s.starts[v] = sum;
}

// Turns numbers of occurrences into start positions, in one block of threads.
constexpr unsigned kRowThreads = 1024;
__global__ void __launch_bounds__(kRowThreads) add_rows(Sorting s) {
  __shared__ int64_t sums[kRowThreads];
  const int64_t share = (s.vocabulary + kRowThreads - 1) / kRowThreads, thread = threadIdx.x;
  const int64_t begin = thread * share < s.vocabulary ? thread * share : s.vocabulary;
  const int64_t end = begin + share < s.vocabulary ? begin + share : s.vocabulary;
  const auto load = [&](int64_t i) { return s.starts[begin + i]; };
  int64_t own = 0;
  in_order<16>(end - begin, load, [&](int64_t count) { own += count; });
  // A prefix sum over the threads follows.
  sums[thread] = own;
  for (int64_t distance = 1; distance < kRowThreads; distance *= 2) {
    __syncthreads();
    const int64_t before = thread < distance ? 0 : sums[thread - distance];
    __syncthreads();
    sums[thread] += before;
  }
  int64_t* at = s.starts + begin;
  int64_t before = sums[thread] - own;
  in_order<16>(end - begin, load, [&](int64_t count) {
    *at++ = before;
    before += count;
  });
  if (thread == kRowThreads - 1) s.starts[s.vocabulary] = before;
}

__global__ void place(Sorting s, const int64_t* indices) {
  const int64_t i = thread_index();
  if (i >= s.n || !is_row(s, indices[i])) return;
  const int64_t v = indices[i], chunk = i / s.chunk;
  int before = 0;
#pragma unroll 16
  for (int64_t j = chunk * s.chunk; j < i; ++j) before += indices[j] == v ? 1 : 0;
  s.order[s.starts[v] + s.counts[chunk * s.vocabulary + v] + before] = i;
}

// The number of a row's occurrences held in shared memory at a time.
constexpr int kListed = 256;
__global__ void add_occurrences(Sorting s, EmbeddingShape shape, float* dweight, const float* dy, int64_t pieces) {
  __shared__ int64_t places[kListed];
  const int64_t v = blockIdx.x / pieces, column = blockIdx.x % pieces * blockDim.x + threadIdx.x;
  const int64_t begin = s.starts[v], end = v == shape.padding_index ? begin : s.starts[v + 1];
  const float scale = shape.scale_by_frequency ? 1.0f / static_cast<float>(end - begin) : 1.0f;
  float sum = 0;
  for (int64_t first = begin; first < end; first += kListed) {
    const int64_t listed = end - first < kListed ? end - first : kListed;
    __syncthreads();
    for (int64_t o = threadIdx.x; o < listed; o += blockDim.x) places[o] = s.order[first + o] * shape.d;
    __syncthreads();
    if (column >= shape.d) continue;
    in_order<32>(
        listed, [&](int64_t o) { return dy[places[o] + column]; }, [&](float x) { sum = fused(x, scale, sum); });
  }
  if (column < shape.d) dweight[v * shape.d + column] = sum;
}

int64_t chunk_of(const EmbeddingShape& shape) {
  const int64_t chunks = kMostCounts / (shape.vocabulary + 1) + 1, least = (shape.n + chunks - 1) / chunks;
  return least < 1024 ? 1024 : least;
}

// Returns the threads per block: few threads in a launch of few blocks.
unsigned threads_for(const EmbeddingShape& shape) {
  constexpr int64_t kManyBlocks = 2048;
  const int64_t most =
      shape.vocabulary * portable::divide_up(shape.d, kThreads) < kManyBlocks ? kChainThreads : kThreads;
  return static_cast<unsigned>(shape.d < most ? portable::round_up(shape.d, 32) : most);
}

}  // namespace

void embedding_backward(float* dweight, const float* dy, const int64_t* indices, const EmbeddingShape& shape,
                        const Execution& execution) {
  if (shape.vocabulary == 0 || shape.d == 0) return;
  const DeviceQueue& queue = queue_of(execution);
  const int64_t chunk = chunk_of(shape), chunks = (shape.n + chunk - 1) / chunk;
  const Scratch<int> counts(queue, chunks * shape.vocabulary);
  const Scratch<int64_t> starts(queue, shape.vocabulary + 1), order(queue, shape.n);
  const Sorting s = {shape.vocabulary, shape.n, chunk, chunks, counts.get(), starts.get(), order.get()};
  launch("embedding_clear", queue, grid_for(chunks * shape.vocabulary), clear_counts, s);
  launch("embedding_count", queue, grid_for(shape.n), count, s, indices);
  launch("embedding_chunks", queue, grid_for(shape.vocabulary), add_chunks, s);
  launch("embedding_starts", queue, Grid{1, kRowThreads}, add_rows, s);
  launch("embedding_order", queue, grid_for(shape.n), place, s, indices);
  const unsigned threads = threads_for(shape);
  const int64_t pieces = portable::divide_up(shape.d, threads);
  launch("embedding_backward", queue, Grid{shape.vocabulary * pieces, threads}, add_occurrences, s, shape, dweight, dy,
         pieces);
}

}  // namespace estrain::kernels::cuda
