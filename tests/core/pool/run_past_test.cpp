#include "core/pool/run_past.h"

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>

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

TEST_CASE("a failure tells its cause, the cause's class and all files of the job that it names") {
  const ScratchFolder folder;
  for (const char* name : {"run", "my train"}) std::filesystem::create_directory(folder / name);
  const std::string train = folder.write("my train/a b.tar", "x"), test = folder.write("test.h5", "x"),
                    last = folder.write("my train/last one.tar", "x"),
                    log = folder.write("train.log", "estrain: worker 0: " + test + ": truncated\n");
  const auto end = [&](const std::string& cause, std::optional<ChildEnd> ended) {
    folder.write("run/events.jsonl", "{\"event\": \"start\"}\n{\"event\": \"failed\", \"error\": \"" + train +
                                         " became shorter while it was in use, and " + test + ": truncated\", " +
                                         cause + "}\n");
    return run_end(folder / "run", ended, log, {folder / "my train", test, folder / "other"});
  };
  const dispatch::Ended ended = end("\"cause\": \"data_file_shortened\"", ChildEnd{false, 1, 0});
  CHECK(ended.cause == "data_file_shortened");
  CHECK(ended.fault_class == "user");
  CHECK(ended.files == std::vector<std::string>{train, test});
  const dispatch::Ended by_signal =
      end("\"cause\": \"data_file_shortened\", \"evidence\": \"SIGBUS; its log says \\\"data file " + last +
              " became shorter\\\"\"",
          ChildEnd{false, 1, 0});
  CHECK(by_signal.files == std::vector<std::string>{train, last, test});
  // A rule of the user's own.
  const dispatch::Ended own = end("\"cause\": \"license_gone\", \"class\": \"user\"", ChildEnd{false, 1, 0});
  CHECK(own.cause == "license_gone");
  CHECK(own.fault_class == "user");
  CHECK(end("\"cause\": \"hung\"", std::nullopt).fault_class == "infrastructure");
  const dispatch::Ended killed = end("\"cause\": \"hung\"", ChildEnd{true, SIGKILL, 0});
  CHECK(killed.how == How::vanished);
  CHECK(killed.cause == "killed");
  CHECK(killed.fault_class == "infrastructure");
  CHECK(killed.files.empty());
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
