#include "core/state/algorithms/pinning.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files/files.h"
#include "tests/core/state/algorithms/fake_algorithms.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::algorithms {
namespace {

TEST_CASE("a key is the operation and its fields, sorted, in whatever order they were set") {
  Key key("convolution_forward");
  key.set("stride", "2x2").set("element", "f32").set("input", "8x3x224x224").set("groups", "1");
  CHECK(key.text() == "convolution_forward element=f32 groups=1 input=8x3x224x224 stride=2x2");
  Key other("convolution_forward");
  other.set("groups", "1").set("input", "8x3x224x224").set("element", "f32").set("stride", "2x2");
  CHECK(other.text() == key.text());
  CHECK(Key("product").set("offset", "-1").text() == "product offset=-1");
}

TEST_CASE("a key holds nothing that would leave open where a field ends") {
  CHECK(error_of([] { Key("a b"); }).fault() == Fault::bug);
  CHECK(error_of([] { Key("a").set("x=y", "1"); }).fault() == Fault::bug);
  CHECK(error_of([] { Key("a").set("x", "1 y=2"); }).fault() == Fault::bug);
  CHECK(error_of([] { Key("a").set("x", ""); }).fault() == Fault::bug);
}

const Key kKey = Key("product").set("m", "7");
constexpr const char* kHere = "NVIDIA H200, sm_90";
constexpr const char* kElsewhere = "NVIDIA A100, sm_80";

// The files of a run and a user.
struct Files {
  ScratchFolder folder;
  std::string run = folder.path() + "/run/algorithms.jsonl", store = folder.path() + "/cache/algorithms.jsonl";

  PinnedAlgorithms pinned(const char* device = kHere, bool may_replace = false) const {
    return PinnedAlgorithms({.run = run, .store = store, .may_replace = may_replace}, device, "fake 1");
  }
};

TEST_CASE("the fastest is chosen; of those that are as fast the first") {
  const auto choose = [](FakeAlgorithms fake) {
    return fastest(fake.candidates([] {}),
                   [&](const std::string& name, double best) { return fake.seconds(name, best); });
  };
  CHECK(choose(FakeAlgorithms({{"1", 3.0}, {"2", 1.0}, {"3", 2.0}})) == "2");
  CHECK(choose(FakeAlgorithms({{"1", 1.5}, {"2", 1.02}, {"3", 1.0}})) == "2");
  CHECK(choose(FakeAlgorithms({{"1", std::nullopt}, {"2", 9.0}})) == "2");
  CHECK(choose(FakeAlgorithms({{"1", std::nullopt}})).empty());
  CHECK(choose(FakeAlgorithms({})).empty());
  FakeAlgorithms told({{"1", 3.0}, {"2", 1.0}, {"3", 2.0}, {"4", 1.0}});
  fastest(told.candidates([] {}), [&](const std::string& name, double best) { return told.seconds(name, best); });
  CHECK(told.bests == std::vector<double>{std::numeric_limits<double>::infinity(), 3.0, 1.0, 1.0});
}

TEST_CASE("an algorithm is chosen once, then kept: by this process, another worker, a restart") {
  Files files;
  FakeAlgorithms first({{"1", 3.0}, {"2", 1.0}}), then({{"1", 1.0}, {"2", 3.0}});
  PinnedAlgorithms worker = files.pinned(), another = files.pinned();
  CHECK(worker.algorithm_for(kKey, first) == "2");
  CHECK(worker.algorithm_for(kKey, then) == "2");
  CHECK(another.algorithm_for(kKey, then) == "2");
  CHECK(files.pinned().algorithm_for(kKey, then) == "2");
  CHECK(then.listed == 0);
  CHECK(first.measured == 2);
  CHECK(files.pinned().algorithm_for(Key("product").set("m", "8"), then) == "1");  // another operation
  CHECK(ChoiceFile(files.run).read().size() == 2);
}

TEST_CASE("a run takes up what an earlier one chose on the same type of device, and no other") {
  Files files;
  FakeAlgorithms first({{"1", 3.0}, {"2", 1.0}}), then({{"1", 1.0}, {"2", 3.0}});
  files.pinned().algorithm_for(kKey, first);
  std::filesystem::remove(files.run);
  CHECK(files.pinned().algorithm_for(kKey, then) == "2");
  CHECK(then.measured == 0);
  CHECK(ChoiceFile(files.run).read().find(kKey.text(), kHere)->algorithm == "2");
  std::filesystem::remove(files.run);
  CHECK(files.pinned(kElsewhere).algorithm_for(kKey, then) == "1");
  CHECK(ChoiceFile(files.store).read().size() == 2);
}

TEST_CASE("what an earlier run chose and the library no longer has is chosen anew") {
  Files files;
  FakeAlgorithms first({{"1", 3.0}, {"2", 1.0}}), then({{"1", 1.0}, {"3", 3.0}});
  files.pinned().algorithm_for(kKey, first);
  std::filesystem::remove(files.run);
  CHECK(files.pinned().algorithm_for(kKey, then) == "1");
  CHECK(ChoiceFile(files.store).read().find(kKey.text(), kHere)->algorithm == "1");
}

TEST_CASE(
    "an algorithm of the run that the device does not have is refused by name, or replaced where that was asked") {
  Files files;
  FakeAlgorithms there({{"4", 1.0}}), here({{"1", 1.0}});
  files.pinned(kElsewhere).algorithm_for(kKey, there);
  const Error error = error_of([&] { files.pinned().algorithm_for(kKey, here); });
  CHECK(error.fault() == Fault::infeasible);
  for (const char* part : {"product m=7", "\"4\"", kElsewhere, kHere, "there is no 4", "fake 1"}) {
    CAPTURE(part);
    CHECK(error.message().find(part) != std::string::npos);
  }
  CHECK(error.advice().find("--allow-mixed") != std::string::npos);
  CHECK(files.pinned(kHere, true).algorithm_for(kKey, here) == "1");
  CHECK(files.pinned(kHere).algorithm_for(kKey, here) == "1");        // this device's own now
  CHECK(files.pinned(kElsewhere).algorithm_for(kKey, there) == "4");  // and still the other's
}

TEST_CASE("an algorithm of the run that was measured on another device is used where there is one") {
  Files files;
  FakeAlgorithms there({{"1", 2.0}, {"2", 1.0}}), here({{"1", 1.0}, {"2", 2.0}});
  files.pinned(kElsewhere).algorithm_for(kKey, there);
  CHECK(files.pinned(kHere).algorithm_for(kKey, here) == "2");
  CHECK(files.pinned(kHere, true).algorithm_for(kKey, here) == "2");
}

TEST_CASE("where no candidate runs, all workers know; a later run tries again") {
  Files files;
  FakeAlgorithms none({{"1", std::nullopt}}), some({{"1", 1.0}});
  CHECK(files.pinned().algorithm_for(kKey, none).empty());
  CHECK(files.pinned().algorithm_for(kKey, some).empty());
  std::filesystem::remove(files.run);
  CHECK(files.pinned().algorithm_for(kKey, some) == "1");
}

const std::exception_ptr kOutOfMemory = std::make_exception_ptr(Error(Fault::infeasible, "out of memory"));

TEST_CASE("where none ran for a reason that may pass, nothing is written down") {
  Files files;
  FakeAlgorithms none({{"1", std::nullopt}}), some({{"1", 1.0}});
  none.met = kOutOfMemory;
  CHECK(error_of([&] { files.pinned().algorithm_for(kKey, none); }).fault() == Fault::infeasible);
  CHECK(files.pinned().algorithm_for(kKey, some) == "1");
}

TEST_CASE("what was chosen while memory was short is the run's alone") {
  Files files;
  std::vector<std::string> warnings;
  FakeAlgorithms short_of_memory({{"1", std::nullopt}, {"2", 2.0}}), all({{"1", 1.0}, {"2", 2.0}});
  short_of_memory.met = kOutOfMemory;
  PinnedAlgorithms pinned(
      {.run = files.run, .store = files.store, .warn = [&](const std::string& what) { warnings.push_back(what); }},
      kHere, "fake 1");
  CHECK(pinned.algorithm_for(kKey, short_of_memory) == "2");
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("for lack of memory") != std::string::npos);
  CHECK(files.pinned().algorithm_for(kKey, all) == "2");
  std::filesystem::remove(files.run);
  CHECK(files.pinned().algorithm_for(kKey, all) == "1");
}

TEST_CASE("another version of the libraries: the run's choices are used with one warning, the store's chosen anew") {
  Files files;
  FakeAlgorithms before({{"1", 1.0}, {"2", 2.0}}), now({{"1", 2.0}, {"2", 1.0}});
  const Key other = Key("product").set("m", "8");
  for (const Key& key : {kKey, other}) CHECK(files.pinned().algorithm_for(key, before) == "1");
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& what) { warnings.push_back(what); };
  PinnedAlgorithms pinned({.run = files.run, .store = files.store, .warn = warn}, kHere, "fake 2");
  for (const Key& key : {kKey, other}) CHECK(pinned.algorithm_for(key, now) == "1");
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("chosen with fake 1, and from now on run with fake 2") != std::string::npos);
  std::filesystem::remove(files.run);
  PinnedAlgorithms later({.run = files.run, .store = files.store, .warn = warn}, kHere, "fake 2");
  CHECK(later.algorithm_for(kKey, now) == "2");
  CHECK(warnings.size() == 1);
}

TEST_CASE("a library of which nothing can be used is warned of once, one that has nothing not at all") {
  Files files;
  FakeAlgorithms none({});
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& what) { warnings.push_back(what); };
  PinnedAlgorithms pinned({.run = files.run, .warn = warn}, kHere, "fake 1");
  CHECK(pinned.algorithm_for(kKey, none) == "");
  CHECK(warnings.empty());
  none.objected = "it is odd";
  for (const char* m : {"8", "9"}) CHECK(pinned.algorithm_for(Key("product").set("m", m), none) == "");
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].starts_with("product m=8: none of the library's algorithms is usable"));
  CHECK(warnings[0].ends_with("it is odd"));
}

TEST_CASE("a checkpoint's choices win over the run's file and the store") {
  Files files;
  FakeAlgorithms fake({{"1", 1.0}, {"2", 2.0}});
  const Key other = Key("product").set("m", "8");
  files.pinned().algorithm_for(kKey, fake);
  files.pinned().algorithm_for(other, fake);
  Choices checkpoint;
  checkpoint.put({kKey.text(), kHere, "2", "fake 0"});
  adopt(files.run, checkpoint.to_text(), "step-000000001.h5");
  CHECK(files.pinned().algorithm_for(kKey, fake) == "2");
  CHECK(files.pinned().algorithm_for(other, fake) == "1");
  const std::string text = read_file(files.run);
  adopt(files.run, checkpoint.to_text(), "step-000000001.h5");
  CHECK(read_file(files.run) == text);
  adopt(files.run + ".new", "", "step-000000001.h5");
  CHECK(!std::filesystem::exists(files.run + ".new"));
}

TEST_CASE("a store that cannot be used is told of, and left out; a run's file that is damaged ends the run") {
  Files files;
  make_folders(files.folder.path() + "/cache");
  write_file_atomically(files.store, "{\n");
  std::vector<std::string> warnings;
  FakeAlgorithms fake({{"1", 1.0}});
  PinnedAlgorithms pinned(
      {.run = files.run, .store = files.store, .warn = [&](const std::string& what) { warnings.push_back(what); }},
      kHere, "fake 1");
  CHECK(pinned.algorithm_for(kKey, fake) == "1");
  CHECK(pinned.algorithm_for(Key("product").set("m", "8"), fake) == "1");
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find(files.store + ":1") != std::string::npos);
  CHECK(read_file(files.store) == "{\n");
  std::ofstream(files.run, std::ios::app) << "damage\n";
  const Error error = error_of([&] { files.pinned().algorithm_for(kKey, fake); });
  CHECK(error.fault() == Fault::corrupt);
  CHECK(error.message().find(files.run + ":3") != std::string::npos);
}

TEST_CASE("a line that a crash left unfinished is written over") {
  Files files;
  FakeAlgorithms fake({{"1", 1.0}});
  files.pinned().algorithm_for(kKey, fake);
  std::ofstream(files.run, std::ios::app) << R"({"key": "prod)";
  files.pinned().algorithm_for(Key("product").set("m", "8"), fake);
  CHECK(ChoiceFile(files.run).read().size() == 2);
}

TEST_CASE("who waits for another's choice is at work all the time, and may give up") {
  Files files;
  FakeAlgorithms fake({{"1", 1.0}});
  ChoiceFile file(files.run);
  int beats = 0;
  PinnedAlgorithms pinned({.run = files.run,
                           .beat =
                               [&] {
                                 if (++beats == 3) throw Error(Fault::interrupted, "enough");
                               }},
                          kHere, "fake 1");
  {
    const ChoiceFile::Held held = file.hold({});
    CHECK(error_of([&] { pinned.algorithm_for(kKey, fake); }).fault() == Fault::interrupted);
  }
  CHECK(pinned.algorithm_for(kKey, fake) == "1");
}

TEST_CASE("who chooses is at work all the time: while candidates are listed, before each of them, and at the end") {
  Files files;
  FakeAlgorithms fake({{"1", 1.0}, {"2", 1.0}});
  int beats = 0;
  PinnedAlgorithms pinned({.run = files.run, .beat = [&] { ++beats; }}, kHere, "fake 1");
  pinned.algorithm_for(kKey, fake);
  CHECK(beats == 4);
}

TEST_CASE("what a file has is found there while another holds it") {
  Files files;
  FakeAlgorithms fake({{"1", 1.0}});
  files.pinned().algorithm_for(kKey, fake);
  const auto waiting = [] { throw Error(Fault::interrupted, "it waits"); };
  const auto patient = [&] {
    return PinnedAlgorithms({.run = files.run, .store = files.store, .beat = waiting}, kHere, "fake 1");
  };
  ChoiceFile store(files.store), run(files.run);
  const ChoiceFile::Held held_store = store.hold({});
  {
    const ChoiceFile::Held held = run.hold({});
    CHECK(patient().algorithm_for(kKey, fake) == "1");
  }
  std::filesystem::remove(files.run);
  CHECK(patient().algorithm_for(kKey, fake) == "1");
  CHECK(fake.measured == 1);
}

TEST_CASE("what is added to a file is seen without holding it; damage there is as if it were not yet written") {
  Files files;
  FakeAlgorithms fake({{"1", 1.0}, {"2", 2.0}});
  ChoiceFile file(files.run);
  CHECK(file.look().empty());
  files.pinned().algorithm_for(kKey, fake);
  CHECK(file.look().size() == 1);
  std::ofstream(files.run, std::ios::app) << R"({"key": "prod)";
  CHECK(file.look().size() == 1);
  std::ofstream(files.run, std::ios::app) << "\n";
  CHECK(file.look().size() == 1);
}

// The holder adds choices while the other waits, called from its own beat.
TEST_CASE("patience with who holds the store lasts as long as choices are added to it") {
  constexpr int64_t patience = 200'000'000;
  Files files;
  std::vector<std::string> warnings;
  const auto wait_for_store = [&](bool adds) {
    ChoiceFile store(files.store);
    std::optional<ChoiceFile::Held> held(store.hold({}));
    const int64_t until = monotonic_ns() + 4 * patience;
    int added = 0;
    const auto beat = [&] {
      if (held && monotonic_ns() > until) held.reset();
      if (held && adds) held->add({"product m=" + std::to_string(++added), kElsewhere, "1", "fake 1"});
    };
    PinnedAlgorithms pinned({.run = files.run,
                             .store = files.store,
                             .patience_ns = patience,
                             .beat = beat,
                             .warn = [&](const std::string& what) { warnings.push_back(what); }},
                            kHere, "fake 1");
    FakeAlgorithms fake({{"1", 1.0}});
    pinned.algorithm_for(kKey, fake);
    std::filesystem::remove(files.run);
  };
  wait_for_store(false);
  CHECK(warnings.size() == 1);
  CHECK(ChoiceFile(files.store).read().find(kKey.text(), kHere) == nullptr);
  wait_for_store(true);
  CHECK(warnings.size() == 1);
  CHECK(ChoiceFile(files.store).read().find(kKey.text(), kHere) != nullptr);
}

TEST_CASE("who holds a file again and again lets others have their turn") {
  Files files;
  ChoiceFile greedy(files.run), modest(files.run);
  std::atomic<bool> begun = false, had_its_turn = false;
  int rounds = 0;
  std::thread other([&] {
    while (!begun) std::this_thread::yield();
    const ChoiceFile::Held held = modest.hold({});
    had_its_turn = true;
  });
  for (; rounds < 50 && !had_its_turn; ++rounds) {
    const ChoiceFile::Held held = greedy.hold({});
    begun = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  other.join();
  CHECK(rounds < 10);
}

// Each process would choose differently.
TEST_CASE("processes that meet operations at the same time agree, within a run and between runs") {
  constexpr int kProcesses = 6, kKeys = 40;
  Files files;
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        const std::string run = files.run + (process % 2 == 0 ? "" : "-other");
        PinnedAlgorithms pinned({.run = run, .store = files.store}, kHere, "fake 1");
        std::ofstream seen(files.folder.path() + "/seen-" + std::to_string(process));
        for (int key = 0; key < kKeys; ++key) {
          std::vector<std::pair<std::string, std::optional<double>>> all;
          for (int i = 0; i < kProcesses; ++i) all.emplace_back(std::to_string(i), i == process ? 1.0 : 2.0);
          FakeAlgorithms fake(all);
          const Key one = Key("product").set("m", std::to_string((key * 7 + process * 11) % kKeys));
          seen << one.text() << " " << pinned.algorithm_for(one, fake) << "\n";
        }
      } catch (...) {
        ::_exit(1);
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  const Choices run = ChoiceFile(files.run).read(), other = ChoiceFile(files.run + "-other").read();
  CHECK(run.size() == kKeys);
  CHECK(run == other);
  CHECK(run == ChoiceFile(files.store).read());
  for (int process = 0; process < kProcesses; ++process) {
    std::ifstream seen(files.folder.path() + "/seen-" + std::to_string(process));
    std::string operation, field, algorithm;
    int lines = 0;
    for (; seen >> operation >> field >> algorithm; ++lines)
      CHECK(run.find(operation + " " + field, kHere)->algorithm == algorithm);
    CHECK(lines == kKeys);
  }
}

TEST_CASE("the store stands beside the database of profiles") {
  CHECK(store_beside("/home/me/.cache/estrain/profiles.json") == "/home/me/.cache/estrain/profiles-algorithms.jsonl");
  CHECK(store_beside("").empty());
}

}  // namespace
}  // namespace estrain::algorithms
