#include <doctest/doctest.h>

#include <future>
#include <thread>

#include "core/base/clock.h"
#include "core/state/comm/memory/futex.h"
#include "core/state/comm/memory/record_ring.h"
#include "tests/core/state/comm/memory_words.h"

namespace estrain::comm {
namespace {

using namespace std::chrono_literals;

constexpr int64_t kEsts = 3, kDigests = 5, kRecords = 4;

struct Ring {
  UniqueFd fd = JobMemory::create();
  JobMemory memory{fd.get()};

  Ring() {
    MemoryPlan plan;
    plan.ests = kEsts;
    plan.digests = kDigests;
    plan.ring_records = kRecords;
    memory.lay_out(plan);
    memory.set_ready();
  }

  // Fills every field of the pending record with values that identify the step.
  bool publish(int64_t step) {
    RecordView record = memory.ring().pending();
    record.head->step = Step(step);
    for (int64_t i = 0; i < kEsts; ++i) record.est_losses[i] = static_cast<float>(10 * step + i);
    for (int64_t i = 0; i < kDigests; ++i) record.digests[i].fetch_add(static_cast<uint64_t>(100 * step + i));
    return memory.ring().publish();
  }

  // Whether the oldest record is that of `step`; takes it out.
  bool drain(int64_t step) {
    const uint32_t next = memory.ring().drained();
    const RecordView record = memory.ring().at(next);
    bool same = record.head->step == Step(step);
    for (int64_t i = 0; i < kEsts; ++i) same &= record.est_losses[i] == static_cast<float>(10 * step + i);
    for (int64_t i = 0; i < kDigests; ++i) same &= record.digests[i].load() == static_cast<uint64_t>(100 * step + i);
    memory.ring().drain_to(next + 1);
    return same;
  }
};

TEST_CASE("the parts of a record do not overlap and keep to whole cache lines") {
  Ring ring;
  const RecordView record = ring.memory.ring().at(1);
  const auto* start = reinterpret_cast<std::byte*>(record.head);
  const auto* losses = reinterpret_cast<std::byte*>(record.est_losses);
  const auto* digests = reinterpret_cast<std::byte*>(record.digests);
  CHECK(static_cast<size_t>(losses - start) >= sizeof(RecordHead));
  CHECK(digests - losses >= kEsts * 4);
  CHECK(static_cast<uint64_t>(digests + kDigests * 8 - start) <= record_bytes(kEsts, kDigests));
  CHECK((losses - start) % 64 == 0);
  CHECK((digests - start) % 64 == 0);
  CHECK(record_bytes(kEsts, kDigests) % 64 == 0);
}

TEST_CASE("records come out as they went in, many times around the ring") {
  Ring ring;
  for (int64_t step = 1; step <= 3 * kRecords + 1; ++step) {
    REQUIRE(ring.publish(step));
    REQUIRE(ring.drain(step));
  }
}

TEST_CASE("a new record starts from zero, whatever stood in its place") {
  Ring ring;
  for (int64_t step = 1; step <= kRecords; ++step) {
    REQUIRE(ring.publish(step));
    REQUIRE(ring.drain(step));
  }
  const RecordView record = ring.memory.ring().pending();
  CHECK(record.head->step == Step(0));
  CHECK(record.est_losses[kEsts - 1] == 0.0f);
  for (int64_t i = 0; i < kDigests; ++i) CHECK(record.digests[i].load() == 0);
}

TEST_CASE("a full ring holds its writer back until a record is taken out") {
  Ring ring;
  for (int64_t step = 1; step < kRecords; ++step) REQUIRE(ring.publish(step));
  auto full = std::async(std::launch::async, [&] { return ring.publish(kRecords); });
  CHECK(full.wait_for(50ms) == std::future_status::timeout);
  CHECK(words_of(ring.memory).published.load() == kRecords - 1);
  CHECK(ring.drain(1));
  CHECK(full.get());
  for (int64_t step = 2; step <= kRecords; ++step) CHECK(ring.drain(step));
}

TEST_CASE("an abort releases a writer that waits") {
  Ring ring;
  for (int64_t step = 1; step < kRecords; ++step) REQUIRE(ring.publish(step));
  auto full = std::async(std::launch::async, [&] { return ring.publish(kRecords); });
  CHECK(full.wait_for(50ms) == std::future_status::timeout);
  words_of(ring.memory).abort.store(1);
  CHECK_FALSE(full.get());
  CHECK(words_of(ring.memory).published.load() == kRecords - 1);
}

TEST_CASE("sequence numbers may pass the end of their 32 bits") {
  Ring ring;
  words_of(ring.memory).published.store(0xfffffffe);
  words_of(ring.memory).drained.store(0xfffffffe);
  for (int64_t step = 1; step <= 2 * kRecords; ++step) {
    REQUIRE(ring.publish(step));
    REQUIRE(ring.drain(step));
  }
  CHECK(words_of(ring.memory).published.load() == 2 * kRecords - 2);
}

TEST_CASE("a writer and a reader at the same time lose nothing") {
  Ring ring;
  constexpr int64_t kSteps = 2000;
  std::thread writer([&] {
    for (int64_t step = 1; step <= kSteps; ++step) ring.publish(step);
  });
  int64_t right = 0;
  for (int64_t step = 1; step <= kSteps;) {
    const uint32_t published = words_of(ring.memory).published.load();
    if (published == words_of(ring.memory).drained.load()) {
      futex_wait(words_of(ring.memory).published, published, 1ms);
      continue;
    }
    right += ring.drain(step++);
  }
  writer.join();
  CHECK(right == kSteps);
}

}  // namespace
}  // namespace estrain::comm
