#include "core/launch/control_socket.h"

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
#include "core/base/files.h"
#include "core/launch/run_owner.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::launch {
namespace {

// More than any busy machine needs: anything slower hangs.
constexpr int kHangsMs = 300'000;
constexpr double kHangs = kHangsMs / 1000.0;  // seconds

// Polls and serves like the launcher, in its own thread, until destroyed.
class Serving {
 public:
  using Handler = std::function<void(ControlServer&, ClientId, const Json&)>;
  Serving(const std::string& run, Handler handler, const ControlLimits& limits = {})
      : server_(run, limits), handler_(std::move(handler)) {
    thread_ = std::thread([this] {
      while (!over_.load()) round();
    });
  }
  ~Serving() {
    over_.store(true);
    thread_.join();
  }
  size_t clients() const { return num_clients_.load(); }
  // The CPU time of this thread, which reveals a busy loop.
  double cpu_seconds() const { return cpu_seconds_.load(); }

 private:
  void round() {
    std::vector<pollfd> polled;
    for (const int fd : server_.descriptors()) polled.push_back({fd, POLLIN, 0});
    ::poll(polled.data(), polled.size(), 5);
    for (const pollfd& ready : polled) {
      if (ready.revents == 0) continue;
      server_.serve(ready.fd, [&](ClientId client, const Json& request) { handler_(server_, client, request); });
    }
    num_clients_.store(server_.num_clients());
    timespec used{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    cpu_seconds_.store(static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9);
  }

  ControlServer server_;
  Handler handler_;
  std::atomic<bool> over_{false};
  std::atomic<size_t> num_clients_{0};
  std::atomic<double> cpu_seconds_{0};
  std::thread thread_;
};

void answer_with_echo(ControlServer& server, ClientId client, const Json& request) {
  server.reply(client, {{"ok", true}, {"heard", request}});
}

// Serves until a request arrives, and leaves it unanswered.
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

// Sends until the socket is full or the peer has closed.
size_t flood(const UniqueFd& fd, const std::string& text) {
  size_t total = 0;
  for (ssize_t sent; (sent = ::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT)) > 0;)
    total += static_cast<size_t>(sent);
  return total;
}

template <typename Holds>
void wait_until(Holds&& holds) {
  for (int i = 0; i < kHangsMs / 5 && !holds(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  REQUIRE(holds());
}

bool gives_status(const std::string& run) { return ask_launcher(run, {{"do", "status"}}, kHangsMs).at("ok") == true; }

TEST_CASE("a request is answered") {
  const ScratchFolder run;
  const Serving serving(run.path(), answer_with_echo);
  const Json answer = ask_launcher(run.path(), {{"do", "status"}}, kHangsMs);
  CHECK(answer.dump() == R"({"ok":true,"heard":{"do":"status"}})");
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
  const auto asked = [&] { return error_of([&] { ask_launcher(run.path(), {{"do", "status"}}, kHangsMs); }); };
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
      return ask_launcher(run.path(), {{"number", i}}, kHangsMs);
    }));
  }
  for (int i = 0; i < 20; ++i) CHECK(answers[static_cast<size_t>(i)].get().at("heard").at("number") == i);
}

TEST_CASE("a refusal reaches the client as the error that it was") {
  const ScratchFolder run;
  const Serving serving(run.path(), [](ControlServer& server, ClientId client, const Json&) {
    server.reply(client, error_answer(Error(Fault::infeasible, "too many workers").advise("give fewer")));
  });
  const Error error = error_of([&] { ask_launcher(run.path(), {{"do", "resize"}}, kHangsMs); });
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
  CHECK(ask_launcher(run.path(), {{"do", "status"}}, kHangsMs).at("ok") == true);
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
    return error_of([&] { ask_launcher(run.path(), {{"do", "status"}}, kHangsMs); });
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

TEST_CASE("numbers that no integer holds are JSON: a handler sees them") {
  const ScratchFolder run;
  const Serving serving(run.path(), answer_with_echo);
  const UniqueFd client = connect_plainly(run.path());
  send_all(client, "{\"do\":123456789012345678901234567890}\n");
  CHECK(last_words(client).find("1.2345678901234568e+29") != std::string::npos);
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

TEST_CASE("a request of just the largest size is heard") {
  const ScratchFolder run;
  const Serving serving(run.path(), answer_with_echo);
  const UniqueFd client = connect_plainly(run.path());
  const std::string frame = "{\"do\":\"\"}";
  std::string request = frame;
  request.insert(7, 65'536 - frame.size(), 'x');
  send_all(client, request + "\n");
  const std::string answer = last_words(client);
  CHECK(answer.starts_with("{\"ok\":true"));
  CHECK(answer.size() > 65'536);
}

TEST_CASE("a client that has sent its request and closed its half still gets the answer; half a request is refused") {
  const ScratchFolder run;
  const Serving serving(run.path(), answer_with_echo);
  const UniqueFd whole = connect_plainly(run.path()), half = connect_plainly(run.path());
  send_all(whole, "{\"do\":1}\n");
  ::shutdown(whole.get(), SHUT_WR);
  CHECK(last_words(whole) == "{\"ok\":true,\"heard\":{\"do\":1}}\n");
  send_all(half, "{\"do\":");
  ::shutdown(half.get(), SHUT_WR);
  CHECK(refusal(half) == "a request that ends before its line does");
}

TEST_CASE("one request a connection: what comes behind it is not heard and does no harm") {
  const ScratchFolder run;
  std::atomic<int> heard{0};
  const Serving serving(run.path(), [&](ControlServer& server, ClientId client, const Json& request) {
    ++heard;
    answer_with_echo(server, client, request);
  });
  const UniqueFd client = connect_plainly(run.path());
  send_all(client, "{\"do\":1}\n{\"do\":2}\n" + std::string(50'000, 'x'));
  CHECK(last_words(client) == "{\"ok\":true,\"heard\":{\"do\":1}}\n");
  CHECK(gives_status(run.path()));
  CHECK(heard == 2);
}

TEST_CASE("a client that says nothing, or never ends its line, is sent away in time; one that waits is not") {
  const ScratchFolder run;
  const Serving serving(run.path(),
                        [](ControlServer& server, ClientId client, const Json& request) {
                          if (request.value("do", "") != "wait") answer_with_echo(server, client, request);
                        },
                        {.request_ms = 1500});
  const int64_t began = monotonic_ns();
  const UniqueFd waiting = connect_plainly(run.path()), silent = connect_plainly(run.path()),
                 half = connect_plainly(run.path()), dripping = connect_plainly(run.path());
  send_all(waiting, "{\"do\":\"wait\"}\n");
  send_all(half, "{\"do\":");
  auto drip = std::async(std::launch::async, [&] {  // sending single bytes does not extend the time
    while (seconds(monotonic_ns() - began) < kHangs) {
      if (::send(dripping.get(), " ", 1, MSG_NOSIGNAL) != 1) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  });
  for (const UniqueFd* client : {&silent, &half}) CHECK(refusal(*client) == "no request within 1.5 s");
  CHECK(drip.get());
  CHECK(seconds(monotonic_ns() - began) >= 1.49);
  CHECK(refusal(dripping) == "no request within 1.5 s");
  wait_until([&] { return serving.clients() == 1; });
  CHECK_FALSE(is_hung_up(waiting));
}

TEST_CASE("a client that never takes its answer is dropped in time; one that takes it slowly gets all of it") {
  const ScratchFolder run;
  const std::string large(3'000'000, 'a');
  const Serving serving(run.path(),
                        [&](ControlServer& server, ClientId client, const Json& request) {
                          if (request.value("do", "") == "large")
                            server.reply(client, {{"ok", true}, {"text", large}});
                          else
                            answer_with_echo(server, client, request);
                        },
                        {.answer_ms = 4000});
  const UniqueFd never = connect_plainly(run.path()), slow = connect_plainly(run.path());
  send_all(never, "{\"do\":\"large\"}\n");
  send_all(slow, "{\"do\":\"large\"}\n");
  wait_until([&] { return serving.clients() == 2; });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  CHECK(serving.clients() == 2);
  CHECK(gives_status(run.path()));
  const std::string all = last_words(slow);
  CHECK(all.size() == large.size() + std::string("{\"ok\":true,\"text\":\"\"}\n").size());
  wait_until([&] { return serving.clients() == 0; });
  const std::string rest = last_words(never);
  CHECK(rest.size() > 0);  // from the kernel's buffer
  CHECK(rest.size() < large.size());
}

TEST_CASE("clients that flood the server, or leave it with half a request, cost it next to no work") {
  const ScratchFolder run;
  const Serving serving(run.path(), answer_with_echo);
  std::vector<UniqueFd> idle;
  for (int i = 0; i < 30; ++i) idle.push_back(connect_plainly(run.path()));
  for (const UniqueFd& client : idle) send_all(client, "{\"do\": \"sta");
  wait_until([&] { return serving.clients() == idle.size(); });
  const double before = serving.cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  CHECK(serving.cpu_seconds() - before < 0.3);  // 200 idle rounds; a busy loop would use the whole second
  const UniqueFd flooding = connect_plainly(run.path());
  for (int i = 0; i < 200; ++i) flood(flooding, std::string(100'000, 'y'));
  CHECK(gives_status(run.path()));
}

TEST_CASE("only so many clients at a time: the one that is silent longest gives way to the next") {
  const ScratchFolder run;
  const Serving serving(run.path(), answer_with_echo);
  std::vector<UniqueFd> silent;
  while (silent.size() < 64) silent.push_back(connect_plainly(run.path()));
  wait_until([&] { return serving.clients() == 64; });
  CHECK(gives_status(run.path()));
  CHECK(refusal(silent.front()) == "64 clients are connected to the launcher already");
  CHECK_FALSE(is_hung_up(silent[1]));
  silent.clear();
  wait_until([&] { return serving.clients() == 0; });
  CHECK(gives_status(run.path()));
}

TEST_CASE("where all clients wait for their answers, the next is refused") {
  const ScratchFolder run;
  std::vector<UniqueFd> waiting;
  std::atomic<int> heard{0};
  const Serving serving(run.path(), [&](ControlServer&, ClientId, const Json&) { ++heard; }, {.clients = 4});
  while (waiting.size() < 4) {
    waiting.push_back(connect_plainly(run.path()));
    send_all(waiting.back(), "{\"do\":\"wait\"}\n");
  }
  wait_until([&] { return heard == 4; });
  const Error error = error_of([&] { ask_launcher(run.path(), {{"do", "stop"}}, kHangsMs); });
  CHECK(error.fault() == Fault::peer);
  CHECK(error.message() == "4 clients are connected to the launcher already");
  waiting.pop_back();  // one disconnects: a place is free again
  wait_until([&] { return serving.clients() == 3; });
  const UniqueFd next = connect_plainly(run.path());
  wait_until([&] { return serving.clients() == 4; });
  CHECK_FALSE(is_hung_up(next));
}

TEST_CASE("hundreds of connections at once, and a thousand one after another, are dealt with") {
  const ScratchFolder run;
  const Serving serving(run.path(), answer_with_echo);
  std::vector<UniqueFd> crowd;
  for (int i = 0; i < 500; ++i) {  // below the usual limit of 1024 descriptors
    crowd.push_back(connect_plainly(run.path()));
    if (i % 3 == 0) ::send(crowd.back().get(), "{", 1, MSG_NOSIGNAL);
    if (i % 100 == 99) CHECK(gives_status(run.path()));
  }
  CHECK(serving.clients() <= 64);
  crowd.clear();
  for (int i = 0; i < 1000; ++i) connect_plainly(run.path());
  CHECK(gives_status(run.path()));
}

TEST_CASE("a server without a free descriptor lets clients wait, without spinning, and serves them later") {
  const ScratchFolder run;
  ControlServer server(run.path());
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const UniqueFd client = connect_plainly(run.path());
  send_all(client, "{\"do\":1}\n");
  const UniqueFd lowest(::dup(server.listener()));
  const rlimit none{static_cast<rlim_t>(lowest.get()), before.rlim_max};
  int heard = 0, woken = 0;
  const auto serve_for = [&](int milliseconds) {
    const int64_t end = monotonic_ns() + milliseconds * INT64_C(1'000'000);
    while (monotonic_ns() < end && heard == 0) {
      pollfd polled{server.descriptors().front(), POLLIN, 0};
      if (::poll(&polled, 1, 10) == 1) ++woken;
      server.serve(polled.fd, [&](ClientId who, const Json&) {
        ++heard;
        server.reply(who, {{"ok", true}});
      });
    }
  };
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  serve_for(300);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(heard == 0);
  CHECK(woken < 5);
  serve_for(kHangsMs);
  CHECK(heard == 1);
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
    ::send(fd, "{\"do\":1}\n", 9, MSG_NOSIGNAL);
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
  const Error error = error_of([&] { ask_launcher(run.path(), {{"do", "status"}}, 200); });
  CHECK(error.message() == run.path() + ": the launcher did not answer in 0.2 s");
  CHECK(seconds(monotonic_ns() - began) < kHangs);
  CHECK(launcher_answers(run.path()));
}

TEST_CASE("an answer that makes no sense is an error of the launcher's") {
  const ScratchFolder run;
  const Serving serving(run.path(), [](ControlServer& server, ClientId client, const Json& request) {
    server.reply(client, request.at("send"));
  });
  for (const Json& answer : {Json(7), Json::array(), Json{{"ok", "yes"}}, Json{{"ok", false}, {"fault", 3}}}) {
    const Error error = error_of([&] { ask_launcher(run.path(), {{"send", answer}}, kHangsMs); });
    CHECK(error.fault() == Fault::peer);
    CHECK(error.message().find("makes no sense") != std::string::npos);
  }
}

// The server after a re-exec of `first`, with the descriptors that an exec keeps open.
std::unique_ptr<ControlServer> successor(std::unique_ptr<ControlServer> first, const ControlLimits& limits = {}) {
  std::map<ClientId, int> copies;
  for (const auto& [id, fd] : first->clients()) copies[id] = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  const int listener = ::fcntl(first->listener(), F_DUPFD_CLOEXEC, 0);
  first.reset();
  return std::make_unique<ControlServer>(listener, copies, limits);
}

TEST_CASE("a server that takes over listener and clients answers those that were waiting") {
  const ScratchFolder run;
  auto first = std::make_unique<ControlServer>(run.path());
  auto asking = std::async(std::launch::async, [&] { return ask_launcher(run.path(), {{"do", "resize"}}, kHangsMs); });
  const ClientId waiting = wait_for_request(*first);
  const auto second = successor(std::move(first));
  second->reply(waiting, {{"ok", true}, {"message", "done"}});
  CHECK(asking.get().at("message") == "done");
  CHECK(second->clients().empty());
  second->reply(waiting, {{"ok", true}});  // disconnected: no effect
  CHECK(launcher_answers(run.path()));
}

TEST_CASE("half a request outlives a re-exec; who has not asked yet has no longer time than before") {
  const ScratchFolder run;
  auto first = std::make_unique<ControlServer>(run.path());
  const UniqueFd half = connect_plainly(run.path()), waiting = connect_plainly(run.path()),
                 silent = connect_plainly(run.path());
  send_all(half, "{\"do\":\"st");
  send_all(waiting, "{\"do\":\"resize\"}\n");
  const ClientId asked = wait_for_request(*first);
  wait_until([&] {
    first->serve(first->descriptors().front(), [](ClientId, const Json&) {});
    return first->num_clients() == 3;
  });
  const auto second = successor(std::move(first), {.request_ms = 1500});
  send_all(half, "atus\"}\n");
  CHECK(wait_for_request(*second) != asked);
  const int64_t began = monotonic_ns();
  while (!is_hung_up(silent) && seconds(monotonic_ns() - began) < kHangs) {
    pollfd polled{second->descriptors().front(), POLLIN, 0};
    ::poll(&polled, 1, 50);
    second->serve(polled.fd, [](ClientId, const Json&) {});
  }
  CHECK(refusal(silent) == "no request within 1.5 s");
  CHECK_FALSE(is_hung_up(waiting));
  second->reply(asked, {{"ok", true}});
  CHECK(last_words(waiting) == "{\"ok\":true}\n");
}

}  // namespace
}  // namespace estrain::launch
