// A bridge between pretended agents and a pretended launcher's control socket.
#include <doctest/doctest.h>
#include <poll.h>

#include "core/base/clock.h"
#include "core/hosts/agents/host_file.h"
#include "core/hosts/agents/own_greeting.h"
#include "core/hosts/commands/commands.h"
#include "core/run/launch/control/control_socket.h"
#include "tests/contains.h"
#include "tests/core/hosts/pretended_connection.h"
#include "tests/scratch_folder.h"

namespace estrain::hosts {
namespace {

// Keeps what it is asked; the test answers.
class Launcher {
 public:
  Launcher(net::Loop& loop, const std::string& run) : server_(run) {
    timer_ = loop.every(5, [this] { serve(); });
  }
  void answer(size_t request, const Json& answer) { server_.reply(asked.at(request).first, answer); }
  size_t num_clients() const { return server_.num_clients(); }

  std::vector<std::pair<launch::ClientId, Json>> asked;

 private:
  void serve() {
    const int64_t now = monotonic_ns();
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
  net::Key key = net::Key::read_or_make(key_file(run));
  CommandBridge bridge{loop, key, run, 3};

  std::shared_ptr<Pretended> agent(const std::string& name) {
    auto connection = std::make_shared<Pretended>();
    bridge.take(name, connection);
    return connection;
  }
  template <typename Holds>
  void run_until(Holds&& holds) {
    const int64_t latest = monotonic_ns() + INT64_C(20'000'000'000);
    const auto look = loop.every(5, [&] {
      if (holds() || monotonic_ns() > latest) loop.stop();
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
