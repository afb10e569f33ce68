// A desk between pretended commands and a pretended coordinator: which client hears which answer, and which end is told
// of a lost connection. A bridge between pretended agents and a pretended launcher's control socket.
#include "core/hosts/commands/commands.h"

#include <doctest/doctest.h>
#include <poll.h>

#include <vector>

#include "core/base/clock.h"
#include "core/hosts/agents/host_file.h"
#include "core/hosts/agents/own_greeting.h"
#include "core/run/launch/control/control_socket.h"
#include "tests/contains.h"
#include "tests/core/hosts/pretended_connection.h"
#include "tests/scratch_folder.h"

namespace estrain::hosts {
namespace {

struct Scene {
  net::Loop loop;
  CommandDesk desk{loop};

  std::shared_ptr<Pretended> client() {
    auto connection = std::make_shared<Pretended>();
    desk.take_client(connection);
    return connection;
  }
  std::shared_ptr<Pretended> coordinator(int64_t term) {
    auto connection = std::make_shared<Pretended>(term);
    desk.take_coordinator(connection);
    return connection;
  }
};

Json asks(const char* what) { return codec::encode(CommandQuestion(CommandRequest{{{"do", what}}})); }
Json answers(const Json& client, int step) {
  return codec::encode(BridgeMessage(ClientAnswer{client.get<int64_t>(), {{"step", step}}}));
}

const Json kStatus = asks("status");

TEST_CASE("without a coordinator a command is told so, and may ask elsewhere") {
  Scene scene;
  const auto client = scene.client();
  client->says(kStatus);
  REQUIRE(client->heard.size() == 1);
  CHECK(client->heard[0].at("is") == "no_coordinator");
}

TEST_CASE("a desk is done when all commands have gone, or its patience is over") {
  constexpr Nanoseconds kLong = 60s, kShort = 30ms;
  Scene scene;
  int done = 0;
  const auto finish = [&] {
    ++done;
    scene.loop.stop();
  };
  scene.desk.when_answered(kLong, finish);
  CHECK(done == 1);  // nobody is there
  scene.loop.restart();
  const auto client = scene.client();
  scene.desk.when_answered(kLong, finish);
  const auto leaves = scene.loop.once(30ms, [&] {
    CHECK(done == 1);
    client->is_lost();
  });
  scene.loop.run();
  CHECK(done == 2);
  scene.loop.restart();
  const auto stays = scene.client();
  scene.desk.when_answered(kShort, finish);
  scene.loop.run();
  CHECK(done == 3);
}

TEST_CASE("each command hears its own answer") {
  Scene scene;
  const auto coordinator = scene.coordinator(1);
  const auto first = scene.client(), second = scene.client();
  first->says(kStatus);
  second->says(asks("stop"));
  second->says(kStatus);  // one request in a connection
  REQUIRE(coordinator->heard.size() == 2);
  CHECK(coordinator->heard[1].at("request") == Json{{"do", "stop"}});
  CHECK(coordinator->heard[0].at("client") != coordinator->heard[1].at("client"));
  coordinator->says(codec::encode(BridgeMessage(BridgeStands{})));
  coordinator->says(answers(coordinator->heard[1].at("client"), 7));
  coordinator->says(answers(coordinator->heard[1].at("client"), 8));  // once more
  coordinator->says(answers(99, 8));
  CHECK(first->heard.empty());
  REQUIRE(second->heard.size() == 1);
  CHECK(second->heard[0].at("answer") == Json{{"step", 7}});
}

TEST_CASE("a command that is gone takes its request back, once it was asked") {
  Scene scene;
  const auto coordinator = scene.coordinator(1);
  const auto asked = scene.client(), silent = scene.client();
  asked->says(kStatus);
  silent->is_lost();
  CHECK(coordinator->heard.size() == 1);
  asked->is_lost();
  REQUIRE(coordinator->heard.size() == 2);
  CHECK(coordinator->heard[1] == Json{{"is", "client_gone"}, {"client", coordinator->heard[0].at("client")}});
}

TEST_CASE("the coordinator is lost: who waits for it is told, as a refusal") {
  Scene scene;
  const auto coordinator = scene.coordinator(1);
  const auto asked = scene.client(), silent = scene.client();
  asked->says(kStatus);
  coordinator->is_lost();
  CHECK(silent->heard.empty());
  REQUIRE(asked->heard.size() == 1);
  const Json answer = asked->heard[0].at("answer");
  CHECK(answer.at("ok") == false);
  CHECK(answer.at("error").get<std::string>().find("unplugged") != std::string::npos);
  silent->says(kStatus);
  CHECK(silent->heard.at(0).at("is") == "no_coordinator");
}

TEST_CASE("a coordinator of an earlier term is turned away; of a later one, taken") {
  Scene scene;
  const auto first = scene.coordinator(2);
  CHECK(scene.coordinator(1)->is_closed);
  const auto client = scene.client();
  client->says(kStatus);
  CHECK(first->heard.size() == 1);
  const auto later = scene.coordinator(3);
  CHECK(client->heard.size() == 1);  // that its coordinator is lost
  const auto next = scene.client();
  next->says(kStatus);
  CHECK(first->heard.size() == 1);
  CHECK(later->heard.size() == 1);
}

TEST_CASE("more commands than the desk takes are turned away") {
  Scene scene;
  std::vector<std::shared_ptr<Pretended>> all;
  for (size_t i = 0; i < CommandDesk::most_clients; ++i) all.push_back(scene.client());
  CHECK(scene.client()->is_closed);
  all.front()->is_lost();
  CHECK_FALSE(scene.client()->is_closed);
}

// Keeps what it is asked; the test answers.
class Launcher {
 public:
  Launcher(net::Loop& loop, const std::string& run) : server_(run) {
    timer_ = loop.every(5ms, [this] { serve(); });
  }
  void answer(size_t request, const Json& answer) { server_.reply(asked.at(request).first, answer); }
  size_t num_clients() const { return server_.num_clients(); }

  std::vector<std::pair<launch::ClientId, Json>> asked;

 private:
  void serve() {
    const MonotonicTime now = MonotonicClock::now();
    std::vector<pollfd> polled = server_.polled(now);
    ::poll(polled.data(), polled.size(), 0);
    server_.serve_objects(
        polled, [this](launch::ClientId client, const Json& said) { asked.emplace_back(client, said); }, now);
  }

  launch::ControlServer server_;
  std::shared_ptr<net::Loop::Timer> timer_;
};

struct BridgeScene {
  ScratchFolder folder;
  std::string run = folder.path();
  net::Loop loop;
  net::SharedKey key = net::SharedKey::read_or_make(key_file(run));
  CommandBridge bridge{loop, key, run, 3};

  std::shared_ptr<Pretended> agent(const std::string& name) {
    auto connection = std::make_shared<Pretended>();
    bridge.take(name, connection);
    return connection;
  }
  template <typename Holds>
  void run_until(Holds&& holds) {
    const MonotonicTime latest = MonotonicClock::now() + 20s;
    const auto look = loop.every(5ms, [&] {
      if (holds() || MonotonicClock::now() > latest) loop.stop();
    });
    loop.restart();
    loop.run();
    REQUIRE(holds());
  }
};

Json request(int64_t client, const char* what) {
  return codec::encode(DeskMessage(ClientRequest{client, {{"do", what}}}));
}

TEST_CASE("each client of each agent hears the launcher's answer to its own request") {
  BridgeScene scene;
  Launcher launcher(scene.loop, scene.run);
  const auto a = scene.agent("a"), b = scene.agent("b");
  a->says(request(1, "status"));
  a->says(request(2, "stop"));
  b->says(request(1, "resize"));
  scene.run_until([&] { return launcher.asked.size() == 3; });
  for (size_t i = 3; i-- > 0;) launcher.answer(i, {{"to", launcher.asked[i].second.at("do")}});
  scene.run_until([&] { return a->heard.size() == 2 && b->heard.size() == 1; });
  for (const Json& said : a->heard) CHECK(said.at("answer").at("to") == (said.at("client") == 1 ? "status" : "stop"));
  CHECK(b->heard[0] == codec::encode(BridgeMessage(ClientAnswer{1, {{"to", "resize"}}})));
}

TEST_CASE("a client that is gone, or whose agent is, lets go of the launcher") {
  BridgeScene scene;
  Launcher launcher(scene.loop, scene.run);
  const auto a = scene.agent("a"), b = scene.agent("b");
  a->says(request(1, "status"));
  b->says(request(1, "status"));
  scene.run_until([&] { return launcher.num_clients() == 2 && launcher.asked.size() == 2; });
  a->says(codec::encode(DeskMessage(ClientGone{1})));
  scene.run_until([&] { return launcher.num_clients() == 1; });
  b->is_lost();
  scene.run_until([&] { return launcher.num_clients() == 0; });
  CHECK(a->heard.empty());
}

TEST_CASE("without a launcher, with a request too long, or an answer that does not come: a refusal") {
  BridgeScene scene;
  const auto agent = scene.agent("a");
  agent->says(request(1, "status"));
  REQUIRE(agent->heard.size() == 1);
  CHECK(agent->heard[0].at("client") == 1);
  CHECK(agent->heard[0].at("answer").at("ok") == false);
  {
    Launcher launcher(scene.loop, scene.run);
    agent->says(request(2, std::string(launch::ControlServer::kLongestRequest, 'x').c_str()));
    REQUIRE(agent->heard.size() == 2);
    CHECK(contains(agent->heard[1].at("answer").value("error", ""), "a request of more than"));
    agent->says(request(3, "status"));
    scene.run_until([&] { return !launcher.asked.empty(); });
  }  // the launcher ends
  scene.run_until([&] { return agent->heard.size() == 3; });
  CHECK(contains(agent->heard[2].at("answer").value("error", ""), "hung up"));
}

TEST_CASE("the bridge connects to the agents of the run directory, and again to one that started anew") {
  BridgeScene scene;
  std::vector<net::ConnectionPtr> come;
  std::vector<std::unique_ptr<MessageLink<DeskMessage, BridgeMessage>>> links;
  size_t words = 0;
  const auto listen = [&] {
    auto listener = std::make_unique<net::Listener>(
        scene.loop, scene.key,
        net::Listener::Options{
            .at = {"127.0.0.1", 0},
            .own = own_greeting(name_of_run(scene.run), "a", "agent", 0),
            .accepted =
                [&](net::ConnectionPtr connection) {
                  come.push_back(connection);
                  links.push_back(std::make_unique<MessageLink<DeskMessage, BridgeMessage>>(
                      std::move(connection),
                      [&](const BridgeMessage& said) { words += std::holds_alternative<BridgeStands>(said); },
                      [](const Error&) {}));
                },
            .refused = [](const std::string&, const Error&) {}});
    write_host_file(scene.run, "a", {listener->address().text()});
    return listener;
  };
  write_host_file(scene.run, "b", {"nowhere"});  // disturbs nobody
  auto listener = listen();
  scene.run_until([&] { return words >= 2; });
  REQUIRE(come.size() == 1);
  CHECK(come[0]->peer().purpose == "commands");
  CHECK(come[0]->peer().term == 3);
  listener = listen();
  links.clear();  // the agent before has ended
  scene.run_until([&] { return come.size() == 2 && words >= 3; });
}

}  // namespace
}  // namespace estrain::hosts
