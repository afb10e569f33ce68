#include "core/base/files/run_files.h"

#include <doctest/doctest.h>

namespace estrain {
namespace {

TEST_CASE("the files of a run directory keep their names: users and scripts go by them") {
  const RunFiles run("a/run");
  CHECK(run.path() == "a/run");
  CHECK(run.spec() == "a/run/job.toml");
  CHECK(run.changes() == "a/run/changes.jsonl");
  CHECK(run.algorithms() == "a/run/algorithms.jsonl");
  CHECK(run.checkpoints() == "a/run/checkpoints");
  CHECK(run.tensorboard() == "a/run/tensorboard");
  CHECK(run.traces() == "a/run/traces");
  CHECK(run.events() == "a/run/events.jsonl");
  CHECK(run.metrics() == "a/run/metrics.jsonl");
  CHECK(run.fingerprints() == "a/run/fingerprints");
  CHECK(run.open_metrics() == "a/run/metrics.prom");
  CHECK(run.verdict() == "a/run/verdict.json");
  CHECK(run.scribe_log() == "a/run/scribe.log");
  CHECK(run.courier_log() == "a/run/courier.log");
  CHECK(run.relay_log() == "a/run/relay.log");
  CHECK(run.worker_log(3) == "a/run/worker-3.log");
  CHECK(run.lock_file() == "a/run/lock");
  CHECK(run.control_socket() == "a/run/control.sock");
  CHECK(run.host_file("node-1") == "a/run/hosts/node-1.json");
  CHECK(run.network_key() == "a/run/network.key");
  CHECK(run.network_term() == "a/run/network.term");
}

}  // namespace
}  // namespace estrain
