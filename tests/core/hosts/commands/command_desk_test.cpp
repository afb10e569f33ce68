// A desk between pretended commands and a pretended coordinator: who hears what, and who is told when one of them is
// lost.
#include <doctest/doctest.h>

#include <vector>

#include "core/hosts/commands/commands.h"
#include "tests/core/hosts/pretended_connection.h"

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
  constexpr int64_t kLongNs = 60'000'000'000, kShortNs = 30'000'000;
  Scene scene;
  int done = 0;
  const auto finish = [&] {
    ++done;
    scene.loop.stop();
  };
  scene.desk.when_answered(kLongNs, finish);
  CHECK(done == 1);  // nobody is there
  scene.loop.restart();
  const auto client = scene.client();
  scene.desk.when_answered(kLongNs, finish);
  const auto leaves = scene.loop.once(30, [&] {
    CHECK(done == 1);
    client->is_lost();
  });
  scene.loop.run();
  CHECK(done == 2);
  scene.loop.restart();
  const auto stays = scene.client();
  scene.desk.when_answered(kShortNs, finish);
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

}  // namespace
}  // namespace estrain::hosts
