// A command's question by way of pretended agents, which run in a thread.
#include <doctest/doctest.h>

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/clock.h"
#include "core/base/process/host_name.h"
#include "core/hosts/agents/host_file.h"
#include "core/hosts/agents/own_greeting.h"
#include "core/hosts/commands/command_messages.h"
#include "core/hosts/exchange/message_link.h"
#include "core/hosts/setup.h"
#include "tests/contains.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::hosts {
namespace {

// Answers each message by what `answers` returns; null hangs up.
class PretendedAgent {
 public:
  PretendedAgent(const std::string& run, const std::string& name, std::function<Json(const Json&)> answers)
      : answers_(std::move(answers)),
        listener_(loop_, net::SharedKey::read_or_make(key_file(run)),
                  {.at = {"127.0.0.1", 0},
                   .own = own_greeting(name_of_run(run), name, "agent", 0),
                   .accepted = [this](net::ConnectionPtr connection) { take(std::move(connection)); },
                   .refused = [](const std::string&, const Error&) {}}) {
    write_host_file(run, name, {listener_.address().text()});
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~PretendedAgent() {
    loop_.post([this] { loop_.stop(); });
    thread_.join();
  }

 private:
  void take(net::ConnectionPtr connection) {
    links_.emplace_back();
    auto& link = links_.back();
    link = std::make_unique<TextLink>(
        std::move(connection),
        [this, &link](const std::string& said) {
          const Json answer = answers_(json_of_message(said));
          if (!answer.is_null()) return send_json(link->connection(), answer);
          loop_.post([&link] { link.reset(); });
        },
        [](const Error&) {});
  }

  const std::function<Json(const Json&)> answers_;
  net::Loop loop_;
  std::list<std::unique_ptr<TextLink>> links_;
  net::Listener listener_;
  std::thread thread_;
};

Json answers(const Json& answer) { return codec::encode(CommandReply(CommandAnswer{answer})); }

const Json kNobody = codec::encode(CommandReply(NoCoordinator{"it is gone"}));
const Json kRequest = {{"do", "status"}};

AskSetup question(const ScratchFolder& folder, std::optional<Nanoseconds> limit = std::nullopt) {
  return {folder.path(), kRequest, limit, "or ask again", {}};
}

TEST_CASE("a question goes from agent to agent until one has a coordinator, this host's own first") {
  const ScratchFolder folder;
  std::vector<std::string> heard;  // one agent after the other
  const auto tells = [&heard](const std::string& name, const Json& answer) {
    return [&heard, name, answer](const Json& said) {
      CHECK(said.at("request") == kRequest);
      heard.push_back(name);
      return answer;
    };
  };
  PretendedAgent own(folder.path(), host_name(), tells("own", kNobody));
  PretendedAgent first(folder.path(), "a", tells("a", answers({{"step", 7}})));
  PretendedAgent last(folder.path(), "zz", tells("zz", answers({{"step", 7}})));
  write_host_file(folder.path(), "b", {"127.0.0.1:1"});  // nobody is there
  AskSetup ask = question(folder);
  estrain_ask_coordinator(&ask);
  CHECK(ask.answer == Json{{"step", 7}});
  REQUIRE(heard.size() == 2);
  CHECK(heard[0] == "own");
}

TEST_CASE("another agent than the one that is meant is asked nothing") {
  const ScratchFolder folder;
  int asked = 0;
  const auto tells = [&](const Json&) {
    ++asked;
    return answers({{"step", 7}});
  };
  PretendedAgent agent(folder.path(), "a", tells);
  const HostFile file = *read_host_file_if_sound(folder.path(), "a");
  write_host_file(folder.path(), "b", file);
  remove_host_file(folder.path(), "a", file);
  AskSetup ask = question(folder, 1s);
  const Error error = error_of([&] { estrain_ask_coordinator(&ask); });
  CHECK(error.fault() == Fault::peer);
  CHECK(asked == 0);
}

TEST_CASE("a coordinator that is just being replaced is waited for") {
  const ScratchFolder folder;
  int times = 0;
  PretendedAgent agent(folder.path(), "a", [&](const Json&) {
    return ++times < 3 ? kNobody : answers({{"ok", false}, {"error", "no such device"}});
  });
  AskSetup ask = question(folder);
  estrain_ask_coordinator(&ask);
  CHECK(ask.answer.at("error") == "no such device");  // a refusal is an answer
  CHECK(times == 3);
}

TEST_CASE("an agent that is lost after it was asked ends the question: it may have been done") {
  const ScratchFolder folder;
  int asked = 0;
  const auto lose = [&](const Json&) {
    ++asked;
    return Json();
  };
  PretendedAgent agent(folder.path(), "a", lose), other(folder.path(), "b", lose);
  AskSetup ask = question(folder);
  const Error error = error_of([&] { estrain_ask_coordinator(&ask); });
  CHECK(error.fault() == Fault::peer);
  CHECK(contains(error.message(), "was lost before the answer was here"));
  CHECK(contains(error.advice(), "whether it was done"));
  CHECK(asked == 1);
}

TEST_CASE("an answer that is none of the agreed words ends the question as well") {
  const ScratchFolder folder;
  PretendedAgent agent(folder.path(), "a", [](const Json&) { return Json{{"is", "no_coordinator"}, {"why", 7}}; });
  AskSetup ask = question(folder);
  CHECK(error_of([&] { estrain_ask_coordinator(&ask); }).fault() == Fault::peer);
}

TEST_CASE("a question has an end where nobody answers: its own time, or when every agent was tried for some seconds") {
  const ScratchFolder folder;
  PretendedAgent agent(folder.path(), "a", [](const Json&) { return kNobody; });
  AskSetup ask = question(folder, 400ms);
  MonotonicTime begin = MonotonicClock::now();
  CHECK(contains(error_of([&] { estrain_ask_coordinator(&ask); }).message(), "did not answer in 0.4 s"));
  CHECK(MonotonicClock::now() - begin < 5s);
  ask = question(folder);
  begin = MonotonicClock::now();
  const Error error = error_of([&] { estrain_ask_coordinator(&ask); });
  CHECK(contains(error.message(), "(a: it is gone)"));
  CHECK(contains(error.advice(), "or ask again"));
  CHECK(MonotonicClock::now() - begin > 5s);
}

}  // namespace
}  // namespace estrain::hosts
