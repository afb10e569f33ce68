#include "core/state/comm/job_memory.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <future>

#include "core/base/clock.h"
#include "tests/core/state/comm/complete_memory.h"
#include "tests/core/state/comm/memory_words.h"

namespace estrain::comm {
namespace {

TEST_CASE("regions are page-aligned, as large as asked for, and do not overlap") {
  CompleteMemory built;
  const MemoryHeader& h = words_of(built.memory);
  const std::pair<uint64_t, uint64_t> regions[] = {{0, sizeof(MemoryHeader)},
                                                   {h.manifest, 12},
                                                   {h.state, 2 * 5000},
                                                   {h.gradients, 3 * 4100},
                                                   {h.presence, 3 * 7},
                                                   {h.norms, 7 * 4},
                                                   {h.ring, 4 * record_bytes(3, 9)},
                                                   {h.evaluation, 11 * (4 + 4 + 4 + 2 * 4)}};
  uint64_t end = 0;
  for (const auto& [begin, bytes] : regions) {
    CHECK(begin % 4096 == 0);
    CHECK(begin >= end);
    end = begin + bytes;
  }
  CHECK(end <= h.total_bytes);
  struct stat info {};
  REQUIRE(::fstat(built.fd.get(), &info) == 0);
  CHECK(static_cast<uint64_t>(info.st_size) == h.total_bytes);
}

TEST_CASE("state copies and records start at whole cache lines, within their regions") {
  CompleteMemory built;
  JobMemory& memory = built.memory;
  const auto address = [](const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); };
  for (const int copy : {0, 1}) CHECK(address(memory.state_of(Step(copy))) % 64 == 0);
  CHECK(memory.state_of(Step(1)) - memory.state_of(Step(0)) >= 5000);
  for (uint32_t sequence = 0; sequence < 4; ++sequence) CHECK(address(memory.ring().at(sequence).head) % 64 == 0);
  CHECK(memory.ring().at(4).head == memory.ring().at(0).head);
  const EvaluationResults results = memory.evaluation();
  CHECK(results.num_columns == 2);
  const uintptr_t first = address(results.losses);
  CHECK(address(results.correct) == first + 44);
  CHECK(address(results.counted) == first + 88);
  CHECK(address(results.column(0)) == first + 132);
  CHECK(address(results.column(1)) == first + 176);
  CHECK(address(results.numbers) + 24 == first);
  CHECK(address(results.numbers) % 64 == 0);
}

TEST_CASE("changes of the batch are seen by all processes, in their order, as many as there is room for") {
  CompleteMemory built;
  JobMemory other(built.fd.get());
  CHECK(other.batch_changes().all().empty());
  built.memory.batch_changes().add({3, 8, 0.5});
  built.memory.batch_changes().add({7, 16, 1});
  CHECK((other.batch_changes().all() == std::vector<batches::BatchChange>{{3, 8, 0.5}, {7, 16, 1}}));
  for (int64_t step = 8; built.memory.batch_changes().has_room(); ++step)
    built.memory.batch_changes().add({step, 16, 1});
  CHECK(other.batch_changes().all().size() == words_of(other).changes.size());
  CHECK_FALSE(other.batch_changes().has_room());
}

TEST_CASE("memory reads as zero at first, and the committed state is that of the step's copy") {
  CompleteMemory built;
  JobMemory& memory = built.memory;
  for (int i = 0; i < 5000; ++i) REQUIRE(memory.state_of(Step(1))[i] == std::byte{0});
  for (const int64_t step : {0, 1, 2, 101}) {
    words_of(memory).committed.store(step);
    CHECK(memory.state_of(memory.commit().committed()) == memory.state_of(Step(step % 2)));
  }
}

TEST_CASE("every mapping sees the same memory") {
  CompleteMemory built;
  JobMemory other(built.fd.get());
  CHECK(other.manifest() == "the manifest");
  built.memory.gradients()[2].values[1024] = 2.5f;
  CHECK(other.gradients()[2].values[1024] == 2.5f);
  other.evaluation().correct[10] = 7;
  CHECK(built.memory.evaluation().correct[10] == 7);
}

TEST_CASE("who maps the memory early waits until it is ready") {
  const UniqueFd fd = JobMemory::create();
  JobMemory early(fd.get());
  CHECK_FALSE(early.wait_ready(0ms));
  CHECK_FALSE(early.wait_ready(30ms));
  auto waiting = std::async(std::launch::async, [&] { return early.wait_ready(20s); });
  CHECK_FALSE(done(waiting));
  JobMemory builder(fd.get());
  builder.lay_out(small_plan());
  CHECK_FALSE(done(waiting));
  builder.set_ready();
  CHECK(waiting.get());
  CHECK(early.manifest() == "the manifest");
  early.state_of(Step(1))[4999] = std::byte{9};
  CHECK(builder.state_of(Step(1))[4999] == std::byte{9});
}

TEST_CASE("gradient slots start at whole cache lines and do not overlap, nor do their flags and the norms") {
  CompleteMemory built;
  GradientSlots slots = built.memory.gradients();
  const auto address = [](const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); };
  for (int64_t slot = 0; slot < 3; ++slot) CHECK(address(slots[slot].values) % 64 == 0);
  CHECK(address(slots[1].values) - address(slots[0].values) >= 4100);
  CHECK(address(slots[2].presence) - address(slots[0].presence) == 14);
  for (int64_t slot = 0; slot < 3; ++slot) std::fill_n(slots[slot].presence, 7, static_cast<uint8_t>(slot + 1));
  std::fill_n(slots.norms(), 7, 2.5f);
  for (int64_t slot = 0; slot < 3; ++slot) {
    CHECK(slots[slot].presence[0] == slot + 1);
    CHECK(slots[slot].presence[6] == slot + 1);
    CHECK(slots[slot].values[1024] == 0.0f);
  }
}

TEST_CASE("released gradient slots give their memory back and read as zero; all others stay") {
  CompleteMemory built;
  GradientSlots slots = built.memory.gradients();
  const auto allocated = [&] {
    struct stat info {};
    ::fstat(built.fd.get(), &info);
    return info.st_blocks;
  };
  for (int64_t slot = 0; slot < 3; ++slot) std::fill_n(slots[slot].values, 1025, 1.0f);
  const auto before = allocated();
  slots.release(1, 3);
  CHECK(allocated() <= before - 2 * 2 * 4096 / 512);  // two slots of two pages each
  CHECK(slots[0].values[1024] == 1.0f);
  CHECK(slots[1].values[0] == 0.0f);
  CHECK(slots[2].values[1024] == 0.0f);
  slots.release(3, 3);  // nothing stands there
  CHECK(slots[0].values[0] == 1.0f);
  slots[2].values[1024] = 2.0f;
  slots.release(1, 2);
  slots.release(2, 1);
  CHECK(slots[2].values[1024] == 2.0f);
}

}  // namespace
}  // namespace estrain::comm
