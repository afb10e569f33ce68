#include "core/pool/change_cost.h"

#include <doctest/doctest.h>

#include "tests/scratch_folder.h"

namespace estrain::pool {
namespace {

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
