#include "core/hosts/agents/look_answer.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <system_error>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/json/codec.h"
#include "tests/core/hosts/pretended_connection.h"
#include "tests/room_for_threads.h"

namespace estrain::hosts {
namespace {

NoData reason_of(const std::function<DataDigests()>& read) {
  const auto answer = digests_or_reason(read);
  REQUIRE(std::holds_alternative<NoData>(answer));
  return std::get<NoData>(answer);
}

TEST_CASE("an agent that cannot read the data says why, whatever it is") {
  const NoData told = reason_of([]() -> DataDigests { throw Error(Fault::io, "no such file").advise("look for it"); });
  CHECK(told.error == "no such file");
  CHECK(told.advice == "look for it");
  CHECK_FALSE(reason_of([]() -> DataDigests { throw std::bad_alloc(); }).error.empty());
  const NoData refused = reason_of([]() -> DataDigests {
    throw std::filesystem::filesystem_error("cannot list", "/data", std::make_error_code(std::errc::io_error));
  });
  CHECK(refused.error.find("/data") != std::string::npos);
  CHECK(refused.advice.empty());
}

TEST_CASE("digests of data that can be read are the answer") {
  const auto answer = digests_or_reason([] { return DataDigests{{{"data", 3, 7}}}; });
  REQUIRE(std::holds_alternative<DataDigests>(answer));
  CHECK(std::get<DataDigests>(answer).files.at(0).digest == 7);
}

TEST_CASE("an agent without room for a thread says so, and answers again once there is room") {
  net::Loop loop;
  const auto connection = std::make_shared<Pretended>();
  LookAnswer look(loop, connection, [] {});
  const Json question = codec::encode(LookQuestion(AskData{"no spec"}));
  {
    const RoomForThreads room(0);
    connection->says(question);
  }
  REQUIRE(connection->heard.size() == 1);
  CHECK(connection->heard.back().at("is") == "no_data");
  CHECK(connection->heard.back().at("error").get<std::string>().find("cannot start a thread") == 0);
  connection->says(question);
  const auto timer = loop.every(5ms, [&] {
    if (connection->heard.size() == 2) loop.stop();
  });
  loop.run();
  CHECK(connection->heard.back().at("is") == "no_data");
  CHECK(connection->heard.back().at("error").get<std::string>().find("the job's spec") != std::string::npos);
}

}  // namespace
}  // namespace estrain::hosts
