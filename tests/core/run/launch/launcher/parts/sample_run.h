#pragma once
// A run without processes, in a folder of its own, and the events that the run's parts have returned.

#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/json/json_lines.h"
#include "core/run/launch/launcher/launcher.h"
#include "core/state/comm/job_memory.h"
#include "tests/scratch_folder.h"

namespace estrain::launch {

struct SampleRun {
  ScratchFolder folder;
  std::vector<decisions::Event> events;
  std::unique_ptr<Run> run;

  explicit SampleRun(spec::JobSpec spec = {}) {
    LaunchPlan plan;
    plan.run = folder.path();
    plan.spec = std::move(spec);
    plan.spec.model.name = "mlp";
    plan.grace_seconds = 60;
    plan.lock = run_directory::RunDirectory(plan.run).lock(0s);
    run = std::make_unique<Run>(plan);
    run->state.times.ends.reset();
  }

  // Two workers train 2 + 1 of 3 ESTs. The shared memory is complete, with a ring of 4 records.
  void train(int64_t total_steps = 10) {
    checkpoint::Manifest manifest;
    manifest.ests = 3;
    manifest.total_steps = total_steps;
    comm::MemoryPlan plan;
    plan.manifest = manifest.to_json();
    plan.state_bytes = 64;
    plan.gradient_bytes = 64;
    plan.ests = 3;
    plan.parameters = 1;
    plan.ring_records = 4;
    comm::JobMemory memory(run->descriptors.memory.get());
    memory.lay_out(plan);
    memory.set_ready();
    run->memory.attach();
    add_worker("cpu", 0, 2);
    add_worker("cpu:avx2", 2, 3);
    run->job.phase = decisions::RunPhase::training;
  }

  void add_worker(const std::string& device, int64_t begin, int64_t end) {
    const decisions::WorkerId id(run->job.workers_started++);
    run->job.workers.push_back({.id = id,
                                .device = placement::devices_from({device}).front(),
                                .ests = {VirtualRank(begin), VirtualRank(end)}});
  }

  // Returns the events of that name in events.jsonl.
  std::vector<Json> logged(const std::string& name) const {
    std::vector<Json> found;
    for_each_object(run->journal.directory.events(), [&](const Json& event) {
      if (event.value("event", "") == name) found.push_back(event);
    });
    return found;
  }

  RunProcesses& processes() const { return run->state.processes; }

  // Takes down an event returned by a part; nothing: the part had none.
  void take(std::optional<decisions::Event> event) {
    if (event) events.push_back(std::move(*event));
  }
  // Returns the only event so far: it must be an E.
  template <typename E>
  E only() {
    REQUIRE(events.size() == 1);
    REQUIRE(std::holds_alternative<E>(events[0]));
    return std::get<E>(events[0]);
  }
};

}  // namespace estrain::launch
