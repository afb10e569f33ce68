#pragma once
// Two ways to the same result in one process, timed in turns: ours and LibTorch's. Used by gemm.cpp and
// attention.cpp.

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "kernels/execution.h"

namespace estrain::benchmarks {

struct Options {
  kernels::Isa isa = kernels::best_isa();
  int threads = 1;
  int rounds = 15;
  std::string filter;  // only rows whose name contains it
  bool json = false;
};

inline kernels::Isa isa_named(const char* name) {
  for (const kernels::Isa isa : {kernels::Isa::baseline, kernels::Isa::fma128, kernels::Isa::avx2}) {
    if (std::strcmp(name, kernels::isa_name(isa)) == 0) return isa;
  }
  return kernels::Isa::avx512;
}

inline Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--json") options.json = true;
    if (word == "--isa") options.isa = isa_named(value);
    if (word == "--threads") options.threads = std::atoi(value);
    if (word == "--rounds") options.rounds = std::atoi(value);
    if (word == "--filter") options.filter = value;
  }
  return options;
}

// Threads that spin for some microseconds between tasks, then sleep, so as not to disturb LibTorch's turn. Let its own
// sleep too: OMP_WAIT_POLICY=passive.
class Pool {
 public:
  explicit Pool(int threads) {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
  }
  ~Pool() {
    tasks_ = -1;
    ++call_;
    call_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }
  void run(int tasks, void (*task)(void*, int), void* context) {
    const int threads = static_cast<int>(workers_.size()) + 1;
    task_ = task;
    context_ = context;
    tasks_ = tasks;
    left_ = threads - 1;
    ++call_;
    call_.notify_all();
    for (int i = 0; i < tasks; i += threads) task(context, i);
    for (int spins = 0; left_ > 0; ++spins) spins < 1000 ? __builtin_ia32_pause() : std::this_thread::yield();
  }

 private:
  void work(int thread) {
    for (int seen = 0;; ++seen) {
      for (int spins = 0; call_ == seen && spins < 2000; ++spins) __builtin_ia32_pause();
      call_.wait(seen);
      if (tasks_ < 0) return;
      for (int i = thread; i < tasks_; i += static_cast<int>(workers_.size()) + 1) task_(context_, i);
      --left_;
    }
  }

  std::vector<std::thread> workers_;
  void (*task_)(void*, int) = nullptr;
  void* context_ = nullptr;
  std::atomic<int> call_ = 0, tasks_ = 0, left_ = 0;
};

inline Pool* pool = nullptr;

inline kernels::Execution execution_of(const Options& options) {
  kernels::Execution execution = {options.isa, options.threads, nullptr};
  if (options.threads > 1) {
    execution.run = [](int tasks, void (*task)(void*, int), void* context) { pool->run(tasks, task, context); };
  }
  return execution;
}

struct Row {
  std::string name;
  double ours, theirs, our_median, their_median;  // seconds: the fastest round's and the median
  double gflops = NAN, difference = NAN;          // not known
  double ratio() const { return theirs / ours; }
};

// One thread: processor time, so that what other programs take does not count; more: the clock on the wall.
inline double now(int threads) {
  timespec time;
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <typename Call>
double seconds(int threads, int repeats, Call call) {
  const double start = now(threads);
  for (int i = 0; i < repeats; ++i) call();
  return (now(threads) - start) / repeats;
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <typename Ours, typename Theirs>
Row alternate(const std::string& name, const Options& options, Ours ours, Theirs theirs) {
  ours();
  theirs();
  const int repeats = std::max(1, static_cast<int>(5e-4 / std::max(seconds(options.threads, 3, ours), 1e-7)));
  std::vector<double> our_times, their_times;
  for (int round = 0; round < options.rounds; ++round) {
    our_times.push_back(seconds(options.threads, repeats, ours));
    their_times.push_back(seconds(options.threads, repeats, theirs));
  }
  return {name, *std::min_element(our_times.begin(), our_times.end()),
          *std::min_element(their_times.begin(), their_times.end()), median(our_times), median(their_times)};
}

inline double largest_difference(const float* a, const float* b, int64_t n) {
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(double{a[i]} - b[i]));
  return largest;
}

inline void print(const char* family, const std::vector<Row>& rows, const Options& options) {
  double logs = 0;
  const Row* worst = rows.data();
  for (const Row& row : rows) {
    logs += std::log(row.ratio());
    if (row.ratio() < worst->ratio()) worst = &row;
  }
  const double mean = std::exp(logs / static_cast<double>(rows.size()));
  if (options.json) {
    std::printf("{\"family\": \"%s\", \"isa\": \"%s\", \"threads\": %d, \"rows\": [", family,
                kernels::isa_name(options.isa), options.threads);
    for (const Row& row : rows) {
      std::printf("%s{\"name\": \"%s\", \"ratio\": %.4f, \"ours_us\": %.3f, \"theirs_us\": %.3f}",
                  &row == rows.data() ? "" : ", ", row.name.c_str(), row.ratio(), row.ours * 1e6, row.theirs * 1e6);
    }
    std::printf("], \"mean\": %.4f, \"worst\": \"%s\"}\n", mean, worst->name.c_str());
    return;
  }
  std::printf("%-44s %10s %10s %7s %7s %9s %9s\n", kernels::isa_name(options.isa), "ours us", "torch us", "ratio",
              "median", "GFLOP/s", "max diff");
  for (const Row& row : rows) {
    std::printf("%-44s %10.2f %10.2f %7.2f %7.2f %9.1f %9.1e\n", row.name.c_str(), row.ours * 1e6, row.theirs * 1e6,
                row.ratio(), row.their_median / row.our_median, row.gflops, row.difference);
  }
  std::printf("geometric mean %.3f over %zu shapes, worst %.2f: %s\n", mean, rows.size(), worst->ratio(),
              worst->name.c_str());
}

}  // namespace estrain::benchmarks
