#include "core/state/comm/gradient_slots.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>

#include "tests/core/state/comm/complete_memory.h"

namespace estrain::comm {
namespace {

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

TEST_CASE("released gradient slots give their memory back and read as zero; those below stay") {
  CompleteMemory built;
  GradientSlots slots = built.memory.gradients();
  const auto allocated = [&] {
    struct stat info {};
    ::fstat(built.fd.get(), &info);
    return info.st_blocks;
  };
  for (int64_t slot = 0; slot < 3; ++slot) std::fill_n(slots[slot].values, 1025, 1.0f);
  const auto before = allocated();
  slots.release_from(1);
  CHECK(allocated() <= before - 2 * 2 * 4096 / 512);  // two slots of two pages each
  CHECK(slots[0].values[1024] == 1.0f);
  CHECK(slots[1].values[0] == 0.0f);
  CHECK(slots[2].values[1024] == 0.0f);
  slots.release_from(3);  // nothing stands there
  CHECK(slots[0].values[0] == 1.0f);
}

}  // namespace
}  // namespace estrain::comm
