// The control socket of a running job: for its owner alone, and nobody who misbehaves there disturbs the job.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>

#include "core/base/unique_fd.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"

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
  size_t sent = 0;
  for (ssize_t got; sent < garbage.size(); sent += static_cast<size_t>(got)) {
    got = ::send(garbled.get(), garbage.data() + sent, garbage.size() - sent, MSG_NOSIGNAL);
    if (got < 0) break;  // hung up on
  }
  char answer[16];
  CHECK(::recv(garbled.get(), answer, sizeof answer, 0) <= 0);  // the end, not an answer
  check_unmoved(job);

  for (const char* words : {"not json\n", "[1, 2]\n", "\n", "\xff\xfe\n"}) {
    const UniqueFd client = connect_to(job.run());
    REQUIRE(::send(client.get(), words, std::strlen(words), MSG_NOSIGNAL) > 0);
    CHECK(::recv(client.get(), answer, sizeof answer, 0) <= 0);
  }
  for (const char* words :
       {"{\"do\": 7}\n", "{\"do\": \"dance\"}\n", "{}\n", "{\"do\": \"resize\", \"devices\": 3}\n"}) {
    CAPTURE(words);
    const UniqueFd client = connect_to(job.run());
    REQUIRE(::send(client.get(), words, std::strlen(words), MSG_NOSIGNAL) > 0);
    char reply[64] = {};
    CHECK(::recv(client.get(), reply, sizeof reply - 1, 0) > 0);
    CHECK(std::string(reply).find("\"ok\":false") != std::string::npos);
  }
  {
    const UniqueFd impatient = connect_to(job.run());  // gone before its answer
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

TEST_CASE("more silent clients than the server takes do not lock the owner out for good") {
  const ScratchFolder folder;
  Job job(folder.write("job.toml", long_job()), folder / "run");
  job.reach(2);
  {
    std::vector<UniqueFd> crowd;
    for (int i = 0; i < 70; ++i) crowd.push_back(connect_to(job.run()));
    wait_until("a few more steps", [&] { return metric_steps(job.run()).size() > 20; });
  }
  check_unmoved(job);
}

}  // namespace
}  // namespace estrain::testing
