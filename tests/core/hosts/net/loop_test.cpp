// A loop's watches, while the callers close descriptors in any order.
#include "core/hosts/net/loop.h"

#include <doctest/doctest.h>
#include <sys/eventfd.h>

#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/files/unique_fd.h"

namespace estrain::net {
namespace {

UniqueFd new_bell() { return UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }

void ring(const UniqueFd& bell) { REQUIRE(::eventfd_write(bell.get(), 1) == 0); }

// Runs the loop for a moment.
void run_a_moment(Loop& loop) {
  const auto end = loop.once(50ms, [&] { loop.stop(); });
  loop.run();
  loop.restart();
}

// Empties the bell, and counts the calls.
struct Ear {
  explicit Ear(Loop& loop, UniqueFd to) : bell(std::move(to)) {
    watch = loop.watch(bell.get(), [this] {
      eventfd_t rings = 0;
      if (::eventfd_read(bell.get(), &rings) == 0) ++heard;
    });
  }

  UniqueFd bell;
  int heard = 0;
  std::shared_ptr<Loop::Watch> watch;
};

TEST_CASE("a watch calls back while there is something to read, until it is dropped") {
  Loop loop;
  Ear ear(loop, new_bell());
  run_a_moment(loop);
  CHECK(ear.heard == 0);
  for (int times = 1; times < 4; ++times) {
    ring(ear.bell);
    run_a_moment(loop);
    CHECK(ear.heard == times);
  }
  ear.watch.reset();
  ring(ear.bell);
  run_a_moment(loop);
  CHECK(ear.heard == 3);
}

TEST_CASE("a watch whose descriptor was closed first does not disturb the watch of the number's next descriptor") {
  Loop loop;
  int heard_of_first = 0;
  std::optional<UniqueFd> first(new_bell());
  const int number = first->get();
  auto old = loop.watch(number, [&] { ++heard_of_first; });
  first.reset();
  Ear next(loop, new_bell());
  REQUIRE(next.bell.get() == number);
  SUBCASE("dropped outside of callbacks") { old.reset(); }
  SUBCASE("dropped in a callback") {
    loop.post([&] { old.reset(); });
  }
  run_a_moment(loop);
  ring(next.bell);
  run_a_moment(loop);
  CHECK(next.heard == 1);
  CHECK(heard_of_first == 0);
}

TEST_CASE("a watch that closes its descriptor and begins another in its callback leaves the other alone") {
  Loop loop;
  std::optional<UniqueFd> first(new_bell());
  const int number = first->get();
  std::optional<Ear> next;
  std::shared_ptr<Loop::Watch> old = loop.watch(number, [&] {
    old.reset();
    first.reset();
    next.emplace(loop, new_bell());
  });
  ring(*first);
  run_a_moment(loop);
  REQUIRE(next);
  CHECK(next->bell.get() == number);
  ring(next->bell);
  run_a_moment(loop);
  CHECK(next->heard == 1);
}

// The loop keeps events that came together. One callback may drop the watch of a later event, and begin another watch.
TEST_CASE("a watch that begins in a callback does not hear the event of a watch that was dropped there") {
  Loop loop;
  const UniqueFd one = new_bell(), other = new_bell(), silent = new_bell();
  int heard = 0, heard_of_silent = 0;
  std::shared_ptr<Loop::Watch> of_one, of_other, of_silent;
  const auto drop_and_begin = [&](std::shared_ptr<Loop::Watch>& dropped) {
    if (++heard > 1) return;
    dropped.reset();
    of_silent = loop.watch(silent.get(), [&] { ++heard_of_silent; });
  };
  of_one = loop.watch(one.get(), [&] {
    eventfd_t rings = 0;
    (void)::eventfd_read(one.get(), &rings);
    drop_and_begin(of_other);
  });
  of_other = loop.watch(other.get(), [&] {
    eventfd_t rings = 0;
    (void)::eventfd_read(other.get(), &rings);
    drop_and_begin(of_one);
  });
  run_a_moment(loop);
  ring(one);
  ring(other);
  run_a_moment(loop);
  CHECK(heard == 1);
  CHECK(heard_of_silent == 0);
}

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

TEST_CASE("a dropped watch holds no descriptor, and a closed descriptor cannot be watched") {
  Loop loop;
  UniqueFd bell = new_bell();
  loop.watch(bell.get(), [] {}).reset();  // the first watch opens the loop's own descriptors
  const std::ptrdiff_t before = open_descriptors();
  loop.watch(bell.get(), [] {}).reset();
  CHECK(open_descriptors() == before);
  const int number = bell.get();
  bell.reset();
  CHECK_THROWS_AS(loop.watch(number, [] {}), const Error&);
}

}  // namespace
}  // namespace estrain::net
