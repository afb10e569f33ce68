#include "core/state/comm/stage_control.h"

#include <doctest/doctest.h>

#include <string>

#include "core/state/comm/meetings/barrier.h"
#include "tests/core/state/comm/complete_memory.h"
#include "tests/core/state/comm/memory_words.h"

namespace estrain::comm {
namespace {

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
  built.memory.pulse(WorkerRank(2)).reading_ns.store(77);
  built.memory.pulse(WorkerRank(2)).measured(7, 7);
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
  CHECK(built.memory.pulse(WorkerRank(2)).reading_ns.load() == 0);
  CHECK(built.memory.pulse(WorkerRank(2)).measured_steps.load() == 0);
  CHECK(built.memory.pulse(WorkerRank(2)).est_squares.load() == 0);
  CHECK(built.memory.pulse(WorkerRank(2)).mean_squares.load() == 0);
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

}  // namespace
}  // namespace estrain::comm
