#include "tests/kernels/cuda/emulation/grid.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

// Saves the call-preserved registers on the stack, switches stacks, and returns on the new one.
extern "C" void estrain_switch_stacks(void** from, void* to);
asm(R"(
.text
.type estrain_switch_stacks, @function
estrain_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size estrain_switch_stacks, .-estrain_switch_stacks
)");

namespace estrain::kernels::cuda {

GridIndex threadIdx, blockIdx, blockDim, gridDim;

namespace emulation {
namespace {

constexpr size_t kStack = 256 << 10, kMostThreads = 1024;

enum class State { fresh, ready, at_block_barrier, at_warp_barrier, done };

struct Thread {
  GridIndex index;
  State state = State::fresh;
  void* stack_pointer = nullptr;
  uint32_t given = 0;  // the argument of exchange()
};

char* stacks() {
  static char* const memory = static_cast<char*>(
      mmap(nullptr, kStack * kMostThreads, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (memory == MAP_FAILED) std::abort();
  return memory;
}

struct Block {
  std::vector<Thread> threads;
  size_t current = 0;
  void* scheduler = nullptr;
  void (*body)(void*) = nullptr;
  void* context = nullptr;
};
Block block;
int64_t launch_count = 0;

void to_scheduler() { estrain_switch_stacks(&block.threads[block.current].stack_pointer, block.scheduler); }

[[noreturn]] void run_thread() {
  block.body(block.context);
  block.threads[block.current].state = State::done;
  to_scheduler();
  std::abort();
}

// A stack from which estrain_switch_stacks returns into run_thread.
void* fresh_stack(size_t i) {
  auto* top = reinterpret_cast<void**>(stacks() + (i + 1) * kStack) - 2;
  *top = reinterpret_cast<void*>(run_thread);
  for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
  return top;
}

void resume(size_t i) {
  Thread& thread = block.threads[i];
  if (thread.state == State::fresh) thread.stack_pointer = fresh_stack(i);
  thread.state = State::ready;
  block.current = i;
  threadIdx = thread.index;
  estrain_switch_stacks(&block.scheduler, thread.stack_pointer);
}

void wait(State barrier) {
  block.threads[block.current].state = barrier;
  to_scheduler();
}

// Threads [begin, end) continue if all unfinished ones wait at the same barrier.
bool pass_barrier(size_t begin, size_t end, State barrier) {
  bool any = false;
  for (size_t i = begin; i < end; ++i) {
    if (block.threads[i].state == barrier) any = true;
    if (block.threads[i].state != barrier && block.threads[i].state != State::done) return false;
  }
  for (size_t i = begin; i < end; ++i) {
    if (block.threads[i].state == barrier) block.threads[i].state = State::ready;
  }
  return any;
}

bool pass_barriers() {
  const size_t n = block.threads.size();
  bool any = pass_barrier(0, n, State::at_block_barrier);
  for (size_t warp = 0; warp < n; warp += 32) {
    any |= pass_barrier(warp, warp + 32 < n ? warp + 32 : n, State::at_warp_barrier);
  }
  return any;
}

// The order of n things: forward, backward, or in strides.
size_t place(size_t i, size_t n, int64_t order) {
  if (order % 3 == 0) return i;
  if (order % 3 == 1) return n - 1 - i;
  return i * (n % 7 == 0 ? 1 : 7) % n;
}

void run_block(int64_t order) {
  const size_t n = block.threads.size();
  for (;;) {
    bool ran = false, left = false;
    for (size_t i = 0; i < n; ++i) {
      const size_t at = place(i, n, order);
      const State state = block.threads[at].state;
      if (state == State::fresh || state == State::ready) {
        resume(at);
        ran = true;
      }
      left |= block.threads[at].state != State::done;
    }
    if (!left) return;
    if (!pass_barriers() && !ran) {
      std::fprintf(stderr, "emulated grid: the threads of block %u wait at different barriers\n", blockIdx.x);
      std::abort();
    }
  }
}

void start_threads() {
  unsigned i = 0;
  for (Thread& thread : block.threads) {
    thread.index = {i % blockDim.x, i / blockDim.x};
    thread.state = State::fresh;
    ++i;
  }
}

}  // namespace

unsigned lane() { return static_cast<unsigned>(block.current % 32); }
int64_t launches() { return launch_count; }

uint32_t exchange(uint32_t mine, unsigned from) {
  block.threads[block.current].given = mine;
  wait(State::at_warp_barrier);
  const size_t at = block.current / 32 * 32 + from;
  if (at >= block.threads.size()) std::abort();
  const uint32_t theirs = block.threads[at].given;
  wait(State::at_warp_barrier);
  return theirs;
}

void (*launch_later)(void*, const char*, std::function<void()>) = nullptr;

void run(Size grid, void (*body)(void*), void* context) {
  const auto [blocks, threads_x, threads_y] = grid;
  if (blocks <= 0) return;
  const int64_t order = launch_count++;
  if (size_t{threads_x} * threads_y > kMostThreads || blocks >= int64_t{1} << 31) {
    std::fprintf(stderr, "emulated grid: %lld blocks of %u x %u threads\n", static_cast<long long>(blocks), threads_x,
                 threads_y);
    std::abort();
  }
  blockDim = {threads_x, threads_y};
  gridDim = {static_cast<unsigned>(blocks), 1};
  block.threads.resize(size_t{threads_x} * threads_y);
  block.body = body;
  block.context = context;
  for (int64_t b = 0; b < blocks; ++b) {
    blockIdx = {static_cast<unsigned>(place(static_cast<size_t>(b), static_cast<size_t>(blocks), order / 3)), 0};
    start_threads();
    run_block(order);
  }
}

}  // namespace emulation

void __syncthreads() { emulation::wait(emulation::State::at_block_barrier); }
void __syncwarp() { emulation::wait(emulation::State::at_warp_barrier); }

}  // namespace estrain::kernels::cuda
