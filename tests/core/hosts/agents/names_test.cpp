// A name server that is silent: getaddrinfo() of this program waits, for names of one kind.
#include "core/hosts/agents/names.h"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <netdb.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include "core/base/clock.h"
#include "tests/error_of.h"

extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints, addrinfo** found) {
  if (name != nullptr && std::strstr(name, ".silent") != nullptr) {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    return EAI_AGAIN;
  }
  static const auto real = reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  return real(name, service, hints, found);
}

namespace estrain::hosts {
namespace {

TEST_CASE("a name that leads nowhere is told by name, and so is a name server that does not answer in time") {
  CHECK(look_up_within({"127.0.0.9", 7}, 1s).front().text() == "127.0.0.9:7");
  CHECK(look_up_within({"localhost", 7}, 5s).front().port == 7);
  const Error nowhere = error_of([] { look_up_within({"nobody.invalid", 7}, 20s); });
  CHECK(nowhere.fault() == Fault::peer);
  CHECK(nowhere.message().find("nobody.invalid leads nowhere") != std::string::npos);
  const MonotonicTime begin = MonotonicClock::now();
  const Error silent = error_of([] { look_up_within({"far.silent", 7}, 100ms); });
  CHECK(silent.message().find("no name server answers") != std::string::npos);
  CHECK(MonotonicClock::now() - begin < 1.5s);
}

TEST_CASE("a look-up leaves the loop its turns, and may be dropped while it is under way") {
  net::Loop loop;
  int turns = 0;
  std::optional<Error> why;
  std::vector<net::Address> found;
  const auto timer = loop.every(20ms, [&] { ++turns; });
  LookUp silent(loop, {"far.silent", 7}, [&](const std::vector<net::Address>&, const Error* error) {
    if (error != nullptr) why = *error;
    loop.stop();
  });
  std::optional<LookUp> dropped;
  dropped.emplace(loop, net::Address{"other.silent", 7}, [](const auto&, const Error*) { FAIL("it was dropped"); });
  dropped.reset();
  LookUp known(loop, {"localhost", 7},
               [&](const std::vector<net::Address>& addresses, const Error*) { found = addresses; });
  loop.run();
  REQUIRE(why);
  CHECK(why->message().find("far.silent leads nowhere") != std::string::npos);
  CHECK(turns > 20);  // of a hundred
  REQUIRE_FALSE(found.empty());
  CHECK(found.front().port == 7);
}

}  // namespace
}  // namespace estrain::hosts
