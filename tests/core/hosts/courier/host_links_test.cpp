// The connections of a courier: who is told when one is lost, and what a coordinator hears of a host that leaves it.
#include "core/hosts/courier/host_links.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "tests/core/hosts/pretended_connection.h"

namespace estrain::hosts {
namespace {

const Error kGone(Fault::peer, "gone");

struct Links {
  explicit Links(const std::string& host) {
    net::Greeting own;
    own.host = host;
    links.emplace(
        loop, HostLinks::Options{
                  .key = net::SharedKey({}),
                  .own = own,
                  .connected = [this](const std::string& name) { said.push_back("connected " + name); },
                  .lost = [this](const std::string& name, const Error&,
                                 bool silent) { said.push_back((silent ? "silent " : "ended ") + name); },
                  .message =
                      [this](const std::string& name, const CourierMessage& what) {
                        said.push_back(name + " says " + codec::encode(what).dump());
                      },
                  .measured = [this](const std::string& name, double, double) { said.push_back("measured " + name); },
                  .landing = [this](const std::string&, const net::FrameHead& head) -> std::optional<Landing> {
                    if (head.number > stage) return std::nullopt;
                    return Landing{};
                  }});
  }
  std::shared_ptr<Pretended> take(const std::string& host) {
    auto connection = std::make_shared<Pretended>(0, host);
    links->take(connection);
    return connection;
  }
  void look_for(int milliseconds) {
    for (int i = 0; i < milliseconds / 20; ++i) {
      links->look();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  net::Loop loop;
  uint64_t stage = 1;
  std::vector<std::string> said;
  std::optional<HostLinks> links;
};

TEST_CASE("a coordinator that is dropped hears that the host leaves it; nothing of it is heard any more") {
  Links host("b");
  const auto coordinator = host.take(""), peer = host.take("c");
  host.links->drop("", kGone, true);
  REQUIRE(coordinator->heard.size() == 1);
  CHECK(coordinator->heard[0] == Json{{"is", "leaves"}});
  CHECK_FALSE(coordinator->is_closed);  // the word is on its way
  coordinator->says(codec::encode(CourierMessage(RunEnds{})));
  CHECK(host.said == std::vector<std::string>{"connected ", "connected c", "silent "});
  host.links->drop("c", kGone, false);
  CHECK(peer->heard.empty());
  CHECK(peer->is_closed);
  CHECK(host.said.back() == "ended c");
  auto end = host.loop.once(400ms, [&] { host.loop.stop(); });
  host.loop.run();
  CHECK(coordinator->is_closed);
}

TEST_CASE("a connection that leads elsewhere is lost, and nobody is taken for the host that was meant") {
  Links host("h1");
  std::string answers;
  SUBCASE("back to where it comes from") { answers = "h1"; }
  SUBCASE("to a third host") { answers = "h3"; }
  net::Greeting own;
  own.host = answers;
  std::vector<std::string> refused;
  net::Listener listener(host.loop, net::SharedKey({}),
                         {.at = {"127.0.0.1", 0},
                          .own = own,
                          .accepted = [&](const net::ConnectionPtr& made) { host.links->take(made); },
                          .refused = [&](const std::string&, const Error& why) { refused.push_back(why.message()); }});
  host.links->reach("h2", listener.address().text(), false);
  const auto late = host.loop.once(60s, [&] { host.loop.stop(); });
  const auto look = host.loop.every(5ms, [&] {
    if (!host.said.empty() && (!refused.empty() || host.said.size() == 2)) host.loop.stop();
  });
  host.loop.run();
  CHECK(host.said == std::vector<std::string>{"ended h2"});
  CHECK(host.links->names().empty());
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].starts_with(answers == "h1" ? "a connection of host h1 has come back to it"
                                               : "a connection from host h1 to host h2 has come to host h3"));
}

TEST_CASE("links that are gone hear nothing of a connection that was being made for them") {
  Links host("h1");
  net::Greeting own;
  own.host = "h2";
  int calls = 0;
  net::Listener listener(host.loop, net::SharedKey({}),
                         {.at = {"127.0.0.1", 0},
                          .own = own,
                          .accepted = [&](const net::ConnectionPtr&) { ++calls; },
                          .refused = [&](const std::string&, const Error&) { ++calls; }});
  host.links->reach("h2", listener.address().text(), false);
  host.links.reset();
  const auto late = host.loop.once(60s, [&] { host.loop.stop(); });
  std::shared_ptr<net::Loop::Timer> end;  // the other end of the connection hears a little later
  const auto look = host.loop.every(5ms, [&] {
    if (calls > 0 && !end) end = host.loop.once(100ms, [&] { host.loop.stop(); });
  });
  host.loop.run();
  CHECK(calls == 1);
  CHECK(host.said.empty());
}

TEST_CASE("a coordinator whose frame comes in slowly is not silent, and one whose frame stops is") {
  Links host("b");
  const auto coordinator = host.take("");
  const net::FrameHead head{.kind = partial, .bytes = 1000, .number = 1};
  coordinator->begins(head);
  for (size_t bytes = 100; bytes <= 500; bytes += 100) {
    host.look_for(500);
    coordinator->goes_on(head, bytes);
  }
  CHECK(host.said == std::vector<std::string>{"connected "});
  host.look_for(2000);
  CHECK(host.said == std::vector<std::string>{"connected ", "silent "});
}

TEST_CASE("a host that comes anew takes the place of its connection before; who is dropped once is not told of twice") {
  Links host("");
  const auto before = host.take("b"), now = host.take("b");
  CHECK(before->is_closed);
  CHECK(host.links->to("b") == now.get());
  CHECK(host.links->tell("b", RunEnds{}));
  CHECK(now->heard.back() == codec::encode(CourierMessage(RunEnds{})));
  before->is_lost();
  CHECK(host.links->names() == std::set<std::string>{"b"});
  now->is_lost();
  CHECK(host.links->names().empty());
  CHECK_FALSE(host.links->tell("b", RunEnds{}));
  CHECK(host.said == std::vector<std::string>{"connected b", "connected b", "silent b"});
}

TEST_CASE("a host that is silent is lost, unless a frame of a later stage holds up what it says") {
  Links host("");
  const auto talks = host.take("a"), silent = host.take("b"), waits = host.take("c");
  CHECK_FALSE(waits->offers({sum, 8, 2, 0}));
  for (int i = 0; i < 9; ++i) {
    talks->says(codec::encode(CourierMessage(ExchangePace{"a", 0.1})));
    host.look_for(200);
  }
  CHECK(host.links->names() == std::set<std::string>{"a", "c"});
  CHECK(silent->is_closed);
  CHECK(std::ranges::count(host.said, "silent b") == 1);
  host.stage = 2;
  CHECK(waits->offers({sum, 8, 2, 0}));
  host.look_for(1'700);
  CHECK(host.links->names().empty());
}

TEST_CASE("a host that stood still itself charges nobody with its pause, and takes who leaves it then for alive") {
  Links host("");
  const auto ends = host.take("a"), stays = host.take("b"), leaves = host.take("c");
  ends->has_ended = leaves->has_ended = true;
  ends->is_lost();
  CHECK(host.said.back() == "ended a");
  std::this_thread::sleep_for(silence_limit + 100ms);  // without a look
  host.links->look();
  CHECK(host.links->names() == std::set<std::string>{"b", "c"});
  leaves->is_lost();
  CHECK(host.said.back() == "silent c");
  CHECK_FALSE(stays->is_closed);
}

bool is_pinged(const Pretended& host) {
  return std::ranges::any_of(host.heard, [](const Json& said) { return said.value("is", "") == "ping"; });
}

// The host answers a measurement to its end.
void answer_measurement(Pretended& host) {
  for (int i = 0; i < 5; ++i) host.says(codec::encode(CourierMessage(Pong{})));
  CHECK(host.heard_bytes[bulk] == 4 * net::most_frame_bytes);
  host.says(codec::encode(CourierMessage(BulkReceived{host.heard_bytes[bulk]})));
}

TEST_CASE("a coordinator measures its links one after another, also if the host that it measures is lost") {
  Links coordinator(""), host("b");
  const auto a = coordinator.take("a"), b = coordinator.take("b"), c = coordinator.take("c"), d = coordinator.take("d");
  CHECK(is_pinged(*a));
  CHECK_FALSE(is_pinged(*b));
  answer_measurement(*a);
  CHECK(is_pinged(*b));
  CHECK_FALSE(is_pinged(*c));
  coordinator.links->drop("c", kGone, false);  // before its turn
  coordinator.links->drop("b", kGone, false);
  CHECK_FALSE(is_pinged(*c));
  CHECK(is_pinged(*d));
  const auto anew = coordinator.take("d");
  CHECK(is_pinged(*anew));
  answer_measurement(*anew);
  CHECK(std::ranges::count(coordinator.said, "measured a") + std::ranges::count(coordinator.said, "measured d") == 2);
  CHECK_FALSE(is_pinged(*host.take("c")));  // an agent measures nothing
}

TEST_CASE("a host that connects anew before its turn is measured once, and the hosts behind it have their turn") {
  Links coordinator("");
  const auto a = coordinator.take("a"), before = coordinator.take("c"), c = coordinator.take("c"),
             d = coordinator.take("d");
  CHECK_FALSE(is_pinged(*c));
  answer_measurement(*a);
  CHECK_FALSE(is_pinged(*before));
  CHECK(is_pinged(*c));
  answer_measurement(*c);
  CHECK(is_pinged(*d));
  answer_measurement(*d);
  CHECK(std::ranges::count(coordinator.said, "measured c") == 1);
  CHECK(std::ranges::count(coordinator.said, "measured d") == 1);
}

std::vector<std::string> beaten(const HostLinks& links) {
  std::vector<std::string> names;
  for (const auto& [name, connection] : links.to_beat()) names.push_back(name);
  return names;
}

TEST_CASE("beats go between a coordinator and all others; a host answers the beats of a host that has no coordinator") {
  Links coordinator(""), host("b");
  for (const char* other : {"b", "c"}) coordinator.take(other);
  for (const char* other : {"", "c", "d"}) host.take(other);
  coordinator.links->note_beat("c");
  CHECK(beaten(*coordinator.links) == std::vector<std::string>{"b", "c"});
  CHECK(beaten(*host.links) == std::vector<std::string>{""});
  host.links->note_beat("d");
  host.links->note_beat("nobody");
  CHECK(beaten(*host.links) == std::vector<std::string>{"", "d"});
  std::this_thread::sleep_for(silence_limit + 10ms);
  CHECK(beaten(*host.links) == std::vector<std::string>{""});
}

TEST_CASE("a host sends beats to a host whose next frame waits: the beats of that host wait behind the frame") {
  Links host("b");
  const auto coordinator = host.take(""), waits = host.take("c"), other = host.take("d");
  CHECK_FALSE(waits->offers({sum, 8, 2, 0}));
  CHECK(beaten(*host.links) == std::vector<std::string>{"", "c"});
  host.stage = 2;
  CHECK(waits->offers({sum, 8, 2, 0}));
  CHECK(beaten(*host.links) == std::vector<std::string>{""});
}

TEST_CASE("a host tries the links without beats, by frames that are no sign of life and mean nothing") {
  Links host("b"), other("c");
  const auto coordinator = host.take(""), quiet = host.take("c"), beats = host.take("d");
  host.links->note_beat("d");
  host.links->try_quiet();
  CHECK(quiet->heard_frames[bulk] == 1);
  CHECK(coordinator->heard_frames[bulk] == 0);
  CHECK(beats->heard_frames[bulk] == 0);
  const auto back = other.take("b");
  other.take("");
  back->sends(bulk, 0, {});
  CHECK(other.said == std::vector<std::string>{"connected b", "connected "});
  CHECK(beaten(*other.links) == std::vector<std::string>{""});
}

TEST_CASE("a host bears the silence of all but the coordinator, and without a coordinator of nobody") {
  Links host("b");
  const auto coordinator = host.take(""), silent = host.take("c"), talks = host.take("d");
  for (int i = 0; i < 10; ++i) {
    coordinator->says(codec::encode(CourierMessage(RunEnds{})));
    host.look_for(200);
  }
  CHECK(host.links->names() == std::set<std::string>{"", "c", "d"});
  host.links->drop("", kGone, false);
  CHECK(beaten(*host.links) == std::vector<std::string>{"c", "d"});
  host.look_for(1'000);
  CHECK(host.links->names() == std::set<std::string>{"c", "d"});  // it may not have known that beats were expected
  talks->says(codec::encode(CourierMessage(ExchangePace{"d", 0.1})));
  host.look_for(700);
  CHECK(host.links->names() == std::set<std::string>{"d"});
  CHECK(silent->is_closed);
  CHECK(host.said.back() == "silent c");
}

}  // namespace
}  // namespace estrain::hosts
