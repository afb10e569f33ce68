#include "core/planning/profile/profile_store.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "core/base/files/files.h"
#include "now.h"
#include "sample_work.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::profile {
namespace {

namespace fs = std::filesystem;

struct Store {
  std::vector<std::string> warnings;
  ProfileStore store;

  explicit Store(const std::string& path)
      : store(path, [this](const std::string& warning) { warnings.push_back(warning); }) {}
};

void learn(Profiles& profiles, int64_t batch) {
  spec::JobSpec job = some_job();
  job.data.batch = batch;
  profiles.learn(job, some_host(), stage({{"cpu", 4, 0.01}}, 0), kNow);
}

TEST_CASE("what was learned is there for the next; the folder is made") {
  const ScratchFolder folder;
  const std::string path = folder / "cache/estrain/profiles.json";
  Store one(path);
  CHECK(one.store.load().entries().empty());
  one.store.update([](Profiles& profiles) { learn(profiles, 1); });
  one.store.update([](Profiles& profiles) { learn(profiles, 2); });
  Store other(path);
  CHECK(other.store.load().entries().size() == 2);
  CHECK(one.warnings.empty());
  CHECK(bytes_of(path).find("\n  {") != std::string::npos);  // for people, too
  fs::remove(path);
  CHECK(other.store.load().entries().empty());
}

TEST_CASE("two processes that write at a time lose nothing") {
  const ScratchFolder folder;
  const std::string path = folder / "profiles.json";
  constexpr int64_t kEach = 40;
  std::vector<pid_t> writers;
  for (int64_t writer = 0; writer < 2; ++writer) {
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      int code = 0;
      try {
        const ProfileStore store(path, [](const std::string&) { ::_exit(3); });
        for (int64_t i = 0; i < kEach; ++i)
          store.update([&](Profiles& profiles) { learn(profiles, 1 + 2 * i + writer); });
      } catch (...) {
        code = 2;
      }
      ::_exit(code);
    }
    writers.push_back(pid);
  }
  for (const pid_t pid : writers) {
    int status = -1;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    CHECK(status == 0);
  }
  CHECK(Store(path).store.load().entries().size() == 2 * kEach);
}

TEST_CASE("a damaged or foreign file is set aside, said, and built anew") {
  const ScratchFolder folder;
  const std::string path = folder / "profiles.json";
  Store(path).store.update([](Profiles& profiles) { learn(profiles, 1); });
  const std::string whole = bytes_of(path);
  for (const std::string& bad : {whole.substr(0, whole.size() / 2), std::string("{\"format\": \"other\"}"),
                                 std::string("\x00\xff\x13", 3), std::string()}) {
    CAPTURE(bad);
    replace_bytes(path, bad);
    Store store(path);
    CHECK(store.store.load().entries().empty());
    REQUIRE(store.warnings.size() == 1);
    CHECK(store.warnings[0].find(path + ".bad") != std::string::npos);
    CHECK_FALSE(fs::exists(path));
    CHECK(bytes_of(path + ".bad") == bad);
    store.store.update([](Profiles& profiles) { learn(profiles, 2); });
    CHECK(store.store.load().entries().size() == 1);
    CHECK(store.warnings.size() == 1);
  }
  replace_bytes(path, "not json");
  Store store(path);
  store.store.update([](Profiles& profiles) { learn(profiles, 3); });  // noticed only when writing
  CHECK(store.warnings.size() == 1);
  CHECK(store.store.load().entries().size() == 1);
}

TEST_CASE("a place that cannot be written is an error that says where") {
  const ScratchFolder folder;
  replace_bytes(folder / "file", "");
  Store inside_file(folder / "file/profiles.json");
  const Error error = error_of([&] { inside_file.store.update([](Profiles&) {}); });
  CHECK(error.fault() == Fault::io);
  CHECK(error.message().find(folder / "file") != std::string::npos);
  Store nowhere("");
  CHECK(error_of([&] { nowhere.store.update([](Profiles&) {}); }).advice().find("ESTRAIN_PROFILES") !=
        std::string::npos);
}

TEST_CASE("a lock that is never given back ends in an error, not in waiting for ever") {
  const ScratchFolder folder;
  const std::string path = folder / "profiles.json";
  const UniqueFd held = open_file(path + ".lock", O_RDWR | O_CREAT);
  REQUIRE(::flock(held.get(), LOCK_EX) == 0);
  Store store(path);
  const Error error = error_of([&] { store.store.update([](Profiles&) {}); });
  CHECK(error.fault() == Fault::io);
  CHECK(error.message().find(".lock") != std::string::npos);
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("where the database is") {
  CHECK(default_store_path({{"HOME", "/h"}}) == "/h/.cache/estrain/profiles.json");
  CHECK(default_store_path({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/c"}}) == "/c/estrain/profiles.json");
  CHECK(default_store_path({{"HOME", "/h"}, {"XDG_CACHE_HOME", ""}}) == "/h/.cache/estrain/profiles.json");
  CHECK(default_store_path({{"XDG_CACHE_HOME", "/c"}, {"ESTRAIN_PROFILES", "/p.json"}}) == "/p.json");
  CHECK(default_store_path({}) == "");
}

}  // namespace
}  // namespace estrain::profile
