#include <doctest/doctest.h>

#include "core/base/files/files.h"
#include "core/inspect/watch/watch.h"
#include "core/state/record/logs/metrics.h"
#include "tests/core/state/record/sample_records.h"
#include "tests/scratch_folder.h"

namespace estrain::watch {
namespace {

TEST_CASE("what is added to a run's files is read on") {
  const ScratchFolder folder;
  Records records(folder.path());
  records.follow();
  CHECK(records.losses().empty());
  record::MetricsWriter metrics(folder / "metrics.jsonl", Step(0));
  metrics.append(record::sample_records(1, 10));
  append_line(folder / "events.jsonl",
              R"({"time":"2031-05-04T10:00:00.000Z","event":"start","step":0,"devices":"cpu"})");
  records.follow();
  CHECK(records.losses().last_step() == 10);
  REQUIRE(records.events().size() == 1);
  CHECK(records.events()[0].event == "start");
  metrics.append(record::sample_records(11, 20));
  records.follow();
  CHECK(records.losses().spans().size() == 20);
}

TEST_CASE("a resume that goes back is followed") {
  const ScratchFolder folder;
  Records records(folder.path());
  record::MetricsWriter(folder / "metrics.jsonl", Step(0)).append(record::sample_records(1, 20));
  records.follow();
  record::MetricsWriter(folder / "metrics.jsonl", Step(5)).append(record::sample_records(6, 8));
  records.follow();
  CHECK(records.losses().last_step() == 8);
  CHECK(records.losses().spans().size() == 8);
}

TEST_CASE("damage is passed over") {
  const ScratchFolder folder;
  Records records(folder.path());
  record::MetricsWriter(folder / "metrics.jsonl", Step(0)).append(record::sample_records(1, 3));
  replace_bytes(folder / "metrics.jsonl", std::string(5, '\0') + "\n" + bytes_of(folder / "metrics.jsonl") + "{\"torn");
  replace_bytes(folder / "events.jsonl", "[]\nx\n{\"event\":\"start\"}\n{\"torn");
  records.follow();
  CHECK(records.losses().spans().size() == 3);
  CHECK(records.events().size() == 1);
}

}  // namespace
}  // namespace estrain::watch
