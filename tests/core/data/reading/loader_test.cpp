#include "core/data/reading/loader.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <future>
#include <set>
#include <thread>

#include "core/base/files/files.h"
#include "core/base/process/process_stat.h"
#include "core/data/reading/evaluation_reader.h"
#include "tests/core/data/data_files.h"
#include "tests/error_of.h"
#include "tests/room_for_threads.h"

namespace estrain::data {
namespace {

// Sample i is {i, epoch-dependent word}; its target is 3 i. Counts reads; can fail at a sample, or be paused.
class Numbers : public Dataset {
 public:
  explicit Numbers(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  SampleShape shape() const override { return SampleShape::vector(2); }
  int64_t classes() const override { return 3 * size_; }
  void read(int64_t index, const SampleDraw& draw, std::byte* out_input, int64_t* out_target) const override {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !only_ || only_->contains(index); });
      ++reads_;
      changed_.notify_all();
    }
    if (index == broken_) throw Error::make(Fault::io, "sample {} cannot be read", index);
    float* out = reinterpret_cast<float*>(out_input);
    out[0] = static_cast<float>(index);
    out[1] = draw.is_random() ? static_cast<float>(draw.words()[0] >> 8) : -1.0f;
    *out_target = 3 * index;
  }

  int64_t reads() const {
    std::lock_guard lock(mutex_);
    return reads_;
  }
  // Readers of other samples wait; null: all may be read.
  void allow_only(std::optional<std::set<int64_t>> indices) {
    std::lock_guard lock(mutex_);
    only_ = std::move(indices);
    changed_.notify_all();
  }
  void wait_for_reads(int64_t reads) const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reads_ >= reads; });
  }
  int64_t broken_ = -1;

 private:
  int64_t size_;
  std::optional<std::set<int64_t>> only_;
  mutable int64_t reads_ = 0;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
};

// All readers of this process wait for something, and at a second look they still do: one that is about to read on is
// not asleep, however busy the machine is.
void wait_until_readers_sleep() {
  for (int looks = 0; looks < 2;) {
    int64_t readers = 0, asleep = 0;
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
      if (text_if_readable(thread.path() / "comm") != "estrain-reader\n") continue;
      ++readers;
      asleep += process_stat(std::stoi(thread.path().filename())).state == 'S';
    }
    REQUIRE(readers > 0);
    looks = asleep == readers ? looks + 1 : 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

EstRange range(int64_t begin, int64_t end) { return {VirtualRank(begin), VirtualRank(end)}; }

void check_content(const LoadedBatch& batch, const EpochSampler& sampler, uint64_t seed) {
  std::vector<int64_t> expected(static_cast<size_t>(batch.size()));
  sampler.indices(batch.cursor(), batch.rank(), 0, expected);
  CHECK(std::ranges::equal(batch.indices(), expected));
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(batch.floats()[2 * i] == static_cast<float>(expected[i]));
    const SampleDraw draw(seed, batch.cursor().epoch, expected[i]);
    CHECK(batch.floats()[2 * i + 1] == static_cast<float>(draw.words()[0] >> 8));
    CHECK(batch.targets()[i] == 3 * expected[i]);
  }
}

}  // namespace

TEST_CASE("mini-batches come in need order with the right content, whatever the threads") {
  const Numbers data(57);
  EpochSampler::Options options{57, 5, 4, true, false, 11};  // 12 samples per EST, 3 batches; 2 from step 9 on
  options.changes = {{9, 7, 1}};
  const EpochSampler sampler(options);
  for (const auto& [readers, prefetch] : {std::pair{1, 1}, {1, 4}, {2, 3}, {3, 8}, {5, 2}}) {
    const Step start(4);
    Loader loader(data, sampler, range(1, 4), start, {readers, prefetch, 77, 9});
    int64_t number = 0;
    for (Step step = start; step < Step(start.value + 9); ++step) {
      for (int64_t rank = 1; rank < 4; ++rank) {
        const LoadedBatch batch = loader.next();
        CHECK(batch.rank() == VirtualRank(rank));
        CHECK(batch.cursor() == sampler.schedule().cursor_at(step));
        CHECK(batch.size() == sampler.schedule().batch_size(step));
        CHECK(batch.number() == number++);
        CHECK(batch.shape() == data.shape());
        check_content(batch, sampler, 77);
      }
    }
    CHECK(error_of([&] { loader.next(); }).fault() == Fault::bug);
  }
}

TEST_CASE("nothing is read beyond prefetch or beyond the last step") {
  const EpochSampler sampler(64, 2, 4, true, false, 0);
  {
    const Numbers data(64);
    Loader loader(data, sampler, range(0, 2), {}, {2, 3, 0, std::nullopt});
    data.wait_for_reads(12);
    const LoadedBatch held = loader.next();
    data.wait_for_reads(16);
    wait_until_readers_sleep();
    CHECK(data.reads() == 16);
  }
  {
    const Numbers data(64);
    Loader loader(data, sampler, range(0, 2), {}, {2, 100, 0, 3});
    for (int i = 0; i < 6; ++i) loader.next();
    CHECK_THROWS_AS(loader.next(), Error);
    CHECK(data.reads() == 3 * 2 * 4);
  }
}

TEST_CASE("the first mini-batch needs no more than its own samples, with 1 EST or 8") {
  for (int64_t ests : {1, 8}) {
    for (int64_t readers : {1, 3}) {
      Numbers data(64);
      const EpochSampler sampler(64, 8, 4, true, false, 0);
      const std::vector<int64_t> first = sampler.indices(Step(0), VirtualRank(0));
      data.allow_only(std::set<int64_t>(first.begin(), first.end()));
      Loader loader(data, sampler, range(0, ests), {}, {readers, 4, 0, std::nullopt});
      CHECK(loader.next().size() == 4);
      data.allow_only({});
    }
  }
}

// Samples that take time without using a core.
class Slow : public Dataset {
 public:
  explicit Slow(const Dataset& data) : data_(data) {}
  int64_t size() const override { return data_.size(); }
  SampleShape shape() const override { return data_.shape(); }
  int64_t classes() const override { return data_.classes(); }
  void read(int64_t index, const SampleDraw& draw, std::byte* out_input, int64_t* out_target) const override {
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    data_.read(index, draw, out_input, out_target);
  }

 private:
  const Dataset& data_;
};

TEST_CASE("readers are added while the worker waits for them, and the batches stay what they are") {
  const Numbers data(4000);
  Slow slow(data);
  const EpochSampler sampler(4000, 1, 4, true, false, 5);
  Loader loader(slow, sampler, range(0, 1), {}, {1, 8, 5, std::nullopt, 4});
  CHECK(loader.readers() == 1);
  int64_t most = 1;
  for (int i = 0; i < 400 || (i < 20000 && loader.readers() < 2); ++i) {  // on a busy machine the worker waits seldom
    check_content(loader.next(), sampler, 5);
    std::this_thread::sleep_for(std::chrono::microseconds(700));  // the worker computes
    most = std::max(most, loader.readers());
  }
  CHECK(loader.readers() >= 2);
  CHECK(most <= 4);
}

TEST_CASE("readers that the system has no room for are done without") {
  const Numbers data(4000);
  const Slow slow(data);
  const EpochSampler sampler(4000, 1, 4, true, false, 5);
  {
    const RoomForThreads room(2);
    Loader loader(data, sampler, range(0, 1), {}, {4, 8, 5, std::nullopt});
    CHECK(loader.readers() == 2);
    for (int i = 0; i < 20; ++i) check_content(loader.next(), sampler, 5);
  }
  {
    const RoomForThreads room(1);
    Loader loader(slow, sampler, range(0, 1), {}, {1, 8, 5, std::nullopt, 4});
    for (int i = 0; i < 100; ++i) check_content(loader.next(), sampler, 5);
    CHECK(loader.readers() == 1);
  }
  const RoomForThreads none(0);
  const Error error = error_of([&] { Loader(data, sampler, range(0, 1), {}, {2, 8, 5, std::nullopt}); });
  CHECK(error.fault() == Fault::io);
  CHECK(error.message().starts_with("cannot start a reader thread"));
}

// One mini-batch in every `period` takes long to read.
class Bursts : public Dataset {
 public:
  Bursts(const Dataset& data, std::set<int64_t> slow) : data_(data), slow_(std::move(slow)) {}
  int64_t size() const override { return data_.size(); }
  SampleShape shape() const override { return data_.shape(); }
  int64_t classes() const override { return data_.classes(); }
  void read(int64_t index, const SampleDraw& draw, std::byte* out_input, int64_t* out_target) const override {
    if (slow_.contains(index)) std::this_thread::sleep_for(std::chrono::milliseconds(6));
    data_.read(index, draw, out_input, out_target);
  }

 private:
  const Dataset& data_;
  const std::set<int64_t> slow_;
};

TEST_CASE("a worker that waits reads further ahead, if it may") {
  const Numbers data(4000);
  const EpochSampler sampler(4000, 1, 1, true, false, 5);
  std::set<int64_t> slow;
  for (int64_t first = 0; first < 4000; first += 16) slow.insert(sampler.indices(Step(first), VirtualRank(0)).front());
  const Bursts bursts(data, slow);
  for (const int64_t most : {2, 32}) {
    LoaderOptions options{1, 2, 5, std::nullopt};
    options.most_prefetch = most;
    Loader loader(bursts, sampler, range(0, 1), {}, options);
    // On a busy machine it may take longer to detect that more readers help.
    for (int i = 0; i < 600 || (most > 2 && loader.prefetch() == 2 && i < 3500); ++i) {
      check_content(loader.next(), sampler, 5);
      std::this_thread::sleep_for(std::chrono::microseconds(700));  // the worker computes
    }
    CHECK((loader.prefetch() == 2) == (most == 2));
    CHECK(loader.prefetch() <= most);
    CHECK(loader.readers() == 1);
  }
}

TEST_CASE("batches start at 64 bytes, buffers are used again and outlive the loader") {
  const Numbers data(90);
  const EpochSampler sampler(90, 3, 5, true, false, 0);
  std::set<const float*> seen;
  std::optional<LoadedBatch> last;
  {
    Loader loader(data, sampler, range(0, 3), {}, {2, 3, 0, 30});
    for (int i = 0; i < 90; ++i) {
      last.emplace(loader.next());
      seen.insert(last->floats());
      CHECK(reinterpret_cast<uintptr_t>(last->floats()) % 64 == 0);
      CHECK(reinterpret_cast<uintptr_t>(last->targets()) % 64 == 0);
    }
  }
  CHECK(seen.size() <= 5);  // prefetch, one in use, one on its way back
  check_content(*last, sampler, 0);
}

TEST_CASE("memory that takes long to get keeps nobody from what has been read") {
  const Numbers data(40);
  const EpochSampler sampler(40, 1, 5, false, false, 0);
  std::promise<void> may_go_on;
  const std::shared_future<void> gate(may_go_on.get_future());
  std::atomic<int> asked = 0;
  std::atomic<bool> waited_in_vain = false;
  LoaderOptions options;
  options.memory = [&](size_t) -> std::shared_ptr<std::byte> {
    if (++asked > 1 && gate.wait_for(std::chrono::seconds(20)) != std::future_status::ready) waited_in_vain = true;
    return nullptr;
  };
  Loader loader(data, sampler, range(0, 1), {}, options);
  const LoadedBatch first = loader.next();  // with its buffer: the next batch uses another one
  check_content(first, sampler, 0);
  while (asked < 2) std::this_thread::yield();
  CHECK_FALSE(loader.is_ready());
  may_go_on.set_value();
  for (int i = 0; i < 7; ++i) check_content(loader.next(), sampler, 0);
  CHECK_FALSE(waited_in_vain);
}

TEST_CASE("a reader's error arrives in the place of its mini-batch and stays") {
  for (int64_t readers : {1, 3}) {
    Numbers data(40);
    const EpochSampler sampler(40, 2, 5, false, false, 0);
    data.broken_ = 21;  // rank 1, its third mini-batch of 5
    Loader loader(data, sampler, range(0, 2), {}, {readers, 4, 0, std::nullopt});
    for (int i = 0; i < 5; ++i) check_content(loader.next(), sampler, 0);
    for (int i = 0; i < 3; ++i) {
      const Error error = error_of([&] { loader.next(); });
      CHECK(error.fault() == Fault::io);
      CHECK(error.message() == "sample 21 cannot be read");
    }
  }
}

TEST_CASE("a loader can be dropped at any time") {
  const Numbers data(1000);
  const EpochSampler sampler(1000, 4, 8, true, false, 0);
  for (int taken = 0; taken < 20; ++taken) {
    Loader loader(data, sampler, range(0, 4), {}, {3, 5, 0, std::nullopt});
    for (int i = 0; i < taken; ++i) loader.next();
  }
}

TEST_CASE("ranks that the job does not have are refused") {
  const Numbers data(10);
  const EpochSampler sampler(10, 2, 1, true, false, 0);
  CHECK(error_of([&] { Loader(data, sampler, range(0, 3), {}, {}); }).fault() == Fault::bug);
  CHECK(error_of([&] { Loader(data, sampler, range(1, 1), {}, {}); }).fault() == Fault::bug);
  CHECK(error_of([&] { Loader(data, sampler, range(0, 1), {}, {0, 1, 0, 1}); }).fault() == Fault::bug);
}

TEST_CASE("evaluation reads the test set in order, shared out by stride, without augmentation") {
  const Numbers data(23);
  CHECK(EvaluationReader::batches(data, 5) == 5);
  std::vector<int64_t> numbers, samples;
  for (int64_t worker : {0, 1, 2}) {
    EvaluationReader evaluation(data, {5, worker, 3, 2, 2});
    while (const std::optional<LoadedBatch> batch = evaluation.next()) {
      numbers.push_back(batch->number());
      CHECK(batch->size() == (batch->number() == 4 ? 3 : 5));
      for (int64_t i = 0; i < batch->size(); ++i) {
        CHECK(batch->indices()[static_cast<size_t>(i)] == batch->number() * 5 + i);
        CHECK(batch->floats()[2 * i] == static_cast<float>(batch->number() * 5 + i));
        CHECK(batch->floats()[2 * i + 1] == -1.0f);
        samples.push_back(batch->targets()[i]);
      }
    }
    CHECK_FALSE(evaluation.next());
  }
  CHECK(numbers == std::vector<int64_t>{0, 3, 1, 4, 2});
  CHECK(samples.size() == 23);
  EvaluationReader huge(data, {INT64_MAX, 2, 3, 1, 1});  // one batch, on another worker
  CHECK_FALSE(huge.next());
  EvaluationReader none(data, {5, 9, 3, 1, 1});  // more workers than batches
  CHECK_FALSE(none.next());
}

}  // namespace estrain::data
