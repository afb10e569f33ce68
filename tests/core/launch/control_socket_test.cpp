#include "core/launch/control_socket.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <future>
#include <thread>

#include "core/base/files.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::launch {
namespace {

// Polls and serves as the launcher does, in a thread of its own, until it goes away.
class Serving {
 public:
  using Handler = std::function<void(ControlServer&, ClientId, const Json&)>;
  Serving(const std::string& run, Handler handler) : server_(run), handler_(std::move(handler)) {
    thread_ = std::thread([this] {
      while (!over_.load()) round();
    });
  }
  ~Serving() {
    over_.store(true);
    thread_.join();
  }
  size_t clients() const { return num_clients_.load(); }

 private:
  void round() {
    std::vector<pollfd> polled;
    for (const int fd : server_.descriptors()) polled.push_back({fd, POLLIN, 0});
    ::poll(polled.data(), polled.size(), 5);
    for (const pollfd& ready : polled) {
      if (ready.revents == 0) continue;
      server_.serve(ready.fd, [&](ClientId client, const Json& request) { handler_(server_, client, request); });
    }
    num_clients_.store(server_.clients().size());
  }

  ControlServer server_;
  Handler handler_;
  std::atomic<bool> over_{false};
  std::atomic<size_t> num_clients_{0};
  std::thread thread_;
};

void answer_with_echo(ControlServer& server, ClientId client, const Json& request) {
  server.reply(client, {{"ok", true}, {"heard", request}});
}

// Serves until somebody has asked for something, and leaves it without an answer.
ClientId wait_for_request(ControlServer& server) {
  for (;;) {
    for (const int fd : server.descriptors()) {
      ClientId asking = 0;
      pollfd polled{fd, POLLIN, 0};
      if (::poll(&polled, 1, 5) == 1) server.serve(fd, [&](ClientId client, const Json&) { asking = client; });
      if (asking != 0) return asking;
    }
  }
}

// A client that may misbehave: a plain connection.
UniqueFd connect_plainly(const std::string& run) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (run + "/control.sock").copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

// Whether the server hangs up within the time.
bool is_hung_up(const UniqueFd& fd, int milliseconds) {
  pollfd waiting{fd.get(), POLLIN, 0};
  char byte = 0;
  return ::poll(&waiting, 1, milliseconds) == 1 && ::read(fd.get(), &byte, 1) <= 0;
}

TEST_CASE("a request is answered") {
  const ScratchFolder run;
  const Serving serving(run.path(), answer_with_echo);
  const Json answer = ask_launcher(run.path(), {{"do", "status"}}, 10'000);
  CHECK(answer.dump() == R"({"ok":true,"heard":{"do":"status"}})");
  CHECK(launcher_answers(run.path()));
}

TEST_CASE("many clients at a time each get their own answer") {
  const ScratchFolder run;
  const Serving serving(run.path(), answer_with_echo);
  std::vector<std::future<Json>> answers;
  for (int i = 0; i < 20; ++i) {
    answers.push_back(std::async(std::launch::async, [&, i] {
      return ask_launcher(run.path(), {{"number", i}}, 10'000);
    }));
  }
  for (int i = 0; i < 20; ++i) CHECK(answers[static_cast<size_t>(i)].get().at("heard").at("number") == i);
}

TEST_CASE("a refusal reaches the client as the error that it was") {
  const ScratchFolder run;
  const Serving serving(run.path(), [](ControlServer& server, ClientId client, const Json&) {
    server.reply(client, error_answer(Error(Fault::infeasible, "too many workers").advise("give fewer")));
  });
  const Error error = error_of([&] { ask_launcher(run.path(), {{"do", "resize"}}, 10'000); });
  CHECK(error.fault() == Fault::infeasible);
  CHECK(error.message() == "too many workers");
  CHECK(error.advice() == "give fewer");
}

TEST_CASE("where nothing runs, it is a usage error: no folder, no socket, a socket that nobody serves") {
  const ScratchFolder run;
  CHECK_FALSE(launcher_answers(run / "none"));
  CHECK(error_of([&] { ask_launcher(run / "none", {{"do", "stop"}}, 10); }).fault() == Fault::usage);
  CHECK(error_of([&] { ask_launcher(run.path(), {{"do", "stop"}}, 10); }).fault() == Fault::usage);
  { const ControlServer ended(run.path()); }
  REQUIRE(std::filesystem::exists(run / "control.sock"));
  const Error error = error_of([&] { ask_launcher(run.path(), {{"do", "stop"}}, 10); });
  CHECK(error.fault() == Fault::usage);
  CHECK(error.message() == run.path() + ": no job is running there");
}

TEST_CASE("a stale socket is replaced") {
  const ScratchFolder run;
  { const ControlServer ended(run.path()); }
  const Serving serving(run.path(), answer_with_echo);
  CHECK(ask_launcher(run.path(), {{"do", "status"}}, 10'000).at("ok") == true);
}

TEST_CASE("a launcher that does not answer in time, or hangs up, is told apart from none") {
  const ScratchFolder run;
  {
    const Serving silent(run.path(), [](ControlServer&, ClientId, const Json&) {});
    const Error error = error_of([&] { ask_launcher(run.path(), {{"do", "status"}}, 50); });
    CHECK(error.fault() == Fault::peer);
    CHECK(error.message().find("did not answer in 0.05 s") != std::string::npos);
  }
  auto server = std::make_unique<ControlServer>(run.path());
  auto asking = std::async(std::launch::async, [&] {
    return error_of([&] { ask_launcher(run.path(), {{"do", "status"}}, 10'000); });
  });
  REQUIRE(wait_for_request(*server) != 0);
  server.reset();
  const Error error = asking.get();
  CHECK(error.fault() == Fault::peer);
  CHECK(error.message().find("hung up") != std::string::npos);
}

TEST_CASE("a client that sends no JSON object, or too much, is dropped; the others are served") {
  const ScratchFolder run;
  const Serving serving(run.path(), answer_with_echo);
  for (const std::string& text : {std::string("no JSON\n"), std::string("[1]\n"), std::string(65 * 1024, 'x')}) {
    const UniqueFd client = connect_plainly(run.path());
    REQUIRE(::send(client.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
    CHECK(is_hung_up(client, 10'000));
  }
  CHECK(ask_launcher(run.path(), {{"do", "status"}}, 10'000).at("ok") == true);
}

TEST_CASE("a request may come in parts, and a silent client holds nobody up") {
  const ScratchFolder run;
  const Serving serving(run.path(), answer_with_echo);
  const UniqueFd silent = connect_plainly(run.path());
  const UniqueFd slow = connect_plainly(run.path());
  for (const std::string_view part : {"{\"do\"", ":\"sta", "tus\"}"}) {
    REQUIRE(::send(slow.get(), part.data(), part.size(), 0) == static_cast<ssize_t>(part.size()));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK_FALSE(is_hung_up(slow, 0));
  CHECK(ask_launcher(run.path(), {{"do", "status"}}, 10'000).at("ok") == true);
  REQUIRE(::send(slow.get(), "\n", 1, 0) == 1);
  char answer[256] = {};
  CHECK(::read(slow.get(), answer, sizeof answer - 1) > 0);
  CHECK(std::string(answer) == "{\"ok\":true,\"heard\":{\"do\":\"status\"}}\n");
  CHECK_FALSE(is_hung_up(silent, 0));
}

TEST_CASE("only so many clients wait at a time; the next is turned away") {
  const ScratchFolder run;
  const Serving serving(run.path(), answer_with_echo);
  std::vector<UniqueFd> silent;
  while (silent.size() < 64) silent.push_back(connect_plainly(run.path()));
  for (int i = 0; i < 1000 && serving.clients() < 64; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  REQUIRE(serving.clients() == 64);
  CHECK(is_hung_up(connect_plainly(run.path()), 10'000));
  silent.clear();
  for (int i = 0; i < 1000 && serving.clients() > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(ask_launcher(run.path(), {{"do", "status"}}, 10'000).at("ok") == true);
}

TEST_CASE("the socket is the user's own, and a path of any length will do") {
  const ScratchFolder folder;
  const std::string run = folder / std::string(200, 'd');
  make_folders(run);
  const Serving serving(run, answer_with_echo);
  struct stat info {};
  REQUIRE(::stat((run + "/control.sock").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  CHECK(ask_launcher(run, {{"do", "status"}}, 10'000).at("ok") == true);
}

TEST_CASE("a server that takes over listener and clients answers those that were waiting") {
  const ScratchFolder run;
  auto first = std::make_unique<ControlServer>(run.path());
  auto asking = std::async(std::launch::async, [&] { return ask_launcher(run.path(), {{"do", "resize"}}, 10'000); });
  const ClientId waiting = wait_for_request(*first);
  std::map<ClientId, int> copies;  // what an exec keeps open
  for (const auto& [id, fd] : first->clients()) copies[id] = ::dup(fd);
  const int listener = ::fcntl(first->listener(), F_DUPFD_CLOEXEC, 0);
  first.reset();
  ControlServer second(listener, copies);
  second.reply(waiting, {{"ok", true}, {"message", "done"}});
  CHECK(asking.get().at("message") == "done");
  CHECK(second.clients().empty());
  second.reply(waiting, {{"ok", true}});  // gone: no effect
  CHECK(launcher_answers(run.path()));
}

}  // namespace
}  // namespace estrain::launch
