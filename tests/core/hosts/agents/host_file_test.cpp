#include "core/hosts/agents/host_file.h"

#include <doctest/doctest.h>

#include <fstream>

#include "core/base/error.h"
#include "tests/scratch_folder.h"

namespace estrain::hosts {
namespace {

TEST_CASE("where an agent listens is read as it was written, and is gone with it") {
  const ScratchFolder run;
  write_host_file(run.path(), "nodeB", {"10.0.0.2:7000"});
  CHECK(read_host_file(run.path(), "nodeB").address == "10.0.0.2:7000");
  write_host_file(run.path(), "nodeB", {"10.0.0.2:7001"});
  CHECK(read_host_file(run.path(), "nodeB").address == "10.0.0.2:7001");
  remove_host_file(run.path(), "nodeB", {"10.0.0.2:7000"});  // of another agent
  remove_host_file(run.path(), "nodeB", {"10.0.0.2:7001", false});
  CHECK(read_host_file(run.path(), "nodeB").address == "10.0.0.2:7001");
  remove_host_file(run.path(), "nodeB", {"10.0.0.2:7001"});
  CHECK_THROWS_WITH_AS(read_host_file(run.path(), "nodeB"), doctest::Contains("no agent of host nodeB"), Error);
}

TEST_CASE("a file tells whether its agent sees the run directory; without a word, it does") {
  const ScratchFolder run;
  write_host_file(run.path(), "nodeB", {"10.0.0.2:7000", false});
  write_host_file(run.path(), "nodeC", {"10.0.0.3:7000"});
  CHECK_FALSE(read_host_file(run.path(), "nodeB").sees_run);
  CHECK(read_host_file(run.path(), "nodeC").sees_run);
  CHECK(read_host_file_if_sound(run.path(), "nodeC")->address == "10.0.0.3:7000");
  CHECK_FALSE(read_host_file_if_sound(run.path(), "nodeD"));
}

TEST_CASE("the names of all agents that have a file, in order") {
  const ScratchFolder run;
  CHECK(names_of_host_files(run.path()).empty());
  for (const char* name : {"nodeC", "nodeA", "node-1.cluster"}) write_host_file(run.path(), name, {"10.0.0.2:7000"});
  std::ofstream(run.path() + "/hosts/notes.txt") << "of somebody else";
  CHECK(names_of_host_files(run.path()) == std::vector<std::string>{"node-1.cluster", "nodeA", "nodeC"});
}

TEST_CASE("a file that names no address is told as such") {
  const ScratchFolder run;
  write_host_file(run.path(), "nodeB", {"x"});
  for (const char* text : {"{}", "[]", "{\"address\": \"\"}", "{\"address\": \"far.example:7000\"}",
                           "{\"address\": \"10.0.0.2\"}", "{\"addr", ""}) {
    CAPTURE(text);
    std::ofstream(run.path() + "/hosts/nodeB.json") << text;
    CHECK_THROWS_AS(read_host_file(run.path(), "nodeB"), Error);
  }
}

TEST_CASE("names of hosts lead nowhere else than to the folder of hosts") {
  for (const char* name : {"nodeB", "node-1.cluster", "n_1", "7"}) CHECK_NOTHROW(require_host_name(name));
  for (const char* name : {"", ".", "..", ".hidden", "../x", "a/b", "a b", "näme"}) {
    CAPTURE(name);
    CHECK_THROWS_AS(require_host_name(name), Error);
  }
  CHECK_NOTHROW(require_host_name(std::string(64, 'a')));
  CHECK_THROWS_AS(require_host_name(std::string(65, 'a')), Error);
}

}  // namespace
}  // namespace estrain::hosts
