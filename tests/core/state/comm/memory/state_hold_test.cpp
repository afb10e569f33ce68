#include <doctest/doctest.h>

#include <future>

#include "core/state/comm/memory/commit_word.h"
#include "tests/core/state/comm/complete_memory.h"
#include "tests/core/state/comm/memory_words.h"

namespace estrain::comm {
namespace {

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

}  // namespace
}  // namespace estrain::comm
