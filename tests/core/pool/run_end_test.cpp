#include "core/pool/run_end.h"

#include <doctest/doctest.h>

#include <csignal>

#include "tests/scratch_folder.h"

namespace estrain::pool {
namespace {

using How = dispatch::Ended::How;

TEST_CASE("how a run ended is known from its launcher, or else from its files") {
  const ScratchFolder run;
  const std::string log = run.write("train.log", "step 4\nestrain: data: no such file\nlast good step: 3\n");
  const auto end = [&](const std::string& events, std::optional<ChildEnd> ended) {
    run.write("events.jsonl", events);
    return run_end(run.path(), ended, log);
  };
  const std::string start = "{\"event\": \"start\"}\n";
  CHECK(end(start, ChildEnd{false, 0, 0}).how == How::done);
  CHECK(end(start, ChildEnd{false, 75, 0}).how == How::stopped);
  CHECK(end(start, ChildEnd{true, SIGKILL, 0}).how == How::vanished);
  CHECK(end(start, std::nullopt).how == How::vanished);
  CHECK(end(start + "{\"event\": \"finished\"}\n", std::nullopt).how == How::done);
  CHECK(end(start + "{\"event\": \"stopped\", \"why\": \"x\"}\n", std::nullopt).how == How::stopped);
  CHECK(end(start + "{\"event\": \"stopped\", \"step\": 7}\n", std::nullopt).step == 7);
  CHECK(end(start + "{\"event\": \"stopped\", \"step\": 8}\n", ChildEnd{false, 75, 0}).step == 8);
  // A launch after the stop, of which nothing is known.
  CHECK(end("{\"event\": \"stopped\"}\n" + start, std::nullopt).how == How::vanished);
  const std::string failed = start + "{\"event\": \"failed\", \"error\": \"x\", \"cause\": ";
  const dispatch::Ended users = end(failed + "\"incorrect_inputs\"}\n", std::nullopt);
  CHECK(users.how == How::failed);
  CHECK(users.reason == "incorrect_inputs: data: no such file");
  CHECK(end(failed + "\"storage_error\"}\n", ChildEnd{false, 1, 0}).how == How::faulty);
  CHECK(end("", ChildEnd{false, 2, 0}).how == How::failed);
}

TEST_CASE("last words are what was said to the user last") {
  const ScratchFolder folder;
  CHECK(last_words(folder / "none") == "");
  CHECK(last_words(folder.write("a", "estrain: one\nestrain: two\nadvice\n")) == "two");
}

}  // namespace
}  // namespace estrain::pool
