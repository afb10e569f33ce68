#include <doctest/doctest.h>

#include <string>

#include "core/hosts/net/listener.h"

namespace estrain::net {
namespace {

using Is = Places::Admission::Is;

TEST_CASE("one address has a part of the places, then some of its connections wait, then it is refused") {
  Places places;
  uint64_t number = 0;
  for (size_t i = 0; i < Places::most_of_a_stranger; ++i) CHECK(places.ask(++number, "a").is == Is::enters);
  for (size_t i = 0; i < Places::most_waiting_of_an_address; ++i) CHECK(places.ask(++number, "a").is == Is::waits);
  CHECK(places.ask(++number, "a").is == Is::is_refused);
  CHECK(places.ask(++number, "b").is == Is::enters);
  CHECK(places.leave(number).empty());
  CHECK(places.leave(3) == std::vector<uint64_t>{Places::most_of_a_stranger + 1});
  CHECK(places.leave(number - 1).empty());  // it was refused
}

TEST_CASE("an address from which somebody had the key has all places") {
  Places places;
  for (uint64_t number = 1; number <= 20; ++number) places.ask(number, "a");
  places.know(1);
  CHECK(places.leave(1).size() == 20 - Places::most_of_a_stranger);
  for (uint64_t number = 21; number <= Places::most + 1; ++number) CHECK(places.ask(number, "a").is == Is::enters);
  CHECK(places.ask(100, "a").is == Is::waits);
}

TEST_CASE("where all places are taken, the oldest of the address with the most gives way, a known one last") {
  Places places;
  uint64_t number = 0;
  places.ask(++number, "known");
  places.know(number);
  CHECK(places.ask(++number, "one").is == Is::enters);
  const uint64_t first_of_crowd = number + 1;
  for (size_t i = 2; i < Places::most; ++i) places.ask(++number, "crowd" + std::to_string(i % 10));
  const Places::Admission answer = places.ask(++number, "new");
  CHECK(answer.is == Is::enters);
  REQUIRE(answer.gives_way);
  CHECK(*answer.gives_way == first_of_crowd);
  for (int i = 0; i < 1000; ++i) {
    const auto gives_way = places.ask(++number, "flood" + std::to_string(i)).gives_way;
    REQUIRE(gives_way);
    CHECK(*gives_way != 1);
  }
}

TEST_CASE("those that wait have a bound, too") {
  Places places;
  uint64_t number = 0, waiting = 0;
  for (int address = 0; address < 8; ++address) {
    for (int i = 0; i < 100; ++i) waiting += places.ask(++number, std::to_string(address)).is == Is::waits ? 1 : 0;
  }
  CHECK(waiting == Places::most_waiting);
}

}  // namespace
}  // namespace estrain::net
