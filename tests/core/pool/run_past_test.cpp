#include "core/pool/run_past.h"

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

TEST_CASE("a change that nobody heard of has its cost on record, unless it is of an earlier request") {
  const ScratchFolder run;
  CHECK(change_cost(run.path(), 1000) == 0);
  run.write("events.jsonl", R"({"time": "1970-01-01T00:16:40.500Z", "event": "resize", "stood_still_seconds": 0.25}
{"time": "1970-01-01T00:20:00.000Z", "event": "resize", "stood_still_seconds": 0.5, "lost_while_warming_seconds": 1.5}
{"time": "1970-01-01T00:20:01.000Z", "event": "rebalance", "stood_still_seconds": 9}
)");
  CHECK(change_cost(run.path(), 1000) == 2);
  CHECK(change_cost(run.path(), 1200) == 2);
  CHECK(change_cost(run.path(), 1200.001) == 0);
  CHECK(change_cost(run.path(), 0) == 0);  // it was never asked
}

}  // namespace
}  // namespace estrain::pool
