#include "core/comm/message_socket.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>

#include <future>

#include "tests/error_of.h"

namespace estrain::comm {
namespace {

using Received = MessageSocket::Received;

TEST_CASE("messages arrive whole, in order, in both directions") {
  auto [a, b] = MessageSocket::pair();
  Json message;
  CHECK(b.receive(&message, 0) == Received::nothing);
  CHECK(a.send({{"n", 1}}));
  CHECK(a.send({{"n", 2}}));
  CHECK(b.send({{"back", true}}));
  REQUIRE(b.receive(&message, 0) == Received::message);
  CHECK(message.dump() == R"({"n":1})");
  REQUIRE(b.receive(&message, 0) == Received::message);
  CHECK(message.dump() == R"({"n":2})");
  CHECK(b.receive(&message, 10) == Received::nothing);
  REQUIRE(a.receive(&message, 0) == Received::message);
  CHECK(message.dump() == R"({"back":true})");
}

TEST_CASE("a message may be as large as 128 KiB and no larger") {
  auto [a, b] = MessageSocket::pair();
  const std::string quotes = "\"\"";
  const std::string largest(128 * 1024 - quotes.size(), 'x');
  REQUIRE(a.send(largest));
  Json message;
  REQUIRE(b.receive(&message, 0) == Received::message);
  CHECK(message == largest);
  CHECK(error_of([&] { a.send(largest + "x"); }).fault() == Fault::bug);
}

TEST_CASE("text that is not UTF-8 does not stop a message") {
  auto [a, b] = MessageSocket::pair();
  REQUIRE(a.send({{"path", "run-\xff"}}));
  Json message;
  REQUIRE(b.receive(&message, 0) == Received::message);
  CHECK(message.at("path") == "run-\xef\xbf\xbd");
}

TEST_CASE("what was sent before the other side closed still arrives; then it is closed") {
  auto [a, b] = MessageSocket::pair();
  REQUIRE(a.send({{"say", "last words"}}));
  a.close();
  CHECK_FALSE(static_cast<bool>(a));
  Json message;
  REQUIRE(b.receive(&message, 0) == Received::message);
  CHECK(b.receive(&message, 0) == Received::closed);
  CHECK(b.receive(&message, -1) == Received::closed);
  CHECK_FALSE(b.send({{"to", "nobody"}}));
}

TEST_CASE("a receiver that waits is woken by a message and by the other side's end") {
  auto [a, b] = MessageSocket::pair();
  Json message;
  auto waiting = std::async(std::launch::async, [&] { return b.receive(&message, 20'000); });
  a.send(7);
  CHECK(waiting.get() == Received::message);
  waiting = std::async(std::launch::async, [&] { return b.receive(&message, 20'000); });
  a.close();
  CHECK(waiting.get() == Received::closed);
}

TEST_CASE("a message that is not JSON is an error") {
  auto [a, b] = MessageSocket::pair();
  REQUIRE(::send(a.descriptor(), "{", 1, 0) == 1);
  Json message;
  CHECK(error_of([&] { b.receive(&message, 0); }).fault() == Fault::corrupt);
}

TEST_CASE("the sockets are not passed to other programs unless asked") {
  auto [a, b] = MessageSocket::pair();
  CHECK((::fcntl(a.descriptor(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK((::fcntl(b.descriptor(), F_GETFD) & FD_CLOEXEC) != 0);
}

}  // namespace
}  // namespace estrain::comm
