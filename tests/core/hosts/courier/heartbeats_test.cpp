#include "core/hosts/courier/heartbeats.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "core/base/clock.h"
#include "core/base/files/unique_fd.h"
#include "core/state/comm/job_memory.h"
#include "core/state/comm/stage_control.h"
#include "tests/core/hosts/pretended_connection.h"
#include "tests/core/hosts/small_memory.h"

namespace estrain::hosts {
namespace {

HostLinks::Options options_of(const std::string& own) {
  net::Greeting greeting;
  greeting.host = own;
  return {.key = net::SharedKey({}),
          .own = greeting,
          .connected = [](const std::string&) {},
          .lost = [](const std::string&, const Error&, bool) {},
          .message = [](const std::string&, const CourierMessage&) {},
          .measured = [](const std::string&, double, double) {},
          .landing = [](const std::string&, const net::FrameHead&) { return Landing{}; }};
}

TEST_CASE("a host sends beats to its coordinator ten times a second, and tries another host every ten seconds") {
  net::Loop loop;
  HostLinks links(loop, options_of("b"));
  const UniqueFd memory = comm::JobMemory::create();
  Holding holding(memory.get());
  RunningStage stage(loop, links, [](const Error&) {});
  Heartbeats beats(links, holding, stage, false);
  const auto coordinator = std::make_shared<Pretended>(0, ""), other = std::make_shared<Pretended>(0, "c");
  for (const auto& connection : {coordinator, other}) links.take(connection);
  for (int tick = 1; tick <= 2'500; ++tick) {
    beats.send_in_time();
    CHECK(coordinator->heard_frames[beat] == tick / 10);
    CHECK(other->heard_frames[bulk] == tick / 1'000);
  }
  CHECK(coordinator->heard_frames[bulk] == 0);
  CHECK(other->heard_frames[beat] == 0);
}

// A host of a stage of three hosts: "", "h1" with two workers, and "h2". A worker has one EST.
struct BeatingHost {
  explicit BeatingHost(const std::string& own)
      : links(loop, options_of(own)), beats(links, holding, stage, own.empty()) {
    lay_out_small(memory, 4);
    comm::StageControl(memory).open();
    HostPlan plan;
    plan.stage = 7;
    int64_t rank = 0;
    for (const char* name : {"", "h1", "h2"}) {
      if (own == name) plan.own = plan.hosts.size();
      HostShare& host = plan.hosts.emplace_back();
      host.name = name;
      for (int worker = 0; worker < (host.name == "h1" ? 2 : 1); ++worker, ++rank)
        host.workers.push_back({VirtualRank(rank), VirtualRank(rank + 1)});
    }
    stage.begin(memory, plan);
    beats.begin_stage();
  }
  // Publishes the records of this many steps.
  void train(int64_t steps) {
    for (const int64_t end = trained + steps; trained < end;) {
      comm::RecordHead& head = *memory.ring().pending().head;
      head.kind = comm::RecordKind::step;
      head.step = Step(++trained);
      REQUIRE(memory.ring().publish());
    }
  }
  // Takes the frame from a host. Returns whether it asks for the payload.
  bool take(const std::string& from, const Pretended::Frame& frame) {
    const Landing landing = beats.landing(from, frame.head);
    if (landing.at.empty()) return false;
    REQUIRE(landing.at.size() == frame.payload.size());
    std::memcpy(landing.at.data(), frame.payload.data(), frame.payload.size());
    landing.arrived();
    return true;
  }

  net::Loop loop;
  UniqueFd fd = comm::JobMemory::create();
  comm::JobMemory memory{fd.get()};
  HostLinks links;
  Holding holding{fd.get()};
  RunningStage stage{loop, links, [](const Error&) {}};
  int64_t trained = 0;
  Heartbeats beats;
};

// Returns the frame by which the host tells the coordinator about its workers.
Pretended::Frame beat_of(BeatingHost& host) {
  const auto coordinator = std::make_shared<Pretended>(0, "");
  host.links.take(coordinator);
  host.beats.send();
  return coordinator->last[beat];
}

TEST_CASE("the coordinator sees the signs of life of other hosts' workers, in all activities, as on its own host") {
  BeatingHost there("h1"), here("");
  for (uint32_t activity = 0; activity <= static_cast<uint32_t>(comm::Activity::waiting_for_room); ++activity) {
    const int64_t now = monotonic_ns();
    for (const int64_t rank : {1, 2}) {
      comm::WorkerPulse& pulse = there.memory.pulse(WorkerRank(rank));
      pulse.beat(static_cast<comm::Activity>(activity), now - rank * 1'000'000'000);
      pulse.computing_ns = 10 * rank;
      pulse.mini_batches = 20 * rank + activity;
      pulse.reading_ns = 30 * rank;
      pulse.measured_steps = 40 * rank;
      pulse.est_squares = 0.5 * static_cast<double>(rank);
      pulse.mean_squares = 0.25 * static_cast<double>(rank);
    }
    REQUIRE(here.take("h1", beat_of(there)));
    for (const int64_t rank : {1, 2}) {
      const comm::WorkerPulse& pulse = here.memory.pulse(WorkerRank(rank));
      CHECK(pulse.activity.load() == static_cast<comm::Activity>(activity));
      CHECK(std::abs(pulse.beat_ns - (now - rank * 1'000'000'000)) < 500'000'000);
      CHECK(pulse.computing_ns == 10 * rank);
      CHECK(pulse.mini_batches == 20 * rank + activity);
      CHECK(pulse.reading_ns == 30 * rank);
      CHECK(pulse.measured_steps == 40 * rank);
      CHECK(pulse.est_squares == 0.5 * static_cast<double>(rank));
      CHECK(pulse.mean_squares == 0.25 * static_cast<double>(rank));
    }
  }
  CHECK(here.memory.pulse(WorkerRank(3)).mini_batches == 0);
}

TEST_CASE("beats of another stage, of a host outside the stage, or of a wrong form are not taken") {
  BeatingHost there("h1"), here("");
  there.memory.pulse(WorkerRank(1)).mini_batches = 6;
  Pretended::Frame said = beat_of(there);
  CHECK_FALSE(here.take("h3", said));
  CHECK_THROWS_WITH_AS(here.take("h2", said), "beats of other workers", Error);  // of one worker
  WorkerBeat unknown;
  std::memcpy(&unknown, said.payload.data(), sizeof unknown);
  unknown.activity = 7;
  Pretended::Frame foreign = said;
  std::memcpy(foreign.payload.data(), &unknown, sizeof unknown);
  CHECK_THROWS_WITH_AS(here.take("h1", foreign), "a beat with the unknown activity 7", Error);
  BeatingHost follower("h2"), aborted("");
  aborted.stage.abort();
  for (BeatingHost* host : {&follower, &aborted}) {
    REQUIRE(host->take("h1", beat_of(there)));
    CHECK(host->memory.pulse(WorkerRank(1)).mini_batches == 0);
  }
  const auto late = here.beats.landing("h1", said.head);
  here.stage.forget();
  late.arrived();  // of no stage any more
  CHECK_FALSE(here.take("h1", said));
  ++said.head.number;
  CHECK_FALSE(BeatingHost("").take("h1", said));
}

TEST_CASE("workers of other hosts count as begun, once, when all these hosts have sent a frame of a step, and a beat") {
  BeatingHost first("h1"), second("h2"), here("");
  const Pretended::Frame of_first = beat_of(first), of_second = beat_of(second);
  const auto folds = [&](const std::string& host) {
    const auto landing = here.stage.landing(host, {partial, 1, round_number(7, 0), 0});
    REQUIRE(landing);
    landing->arrived();
  };
  here.take("h1", of_first);
  folds("h1");
  here.take("h1", of_first);
  CHECK(here.memory.gate().started() == 0);  // h2 has not begun
  folds("h2");
  CHECK(here.memory.gate().started() == 0);
  here.take("h2", of_second);
  CHECK(here.memory.gate().started() == 3);
  here.take("h1", of_first);
  CHECK(here.memory.gate().started() == 3);
}

TEST_CASE("the coordinator's beat tells up to which step the run's files have all records: a host lets these go") {
  BeatingHost there("h1");
  const auto coordinator = std::make_shared<Pretended>(0, "");
  there.links.take(coordinator);
  CHECK(there.holding.records().written() == -1);
  there.train(7);
  there.take("", {{beat, 0, 7, 5}, ""});
  CHECK(there.holding.records().written() == 5);
  CHECK(there.holding.records_from() == 5);  // the last record stays: an evaluation may follow
  there.take("h2", {{beat, 0, 7, 9}, ""});   // only the coordinator's word counts
  CHECK(there.holding.records().written() == 5);
}

TEST_CASE("only the coordinator hears of a host's workers; a connection with a megabyte to send gets no more beats") {
  BeatingHost there("h1");
  const auto coordinator = std::make_shared<Pretended>(0, ""), other = std::make_shared<Pretended>(0, "h2");
  for (const auto& connection : {coordinator, other}) there.links.take(connection);
  there.links.note_beat("h2");  // so that beats go there, too
  there.beats.send();
  CHECK(coordinator->last[beat].payload.size() == 2 * sizeof(WorkerBeat));
  CHECK(other->heard_frames[beat] == 1);
  CHECK(other->last[beat].payload.empty());
  coordinator->waiting = (1 << 20) + 1;
  there.beats.send();
  CHECK(coordinator->heard_frames[beat] == 1);
  CHECK(other->heard_frames[beat] == 2);
}

TEST_CASE("the coordinator does not wait a tenth of a second to say that many records have been written") {
  BeatingHost here("");
  const auto host = std::make_shared<Pretended>(0, "h1");
  here.links.take(host);
  for (int tick = 1; tick <= 10; ++tick) here.beats.send_in_time();
  REQUIRE(host->heard_frames[beat] == 1);
  const auto write = [&here](int64_t steps) {
    for (int64_t i = 0; i < steps; ++i) {
      here.train(1);
      here.memory.ring().drain_to(here.memory.ring().published());
    }
  };
  write(comm::records_of_ring / 8 - 1);
  here.beats.send_in_time();
  CHECK(host->heard_frames[beat] == 1);
  write(1);
  here.beats.send_in_time();
  CHECK(host->heard_frames[beat] == 2);
  CHECK(host->last[beat].head.offset == comm::records_of_ring / 8);
}

}  // namespace
}  // namespace estrain::hosts
