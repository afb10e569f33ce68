#include "core/base/process/cpu_affinity.h"

#include <doctest/doctest.h>
#include <sched.h>

#include <thread>

namespace estrain {
namespace {

TEST_CASE("the CPUs of a thread are those that its affinity leaves it") {
  CHECK(cpus_of_affinity() >= 1);
  std::thread([] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(::sched_getcpu(), &one);
    REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK(cpus_of_affinity() == 1);
  }).join();
}

}  // namespace
}  // namespace estrain
