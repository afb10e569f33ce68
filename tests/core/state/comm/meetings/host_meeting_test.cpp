#include "core/state/comm/meetings/host_meeting.h"

#include <doctest/doctest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <future>

#include "core/state/comm/job_memory.h"
#include "core/state/comm/stage_control.h"

namespace estrain::comm {
namespace {

using namespace std::chrono_literals;

struct OneStepMemory {
  UniqueFd fd = JobMemory::create();
  UniqueFd bell{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  JobMemory memory{fd.get()};
  OneStepMemory() {
    MemoryPlan plan;
    plan.manifest = "the manifest";
    plan.state_bytes = plan.gradient_bytes = 100;
    plan.ests = plan.parameters = plan.digests = 1;
    plan.ring_records = 4;
    memory.lay_out(plan);
    memory.set_ready();
    StageControl(memory).open();
  }

  // Step 1 as it stands when a worker asks whether it is whole everywhere.
  void write_step() {
    RecordHead& head = *memory.ring().pending().head;
    head.kind = RecordKind::step;
    head.step = Step(1);
    head.loss = 0.5;
    memory.commit().note_whole(Step(1), 0.1);
  }
};

TEST_CASE("who asks waits for the answer to that request") {
  OneStepMemory built;
  HostMeeting meeting = built.memory.hosts();
  CHECK(meeting.open_request().what == HostAsk::nothing);
  auto asked = std::async(std::launch::async, [&] { return meeting.ask(HostAsk::sums, Step(7), built.bell.get()); });
  uint64_t rung = 0;
  while (::read(built.bell.get(), &rung, sizeof rung) < 0) {
  }
  const HostRequest request = meeting.open_request();
  CHECK(request.what == HostAsk::sums);
  CHECK(request.step == Step(7));
  CHECK(asked.wait_for(50ms) == std::future_status::timeout);
  meeting.answer(request);
  CHECK(asked.get());
  CHECK(meeting.open_request().what == HostAsk::nothing);
}

TEST_CASE("nobody waits for a courier in a stage that is aborted, and the next stage begins without the request") {
  OneStepMemory built;
  HostMeeting meeting = built.memory.hosts();
  auto asked = std::async(std::launch::async, [&] { return meeting.ask(HostAsk::commit, Step(0), built.bell.get()); });
  CHECK(asked.wait_for(50ms) == std::future_status::timeout);
  StageControl(built.memory).abort();
  CHECK(!asked.get());
  CHECK(!meeting.ask(HostAsk::commit, Step(0), built.bell.get()));
  StageControl(built.memory).open();
  CHECK(meeting.open_request().what == HostAsk::nothing);
}

TEST_CASE("a step that all hosts have whole is committed though its worker died before it could") {
  OneStepMemory built;
  built.write_step();
  built.memory.hosts().agree(Step(1), false);
  StageControl(built.memory).abort();
  CHECK(StageControl(built.memory).repair() == 0);
  CHECK(built.memory.commit().committed() == Step(1));
  REQUIRE(built.memory.ring().published() == 1);
  CHECK(built.memory.ring().newest()->head->loss == 0.5);
  StageControl(built.memory).repair();  // once is enough
  CHECK(built.memory.ring().published() == 1);
}

TEST_CASE("a step that is whole here, and maybe not elsewhere, leaves no trace") {
  OneStepMemory built;
  built.write_step();
  StageControl(built.memory).abort();
  StageControl(built.memory).repair();
  CHECK(built.memory.commit().committed() == Step(0));
  CHECK(built.memory.ring().published() == 0);
  CHECK(built.memory.ring().pending().head->loss == 0);
}

}  // namespace
}  // namespace estrain::comm
