#include "core/state/comm/messages/worker_arguments.h"

#include <doctest/doctest.h>

#include "tests/error_of.h"

namespace estrain::comm {
namespace {

TEST_CASE("a worker's arguments come back from the words that its program is called with") {
  const WorkerArguments given{.run = "a run/\xff",
                              .options = R"({"device":"cpu"})",
                              .checkpoint = "--strange name",
                              .spec = 0,
                              .library = -1,
                              .memory = 17,
                              .socket = 3,
                              .doorbell = 4,
                              .courier = 12};
  std::vector<std::string> words = given.words();
  CHECK(words.size() == 1 + 2 * 8);  // the library is not given
  words.insert(words.begin(), "/bin/estrain");
  const WorkerArguments read = WorkerArguments::parse(words);
  CHECK(read.run == given.run);
  CHECK(read.options == given.options);
  CHECK(read.checkpoint == given.checkpoint);
  CHECK(read.spec == 0);
  CHECK(read.library == -1);
  CHECK(read.memory == 17);
  CHECK(read.socket == 3);
  CHECK(read.doorbell == 4);
  CHECK(read.courier == 12);
}

TEST_CASE("words of another program are refused") {
  using Words = std::vector<std::string>;
  for (const Words& words :
       {Words{}, Words{"estrain"}, Words{"estrain", "scribe"}, Words{"estrain", "worker", "--spec"},
        Words{"estrain", "worker", "--spec", "3x"}, Words{"estrain", "worker", "--spec", ""},
        Words{"estrain", "worker", "--colour", "3", "--spec", "3"}}) {
    CAPTURE(words.size());
    CHECK(error_of([&] { WorkerArguments::parse(words); }).fault() == Fault::bug);
  }
}

}  // namespace
}  // namespace estrain::comm
