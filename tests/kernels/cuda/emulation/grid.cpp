#include "tests/kernels/cuda/emulation/grid.h"

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include <algorithm>
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

// Stacks of a power of two would begin in the same lines of a cache, which holds few of them.
constexpr size_t kStack = (256 << 10) + 9 * 64, kMostThreads = 1024;

enum class State { fresh, ready, at_block_barrier, at_warp_barrier, done };

struct Thread {
  GridIndex index;
  State state = State::fresh;
  size_t stack = 0;
  void* stack_pointer = nullptr;
  uint32_t given[2] = {};  // the arguments of the last two exchange()
  unsigned exchanges = 0;
};

char* stacks() {
  static char* const memory = static_cast<char*>(
      mmap(nullptr, kStack * kMostThreads, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (memory == MAP_FAILED) std::abort();
  return memory;
}

// Its threads run in rounds: in each, one after another, every thread that waits for nothing.
struct Block {
  std::vector<Thread> threads;
  std::vector<size_t> sequence;     // of the threads in a round
  std::vector<size_t> free_stacks;  // the one to take next is last
  size_t current = 0, turn = 0;     // the thread that runs; places in `sequence` that had their turn in this round
  void *scheduler = nullptr, *left = nullptr;  // stack pointers: the latter of a thread that is done
  void (*body)(void*) = nullptr;
  void* context = nullptr;
};
Block block;
int64_t launch_count = 0;

Thread& current() { return block.threads[block.current]; }

// Makes the next thread of this round the current one. False: there is none.
bool advance() {
  while (block.turn < block.sequence.size()) {
    block.current = block.sequence[block.turn++];
    if (const State state = current().state; state == State::fresh || state == State::ready) return true;
  }
  return false;
}

[[noreturn]] void run_threads();

// A stack from which estrain_switch_stacks returns into run_threads. AddressSanitizer still guards the variables of the
// run_threads that was left there before.
void give_stack(Thread& thread) {
  constexpr size_t kOneFrame = 4096;
  thread.stack = block.free_stacks.back();
  block.free_stacks.pop_back();
  ASAN_UNPOISON_MEMORY_REGION(stacks() + (thread.stack + 1) * kStack - kOneFrame, kOneFrame);
  auto* top = reinterpret_cast<void**>(stacks() + (thread.stack + 1) * kStack) - 2;
  *top = reinterpret_cast<void*>(run_threads);
  for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
  thread.stack_pointer = top;
}

void switch_to_current(void** from) {
  Thread& thread = current();
  if (thread.state == State::fresh) give_stack(thread);
  thread.state = State::ready;
  threadIdx = thread.index;
  estrain_switch_stacks(from, thread.stack_pointer);
}

// Goes on with the next thread, or, after the last one of the round, with the scheduler.
void leave(void** from) {
  if (advance()) return switch_to_current(from);
  estrain_switch_stacks(from, block.scheduler);
}

// Runs a fresh thread; and once it is done, on the same stack, the next one if that is fresh, too.
void run_threads() {
  for (;;) {
    block.body(block.context);
    const size_t stack = current().stack;
    current().state = State::done;
    const bool is_any = advance();
    if (is_any && current().state == State::fresh) {
      current().stack = stack;
      current().state = State::ready;
      threadIdx = current().index;
      continue;
    }
    block.free_stacks.push_back(stack);
    if (is_any) switch_to_current(&block.left);
    estrain_switch_stacks(&block.left, block.scheduler);
  }
}

void wait(State barrier) {
  Thread& thread = current();
  thread.state = barrier;
  leave(&thread.stack_pointer);
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

// True: a thread ran.
bool run_round() {
  block.turn = 0;
  if (!advance()) return false;
  switch_to_current(&block.scheduler);
  return true;
}

void run_block() {
  for (;;) {
    const bool ran = run_round();
    if (std::ranges::all_of(block.threads, [](const Thread& thread) { return thread.state == State::done; })) return;
    if (!pass_barriers() && !ran) {
      std::fprintf(stderr, "emulated grid: the threads of block %u wait at different barriers\n", blockIdx.x);
      std::abort();
    }
  }
}

void prepare_threads(size_t count, int64_t order) {
  block.threads.resize(count);
  block.sequence.resize(count);
  block.free_stacks.resize(count);
  for (size_t i = 0; i < count; ++i) {
    block.sequence[i] = place(i, count, order);
    block.free_stacks[i] = count - 1 - i;
  }
}

void start_threads() {
  unsigned i = 0;
  for (Thread& thread : block.threads) {
    thread.index = {i % blockDim.x, i / blockDim.x};
    thread.state = State::fresh;
    thread.exchanges = 0;
    ++i;
  }
}

}  // namespace

unsigned lane() { return static_cast<unsigned>(block.current % 32); }
int64_t launches() { return launch_count; }

// One barrier is enough: nobody gives a second time before all have read what they were given before.
uint32_t exchange(uint32_t mine, unsigned from) {
  const unsigned turn = current().exchanges++ % 2;
  current().given[turn] = mine;
  wait(State::at_warp_barrier);
  const size_t at = block.current / 32 * 32 + from;
  if (at >= block.threads.size()) std::abort();
  return block.threads[at].given[turn];
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
  prepare_threads(size_t{threads_x} * threads_y, order);
  block.body = body;
  block.context = context;
  for (int64_t b = 0; b < blocks; ++b) {
    blockIdx = {static_cast<unsigned>(place(static_cast<size_t>(b), static_cast<size_t>(blocks), order / 3)), 0};
    start_threads();
    run_block();
  }
}

}  // namespace emulation

void __syncthreads() { emulation::wait(emulation::State::at_block_barrier); }
void __syncwarp() { emulation::wait(emulation::State::at_warp_barrier); }

}  // namespace estrain::kernels::cuda
