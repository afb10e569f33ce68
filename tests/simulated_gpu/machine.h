#pragma once
// A GPU as CUDA's runtime shows it: streams of work, events, graphs. One thread of the process computes all of it.
//
// A GPU computes when it will, so a program that forgets to wait for it works until, one day, it does not. Here the
// order is chosen against such a program, as ESTRAIN_SIMULATED_GPU says:
//   late    (the default) nothing is computed before this process waits for it, and then no more than that needs; or
//           before everything has stood still for a while, as another process may be waiting
//   random  at any time, some of it
//   early   everything as soon as it may be
// Of several streams that may go on one does so as long as it can, another time another. Its memory is nobody else's:
// memory.h.
//
// ESTRAIN_SIMULATED_FAULT="memory|kernel|transfer|silence COUNT FILE": the COUNTth time that a process takes memory or
// gives work to a stream, or a communicator makes transfers, there is none, it fails, fails, or never ends; in the
// first process that comes so far and can make FILE, and in no other. FILE "-": in all of them.

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

constexpr int kJunk = 0x7F;  // what memory holds of which nothing is known; a large float32

// Does it, or finds that it cannot be done yet (a transfer whose peer is behind), and is asked again.
using Work = std::function<bool()>;

struct Stream;

// A stream's work up to `place`; none: nothing to wait for. A CUDA event is one of these.
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
  uint64_t rank = 0;          // the highest goes on
  Graph* captured = nullptr;  // into which its work goes
};

// Thread-safe. Never ends: neither does its thread.
class Machine {
 public:
  static Machine& of_process();

  Stream* new_stream();
  // Of CUDA's handle, which is the stream's address. Null, and two numbers, stand for the default one.
  Stream* stream(void* handle) {
    return reinterpret_cast<uintptr_t>(handle) <= 2 ? default_stream_ : static_cast<Stream*>(handle);
  }

  void put(Stream* stream, std::function<void()> work);
  void attempt(Stream* stream, Work work);
  void put(Stream* stream, const Graph& graph);
  void await(Stream* stream, Moment moment);
  // A device loads a kernel's code before it runs for the first time, when all that was put there before is done.
  void load(const std::string& kernel);

  Moment now(Stream* stream);
  bool is_done(Moment moment);
  void synchronize(Moment moment);
  void synchronize();  // with all streams

  // Some work failed: nothing is computed any more, and nobody waits for it.
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

// Whether what happens now for the next time goes wrong.
class Fault {
 public:
  explicit Fault(const char* what);
  bool strikes();

 private:
  int64_t left_ = -1;
  std::string file_;
};

[[noreturn]] void fail(const std::string& what);

// CUDA's last error in this thread (a cudaError_t). Libraries above CUDA leave one, too.
int& last_error();

// While one is alive on this thread, LibTorch's kernels may be launched, and compute nothing: somebody else does it.
class ComputedElsewhere {
 public:
  ComputedElsewhere();
  ~ComputedElsewhere();
  ComputedElsewhere(const ComputedElsewhere&) = delete;
  ComputedElsewhere& operator=(const ComputedElsewhere&) = delete;
  static bool is_so();
};

}  // namespace estrain::simulated
