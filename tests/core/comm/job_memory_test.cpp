#include "core/comm/job_memory.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstring>
#include <future>
#include <thread>

#include "core/comm/meetings/barrier.h"
#include "core/comm/stage_control.h"
#include "tests/core/comm/memory_words.h"

namespace estrain::comm {
namespace {

using namespace std::chrono_literals;

MemoryPlan small_plan() {
  MemoryPlan plan;
  plan.manifest = "the manifest";
  plan.state_bytes = 5000;
  plan.gradient_bytes = 4100;
  plan.ests = 3;
  plan.parameters = 7;
  plan.digests = 9;
  plan.evaluation_samples = 11;
  plan.ring_records = 4;
  return plan;
}

// A complete memory, with the mapping of the process that created it.
struct CompleteMemory {
  UniqueFd fd = JobMemory::create();
  JobMemory memory{fd.get()};
  CompleteMemory() {
    memory.lay_out(small_plan());
    memory.set_ready();
  }
};

template <typename T>
bool done(std::future<T>& future) {
  return future.wait_for(50ms) == std::future_status::ready;
}

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
                                                   {h.evaluation, 11 * (4 + 4)}};
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

TEST_CASE("state copies, slots and records start at whole cache lines, within their regions") {
  CompleteMemory built;
  JobMemory& memory = built.memory;
  const auto address = [](const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); };
  for (const int copy : {0, 1}) CHECK(address(memory.state_of(Step(copy))) % 64 == 0);
  CHECK(memory.state_of(Step(1)) - memory.state_of(Step(0)) >= 5000);
  for (int64_t slot = 0; slot < 3; ++slot) CHECK(address(memory.gradient_slot(slot).values) % 64 == 0);
  CHECK(address(memory.gradient_slot(1).values) - address(memory.gradient_slot(0).values) >= 4100);
  CHECK(address(memory.gradient_slot(2).presence) - address(memory.gradient_slot(0).presence) == 14);
  for (uint32_t sequence = 0; sequence < 4; ++sequence) CHECK(address(memory.ring().at(sequence).head) % 64 == 0);
  CHECK(memory.ring().at(4).head == memory.ring().at(0).head);
  CHECK(address(memory.evaluation().correct) - address(memory.evaluation().losses) == 44);
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
  built.memory.gradient_slot(2).values[1024] = 2.5f;
  CHECK(other.gradient_slot(2).values[1024] == 2.5f);
  other.evaluation().correct[10] = 7;
  CHECK(built.memory.evaluation().correct[10] == 7);
}

TEST_CASE("who maps the memory early waits until it is ready") {
  const UniqueFd fd = JobMemory::create();
  JobMemory early(fd.get());
  CHECK_FALSE(early.wait_ready(0));
  CHECK_FALSE(early.wait_ready(30));
  auto waiting = std::async(std::launch::async, [&] { return early.wait_ready(20'000); });
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

TEST_CASE("a held copy is not writable until it is released; the other one is") {
  CompleteMemory built;
  JobMemory& memory = built.memory;
  CHECK(memory.hold().wait_writable(Step(6)));
  REQUIRE(memory.hold().hold(Step(4)));
  CHECK(words_of(memory).held_step.load() == 4);
  CHECK(memory.hold().wait_writable(Step(5)));
  auto writable = std::async(std::launch::async, [&] { return memory.hold().wait_writable(Step(6)); });
  CHECK_FALSE(done(writable));
  memory.hold().release();
  CHECK(writable.get());
  CHECK(words_of(memory).held_step.load() == -1);
}

TEST_CASE("a second hold waits for the first to be released; the same step may be held again") {
  CompleteMemory built;
  JobMemory& memory = built.memory;
  REQUIRE(memory.hold().hold(Step(4)));
  CHECK(memory.hold().hold(Step(4)));
  auto second = std::async(std::launch::async, [&] { return memory.hold().hold(Step(5)); });
  CHECK_FALSE(done(second));
  CHECK(words_of(memory).held_step.load() == 4);
  memory.hold().release();
  CHECK(second.get());
  CHECK(words_of(memory).held_step.load() == 5);
}

TEST_CASE("an abort lets go of everyone who waits for a hold") {
  CompleteMemory built;
  JobMemory& memory = built.memory;
  REQUIRE(memory.hold().hold(Step(4)));
  auto writable = std::async(std::launch::async, [&] { return memory.hold().wait_writable(Step(6)); });
  auto second = std::async(std::launch::async, [&] { return memory.hold().hold(Step(5)); });
  CHECK_FALSE(done(writable));
  words_of(memory).abort.store(1);
  CHECK_FALSE(writable.get());
  CHECK_FALSE(second.get());
  CHECK(words_of(memory).held_step.load() == 4);
}

TEST_CASE("opening a stage clears what steers one, and nothing else") {
  CompleteMemory built;
  MemoryHeader& h = words_of(built.memory);
  h.committed.store(8);
  h.trained.store(9);
  h.evaluated.store(6);
  h.shared_until.store(20);
  h.published.store(3);
  h.held_step.store(8);
  h.pause_request.store(1);
  h.stage_end.store(8);
  h.abort.store(1);
  h.save_step.store(9);
  h.exchange_ready.store(1);
  h.stage_started.store(2);
  h.stage_started_ns.store(77);
  h.next_sum.store(5);
  h.next_update.store(6);
  built.memory.pulse(WorkerRank(2)).beat(Activity::meeting, 77);
  built.memory.pulse(WorkerRank(2)).computing_ns.store(77);
  built.memory.pulse(WorkerRank(2)).mini_batches.store(77);
  StageControl(built.memory).open();
  CHECK(h.pause_request.load() == 0);
  CHECK(h.stage_end.load() == -1);
  CHECK(h.abort.load() == 0);
  CHECK(h.save_step.load() == -1);
  CHECK(h.exchange_ready.load() == 0);
  CHECK(h.stage_started.load() == 0);
  CHECK(h.stage_started_ns.load() == 0);
  CHECK(h.next_sum.load() == 0);
  CHECK(h.next_update.load() == 0);
  CHECK(h.progress_ns.load() > 77);
  CHECK(built.memory.pulse(WorkerRank(2)).activity.load() == Activity::idle);
  CHECK(built.memory.pulse(WorkerRank(2)).beat_ns.load() > 77);
  CHECK(built.memory.pulse(WorkerRank(2)).computing_ns.load() == 0);
  CHECK(built.memory.pulse(WorkerRank(2)).mini_batches.load() == 0);
  CHECK(h.committed.load() == 8);
  CHECK(h.trained.load() == 9);
  CHECK(h.evaluated.load() == 6);
  CHECK(h.shared_until.load() == 20);
  CHECK(h.published.load() == 3);
  CHECK(h.held_step.load() == 8);
}

struct MeetingPlace {
  const char* name;
  BarrierWords MemoryHeader::*words;
};

const MeetingPlace kMeetingPlaces[] = {{"gathered", &MemoryHeader::gathered},
                                       {"summed", &MemoryHeader::summed},
                                       {"finished", &MemoryHeader::finished},
                                       {"evaluated_by_all", &MemoryHeader::evaluated_by_all},
                                       {"saved", &MemoryHeader::saved}};

TEST_CASE("whoever came to a meeting of an aborted stage does not count in the next stage's") {
  for (const MeetingPlace& place : kMeetingPlaces) {
    CAPTURE(std::string(place.name));
    CompleteMemory built;
    MemoryHeader& h = words_of(built.memory);
    Barrier barrier(h.*place.words, h.abort, 2, 0);
    int met = 0;
    const auto arrive = [&] { return barrier.meet([&] { return ++met > 0; }); };
    StageControl(built.memory).abort();  // so that the first to arrive does not wait
    CHECK_FALSE(arrive());
    StageControl(built.memory).open();
    StageControl(built.memory).abort();
    CHECK_FALSE(arrive());
    CHECK(met == 0);
    CHECK(arrive());
    CHECK(met == 1);
  }
}

TEST_CASE("released gradient slots give their memory back and read as zero; those below stay") {
  CompleteMemory built;
  const auto allocated = [&] {
    struct stat info {};
    ::fstat(built.fd.get(), &info);
    return info.st_blocks;
  };
  for (int64_t slot = 0; slot < 3; ++slot) std::fill_n(built.memory.gradient_slot(slot).values, 1025, 1.0f);
  const auto before = allocated();
  built.memory.release_gradient_slots(1);
  CHECK(allocated() <= before - 2 * 2 * 4096 / 512);  // two slots of two pages each
  CHECK(built.memory.gradient_slot(0).values[1024] == 1.0f);
  CHECK(built.memory.gradient_slot(1).values[0] == 0.0f);
  CHECK(built.memory.gradient_slot(2).values[1024] == 0.0f);
  built.memory.release_gradient_slots(3);  // nothing stands there
  CHECK(built.memory.gradient_slot(0).values[0] == 1.0f);
}

// The state after an interrupted stage: the record of `step` is published, `whole` has its last value.
void cut_off(JobMemory& memory, int64_t step, int64_t whole) {
  memory.ring().pending().head->step = Step(step);
  REQUIRE(memory.ring().publish());
  words_of(memory).drained.store(words_of(memory).published.load());
  words_of(memory).trained.store(step);
  words_of(memory).whole.store(whole);
}

TEST_CASE("repair commits a step whose record is out where its copy is whole, and only there") {
  CompleteMemory built;
  JobMemory& memory = built.memory;
  words_of(memory).committed.store(4);
  cut_off(memory, 5, 0);  // in GPUs' memory
  CHECK(StageControl(memory).repair() == 1);
  CHECK(words_of(memory).committed.load() == 4);
  CHECK(words_of(memory).trained.load() == 4);
  CHECK(StageControl(memory).repair() ==
        0);  // done again in shared memory, cut off before the copy was whole: the record is the old one
  CHECK(words_of(memory).committed.load() == 4);
  cut_off(memory, 5, 5);
  CHECK(StageControl(memory).repair() == 0);
  CHECK(words_of(memory).committed.load() == 5);
  words_of(memory).whole.store(6);  // whole, but its record is not out
  CHECK(StageControl(memory).repair() == 0);
  CHECK(words_of(memory).committed.load() == 5);
  cut_off(memory, 6, 0);  // and the word is forgotten: another stage's record does not make it count
  CHECK(StageControl(memory).repair() == 1);
  CHECK(words_of(memory).committed.load() == 5);
}

void write_evaluation(JobMemory& memory, int64_t step) {
  RecordHead& head = *memory.ring().pending().head;
  head.kind = RecordKind::evaluation;
  head.step = Step(step);
  head.accuracy = 0.5;
}

TEST_CASE("repair takes an evaluation whose record is out as made, and one whose record is not as not made") {
  CompleteMemory built;
  JobMemory& memory = built.memory;
  words_of(memory).committed.store(4);
  words_of(memory).trained.store(4);
  words_of(memory).evaluated.store(2);
  write_evaluation(memory, 4);
  StageControl(memory).repair();  // the worker was lost before it published the record
  CHECK(words_of(memory).evaluated.load() == 2);
  CHECK(memory.ring().pending().head->step == Step(0));
  write_evaluation(memory, 4);
  REQUIRE(memory.ring().publish());
  StageControl(memory).repair();  // and here behind it
  CHECK(words_of(memory).evaluated.load() == 4);
  CHECK(words_of(memory).committed.load() == 4);
  CHECK(words_of(memory).published.load() == 1);
  CHECK(memory.ring().at(0).head->accuracy == 0.5);
}

TEST_CASE("workers wait for the id by which they find each other, unless the stage is aborted") {
  CompleteMemory built;
  std::array<std::byte, 128> id{}, found{};
  id[0] = std::byte{7};
  id[127] = std::byte{9};
  auto waits = std::async(std::launch::async, [&] { return built.memory.meetings().wait_exchange_id(&found); });
  CHECK(!done(waits));
  built.memory.meetings().set_exchange_id(id);
  CHECK(waits.get());
  CHECK(found == id);
  StageControl(built.memory).open();  // that of another stage does not count
  auto aborted = std::async(std::launch::async, [&] { return built.memory.meetings().wait_exchange_id(&found); });
  CHECK(!done(aborted));
  StageControl(built.memory).abort();
  CHECK(!aborted.get());
}

}  // namespace
}  // namespace estrain::comm
