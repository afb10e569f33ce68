#include "core/launch/control/control_socket.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <atomic>
#include <future>
#include <thread>

#include "core/base/clock.h"
#include "core/base/files/files.h"
#include "core/launch/control/control_request.h"
#include "core/launch/directory/run_owner.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::launch {
namespace {

// More than any busy machine needs: anything slower hangs.
constexpr int kHangsMs = 300'000;
constexpr double kHangs = kHangsMs / 1000.0;  // seconds

// One round of the launcher's; `later_ns` from now.
void serve_once(ControlServer& server, const ControlServer::OnRequest& on_request, int64_t later_ns = 0) {
  const int64_t now = monotonic_ns() + later_ns;
  std::vector<pollfd> polled = server.polled(now);
  ::poll(polled.data(), polled.size(), 5);
  server.serve(polled, on_request, now);
}

// Polls and serves as the launcher does, in a thread of its own, until it goes away.
class Serving {
 public:
  using Handler = std::function<void(ControlServer&, ClientId, const conduct::Request&)>;
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
    serve_once(server_, [&](ClientId client, const conduct::Request& request) { handler_(server_, client, request); });
    num_clients_.store(server_.num_clients());
  }

  ControlServer server_;
  Handler handler_;
  std::atomic<bool> over_{false};
  std::atomic<size_t> num_clients_{0};
  std::thread thread_;
};

void answer_with_echo(ControlServer& server, ClientId client, const conduct::Request& request) {
  server.reply(client, {{"ok", true}, {"heard", encode_request(request)}});
}

// Serves until a request arrives, and leaves it unanswered.
ClientId wait_for_request(ControlServer& server) {
  for (ClientId asking = 0;;) {
    serve_once(server, [&](ClientId client, const conduct::Request&) { asking = client; });
    if (asking != 0) return asking;
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

bool is_hung_up(const UniqueFd& fd) {
  pollfd waiting{fd.get(), POLLIN | POLLRDHUP, 0};
  return ::poll(&waiting, 1, 0) == 1;
}

// Everything the server sends until it closes the connection; "still connected" if it does not in time.
std::string last_words(const UniqueFd& fd, int milliseconds = kHangsMs) {
  std::string text;
  for (char buffer[4096];;) {
    pollfd waiting{fd.get(), POLLIN, 0};
    if (::poll(&waiting, 1, milliseconds) != 1) return "still connected";
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got <= 0) return text;
    text.append(buffer, static_cast<size_t>(got));
  }
}

// The answer to a refused client.
std::string refusal(const UniqueFd& fd) {
  const std::string text = last_words(fd);
  INFO("the server said: ", text);
  const Json answer = Json::parse(text, nullptr, false);
  REQUIRE(answer.is_object());
  CHECK(answer.at("ok") == false);
  return answer.at("error");
}

void send_all(const UniqueFd& fd, std::string_view text) {
  REQUIRE(::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
}

template <typename Holds>
void wait_until(Holds&& holds) {
  for (int i = 0; i < kHangsMs / 5 && !holds(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  REQUIRE(holds());
}

bool gives_status(const std::string& run) {
  return ask_launcher(run, conduct::StatusRequest{}, kHangsMs).at("ok") == true;
}

TEST_CASE("a request is answered") {
  const ScratchFolder run;
  const Serving serving(run.path(), answer_with_echo);
  const Json answer = ask_launcher(run.path(), conduct::ReclaimRequest{"cpu", 2.5}, kHangsMs);
  CHECK(answer.dump() == R"({"ok":true,"heard":{"do":"reclaim","devices":"cpu","within":2.5}})");
  CHECK(launcher_answers(run.path()));
}

// Makes only this thread another user for a while; needs root.
class AnotherUser {
 public:
  AnotherUser() { REQUIRE(::syscall(SYS_setresuid, -1, 65534, -1) == 0); }
  ~AnotherUser() { ::syscall(SYS_setresuid, -1, 0, -1); }
};

TEST_CASE("another user is told that the job runs, and why it does not answer" * doctest::skip(::getuid() != 0)) {
  const ScratchFolder run;
  std::filesystem::permissions(run.path(), std::filesystem::perms{0755});
  const Serving serving(run.path(), answer_with_echo);
  const auto asked = [&] { return error_of([&] { ask_launcher(run.path(), conduct::StatusRequest{}, kHangsMs); }); };
  RunOwner owner = RunOwner::this_process();
  SUBCASE("whose launcher lives") {
    run.write("lock", owner.to_text());
    const AnotherUser other;
    CHECK(asked().fault() == Fault::io);
    CHECK(asked().message() == run.path() + ": running, but its control socket is another user's");
    CHECK(launcher_answers(run.path()));
  }
  SUBCASE("unless its launcher was killed and left the socket behind") {
    owner.pid = ::fork();
    if (owner.pid == 0) ::_exit(0);
    ::waitpid(owner.pid, nullptr, 0);
    run.write("lock", owner.to_text());
    const AnotherUser other;
    CHECK(asked().message() == run.path() + ": no job is running there");
    CHECK_FALSE(launcher_answers(run.path()));
  }
}

TEST_CASE("many clients at a time each get their own answer") {
  const ScratchFolder run;
  const Serving serving(run.path(), answer_with_echo);
  std::vector<std::future<Json>> answers;
  for (int i = 0; i < 20; ++i) {
    answers.push_back(std::async(std::launch::async, [&, i] {
      return ask_launcher(run.path(), conduct::OfferRequest{std::to_string(i)}, kHangsMs);
    }));
  }
  for (int i = 0; i < 20; ++i)
    CHECK(answers[static_cast<size_t>(i)].get().at("heard").at("devices") == std::to_string(i));
}

TEST_CASE("a refusal reaches the client as the error that it was") {
  const ScratchFolder run;
  const Serving serving(run.path(), [](ControlServer& server, ClientId client, const conduct::Request&) {
    server.reply(client, error_answer(Error(Fault::infeasible, "too many workers").advise("give fewer")));
  });
  const Error error = error_of([&] { ask_launcher(run.path(), conduct::ResizeRequest{}, kHangsMs); });
  CHECK(error.fault() == Fault::infeasible);
  CHECK(error.message() == "too many workers");
  CHECK(error.advice() == "give fewer");
}

TEST_CASE("where nothing runs, it is a usage error: no folder, no socket, a socket that nobody serves") {
  const ScratchFolder run;
  CHECK_FALSE(launcher_answers(run / "none"));
  CHECK(error_of([&] { ask_launcher(run / "none", conduct::StopRequest{}, 10); }).fault() == Fault::usage);
  CHECK(error_of([&] { ask_launcher(run.path(), conduct::StopRequest{}, 10); }).fault() == Fault::usage);
  { const ControlServer ended(run.path()); }
  REQUIRE(std::filesystem::exists(run / "control.sock"));
  const Error error = error_of([&] { ask_launcher(run.path(), conduct::StopRequest{}, 10); });
  CHECK(error.fault() == Fault::usage);
  CHECK(error.message() == run.path() + ": no job is running there");
}

TEST_CASE("a stale socket is replaced") {
  const ScratchFolder run;
  { const ControlServer ended(run.path()); }
  const Serving serving(run.path(), answer_with_echo);
  CHECK(ask_launcher(run.path(), conduct::StatusRequest{}, kHangsMs).at("ok") == true);
}

TEST_CASE("a launcher that does not answer in time, or hangs up, is told apart from none") {
  const ScratchFolder run;
  {
    const Serving silent(run.path(), [](ControlServer&, ClientId, const conduct::Request&) {});
    const Error error = error_of([&] { ask_launcher(run.path(), conduct::StatusRequest{}, 50); });
    CHECK(error.fault() == Fault::peer);
    CHECK(error.message().find("did not answer in 0.05 s") != std::string::npos);
  }
  auto server = std::make_unique<ControlServer>(run.path());
  auto asking = std::async(std::launch::async, [&] {
    return error_of([&] { ask_launcher(run.path(), conduct::StatusRequest{}, kHangsMs); });
  });
  REQUIRE(wait_for_request(*server) != 0);
  server.reset();
  const Error error = asking.get();
  CHECK(error.fault() == Fault::peer);
  CHECK(error.message().find("hung up") != std::string::npos);
}

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
      {"{\"do\": \"dance\"}\n", "nobody knows \"dance\""},
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
  const Serving serving(run.path(), [&](ControlServer& server, ClientId client, const conduct::Request& request) {
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
  const auto nobody_asks = [](ClientId, const conduct::Request&) { FAIL("nobody asks"); };
  serve_once(server, nobody_asks, ControlServer::kPatienceNs - INT64_C(5'000'000'000));
  CHECK(server.num_clients() == 3);
  serve_once(server, nobody_asks, ControlServer::kPatienceNs + INT64_C(1'000'000'000));
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
  const Serving serving(run.path(), [&](ControlServer& server, ClientId client, const conduct::Request&) {
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
  CHECK(last_words(next, 100) == "still connected");
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
  serve_once(server, [](ClientId, const conduct::Request&) { FAIL("nobody can ask"); });
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(server.polled(monotonic_ns()).empty());
  CHECK(server.polled(monotonic_ns() + INT64_C(1'000'000'000)).size() == 1);
  server.reply(wait_for_request(server), {{"ok", true}});
  CHECK(last_words(client) == "{\"ok\":true}\n");
}

TEST_CASE("root and the user itself may command a launcher, nobody else") {
  CHECK(may_command(1000, 1000));
  CHECK(may_command(0, 1000));
  CHECK(may_command(0, 0));
  CHECK_FALSE(may_command(1001, 1000));
  CHECK_FALSE(may_command(65534, 0));
}

// The socket's response to a process of another user: 'r' if the connection is refused, 'c' if it is closed silently,
// 'a' for an answer.
char try_as_nobody(const std::string& run) {
  int status = 0;
  const pid_t child = ::fork();
  if (child == 0) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (run + "/control.sock").copy(address.sun_path, sizeof address.sun_path - 1);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit('?');
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      ::_exit(errno == EACCES ? 'r' : '!');
    ::send(fd, "{\"do\":\"stop\"}\n", 14, MSG_NOSIGNAL);
    char byte = 0;
    ::_exit(::read(fd, &byte, 1) > 0 ? 'a' : 'c');
  }
  REQUIRE(::waitpid(child, &status, 0) == child);
  return static_cast<char>(WEXITSTATUS(status));
}

// Needs root to become another user.
TEST_CASE("another user does not get in, not even if the socket's mode lets everybody" *
          doctest::skip(::geteuid() != 0)) {
  const ScratchFolder run;
  const Serving serving(run.path(), answer_with_echo);
  std::filesystem::permissions(run.path(), std::filesystem::perms(0755));
  CHECK(try_as_nobody(run.path()) == 'r');
  std::filesystem::permissions(run / "control.sock", std::filesystem::perms(0777));
  CHECK(try_as_nobody(run.path()) == 'c');
  CHECK(gives_status(run.path()));
}

TEST_CASE("the socket's mode is 0600 whatever the umask, and a path of any length will do") {
  const ScratchFolder folder;
  const std::string run = folder / std::string(200, 'd');
  make_folders(run);
  const mode_t before = ::umask(0);
  const Serving serving(run, answer_with_echo);
  ::umask(before);
  struct stat info {};
  REQUIRE(::stat((run + "/control.sock").c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0600);
  CHECK(gives_status(run));
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
  const int64_t began = monotonic_ns();
  const Error error = error_of([&] { ask_launcher(run.path(), conduct::StatusRequest{}, 200); });
  CHECK(error.message() == run.path() + ": the launcher did not answer in 0.2 s");
  CHECK(seconds(monotonic_ns() - began) < kHangs);
  CHECK(launcher_answers(run.path()));
}

TEST_CASE("an answer that makes no sense is an error of the launcher's") {
  for (const Json& answer : {Json(7), Json::array(), Json{{"ok", "yes"}}, Json{{"ok", false}, {"fault", 3}}}) {
    const ScratchFolder run;
    const Serving serving(run.path(), [&](ControlServer& server, ClientId client, const conduct::Request&) {
      server.reply(client, answer);
    });
    const Error error = error_of([&] { ask_launcher(run.path(), conduct::StopRequest{}, kHangsMs); });
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
      std::async(std::launch::async, [&] { return ask_launcher(run.path(), conduct::ResizeRequest{}, kHangsMs); });
  const ClientId waiting = wait_for_request(*first);
  const UniqueFd silent = connect_plainly(run.path());
  while (first->num_clients() < 2) serve_once(*first, [](ClientId, const conduct::Request&) {});
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
