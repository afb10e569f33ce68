#include "core/state/run_directory/batch_changes.h"

#include <doctest/doctest.h>

#include "core/base/files/files.h"
#include "core/base/json/json.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::run_directory {
namespace {

spec::JobSpec adaptive_spec() {
  spec::JobSpec spec;
  spec.model.name = "mlp";
  spec.train.steps = 9;
  spec.elastic.batch = spec::BatchMode::adaptive;
  return spec;
}

const std::string kData = "{\"change\":\"data\",\"step\":4,\"words\":\"x\"}\n";
const BatchChanges kTwo = {{3, 8, 0.1}, {7, 16, 1.5}};

TEST_CASE("a log gives back its changes, and keeps lines of other kinds in their place") {
  const std::string log = with_batch_changes(kData, kTwo);
  CHECK(batch_changes_in(log) == kTwo);
  CHECK(log.find(kData) == log.find('\n') + 1);
  CHECK(with_batch_changes(log, kTwo) == log);
  CHECK(with_batch_changes(log, {}) == kData);
  CHECK(with_batch_changes(kData, kTwo, log) == log);
}

TEST_CASE("damaged and senseless lines are none") {
  const std::string sound = with_batch_changes("", {{3, 8, 1}});
  for (const char* line :
       {"", "{", "[]", R"({"change":"batch","step":4,"batch":0,"lr_factor":1})",
        R"({"change":"batch","step":-1,"batch":2,"lr_factor":1})",
        R"({"change":"batch","step":4,"batch":2,"lr_factor":0})",
        R"({"change":"batch","step":"4","batch":2,"lr_factor":1})", R"({"change":"batch","step":4})"}) {
    CAPTURE(line);
    CHECK(batch_changes_in(std::string(line) + "\n" + sound) == BatchChanges{{3, 8, 1}});
  }
  CHECK(batch_changes_in(sound.substr(0, sound.size() - 1)).empty());  // cut short
}

TEST_CASE("of two changes after one step the later one counts") {
  BatchChanges changes = kTwo;
  batches::add_change(changes, {7, 4, 1});
  batches::add_change(changes, {5, 2, 1});
  CHECK(changes == BatchChanges{{3, 8, 0.1}, {5, 2, 1}, {7, 4, 1}});
}

TEST_CASE("what a change leaves out stays as it is in force") {
  spec::JobSpec spec = adaptive_spec();
  spec.elastic.changes = kTwo;
  CHECK(changed(spec, Step(2), std::nullopt, 2) == batches::BatchChange{2, 32, 2});
  CHECK(changed(spec, Step(3), 5, std::nullopt) == batches::BatchChange{3, 5, 0.1});
  CHECK(changed(spec, Step(9), std::nullopt, std::nullopt) == batches::BatchChange{9, 16, 1.5});
}

TEST_CASE("a recorded change is in the log and in job.toml") {
  const ScratchFolder folder;
  const RunDirectory directory(folder.path());
  record_batch_change(directory, adaptive_spec(), kTwo[1]);
  record_batch_change(directory, adaptive_spec(), kTwo[0]);
  CHECK(batch_changes_in(read_file(directory.changes())) == kTwo);
  CHECK(directory.read_spec().elastic.changes == kTwo);
  CHECK(directory.read_spec().elastic.batch == spec::BatchMode::adaptive);
}

TEST_CASE("only a job that allows it is changed") {
  CHECK_NOTHROW(require_changeable(adaptive_spec()));
  CHECK(error_of([] { require_changeable({}); }).fault() == Fault::usage);
}

}  // namespace
}  // namespace estrain::run_directory
