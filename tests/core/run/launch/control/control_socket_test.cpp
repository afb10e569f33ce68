#include "core/run/launch/control/control_socket.h"

#include <fcntl.h>

#include <filesystem>
#include <future>
#include <map>
#include <memory>

#include "core/base/files/files.h"
#include "tests/core/run/launch/control/serving.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::launch {
namespace {

TEST_CASE("a request is answered") {
  const ScratchFolder run;
  const Serving serving(run.path(), answer_with_echo);
  const Json answer = ask_launcher(run.path(), decisions::ReclaimRequest{"cpu", 2.5}, kHangsFor);
  CHECK(answer.dump() == R"({"ok":true,"heard":{"do":"reclaim","devices":"cpu","within":2.5}})");
  CHECK(launcher_answers(run.path()));
}

TEST_CASE("many clients at a time each get their own answer") {
  const ScratchFolder run;
  const Serving serving(run.path(), answer_with_echo);
  std::vector<std::future<Json>> answers;
  for (int i = 0; i < 20; ++i) {
    answers.push_back(std::async(std::launch::async, [&, i] {
      return ask_launcher(run.path(), decisions::OfferRequest{std::to_string(i)}, kHangsFor);
    }));
  }
  for (int i = 0; i < 20; ++i)
    CHECK(answers[static_cast<size_t>(i)].get().at("heard").at("devices") == std::to_string(i));
}

TEST_CASE("a refusal reaches the client as the error that it was") {
  const ScratchFolder run;
  const Serving serving(run.path(), [](ControlServer& server, ClientId client, const decisions::Request&) {
    server.reply(client, error_answer(Error(Fault::infeasible, "too many workers").advise("give fewer")));
  });
  const Error error = error_of([&] { ask_launcher(run.path(), decisions::ResizeRequest{}, kHangsFor); });
  CHECK(error.fault() == Fault::infeasible);
  CHECK(error.message() == "too many workers");
  CHECK(error.advice() == "give fewer");
}

TEST_CASE("where nothing runs, it is a usage error: no folder, no socket, a socket that nobody serves") {
  const ScratchFolder run;
  CHECK_FALSE(launcher_answers(run / "none"));
  CHECK(error_of([&] { ask_launcher(run / "none", decisions::StopRequest{}, 10ms); }).fault() == Fault::usage);
  CHECK(error_of([&] { ask_launcher(run.path(), decisions::StopRequest{}, 10ms); }).fault() == Fault::usage);
  { const ControlServer ended(run.path()); }
  REQUIRE(std::filesystem::exists(run / "control.sock"));
  const Error error = error_of([&] { ask_launcher(run.path(), decisions::StopRequest{}, 10ms); });
  CHECK(error.fault() == Fault::usage);
  CHECK(error.message() == run.path() + ": no job is running there");
}

TEST_CASE("a stale socket is replaced") {
  const ScratchFolder run;
  { const ControlServer ended(run.path()); }
  const Serving serving(run.path(), answer_with_echo);
  CHECK(ask_launcher(run.path(), decisions::StatusRequest{}, kHangsFor).at("ok") == true);
}

TEST_CASE("a launcher that does not answer in time, or hangs up, is told apart from none") {
  const ScratchFolder run;
  {
    const Serving silent(run.path(), [](ControlServer&, ClientId, const decisions::Request&) {});
    const Error error = error_of([&] { ask_launcher(run.path(), decisions::StatusRequest{}, 50ms); });
    CHECK(error.fault() == Fault::peer);
    CHECK(error.message().find("did not answer in 0.05 s") != std::string::npos);
  }
  auto server = std::make_unique<ControlServer>(run.path());
  auto asking = std::async(std::launch::async, [&] {
    return error_of([&] { ask_launcher(run.path(), decisions::StatusRequest{}, kHangsFor); });
  });
  REQUIRE(wait_for_request(*server) != 0);
  server.reset();
  const Error error = asking.get();
  CHECK(error.fault() == Fault::peer);
  CHECK(error.message().find("hung up") != std::string::npos);
}

TEST_CASE("a launcher that stands still keeps nobody waiting for ever, however many ask") {
  const ScratchFolder run;
  const ControlServer server(run.path());  // never serves
  std::vector<UniqueFd> backlog;
  for (int i = 0; i < 300; ++i) {  // more than its backlog
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (run / "control.sock").copy(address.sun_path, sizeof address.sun_path - 1);
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) break;
    backlog.push_back(std::move(fd));
  }
  REQUIRE(backlog.size() < 300);
  const MonotonicTime began = MonotonicClock::now();
  const Error error = error_of([&] { ask_launcher(run.path(), decisions::StatusRequest{}, 200ms); });
  CHECK(error.message() == run.path() + ": the launcher did not answer in 0.2 s");
  CHECK(seconds(MonotonicClock::now() - began).count() < kHangs);
  CHECK(launcher_answers(run.path()));
}

TEST_CASE("an answer that makes no sense is an error of the launcher's") {
  for (const Json& answer : {Json(7), Json::array(), Json{{"ok", "yes"}}, Json{{"ok", false}, {"fault", 3}}}) {
    const ScratchFolder run;
    const Serving serving(run.path(), [&](ControlServer& server, ClientId client, const decisions::Request&) {
      server.reply(client, answer);
    });
    const Error error = error_of([&] { ask_launcher(run.path(), decisions::StopRequest{}, kHangsFor); });
    CHECK(error.fault() == Fault::peer);
    CHECK(error.message().find("makes no sense") != std::string::npos);
  }
}

// The server that a re-exec of `first` leads to: it has what an exec keeps open.
std::unique_ptr<ControlServer> successor(std::unique_ptr<ControlServer> first) {
  std::map<ClientId, int> copies;
  for (const auto& [id, fd] : first->clients()) copies[id] = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  const int listener = ::fcntl(first->listener(), F_DUPFD_CLOEXEC, 0);
  first.reset();
  return std::make_unique<ControlServer>(listener, copies);
}

TEST_CASE("a server that takes over listener and clients answers those that were waiting, and hears the others") {
  const ScratchFolder run;
  auto first = std::make_unique<ControlServer>(run.path());
  auto asking =
      std::async(std::launch::async, [&] { return ask_launcher(run.path(), decisions::ResizeRequest{}, kHangsFor); });
  const ClientId waiting = wait_for_request(*first);
  const UniqueFd silent = connect_plainly(run.path());
  while (first->num_clients() < 2) serve_once(*first, [](ClientId, const decisions::Request&) {});
  const auto second = successor(std::move(first));
  second->reply(waiting, {{"ok", true}, {"message", "done"}});
  CHECK(asking.get().at("message") == "done");
  second->reply(waiting, {{"ok", true}});  // gone: no effect
  send_all(silent, "{\"do\":\"stop\"}\n");
  const ClientId next = wait_for_request(*second);
  CHECK(next != waiting);
  second->reply(next, {{"ok", true}});
  CHECK(last_words(silent) == "{\"ok\":true}\n");
  CHECK(second->clients().empty());
  CHECK(launcher_answers(run.path()));
}

}  // namespace
}  // namespace estrain::launch
