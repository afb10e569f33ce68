#pragma once
// A GPU as seen through CUDA's runtime: streams of work, events, graphs. A thread of the process computes everything.
//
// A real GPU computes at unpredictable times, so a program that forgets to wait for the GPU fails only sometimes.
// ESTRAIN_SIMULATED_GPU selects an order that makes such a program fail:
//   late    (the default) nothing is computed before this process waits for it, and then no more than that needs; or
//           before everything has stood still for a while, as another process may be waiting
//   random  at any time, some of it
//   early   everything as soon as it may be
// Among several ready streams, one stream continues as long as possible; the choice changes. Only the GPU can access
// the memory of the GPU: memory.h.
//
// ESTRAIN_SIMULATED_FAULT="memory|kernel|transfer|silence COUNT FILE" injects a fault: the COUNTth allocation fails
// (memory), the COUNTth work of a stream fails (kernel), or the COUNTth transfers of a communicator fail (transfer) or
// never end (silence). Only the first process that reaches COUNT and can create FILE has the fault; FILE "-": all
// processes. "copies" alone: the driver serves no copy of a process (driver.cpp).

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

namespace estrain::simulated {

constexpr int kJunk = 0x7F;  // content of undefined memory; a large float32

// Executes the work, or reports that it is not ready (a transfer whose peer is late) and is called again.
using Work = std::function<bool()>;

struct Stream;

// A stream's work up to `place`; empty: nothing to wait for. A CUDA event is a Moment.
struct Moment {
  Stream* stream = nullptr;
  uint64_t place = 0;
};

struct Item {
  Work work;
  Moment awaited;  // instead of work
};

using Graph = std::vector<Item>;

struct Stream {
  std::deque<Item> items;  // not done
  uint64_t put = 0, done = 0, wanted = 0;
  uint64_t rank = 0;          // the stream with the highest rank runs
  Graph* captured = nullptr;  // captures its work
};

// Thread-safe. Never destroyed, since the thread never ends.
class Machine {
 public:
  static Machine& of_process();

  Stream* new_stream();
  // Returns the stream of a CUDA handle: the handle is the address. Null and two numbers mean the default stream.
  Stream* stream(void* handle) {
    return reinterpret_cast<uintptr_t>(handle) <= 2 ? default_stream_ : static_cast<Stream*>(handle);
  }

  void put(Stream* stream, std::function<void()> work);
  void attempt(Stream* stream, Work work);
  void put(Stream* stream, const Graph& graph);
  void await(Stream* stream, Moment moment);
  // A device loads a kernel's code before its first run, after all earlier work has finished.
  void load(const std::string& kernel);

  Moment now(Stream* stream);
  bool is_done(Moment moment);
  void synchronize(Moment moment);
  void synchronize();  // waits for all streams

  // Some work failed: no more work is computed or waited for.
  bool is_broken() const { return broken_; }

  void begin_capture(Stream* stream, Graph* graph);
  void end_capture(Stream* stream);

 private:
  enum class Order { late, random, early };

  Machine();
  void compute();
  Stream* next();
  void rank_by_lot();
  void want(Moment moment);
  void want_all();
  void want_by_chance();
  static bool passed(const Moment& moment) { return moment.stream == nullptr || moment.stream->done >= moment.place; }

  const Order order_;
  std::atomic<bool> broken_ = false;
  std::mutex mutex_;  // of all below
  std::condition_variable wanted_, done_;
  std::deque<Stream> streams_;
  Stream* default_stream_;
  std::vector<std::string> loaded_;
  std::minstd_rand lots_;
};

// Counts this kind of event; whether this one must fail.
class Fault {
 public:
  explicit Fault(const char* what);
  bool strikes();

 private:
  int64_t left_ = -1;
  std::string file_;
};

[[noreturn]] void fail(const std::string& what);

// Calls that a process makes of CUDA and NCCL. With ESTRAIN_SIMULATED_CALLS=FOLDER, their numbers are 64-bit integers,
// in this order, in a file of each process.
enum class Call { group, transfer, gather, stream_wait, host_wait };
constexpr size_t kCalls = 5;
void count(Call call);

// CUDA's last error in this thread (a cudaError_t). Libraries above CUDA leave an error, too.
int& last_error();

// During the lifetime of the object on this thread, LibTorch's kernels may be launched but compute nothing: other code
// computes the values.
class ComputedElsewhere {
 public:
  ComputedElsewhere();
  ~ComputedElsewhere();
  ComputedElsewhere(const ComputedElsewhere&) = delete;
  ComputedElsewhere& operator=(const ComputedElsewhere&) = delete;
  static bool is_so();
};

}  // namespace estrain::simulated
