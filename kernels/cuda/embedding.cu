// The gradient of an embedding's weight (kernels/portable/embedding.h): the occurrences of each row are brought
// together in order by a counting sort, in chunks of indices; then a block of threads for each row walks over its
// occurrences, a thread for each column. Atomic operations count integers only.

#include "kernels/cuda/families.h"
#include "kernels/cuda/value.h"

namespace estrain::kernels::cuda {
namespace {

using portable::EmbeddingShape;

constexpr int64_t kMostCounts = int64_t{1} << 24;  // 64 MiB of them

// Chunks of indices, each with a count for each row of the weight.
struct Sorting {
  int64_t vocabulary, n, chunk, chunks;
  int* counts;      // [chunks][vocabulary]; then where the chunk's occurrences begin among the row's
  int64_t* starts;  // [vocabulary + 1]: where the row's occurrences begin in `order`
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

// Counts of a row's chunks to where they begin; the row's number of occurrences to starts[row].
__global__ void add_chunks(Sorting s) {
  const int64_t v = thread_index();
  if (v >= s.vocabulary) return;
  int sum = 0;
  for (int64_t c = 0; c < s.chunks; ++c) {
    const int count = s.counts[c * s.vocabulary + v];
    s.counts[c * s.vocabulary + v] = sum;
    sum += count;
  }
  s.starts[v] = sum;
}

// Numbers of occurrences to where they begin, by one block of threads.
__global__ void add_rows(Sorting s) {
  __shared__ int64_t sums[kThreads];
  const int64_t share = (s.vocabulary + kThreads - 1) / kThreads, thread = threadIdx.x;
  const int64_t begin = thread * share < s.vocabulary ? thread * share : s.vocabulary;
  const int64_t end = begin + share < s.vocabulary ? begin + share : s.vocabulary;
  int64_t sum = 0;
  for (int64_t v = begin; v < end; ++v) sum += s.starts[v];
  sums[thread] = sum;
  __syncthreads();
  int64_t before = 0;
  for (int64_t t = 0; t < thread; ++t) before += sums[t];
  for (int64_t v = begin; v < end; ++v) {
    const int64_t count = s.starts[v];
    s.starts[v] = before;
    before += count;
  }
  if (thread == kThreads - 1) s.starts[s.vocabulary] = before;
}

__global__ void place(Sorting s, const int64_t* indices) {
  const int64_t i = thread_index();
  if (i >= s.n || !is_row(s, indices[i])) return;
  const int64_t v = indices[i], chunk = i / s.chunk;
  int before = 0;
  for (int64_t j = chunk * s.chunk; j < i; ++j) before += indices[j] == v ? 1 : 0;
  s.order[s.starts[v] + s.counts[chunk * s.vocabulary + v] + before] = i;
}

__global__ void add_occurrences(Sorting s, EmbeddingShape shape, float* dweight, const float* dy) {
  const int64_t v = blockIdx.x, begin = s.starts[v], end = v == shape.padding_index ? begin : s.starts[v + 1];
  const float scale = shape.scale_by_frequency ? 1.0f / static_cast<float>(end - begin) : 1.0f;
  for (int64_t column = threadIdx.x; column < shape.d; column += blockDim.x) {
    float sum = 0;
#pragma unroll 4
    for (int64_t o = begin; o < end; ++o) sum = fused(dy[s.order[o] * shape.d + column], scale, sum);
    dweight[v * shape.d + column] = sum;
  }
}

int64_t chunk_of(const EmbeddingShape& shape) {
  const int64_t chunks = kMostCounts / (shape.vocabulary + 1) + 1, least = (shape.n + chunks - 1) / chunks;
  return least < 1024 ? 1024 : least;
}

unsigned threads_for(int64_t columns) {
  return columns >= kThreads ? kThreads : static_cast<unsigned>((columns + 31) / 32 * 32);
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
  launch("embedding_starts", queue, Grid{1}, add_rows, s);
  launch("embedding_order", queue, grid_for(shape.n), place, s, indices);
  launch("embedding_backward", queue, Grid{shape.vocabulary, threads_for(shape.d)}, add_occurrences, s, shape, dweight,
         dy);
}

}  // namespace estrain::kernels::cuda
