#include "core/data/reading/reader_tuning.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace estrain::data {
namespace {

// A worker that computes 1 s per mini-batch, while one reader needs `reading` seconds for it; `cores` readers run at
// once.
class Worker {
 public:
  Worker(double reading, int64_t cores, int64_t most) : reading_(reading), cores_(cores), tuning_({1, 4}, {most, 4}) {}
  void run(int windows) {
    for (int i = 0; i < windows * ReaderTuning::kWindow; ++i) {
      const double arrives = reading_ / static_cast<double>(std::min(tuning_.now().readers, cores_));
      const double waited = std::max(0.0, arrives - 1);
      const ReaderTuning::Reading before = tuning_.now();
      changes_ += tuning_.observe(waited, 1 + waited) != before;
    }
  }
  void read_in(double seconds) { reading_ = seconds; }
  int64_t readers() const { return tuning_.now().readers; }
  int64_t changes() const { return changes_; }

 private:
  double reading_;
  int64_t cores_, changes_ = 0;
  ReaderTuning tuning_;
};

TEST_CASE("as many readers as it takes not to wait, and no more") {
  Worker worker(3.0, 16, 16);
  worker.run(10);
  CHECK(worker.readers() == 3);
  CHECK(worker.changes() == 2);
  worker.run(60);
  CHECK(worker.readers() == 3);
  CHECK(worker.changes() == 4);  // one was released, missed, and added back
  Worker easy(0.5, 16, 16);
  easy.run(100);
  CHECK(easy.readers() == 1);
  CHECK(easy.changes() == 0);
}

TEST_CASE("a reader that brings nothing is let go of, and seldom tried again") {
  Worker worker(3.0, 2, 16);
  worker.run(5);
  CHECK(worker.readers() == 2);
  worker.run(200);
  CHECK(worker.readers() == 2);
  CHECK(worker.changes() <= 1 + 2 * (200 / ReaderTuning::kRestWindows + 1));
}

TEST_CASE("there are never more than was allowed") {
  Worker worker(100.0, 100, 4);
  worker.run(50);
  CHECK(worker.readers() == 4);
  Worker one(100.0, 100, 1);
  one.run(50);
  CHECK(one.readers() == 1);
}

TEST_CASE("readers that have nothing to do go, but not back and forth") {
  Worker worker(3.0, 16, 16);
  worker.run(10);
  worker.read_in(0.5);
  worker.run(100);
  CHECK(worker.readers() == 1);
  worker.read_in(1.9);  // two are enough, and one is not
  worker.run(20);
  CHECK(worker.readers() == 2);
  const int64_t changes = worker.changes();
  worker.run(300);
  CHECK(worker.readers() == 2);
  CHECK(worker.changes() - changes <= 2 * (300 / (ReaderTuning::kRestWindows + ReaderTuning::kIdleWindows) + 1));
}

// One mini-batch in eight takes 5 s to read, the others nothing: after reading ahead, the worker waits for the rest.
struct Bursts {
  ReaderTuning tuning;
  void run(int windows) {
    for (int i = 0; i < windows * ReaderTuning::kWindow; ++i) {
      const double waited = i % 8 == 0 ? std::max(0.0, 5 - static_cast<double>(tuning.now().prefetch)) : 0;
      tuning.observe(waited, 1 + waited);
    }
  }
};

TEST_CASE("where some mini-batches take longer, reading further ahead is tried before more readers are") {
  Bursts bursts{ReaderTuning({1, 2}, {16, 64})};
  bursts.run(200);
  CHECK(bursts.tuning.now() == ReaderTuning::Reading{1, 8});
  Bursts limited{ReaderTuning({1, 1}, {1, 3})};
  limited.run(200);
  CHECK(limited.tuning.now() == ReaderTuning::Reading{1, 3});
}

TEST_CASE("where it does not help, it is taken back, and a reader is tried") {
  ReaderTuning tuning({1, 2}, {2, 64});
  for (int i = 0; i < 20 * ReaderTuning::kWindow; ++i) {
    const double waited = 2.0 / static_cast<double>(tuning.now().readers) - 1;  // for any prefetch
    tuning.observe(waited, 1 + waited);
  }
  CHECK(tuning.now() == ReaderTuning::Reading{2, 2});
}

}  // namespace
}  // namespace estrain::data
