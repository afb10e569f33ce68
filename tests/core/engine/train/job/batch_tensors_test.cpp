#include "core/engine/train/job/batch_tensors.h"

#include <ATen/ops/full.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "core/engine/device/cpu.h"
#include "core/engine/train/job/samples.h"

namespace estrain::train {
namespace {

constexpr int64_t kFeedEsts = 2, kFeedSteps = 4, kBatch = 3, kPrefetch = 2;

// Sample i holds i, its target is 10 i.
class Numbers : public data::Dataset {
 public:
  explicit Numbers(std::chrono::milliseconds each) : each_(each) {}
  int64_t size() const override { return 100; }
  data::SampleShape shape() const override { return data::SampleShape::image(1, 2, 2); }
  int64_t classes() const override { return 1000; }
  void read(int64_t index, const data::SampleDraw&, std::byte* input, int64_t* target) const override {
    std::this_thread::sleep_for(each_);
    const std::vector<float> values(4, static_cast<float>(index));
    std::memcpy(input, values.data(), 4 * sizeof(float));
    *target = 10 * index;
    ++reads;
  }
  mutable std::atomic<int64_t> reads = 0;

 private:
  const std::chrono::milliseconds each_;
};

// Copies as late as possible: in await_uploads().
class Late : public device::CpuDevice {
 public:
  c10::Device torch_device() const override { return {c10::kHPU, 0}; }
  HostMemory host_memory() const override {
    return [this](size_t bytes) {
      ++buffers;
      return std::shared_ptr<std::byte>(static_cast<std::byte*>(::operator new(bytes, std::align_val_t(64))),
                                        [](std::byte* at) { ::operator delete(at, std::align_val_t(64)); });
    };
  }
  at::Tensor upload(const at::Tensor& host) override {
    ++uploads;
    waiting_.emplace_back(host, at::full(host.sizes(), -1, host.options()));
    return waiting_.back().second;
  }
  void await_uploads() override {
    for (auto& [from, to] : waiting_) to.copy_(from);
    waiting_.clear();
  }
  int uploads = 0;
  mutable std::atomic<int> buffers = 0;

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> waiting_;
};

struct Setting {
  explicit Setting(std::chrono::milliseconds each, const device::ComputeDevice& device) : numbers(each) {
    options.prefetch = kPrefetch;
    options.steps = kFeedSteps;
    options.memory = device.host_memory();
  }
  const Numbers numbers;
  const data::EpochSampler sampler{100, kFeedEsts, kBatch, /*shuffle=*/true, /*drop_last=*/false, /*seed=*/7};
  data::LoaderOptions options;
  data::Loader loader() const { return {numbers, sampler, {VirtualRank(0), VirtualRank(kFeedEsts)}, {}, options}; }
};

template <typename Condition>
void wait_for(Condition condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST_CASE("mini-batches that are copied ahead are those that the loader gives") {
  Late device;
  const Setting setting(std::chrono::milliseconds(0), device), other(std::chrono::milliseconds(0), device);
  data::Loader plain = other.loader(), fed = setting.loader();
  BatchFeed feed(fed, device);
  const int64_t all = kFeedEsts * kFeedSteps;
  for (int64_t i = 0; i < all; ++i) {
    CAPTURE(i);
    const DeviceBatch batch = feed.next();
    const data::LoadedBatch expected = plain.next();
    CHECK(batch.rank == expected.rank());
    const auto count = static_cast<size_t>(kBatch);
    CHECK(batch.tensors.input.sizes() == at::IntArrayRef({kBatch, 1, 2, 2}));
    CHECK(std::memcmp(batch.tensors.input.const_data_ptr(), expected.floats(), 4 * count * sizeof(float)) == 0);
    CHECK(std::memcmp(batch.tensors.target.const_data_ptr(), expected.targets(), count * sizeof(int64_t)) == 0);
    const bool last = i + 1 == all;
    if (!last) wait_for([&] { return fed.is_ready(); });
    CHECK(feed.look_ahead() == !last);
    CHECK(device.uploads == 2 * (last ? all : i + 2));
    CHECK(feed.look_ahead() == !last);
    CHECK(device.uploads == 2 * (last ? all : i + 2));
    // Batches read meanwhile use other memory.
    wait_for([&] { return setting.numbers.reads == kBatch * std::min(all, i + 2 + kPrefetch); });
  }
  CHECK(device.buffers > 0);
  CHECK_THROWS(feed.next());
}

TEST_CASE("nothing is copied ahead that has not been read, or on the CPU") {
  Late device;
  const Setting slow(std::chrono::milliseconds(50), device);
  data::Loader slow_loader = slow.loader();
  BatchFeed feed(slow_loader, device);
  CHECK_FALSE(feed.look_ahead());
  CHECK(device.uploads == 0);
  CHECK(feed.next().tensors.target.numel() == kBatch);
  CHECK(device.uploads == 2);

  device::CpuDevice cpu;
  const Setting quick(std::chrono::milliseconds(0), cpu);
  data::Loader loader = quick.loader();
  BatchFeed in_place(loader, cpu);
  wait_for([&] { return loader.is_ready(); });
  CHECK_FALSE(in_place.look_ahead());
  CHECK(loader.is_ready());
}

// Sample i has i % 4 + 1 numbers.
class Texts : public data::Dataset {
 public:
  int64_t size() const override { return 40; }
  data::SampleShape shape() const override {
    return data::SampleShape::fields(
        {{.name = "text", .type = program::ScalarType::i64, .dims = {4}, .is_ragged = true}});
  }
  int64_t classes() const override { return 1; }
  int64_t length(int64_t index) const override { return index % 4 + 1; }
  std::vector<int64_t> lengths_of(std::span<const int64_t> indices) const override {
    std::vector<int64_t> lengths;
    for (const int64_t index : indices) lengths.push_back(length(index));
    return {std::ranges::max(lengths)};
  }
  void read(int64_t, const data::SampleDraw&, std::byte*, int64_t*) const override {}
  void read_run(const data::SampleRun& run) const override {
    std::memset(run.out[0], 0, run.indices.size() * static_cast<size_t>(run.lengths[0]) * sizeof(int64_t));
  }
};

TEST_CASE("mini-batches of ragged arrays have lengths of their own; the one of trials has the longest") {
  spec::JobSpec spec;
  spec.data.batch = 2;
  spec.data.shuffle = false;
  data::DataPair pair;
  pair.train = std::make_unique<Texts>();
  const JobSamples samples(spec, pair);
  device::CpuDevice cpu;
  const auto sizes = [&](const data::LoadedBatch& batch) {
    return as_tensors(batch, cpu).fields.front().sizes().vec();
  };
  const EstRange one{VirtualRank(0), VirtualRank(1)};
  CHECK(sizes(samples.loader_of_step(Step(0), one).next()) == std::vector<int64_t>{2, 2});
  CHECK(sizes(samples.loader_of_step(Step(1), one).next()) == std::vector<int64_t>{2, 4});
  CHECK(sizes(samples.first_batch()) == std::vector<int64_t>{2, 4});
}

}  // namespace
}  // namespace estrain::train
