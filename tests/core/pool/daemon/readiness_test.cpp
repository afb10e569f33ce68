#include "core/pool/daemon/readiness.h"

#include <doctest/doctest.h>
#include <sys/eventfd.h>

#include "core/base/clock.h"
#include "core/base/files/unique_fd.h"

namespace estrain::pool {
namespace {

TEST_CASE("descriptors that can be read are ready, also among those that were added as they are polled") {
  const UniqueFd silent(::eventfd(0, EFD_CLOEXEC)), loud(::eventfd(1, EFD_CLOEXEC)), client(::eventfd(1, EFD_CLOEXEC));
  Readiness ready;
  ready.add(-1);  // a process elsewhere
  ready.add(silent.get());
  ready.add(loud.get());
  const std::vector<pollfd> clients = {{client.get(), POLLIN, 0}};
  ready.add(clients);
  CHECK_FALSE(ready.has(loud.get()));
  ready.wait(1000);
  CHECK(ready.has(loud.get()));
  CHECK_FALSE(ready.has(silent.get()));
  CHECK_FALSE(ready.has(-1));
  REQUIRE(ready.last(1).size() == 1);
  CHECK(ready.last(1)[0].fd == client.get());
  CHECK(ready.last(1)[0].revents == POLLIN);
}

TEST_CASE("where nothing can be read, the wait ends in time") {
  const UniqueFd silent(::eventfd(0, EFD_CLOEXEC));
  Readiness ready;
  ready.add(silent.get());
  const int64_t began = monotonic_ns();
  ready.wait(20);
  CHECK(monotonic_ns() - began >= 19'000'000);
  CHECK_FALSE(ready.has(silent.get()));
}

}  // namespace
}  // namespace estrain::pool
