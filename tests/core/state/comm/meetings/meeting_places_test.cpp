#include <doctest/doctest.h>

#include <array>
#include <future>

#include "core/state/comm/meetings/barrier.h"
#include "core/state/comm/stage_control.h"
#include "tests/core/state/comm/complete_memory.h"
#include "tests/core/state/comm/memory_words.h"

namespace estrain::comm {
namespace {

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
  built.memory.meetings().offer_exchange_id(id);
  auto aborted = std::async(std::launch::async, [&] { return built.memory.meetings().wait_exchange_id(&found); });
  CHECK(!done(aborted));
  StageControl(built.memory).abort();
  CHECK(!aborted.get());
}

}  // namespace
}  // namespace estrain::comm
