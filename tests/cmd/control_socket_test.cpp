// The control socket of a running job: only for its owner; misbehaving clients do not disturb the job.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <csignal>
#include <cstring>
#include <functional>
#include <thread>

#include "core/base/clock.h"
#include "core/base/files/unique_fd.h"
#include "edited_file.h"
#include "in_time.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"
#include "throttled.h"

namespace estrain::testing {
namespace {

UniqueFd connect_to(const std::string& run) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = run + "/control.sock";
  REQUIRE(path.size() < sizeof address.sun_path);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

// Everything the launcher sends until it closes the connection.
std::string answer_on(const UniqueFd& fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = ::recv(fd.get(), buffer, sizeof buffer, 0)) > 0;)
    text.append(buffer, static_cast<size_t>(got));
  return text;
}

void check_unmoved(Job& job) {
  job.reach(job.step() + 5);
  const Ended status = estrain({"status", job.run(), "--json"});
  INFO(status.shown());
  CHECK(status.code == 0);
  CHECK(parse_json(status.text, "status").at("state") == "training");
}

TEST_CASE("the socket is its owner's alone; idle, garbled and impatient clients disturb nobody") {
  const ScratchFolder folder;
  Job job(folder.write("job.toml", long_job()), folder / "run");
  job.reach(2);
  struct stat info {};
  REQUIRE(::stat((job.run() + "/control.sock").c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0600);

  const UniqueFd idle = connect_to(job.run());
  const UniqueFd half = connect_to(job.run());
  REQUIRE(::send(half.get(), "{\"do\": \"sta", 11, MSG_NOSIGNAL) == 11);
  check_unmoved(job);

  const UniqueFd garbled = connect_to(job.run());
  const std::string garbage(100 * 1024, 'x');
  for (ssize_t sent = 0; sent >= 0;) sent = ::send(garbled.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
  check_unmoved(job);

  for (const char* words : {"not json\n", "[1, 2]\n", "\n", "\xff\xfe\n"}) {
    const UniqueFd client = connect_to(job.run());
    REQUIRE(::send(client.get(), words, std::strlen(words), MSG_NOSIGNAL) > 0);
    CHECK(answer_on(client).find("not a request") != std::string::npos);
  }
  for (const char* words :
       {"{\"do\": 7}\n", "{\"do\": \"dance\"}\n", "{}\n", "{\"do\": \"resize\", \"devices\": 3}\n"}) {
    CAPTURE(words);
    const UniqueFd client = connect_to(job.run());
    REQUIRE(::send(client.get(), words, std::strlen(words), MSG_NOSIGNAL) > 0);
    CHECK(answer_on(client).find("\"ok\":false") != std::string::npos);
  }
  {
    const UniqueFd impatient = connect_to(job.run());  // disconnects before its answer
    REQUIRE(::send(impatient.get(), "{\"do\": \"resize\", \"devices\": \"2\"}\n", 34, MSG_NOSIGNAL) > 0);
  }
  wait_until("the resize that nobody waits for", [&] {
    job.status();
    return events(job.run(), "resize").size() == 1;
  });
  check_unmoved(job);
  REQUIRE(job.stop().code == 0);
  CHECK(job.launcher().wait().code == 75);
}

// Sends without waiting for buffer space.
void throw_at(const UniqueFd& fd, const std::string& bytes) {
  ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

std::vector<UniqueFd> crowd_of(int number, const std::string& run) {
  std::vector<UniqueFd> crowd;
  for (int i = 0; i < number; ++i) crowd.push_back(connect_to(run));
  return crowd;
}

struct Attack {
  const char* name;
  std::function<void(const std::string& run)> once;
};

const Attack attacks[] = {
    {"a flood of bytes without an end of line",
     [](const std::string& run) {
       const UniqueFd client = connect_to(run);
       for (int i = 0; i < 20; ++i) throw_at(client, std::string(60'000, 'x'));
     }},
    {"half a message from many",
     [](const std::string& run) {
       for (const UniqueFd& client : crowd_of(80, run)) throw_at(client, "{\"do\": \"status");
     }},
    {"binary garbage",
     [](const std::string& run) {
       std::string bytes;
       for (int i = 0; i < 2000; ++i) bytes += static_cast<char>(i * i % 251);
       for (int i = 0; i < 20; ++i) throw_at(connect_to(run), bytes + "\n");
     }},
    {"deeply nested JSON",
     [](const std::string& run) {
       for (int i = 0; i < 20; ++i) throw_at(connect_to(run), "{\"do\":" + std::string(60'000, '[') + "\n");
     }},
    {"huge numbers",
     [](const std::string& run) {
       for (int i = 0; i < 20; ++i)
         throw_at(connect_to(run), "{\"do\":\"resize\",\"devices\":1" + std::string(50'000, '0') + "}\n");
     }},
    {"device lists without end",
     [](const std::string& run) {
       std::string list;
       for (int i = 0; i < 6000; ++i) list += "cpu*4096,";
       throw_at(connect_to(run), "{\"do\":\"resize\",\"devices\":\"" + list + "cpu\"}\n");
     }},
    {"more connections than the server takes", [](const std::string& run) { crowd_of(130, run); }},
    {"readers that never read",
     [](const std::string& run) {
       std::vector<UniqueFd> kept;
       for (int i = 0; i < 100; ++i) {
         kept.push_back(connect_to(run));
         throw_at(kept.back(), "{\"do\": \"status\"}\n");
       }
     }},
};

// Reads training's progress from the files, without asking the launcher.
int64_t recorded_steps(const Job& job) { return last_step(job.run()); }

TEST_CASE("training goes on, and its owner is answered, under every kind of attack on the socket") {
  const ScratchFolder folder;
  Job job(folder.write("job.toml", long_job()), folder / "run");
  job.reach(2);
  const int64_t wanted = recorded_steps(job) + 5;
  {
    const Throttled slow(job.workers().at(0));  // leaves the processors to other tests
    // All at once: the launcher gives up on silent clients after ten seconds, 64 of them at a time.
    std::vector<std::jthread> attackers;
    for (const Attack& attack : attacks) attackers.emplace_back([&attack, &job] { attack.once(job.run()); });
  }
  CHECK(recorded_steps(job) >= wanted);  // meanwhile
  const Ended status = estrain({"status", job.run(), "--json"});
  INFO(status.shown());
  CHECK(status.code == 0);
  CHECK(parse_json(status.text, "status").at("state") == "training");
  CHECK(events(job.run(), "resize").empty());
  REQUIRE(job.stop().code == 0);
  CHECK(job.launcher().wait().code == 75);
}

// Sends the launcher an evaluation after every step: a few hundred such messages fill a socket.
std::string talkative_job() {
  const std::string spec = replaced(lenet_job(), "steps = 10", "steps = 1000000\neval_every = 1");
  return replaced(spec, "samples = 100", "samples = 40");
}

TEST_CASE("a launcher that is stopped stops neither training nor its records, and answers when it goes on") {
  const ScratchFolder folder;
  Job job(folder.write("job.toml", talkative_job()), folder / "run");
  job.reach(2);
  job.launcher().signal(SIGSTOP);
  const int64_t before = recorded_steps(job);
  wait_until("a thousand steps without a launcher", [&] { return recorded_steps(job) >= before + 1000; });
  CHECK_FALSE(job.launcher().ended_within(0ms));
  job.launcher().signal(SIGCONT);
  check_unmoved(job);
  REQUIRE(job.stop().code == 0);
  const Ended ended = job.launcher().wait();
  INFO(ended.shown());
  CHECK(ended.code == 75);
}

TEST_CASE("a worker that is stopped does not keep the launcher from answering") {
  in_time("an answer while a worker is stopped", [](Timed& timed) {
    const ScratchFolder folder;
    Job job(folder.write("job.toml", long_job()), folder / "run", {"--devices", "2"});
    job.reach(2);
    const pid_t stopped = job.workers().at(1);
    ::kill(stopped, SIGSTOP);
    // A launcher that waits for the worker answers after the worker has ended.
    const bool answers = job.status().contains("state");
    timed.check(answers && process_lives(stopped), "the answer comes before the worker is given up");
    ::kill(stopped, SIGCONT);
    check_unmoved(job);
  });
}

TEST_CASE("more silent clients than the server takes do not lock the owner out for good") {
  const ScratchFolder folder;
  Job job(folder.write("job.toml", long_job()), folder / "run");
  job.reach(2);
  {
    std::vector<UniqueFd> crowd;
    for (int i = 0; i < 70; ++i) crowd.push_back(connect_to(job.run()));
    wait_until("a few more steps", [&] { return last_step(job.run()) > 20; });
  }
  check_unmoved(job);
}

}  // namespace
}  // namespace estrain::testing
