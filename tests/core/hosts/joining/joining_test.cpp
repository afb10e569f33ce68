// A launcher's registry and agents that join by its address, in one loop over 127.0.0.1.
#include "core/hosts/joining/joining.h"

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/hosts/agents/host_file.h"
#include "core/hosts/agents/own_greeting.h"
#include "tests/contains.h"
#include "tests/scratch_folder.h"

namespace estrain::hosts {
namespace {

net::SharedKey joining_key(char fill) {
  std::array<std::byte, net::key_bytes> bytes;
  bytes.fill(static_cast<std::byte>(fill));
  return net::SharedKey(bytes);
}

struct JoinScene {
  // Runs the loop until it holds, for five seconds at most.
  bool comes(const std::function<bool()>& holds) {
    if (holds()) return true;
    bool late = false;
    const auto end = loop.once(60s, [&] {
      late = true;
      loop.stop();
    });
    const auto look = loop.every(5ms, [&] {
      if (holds()) loop.stop();
    });
    loop.run();
    loop.restart();
    return !late;
  }
  void open(int64_t term, uint16_t port = 0) {
    registry.emplace(loop, joining_key('k'), AgentRegistry::Options{run.path(), "nodeA", {"127.0.0.1", port}, term});
  }
  std::string file_of(const std::string& name) const {
    const auto file = read_host_file_if_sound(run.path(), name);
    return file ? file->address + (file->sees_run ? "" : ", joined") : "none";
  }

  ScratchFolder run;
  net::Loop loop;
  std::optional<AgentRegistry> registry;
};

// An agent of one own name and address; it notes what it hears.
struct JoiningAgent {
  JoiningAgent(JoinScene& at, const std::string& name, const std::string& address, char key = 'k') : scene(at) {
    registration.emplace(scene.loop, joining_key(key),
                         Registration::Options{.to = scene.registry->address().text(),
                                               .from = "",
                                               .name = name,
                                               .address = address,
                                               .joined =
                                                   [this](const net::Greeting& launcher) {
                                                     terms.push_back(launcher.term);
                                                     runs.insert(launcher.run);
                                                     return launcher.term >= least_term;
                                                   },
                                               .refused = [this](const Error& error) { refused = error; },
                                               .ended = [this] { ended = true; }});
  }
  bool joins() {
    return scene.comes([this] { return registration->is_joined(); });
  }
  bool is_refused() {
    return scene.comes([this] { return refused.has_value(); });
  }

  JoinScene& scene;
  std::optional<Registration> registration;
  std::vector<int64_t> terms;
  std::set<std::string> runs;
  int64_t least_term = 0;
  std::optional<Error> refused;
  bool ended = false;
};

TEST_CASE("an agent that joins is in the run directory as long as it is there") {
  JoinScene scene;
  scene.open(3);
  std::optional<JoiningAgent> agent;
  agent.emplace(scene, "nodeB", "10.0.0.2:7000");
  REQUIRE(agent->joins());
  CHECK(agent->terms == std::vector<int64_t>{3});
  CHECK(scene.file_of("nodeB") == "10.0.0.2:7000, joined");
  agent.reset();
  CHECK(scene.comes([&] { return scene.file_of("nodeB") == "none"; }));
}

TEST_CASE("it comes again once the launcher's host does, with what the run directory knows of it kept") {
  JoinScene scene;
  scene.open(3);
  const uint16_t port = scene.registry->address().port;
  JoiningAgent agent(scene, "nodeB", "10.0.0.2:7000");
  REQUIRE(agent.joins());
  scene.registry.reset();
  REQUIRE(scene.comes([&] { return !agent.registration->is_joined(); }));
  CHECK(scene.file_of("nodeB") == "10.0.0.2:7000, joined");
  scene.open(4, port);
  REQUIRE(agent.joins());
  CHECK(agent.terms == std::vector<int64_t>{3, 4});
  CHECK_FALSE(agent.refused);
  scene.registry->end_run();
  CHECK(scene.comes([&] { return agent.ended; }));
}

TEST_CASE("it is told that the run is over though it comes again after the end, and it is known to be missing") {
  JoinScene scene;
  scene.open(3);
  const uint16_t port = scene.registry->address().port;
  JoiningAgent agent(scene, "nodeB", "10.0.0.2:7000");
  REQUIRE(agent.joins());
  CHECK_FALSE(scene.registry->awaits_guests());
  scene.registry.reset();
  scene.open(3, port);
  CHECK(scene.registry->awaits_guests());
  scene.registry->end_run();
  CHECK(scene.comes([&] { return agent.ended; }));
}

TEST_CASE("it does not join where another agent answers, nor a launcher that has the key but another run") {
  JoinScene scene;
  scene.open(3);
  const uint16_t port = scene.registry->address().port;
  SUBCASE("another agent") {
    scene.registry.reset();
    net::Listener other(scene.loop, joining_key('k'),
                        net::Listener::Options{.at = {"127.0.0.1", port},
                                               .own = own_greeting("", "nodeC", "agent", 0),
                                               .accepted = [](net::ConnectionPtr) { FAIL("was let in"); },
                                               .refused = [](const std::string&, const Error&) {}});
    Registration registration(scene.loop, joining_key('k'),
                              {.to = other.address().text(),
                               .from = "",
                               .name = "nodeB",
                               .address = "10.0.0.2:7000",
                               .joined = [](const net::Greeting&) { return true; },
                               .refused = [](const Error&) {},
                               .ended = [] {}});
    CHECK(
        scene.comes([&] { return contains(registration.why().message(), "host nodeC answers, not the launcher's"); }));
    CHECK_FALSE(registration.is_joined());
  }
  SUBCASE("another run") {
    JoiningAgent agent(scene, "nodeB", "10.0.0.2:7000");
    REQUIRE(agent.joins());
    CHECK(agent.runs == std::set{name_of_run(scene.run.path())});
    scene.registry.reset();
    REQUIRE(scene.comes([&] { return !agent.registration->is_joined(); }));
    const ScratchFolder another;
    scene.registry.emplace(scene.loop, joining_key('k'),
                           AgentRegistry::Options{another.path(), "nodeA", {"127.0.0.1", port}, 4});
    CHECK(scene.comes([&] { return contains(agent.registration->why().message(), "belongs to the run "); }));
    CHECK_FALSE(agent.registration->is_joined());
    CHECK(agent.terms == std::vector<int64_t>{3});
  }
}

TEST_CASE("it does not stay with an earlier coordinator, and tries again") {
  JoinScene scene;
  scene.open(3);
  JoiningAgent agent(scene, "nodeB", "10.0.0.2:7000");
  agent.least_term = 4;
  REQUIRE(scene.comes([&] { return agent.terms.size() >= 2; }));
  CHECK_FALSE(agent.registration->is_joined());
  agent.least_term = 3;
  CHECK(agent.joins());
}

TEST_CASE("one that has let go of its coordinator comes anew, and its own earlier connection is not in its way") {
  JoinScene scene;
  scene.open(3);
  JoiningAgent agent(scene, "nodeB", "10.0.0.2:7000");
  REQUIRE(agent.joins());
  agent.registration->renew();
  CHECK_FALSE(agent.registration->is_joined());
  REQUIRE(agent.joins());
  CHECK(agent.terms.size() == 2);
  JoiningAgent again(scene, "nodeB", "10.0.0.2:7000");  // the same one by its address, started again
  REQUIRE(again.joins());
  CHECK(scene.comes([&] { return !agent.registration->is_joined(); }));
  CHECK(scene.file_of("nodeB") == "10.0.0.2:7000, joined");
}

TEST_CASE("what stays as it is ends the attempts, and is told") {
  JoinScene scene;
  scene.open(3);
  JoiningAgent first(scene, "nodeB", "10.0.0.2:7000");
  REQUIRE(first.joins());
  struct Wrong {
    std::string name, address;
    char key;
    Fault fault;
    std::string words;
  };
  for (const Wrong& wrong : {Wrong{"nodeB", "10.0.0.3:7000", 'k', Fault::usage, "has the name nodeB"},
                             Wrong{"nodeA", "10.0.0.3:7000", 'k', Fault::usage, "the launcher's own host"},
                             Wrong{"../x", "10.0.0.3:7000", 'k', Fault::usage, "is no host's name"},
                             Wrong{"nodeC", "evil.example:7000", 'k', Fault::usage, "is no address"},
                             Wrong{"nodeC", "10.0.0.3", 'k', Fault::usage, "is no address"},
                             Wrong{"nodeC", "10.0.0.3:7000", 'x', Fault::mismatch, "the run's key"}}) {
    CAPTURE(wrong.words);
    JoiningAgent agent(scene, wrong.name, wrong.address, wrong.key);
    REQUIRE(agent.is_refused());
    CHECK(agent.refused->fault() == wrong.fault);
    CHECK(contains(agent.refused->message(), wrong.words));
    CHECK_FALSE(agent.registration->was_joined());
  }
  CHECK(names_of_host_files(scene.run.path()) == std::vector<std::string>{"nodeB"});
  CHECK(scene.file_of("nodeB") == "10.0.0.2:7000, joined");
  CHECK(first.registration->is_joined());
}

TEST_CASE("the name of an agent that listens on its own is taken; that of one that has gone is not") {
  JoinScene scene;
  scene.open(3);
  std::vector<net::ConnectionPtr> met;
  std::optional<net::Listener> other;
  other.emplace(scene.loop, joining_key('k'),
                net::Listener::Options{.at = {"127.0.0.1", 0},
                                       .own = own_greeting(name_of_run(scene.run.path()), "nodeB", "agent", 0),
                                       .accepted = [&](net::ConnectionPtr connection) { met.push_back(connection); },
                                       .refused = [](const std::string&, const Error&) {}});
  write_host_file(scene.run.path(), "nodeB", {other->address().text()});
  {
    JoiningAgent agent(scene, "nodeB", "10.0.0.2:7000");
    REQUIRE(agent.is_refused());
    CHECK(contains(agent.refused->message(), "has the name nodeB"));
    CHECK(scene.file_of("nodeB") == other->address().text());
  }
  for (const auto& connection : met) connection->close();
  other.reset();
  JoiningAgent agent(scene, "nodeB", "10.0.0.2:7000");
  REQUIRE(agent.joins());
  CHECK(scene.file_of("nodeB") == "10.0.0.2:7000, joined");
}

TEST_CASE("what another has written since under its name stays when an agent goes") {
  JoinScene scene;
  scene.open(3);
  std::optional<JoiningAgent> agent;
  agent.emplace(scene, "nodeB", "10.0.0.2:7000");
  REQUIRE(agent->joins());
  write_host_file(scene.run.path(), "nodeB", {"10.0.0.9:7000"});
  JoiningAgent other(scene, "nodeC", "10.0.0.3:7000");
  REQUIRE(other.joins());
  agent.reset();
  other.registration.reset();
  REQUIRE(scene.comes([&] { return scene.file_of("nodeC") == "none"; }));
  CHECK(scene.file_of("nodeB") == "10.0.0.9:7000");
}

TEST_CASE("the file that an agent has written itself stays when the one that joined at the same address goes") {
  JoinScene scene;
  scene.open(3);
  std::optional<JoiningAgent> agent;
  agent.emplace(scene, "nodeB", "10.0.0.2:7000");
  REQUIRE(agent->joins());
  write_host_file(scene.run.path(), "nodeB", {"10.0.0.2:7000"});  // it sees the run directory now
  JoiningAgent other(scene, "nodeC", "10.0.0.3:7000");
  REQUIRE(other.joins());
  agent.reset();
  other.registration.reset();
  REQUIRE(scene.comes([&] { return scene.file_of("nodeC") == "none"; }));
  CHECK(scene.file_of("nodeB") == "10.0.0.2:7000");
}

TEST_CASE("a connection for anything else is closed") {
  JoinScene scene;
  scene.open(3);
  net::ConnectionPtr made;
  bool lost = false;
  struct Nothing : net::FrameSink {
    std::optional<std::span<std::byte>> room_for(const net::FrameHead&) override { return std::nullopt; }
    void received(const net::FrameHead&) override {}
  } sink;
  net::connect(scene.loop, joining_key('k'),
               {.to = scene.registry->address(), .own = own_greeting("", "x", "courier", 9)},
               [&](net::ConnectionPtr connection, const Error*) {
                 made = std::move(connection);
                 lost = !made;  // before its greeting was here
                 if (made) made->start(sink, [&](const Error&) { lost = true; });
               });
  CHECK(scene.comes([&] { return lost; }));
}

}  // namespace
}  // namespace estrain::hosts
