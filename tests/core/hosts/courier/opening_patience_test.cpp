// Who is named if a stage does not open.
#include "core/hosts/courier/opening_patience.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/json/codec.h"
#include "tests/contains.h"
#include "tests/error_of.h"

namespace estrain::hosts {
namespace {

constexpr Nanoseconds kPatienceTick = 10ms;

struct Opening {
  // Until somebody is named, or so long. Returns the name, or "" for nobody.
  std::string wait(Nanoseconds time) {
    for (const MonotonicTime end = now + time; now < end;) {
      now += kPatienceTick;
      if (const auto found = patience.look(now)) {
        why = found->why;
        return found->host;
      }
    }
    return "";
  }

  OpeningPatience patience{{"h1", "h2", "h3"}};
  MonotonicTime now{5s};
  std::string why;
};

TEST_CASE("the host that has said nothing is named, once the limit is over and not before") {
  Opening opening;
  opening.patience.hear("", {});
  opening.patience.hear("h1", {.hosts = {"h2"}});
  opening.patience.note_opened("h3");
  CHECK(opening.wait(opening_patience - kPatienceTick).empty());
  CHECK(opening.wait(5 * kPatienceTick) == "h2");
  CHECK(opening.why == "a stage has not opened for 15 s: it says nothing; h1 waits for it");
  CHECK(opening.wait(opening_patience - kPatienceTick).empty());  // the next one has as long again
  CHECK(opening.wait(5 * kPatienceTick) == "h2");
}

TEST_CASE("a host that the coordinator waits for comes first; then one for which most others wait") {
  Opening opening;
  opening.patience.hear("h1", {.hosts = {"h2", "h3"}});
  opening.patience.hear("h2", {.hosts = {"h3"}});
  opening.patience.hear("h3", {.hosts = {"h1"}});
  SUBCASE("the coordinator") {
    opening.patience.hear("", {.hosts = {"h2"}});
    CHECK(opening.wait(2 * opening_patience) == "h2");
    CHECK(contains(opening.why, "the coordinator waits for it"));
  }
  SUBCASE("most") {
    CHECK(opening.wait(2 * opening_patience) == "h3");
    CHECK(contains(opening.why, "it waits for h1; h1 waits for it; h2 waits for it"));
  }
}

TEST_CASE("a host that has opened the stage is never named, and accuses nobody") {
  Opening opening;
  for (const char* host : {"h1", "h2", "h3"}) opening.patience.hear(host, {.hosts = {"h1"}});
  opening.patience.note_opened("h1");
  CHECK(opening.wait(2 * opening_patience) == "h2");
  CHECK(opening.why == "a stage has not opened for 15 s: it waits for h1");
  for (const char* host : {"h2", "h3"}) opening.patience.note_opened(host);
  CHECK(opening.wait(3 * opening_patience).empty());
}

TEST_CASE("nobody is named while bytes of the state come; the same word again is no progress") {
  Opening opening;
  for (uint64_t bytes = 0; bytes < 10; ++bytes) {
    opening.patience.hear("h1", {.hosts = {""}, .bytes = bytes});
    CHECK(opening.wait(opening_patience / 2).empty());
  }
  opening.patience.hear("h1", {.hosts = {""}, .bytes = 9});
  CHECK(opening.wait(opening_patience / 2 - 10 * kPatienceTick).empty());
  opening.patience.hear("h1", {.hosts = {""}, .bytes = 9});
  CHECK_FALSE(opening.wait(20 * kPatienceTick).empty());
}

TEST_CASE("a pause of the coordinator itself counts for nothing") {
  Opening opening;
  CHECK(opening.wait(kPatienceTick).empty());
  opening.now += 10 * opening_patience;
  CHECK(opening.wait(opening_patience - 20 * kPatienceTick).empty());
  CHECK_FALSE(opening.wait(40 * kPatienceTick).empty());
}

TEST_CASE("a word of another form is refused") {
  const OpeningWait wait = {.hosts = {"", "h1"}, .bytes = 7};
  OpeningWait read;
  codec::from_field(codec::to_field(wait), read);
  CHECK(read == wait);
  CHECK_THROWS_AS(codec::from_field(Json{{"hosts", 7}}, read), Error);
}

}  // namespace
}  // namespace estrain::hosts
