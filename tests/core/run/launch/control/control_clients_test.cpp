// Clients that say nothing, too much, or nonsense, and too many of them.
#include <sys/resource.h>
#include <unistd.h>

#include <future>

#include "core/base/clock.h"
#include "core/run/launch/control/control_socket.h"
#include "tests/core/run/launch/control/serving.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::launch {
namespace {

TEST_CASE("what is no request is refused with a reason; the others are served") {
  const ScratchFolder run;
  const Serving serving(run.path(), answer_with_echo);
  const std::string deep = "{\"do\":" + std::string(30'000, '[') + std::string(30'000, ']') + "}\n";
  std::string keys = "{\"do\":\"status\"";
  for (int i = 0; i < 6000; ++i) keys += ",\"" + std::to_string(i) + "\":0";
  const std::pair<std::string, std::string> cases[] = {
      {"no JSON\n", "not valid JSON"},
      {"\n", "not valid JSON"},
      {"[1]\n", "not a JSON object"},
      {"\xff\xfe{}\n", "not valid JSON"},
      {std::string("\0\x01\x02\n", 4), "not valid JSON"},
      {"{\"do\": \"\xc3\"}\n", "not valid JSON"},
      {"{\"do\": 1e999}\n", "not valid JSON"},
      {"{}\n", "it has no \"do\""},
      {"{\"do\": 1}\n", "it has no \"do\""},
      {"{\"do\": \"dance\"}\n", "unknown name: \"dance\""},
      {"{\"do\": \"resize\", \"devices\": 2}\n", "not a text"},
      {deep, "nested more than 8 deep"},
      {keys + "}\n", "more than 256 values"},
      {std::string(65 * 1024, 'x'), "a request of more than 65536 bytes"},
      {std::string(65 * 1024, ' ') + "{}\n", "a request of more than 65536 bytes"},
  };
  for (const auto& [text, reason] : cases) {
    CAPTURE(reason);
    const UniqueFd client = connect_plainly(run.path());
    send_all(client, text);
    CHECK(refusal(client).find(reason) != std::string::npos);
  }
  CHECK(gives_status(run.path()));
}

TEST_CASE("before it goes, a server answers who waits, who asks meanwhile and who has yet to be accepted") {
  const ScratchFolder run;
  ControlServer server(run.path());
  const UniqueFd waits = connect_plainly(run.path());
  send_all(waits, "{\"do\":\"status\"}\n");
  REQUIRE(wait_for_request(server) > 0);
  const UniqueFd asks = connect_plainly(run.path());
  send_all(asks, "{\"do\":\"stop\"}\n");
  const MonotonicTime begin = MonotonicClock::now();
  server.turn_away(Error(Fault::usage, "it has ended"));
  CHECK(seconds(MonotonicClock::now() - begin).count() < kHangs);
  CHECK(refusal(waits) == "it has ended");
  CHECK(refusal(asks) == "it has ended");

  const UniqueFd silent = connect_plainly(run.path());
  server.turn_away(Error(Fault::usage, "it has ended"));  // waits for it, but not for long
  CHECK(seconds(MonotonicClock::now() - begin).count() < kHangs);
}

TEST_CASE("a request may come in parts, and a silent client holds nobody up") {
  const ScratchFolder run;
  const Serving serving(run.path(), answer_with_echo);
  const UniqueFd silent = connect_plainly(run.path());
  const UniqueFd slow = connect_plainly(run.path());
  for (const std::string_view part : {"{\"do\"", ":\"sta", "tus\"}"}) {
    send_all(slow, part);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK_FALSE(is_hung_up(slow));
  CHECK(gives_status(run.path()));
  send_all(slow, "\n");
  CHECK(last_words(slow) == "{\"ok\":true,\"heard\":{\"do\":\"status\"}}\n");
  CHECK_FALSE(is_hung_up(silent));
}

TEST_CASE("one request a connection: what comes behind it is not heard and does no harm") {
  const ScratchFolder run;
  std::atomic<int> heard{0};
  const Serving serving(run.path(), [&](ControlServer& server, ClientId client, const decisions::Request& request) {
    ++heard;
    answer_with_echo(server, client, request);
  });
  const UniqueFd client = connect_plainly(run.path());
  send_all(client, "{\"do\":\"stop\"}\n{\"do\":\"stop\"}\n" + std::string(50'000, 'x'));
  CHECK(last_words(client) == "{\"ok\":true,\"heard\":{\"do\":\"stop\"}}\n");
  CHECK(gives_status(run.path()));
  CHECK(heard == 2);
}

TEST_CASE("a client that asks or takes its answer too slowly is hung up on; one that waits is not") {
  const ScratchFolder run;
  ControlServer server(run.path());
  const UniqueFd waiting = connect_plainly(run.path());
  send_all(waiting, "{\"do\":\"resize\"}\n");
  const ClientId waits = wait_for_request(server);
  const UniqueFd silent = connect_plainly(run.path()), large = connect_plainly(run.path());
  send_all(large, "{\"do\":\"status\"}\n");
  const ClientId takes_nothing = wait_for_request(server);
  const std::string text(3'000'000, 'a');
  server.reply(takes_nothing, {{"ok", true}, {"text", text}});
  const auto nobody_asks = [](ClientId, const decisions::Request&) { FAIL("nobody asks"); };
  serve_once(server, nobody_asks, ControlServer::kPatience - 5s);
  CHECK(server.num_clients() == 3);
  serve_once(server, nobody_asks, ControlServer::kPatience + 1s);
  CHECK(server.num_clients() == 1);
  CHECK(last_words(silent).empty());
  const size_t taken = last_words(large).size();
  CHECK(taken > 0);  // what the kernel held
  CHECK(taken < text.size());
  server.reply(waits, {{"ok", true}});
  CHECK(last_words(waiting) == "{\"ok\":true}\n");
}

TEST_CASE("an answer that is taken slowly arrives whole") {
  const ScratchFolder run;
  const std::string text(3'000'000, 'a');
  const Serving serving(run.path(), [&](ControlServer& server, ClientId client, const decisions::Request&) {
    server.reply(client, {{"ok", true}, {"text", text}});
  });
  const UniqueFd slow = connect_plainly(run.path());
  send_all(slow, "{\"do\":\"status\"}\n");
  CHECK(gives_status(run.path()));
  CHECK(last_words(slow).size() == text.size() + std::string("{\"ok\":true,\"text\":\"\"}\n").size());
}

TEST_CASE("more clients than there is room for wait until others have gone") {
  const ScratchFolder run;
  const Serving serving(run.path(), answer_with_echo);
  std::vector<UniqueFd> silent;
  while (silent.size() < ControlServer::kMostClients) silent.push_back(connect_plainly(run.path()));
  wait_until([&] { return serving.clients() == ControlServer::kMostClients; });
  const UniqueFd next = connect_plainly(run.path());
  send_all(next, "{\"do\":\"status\"}\n");
  CHECK(last_words(next, 100ms) == "still connected");
  silent.pop_back();
  CHECK(last_words(next).starts_with("{\"ok\":true"));
}

TEST_CASE("a server without a free descriptor lets clients wait, without spinning, and serves them later") {
  const ScratchFolder run;
  ControlServer server(run.path());
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const UniqueFd client = connect_plainly(run.path());
  send_all(client, "{\"do\":\"status\"}\n");
  const UniqueFd lowest(::dup(server.listener()));
  const rlimit none{static_cast<rlim_t>(lowest.get()), before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  serve_once(server, [](ClientId, const decisions::Request&) { FAIL("nobody can ask"); });
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(server.polled(MonotonicClock::now()).empty());
  CHECK(server.polled(MonotonicClock::now() + 1s).size() == 1);
  server.reply(wait_for_request(server), {{"ok", true}});
  CHECK(last_words(client) == "{\"ok\":true}\n");
}

}  // namespace
}  // namespace estrain::launch
