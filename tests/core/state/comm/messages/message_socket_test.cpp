#include "core/state/comm/messages/message_socket.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "core/base/clock.h"
#include "core/base/process/process_stat.h"
#include "tests/error_of.h"

namespace estrain::comm {
namespace {

using Received = MessageSocket::Received;

TEST_CASE("messages arrive whole, in order, in both directions") {
  auto [a, b] = MessageSocket::pair();
  Json message;
  CHECK(b.receive(&message, 0ms) == Received::nothing);
  CHECK(a.send({{"n", 1}}));
  CHECK(a.send({{"n", 2}}));
  CHECK(b.send({{"back", true}}));
  REQUIRE(b.receive(&message, 0ms) == Received::message);
  CHECK(message.dump() == R"({"n":1})");
  REQUIRE(b.receive(&message, 0ms) == Received::message);
  CHECK(message.dump() == R"({"n":2})");
  CHECK(b.receive(&message, 10ms) == Received::nothing);
  REQUIRE(a.receive(&message, 0ms) == Received::message);
  CHECK(message.dump() == R"({"back":true})");
}

TEST_CASE("a message may be as large as 128 KiB and no larger") {
  auto [a, b] = MessageSocket::pair();
  const std::string quotes = "\"\"";
  const std::string largest(128 * 1024 - quotes.size(), 'x');
  REQUIRE(a.send(largest));
  Json message;
  REQUIRE(b.receive(&message, 0ms) == Received::message);
  CHECK(message == largest);
  CHECK(error_of([&] { a.send(largest + "x"); }).fault() == Fault::bug);
}

TEST_CASE("text that is not UTF-8 does not stop a message") {
  auto [a, b] = MessageSocket::pair();
  REQUIRE(a.send({{"path", "run-\xff"}}));
  Json message;
  REQUIRE(b.receive(&message, 0ms) == Received::message);
  CHECK(message.at("path") == "run-\xef\xbf\xbd");
}

TEST_CASE("what was sent before the other side closed still arrives; then it is closed") {
  auto [a, b] = MessageSocket::pair();
  REQUIRE(a.send({{"say", "last words"}}));
  a.close();
  CHECK_FALSE(static_cast<bool>(a));
  Json message;
  REQUIRE(b.receive(&message, 0ms) == Received::message);
  CHECK(b.receive(&message, 0ms) == Received::closed);
  CHECK(b.receive(&message, kForever) == Received::closed);
  CHECK_FALSE(b.send({{"to", "nobody"}}));
}

TEST_CASE("a receiver that waits is woken by a message and by the other side's end") {
  auto [a, b] = MessageSocket::pair();
  Json message;
  auto waiting = std::async(std::launch::async, [&] { return b.receive(&message, 20s); });
  a.send(7);
  CHECK(waiting.get() == Received::message);
  waiting = std::async(std::launch::async, [&] { return b.receive(&message, 20s); });
  a.close();
  CHECK(waiting.get() == Received::closed);
}

// Sends numbers until one does not fit; returns how many fitted.
int64_t send_until_refused(MessageSocket& socket) {
  int64_t sent = 0;
  while (sent < 1'000'000 && socket.send({{"n", sent}})) ++sent;
  return sent;
}

// Receives all available numbers and checks that none is missing.
int64_t receive_in_order(MessageSocket& socket, MessageSocket& sender) {
  int64_t next = 0;
  for (Json message; socket.receive(&message, 0ms) == Received::message; sender.flush()) {
    if (message.at("n") != next) FAIL("got ", message.dump(), " instead of ", next);
    ++next;
  }
  return next;
}

TEST_CASE("sending never blocks: what the other side does not take is kept, within bounds and in order") {
  auto [a, b] = MessageSocket::pair();
  auto sending = std::async(std::launch::async, [&a = a] { return send_until_refused(a); });
  REQUIRE(sending.wait_for(std::chrono::seconds(120)) == std::future_status::ready);
  const int64_t sent = sending.get();
  CHECK(sent > 1000);
  CHECK(sent < 100'000);
  CHECK(a.bytes_kept() > 255 * 1024);
  CHECK(a.bytes_kept() <= 256 * 1024);
  CHECK_FALSE(a.flush());
  CHECK(receive_in_order(b, a) == sent);
  CHECK(a.bytes_kept() == 0);
  CHECK(a.flush());
  CHECK(a.send({{"n", "again"}}));
  Json message;
  REQUIRE(b.receive(&message, 0ms) == Received::message);
  CHECK(message.at("n") == "again");
}

TEST_CASE("what was kept is sent on while the sender waits for messages itself") {
  auto [a, b] = MessageSocket::pair();
  const int64_t sent = send_until_refused(a);
  Json message;
  auto waiting = std::async(std::launch::async, [&a = a] {
    Json answer;
    return a.receive(&answer, 300s) == Received::message ? answer : Json();
  });
  for (int64_t next = 0; next < sent; ++next) {
    REQUIRE(b.receive(&message, 120s) == Received::message);
    REQUIRE(message.at("n") == next);
  }
  b.send({{"all", "here"}});
  CHECK(waiting.get().at("all") == "here");
}

TEST_CASE("what was kept for somebody who is gone is given up") {
  auto [a, b] = MessageSocket::pair();
  send_until_refused(a);
  b.close();
  CHECK_FALSE(a.send({{"to", "nobody"}}));
  CHECK(a.bytes_kept() == 0);
}

TEST_CASE("a peer that is stopped stops nobody, and hears everything when it goes on") {
  auto [ours, theirs] = MessageSocket::pair();
  const pid_t peer = ::fork();
  REQUIRE(peer >= 0);
  if (peer == 0) {  // counts the messages until "end", then sends the count
    ours.close();
    int64_t heard = 0;
    for (Json message; theirs.receive(&message, kForever) == Received::message; ++heard) {
      if (!message.contains("end")) continue;
      theirs.send({{"heard", heard}});
      ::_exit(0);
    }
    ::_exit(1);
  }
  theirs.close();
  int status = 0;
  REQUIRE(::kill(peer, SIGSTOP) == 0);
  REQUIRE(::waitpid(peer, &status, WUNTRACED) == peer);
  REQUIRE(WIFSTOPPED(status));
  auto sending = std::async(std::launch::async, [&ours = ours] {
    for (int i = 0; i < 1000; ++i) {
      if (!ours.send({{"do", "checkpoint"}, {"step", i}})) return false;
    }
    return ours.send({{"end", true}});
  });
  const bool never_blocked = sending.wait_for(std::chrono::seconds(120)) == std::future_status::ready;
  ::kill(peer, SIGCONT);
  CHECK(never_blocked);
  CHECK(sending.get());
  Json message;
  REQUIRE(ours.receive(&message, 120s) == Received::message);
  CHECK(message.at("heard") == 1000);
  CHECK(::waitpid(peer, &status, 0) == peer);
}

// As in /proc: S sleeps, T is stopped. A process that has ended stays a zombie, Z.
void wait_for_state(pid_t process, char wanted) {
  for (char state = ' '; state != wanted && state != 'Z';) state = process_stat(process).state;
}

TEST_CASE("a wait is not cut short by a stop and its continuation") {
  auto [ours, theirs] = MessageSocket::pair();
  const pid_t peer = ::fork();
  REQUIRE(peer >= 0);
  if (peer == 0) {
    ours.close();
    Json message;
    const Received received = theirs.receive(&message, kForever);
    ::_exit(received == Received::message ? 7 : 1);
  }
  theirs.close();
  wait_for_state(peer, 'S');
  for (int i = 0; i < 3; ++i) {
    ::kill(peer, SIGSTOP);
    wait_for_state(peer, 'T');
    ::kill(peer, SIGCONT);
    wait_for_state(peer, 'S');  // a wait that is cut short ends the process
  }
  CHECK(ours.send(1));
  int status = 0;
  REQUIRE(::waitpid(peer, &status, 0) == peer);
  CHECK(WEXITSTATUS(status) == 7);
}

TEST_CASE("threads that send at once do not mix their messages up") {
  auto [a, b] = MessageSocket::pair();
  std::vector<std::future<void>> senders;
  for (int who = 0; who < 3; ++who) {
    senders.push_back(std::async(std::launch::async, [&a = a, who] {
      for (int i = 0; i < 500; ++i) a.send({{"who", who}, {"i", i}});
    }));
  }
  int next[3] = {};
  for (int i = 0; i < 1500; ++i) {
    Json message;
    REQUIRE(b.receive(&message, 10s) == Received::message);
    const int who = message.at("who");
    CHECK(message.at("i") == next[who]++);
    if (i % 50 == 0) a.flush();
  }
}

TEST_CASE("a message that is not JSON is an error") {
  auto [a, b] = MessageSocket::pair();
  REQUIRE(::send(a.descriptor(), "{", 1, 0) == 1);
  Json message;
  CHECK(error_of([&] { b.receive(&message, 0ms); }).fault() == Fault::corrupt);
}

TEST_CASE("the sockets are not passed to other programs unless asked") {
  auto [a, b] = MessageSocket::pair();
  CHECK((::fcntl(a.descriptor(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK((::fcntl(b.descriptor(), F_GETFD) & FD_CLOEXEC) != 0);
}

}  // namespace
}  // namespace estrain::comm
