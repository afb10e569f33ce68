#include "tests/simulated_gpu/machine.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <thread>

#include "tests/simulated_gpu/memory.h"

namespace estrain::simulated {
namespace {

constexpr auto kBetweenTries = std::chrono::microseconds(100);
constexpr auto kStandstill = std::chrono::milliseconds(20);
constexpr unsigned kTurn = 256;  // items after which, on average, the order of streams changes
constexpr unsigned kOneIn = 8;   // one enqueue in this many triggers computation, in random order
thread_local int computed_elsewhere = 0;

}  // namespace

void fail(const std::string& what) {
  std::fprintf(stderr, "simulated GPU: %s\n", what.c_str());
  std::abort();
}

void count(Call call) {
  static std::atomic<uint64_t>* const numbers = [] {
    static std::atomic<uint64_t> of_nobody[kCalls];
    const char* const folder = std::getenv("ESTRAIN_SIMULATED_CALLS");
    if (folder == nullptr) return of_nobody;
    const std::string name = std::string(folder) + "/" + std::to_string(::getpid());
    const int file = ::open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    constexpr size_t bytes = kCalls * sizeof(uint64_t);
    if (file < 0 || ::ftruncate(file, bytes) != 0) fail("calls cannot be counted in " + name);
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) fail("calls cannot be counted in " + name);
    return static_cast<std::atomic<uint64_t>*>(memory);
  }();
  ++numbers[static_cast<size_t>(call)];
}

int& last_error() {
  thread_local int error = 0;
  return error;
}

Fault::Fault(const char* what) {
  const char* const said = std::getenv("ESTRAIN_SIMULATED_FAULT");
  std::istringstream words(said == nullptr ? "" : said);
  std::string kind;
  int64_t count = 0;
  if (words >> kind >> count >> file_ && kind == what) left_ = count;
}

bool Fault::strikes() {
  if (left_ <= 0 || --left_ > 0) return false;
  if (file_ == "-") return true;
  const int file = ::open(file_.c_str(), O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file >= 0) ::close(file);
  return file >= 0;
}

ComputedElsewhere::ComputedElsewhere() { ++computed_elsewhere; }
ComputedElsewhere::~ComputedElsewhere() { --computed_elsewhere; }
bool ComputedElsewhere::is_so() { return computed_elsewhere > 0; }

Machine& Machine::of_process() {
  static auto* const machine = new Machine();
  return *machine;
}

Machine::Machine()
    : order_([] {
        const char* const said = std::getenv("ESTRAIN_SIMULATED_GPU");
        const std::string_view order = said == nullptr ? "late" : said;
        if (order == "random") return Order::random;
        if (order == "early") return Order::early;
        if (order != "late") fail("ESTRAIN_SIMULATED_GPU is late, random or early");
        return Order::late;
      }()),
      lots_(static_cast<unsigned>(::getpid())) {
  default_stream_ = &streams_.emplace_back();
  std::thread([this] { compute(); }).detach();
}

Stream* Machine::new_stream() {
  const std::lock_guard lock(mutex_);
  Stream& stream = streams_.emplace_back();
  stream.rank = lots_();
  return &stream;
}

void Machine::attempt(Stream* stream, Work work) { put(stream, Graph{{std::move(work), {}}}); }

void Machine::put(Stream* stream, std::function<void()> work) {
  attempt(stream, [work = std::move(work)] {
    work();
    return true;
  });
}

void Machine::put(Stream* stream, const Graph& graph) {
  static Fault fault("kernel");
  const std::lock_guard lock(mutex_);
  if (fault.strikes()) {
    broken_ = true;
    done_.notify_all();
  }
  if (stream->captured != nullptr) {
    stream->captured->insert(stream->captured->end(), graph.begin(), graph.end());
    return;
  }
  stream->items.insert(stream->items.end(), graph.begin(), graph.end());
  stream->put += graph.size();
  if (order_ == Order::early) want({stream, stream->put});
  if (order_ == Order::random && lots_() % kOneIn == 0) want_by_chance();
}

void Machine::await(Stream* stream, Moment moment) {
  if (moment.stream == nullptr || moment.stream == stream) return;
  put(stream, Graph{{nullptr, moment}});
}

void Machine::load(const std::string& kernel) {
  std::unique_lock lock(mutex_);
  if (std::ranges::find(loaded_, kernel) != loaded_.end()) return;
  loaded_.push_back(kernel);
  lock.unlock();
  synchronize();
}

Moment Machine::now(Stream* stream) {
  const std::lock_guard lock(mutex_);
  return {stream, stream->put};
}

bool Machine::is_done(Moment moment) {
  const std::lock_guard lock(mutex_);
  return passed(moment);
}

void Machine::synchronize(Moment moment) {
  std::unique_lock lock(mutex_);
  want(moment);
  done_.wait(lock, [&] { return broken_ || passed(moment); });
}

void Machine::synchronize() {
  std::unique_lock lock(mutex_);
  std::vector<Moment> all;
  for (Stream& stream : streams_) all.push_back({&stream, stream.put});
  want_all();
  done_.wait(lock, [&] { return broken_ || std::ranges::all_of(all, passed); });
}

void Machine::begin_capture(Stream* stream, Graph* graph) {
  const std::lock_guard lock(mutex_);
  stream->captured = graph;
}

void Machine::end_capture(Stream* stream) {
  const std::lock_guard lock(mutex_);
  stream->captured = nullptr;
}

void Machine::want(Moment moment) {
  if (passed(moment)) return;
  moment.stream->wanted = std::max(moment.stream->wanted, moment.place);
  wanted_.notify_one();
}

void Machine::want_all() {
  for (Stream& stream : streams_) stream.wanted = stream.put;
  wanted_.notify_one();
}

void Machine::want_by_chance() {
  Stream& stream = streams_[lots_() % streams_.size()];
  if (stream.put > stream.done) want({&stream, stream.done + 1 + lots_() % (stream.put - stream.done)});
}

// A stream whose first item is ready and needed.
Stream* Machine::next() {
  Stream* best = nullptr;
  for (bool is_complete = false; !is_complete;) {
    is_complete = true;
    for (Stream& stream : streams_) {
      if (stream.done >= stream.wanted) continue;
      const Moment awaited = stream.items.front().awaited;
      if (passed(awaited)) {
        if (best == nullptr || stream.rank > best->rank) best = &stream;
      } else if (awaited.place > awaited.stream->wanted) {
        awaited.stream->wanted = awaited.place;
        is_complete = false;  // it may have been skipped
      }
    }
  }
  return best;
}

void Machine::rank_by_lot() {
  for (Stream& stream : streams_) stream.rank = lots_();
}

void Machine::compute() {
  std::unique_lock lock(mutex_);
  for (;;) {
    Stream* const stream = broken_ ? nullptr : next();
    if (stream == nullptr) {
      DeviceMemory::of_process().close();
      if (wanted_.wait_for(lock, kStandstill) == std::cv_status::timeout) want_all();
      continue;
    }
    const Item item = std::move(stream->items.front());
    if (item.work) {
      DeviceMemory::of_process().open();
      lock.unlock();
      const bool is_done = item.work();
      if (!is_done) std::this_thread::sleep_for(kBetweenTries);
      lock.lock();
      if (!is_done) {
        stream->items.front() = item;
        stream->rank = 0;
        continue;
      }
    }
    stream->items.pop_front();
    ++stream->done;
    if (lots_() % kTurn == 0) rank_by_lot();
    done_.notify_all();
  }
}

}  // namespace estrain::simulated
