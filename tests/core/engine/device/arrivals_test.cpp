#include "core/engine/device/arrivals.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace estrain::device {
namespace {

TEST_CASE("what has arrived is taken in the order in which it was asked for, each after its wait") {
  std::vector<int> order;
  bool begun = false;
  Arrivals arrivals([&] { begun = true; });
  std::promise<void> first_copied;
  arrivals.push({[copied = first_copied.get_future().share()] { copied.wait(); }, [&] { order.push_back(0); }, 8});
  for (int i = 1; i < 100; ++i) arrivals.push({{}, [&, i] { order.push_back(i); }});
  CHECK(order.empty());
  first_copied.set_value();
  arrivals.finish();
  CHECK(begun);
  std::vector<int> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  CHECK(order == expected);
  arrivals.finish();  // again, with nothing on the way
}

TEST_CASE("what an arrival keeps alive is gone when finish returns") {
  Arrivals arrivals([] {});
  for (int i = 0; i < 100; ++i) {
    auto kept = std::make_shared<int>(i);
    const std::weak_ptr<int> watched = kept;
    arrivals.push({{}, [kept = std::move(kept)] {}, 4});
    arrivals.finish();
    REQUIRE(watched.expired());
  }
}

TEST_CASE("the first failure comes out of finish; what is behind it is waited for, but not taken") {
  for (const bool fails_waiting : {true, false}) {
    Arrivals arrivals([] {});
    std::atomic<int> waited = 0, taken = 0;
    const auto fail = [] { throw std::runtime_error("the GPU is lost"); };
    arrivals.push({{}, [&] { ++taken; }});
    if (fails_waiting) arrivals.push({fail, [&] { ++taken; }});
    if (!fails_waiting) arrivals.push({{}, fail});
    arrivals.push({[&] { ++waited; }, [&] { ++taken; }});
    arrivals.push({[] { throw std::runtime_error("another one"); }, {}});
    CHECK_THROWS_WITH(arrivals.finish(), "the GPU is lost");
    CHECK(waited == 1);
    CHECK(taken == 1);
    arrivals.push({{}, [&] { ++taken; }});  // the next step starts afresh
    arrivals.finish();
    CHECK(taken == 2);
  }
}

TEST_CASE("who asks waits while there is no room for more, and one that is too large goes alone") {
  Arrivals arrivals([] {});
  arrivals.set_room(100);
  std::promise<void> copied;
  std::atomic<int> pushed = 0;
  const auto until_copied = [done = copied.get_future().share()] { done.wait(); };
  arrivals.push({until_copied, [] {}, 60});
  auto asking = std::async(std::launch::async, [&] {
    for (const size_t bytes : {40, 1, 1000}) {
      arrivals.push({{}, [] {}, bytes});
      ++pushed;
    }
  });
  CHECK(asking.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
  CHECK(pushed == 1);
  copied.set_value();
  asking.get();
  arrivals.finish();
  CHECK(pushed == 3);
}

TEST_CASE("what is on the way when the queue ends is still taken") {
  int taken = 0;
  {
    Arrivals arrivals([] {});
    for (int i = 0; i < 10; ++i) arrivals.push({{}, [&] { ++taken; }});
  }
  CHECK(taken == 10);
}

}  // namespace
}  // namespace estrain::device
