#include "core/hosts/step/step_exchange.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/state/comm/stage_control.h"
#include "tests/core/hosts/step/hosts_in_memory.h"

namespace estrain::hosts {
namespace {

using namespace in_memory;

TEST_CASE("the sum over hosts has the bits of the tree, whatever the split, and contexts reach every host") {
  for (size_t i = 0; i < std::size(kSplits); ++i) {
    CAPTURE(i);
    Hosts hosts(kSplits[i], 100 + i);
    for (int64_t step = 0; step < 3; ++step) {
      train_step(hosts, step);
      for (const auto& host : hosts.all) host->ask(comm::HostAsk::commit, step);
      hosts.deliver();
      for (const auto& host : hosts.all) REQUIRE(host->answered());
    }
  }
}

TEST_CASE("workers that ask before they have folded everything are a mistake of this program") {
  Hosts hosts({{1}, {1}}, 1);
  CHECK_THROWS_WITH_AS(hosts[0].ask(comm::HostAsk::sums, 0), doctest::Contains("have not folded"), Error);
}

TEST_CASE("a step is agreed on when it is whole on all hosts, and pauses when the coordinator was asked to") {
  Hosts hosts({{1}, {1}, {2}}, 1);
  train_step(hosts, 0);
  hosts[1].memory.gate().ask_pause();  // nobody asks but the coordinator's launcher
  hosts[0].ask(comm::HostAsk::commit, 0);
  hosts[1].ask(comm::HostAsk::commit, 0);
  hosts.deliver();
  CHECK(!hosts[0].answered());
  CHECK(!hosts[1].answered());
  hosts[2].ask(comm::HostAsk::commit, 0);
  hosts.deliver();
  for (const auto& host : hosts.all) {
    CHECK(host->answered());
    CHECK(!host->memory.hosts().pause_agreed());
  }
  train_step(hosts, 1);
  hosts[0].memory.gate().ask_pause();
  for (const auto& host : hosts.all) host->ask(comm::HostAsk::commit, 1);
  hosts.deliver();
  for (const auto& host : hosts.all) CHECK(host->memory.hosts().pause_agreed());
}

TEST_CASE("a host sends sums of the next step to a host that waits for the word of a third") {
  Hosts hosts({{1}, {1}, {1}}, 1);
  train_step(hosts, 0);
  for (const auto& host : hosts.all) host->ask(comm::HostAsk::commit, 0);
  hosts.deliver(1, 0);
  hosts.deliver(2, 0);
  REQUIRE(hosts[0].answered());
  const Gradients gradients = random_gradients(hosts.ests(), hosts.random);
  for (Folding& worker : workers_of(hosts[0])) {
    while (!worker.is_done()) worker.fold_next(gradients, all_present(hosts.ests()));
  }
  while (hosts[0].work()) continue;
  hosts.deliver(0, 1);
  CHECK(!hosts[1].answered());
  hosts.deliver();
  CHECK(hosts[1].answered());
  CHECK(hosts[2].answered());
}

TEST_CASE("a host that is left alone commits the step that it had told the others is whole, and no other") {
  for (const bool told : {true, false}) {
    Hosts hosts({{1}, {1}}, 1);
    train_step(hosts, 0);
    comm::JobMemory& memory = hosts[0].memory;
    memory.ring().pending().head->kind = comm::RecordKind::step;
    memory.ring().pending().head->step = Step(1);
    memory.commit().note_whole(Step(1), 0.1);
    if (told) hosts[0].ask(comm::HostAsk::commit, 0);
    hosts.deliver();
    hosts[0].exchange->keep_whole_step();
    comm::StageControl(memory).repair();
    CHECK(memory.commit().committed() == Step(told ? 1 : 0));
  }
}

TEST_CASE("hosts that have come to different bits do not commit them") {
  Hosts hosts({{1}, {1}}, 1);
  train_step(hosts, 0);
  hosts[1].memory.ring().pending().digests[2].fetch_add(1);
  hosts[0].ask(comm::HostAsk::commit, 0);
  hosts[1].ask(comm::HostAsk::commit, 0);
  CHECK_THROWS_WITH_AS(hosts.deliver(), doctest::Contains("have come to different bits"), Error);
  CHECK((!hosts[0].answered() || !hosts[1].answered()));
}

TEST_CASE("a loss that is not finite on one host is a suspicion on all") {
  Hosts hosts({{1}, {1}}, 1);
  comm::mark_suspect(*hosts[1].memory.ring().pending().head, comm::Nonfinite::Where::update);
  train_step(hosts, 0);
  CHECK(hosts[0].memory.ring().pending().head->suspect == comm::Nonfinite::Where::update);
}

TEST_CASE("results of an evaluation reach every host, each from whose workers had the batch") {
  const int64_t samples = 22;  // batches of 4: the last one is short
  Hosts hosts({{1, 1}, {1}}, 1, 5, samples);
  for (const auto& host : hosts.all) {
    const comm::EvaluationResults results = host->memory.evaluation();
    for (int64_t i = 0; i < samples; ++i) {
      const bool own = (i / 4 % 3 == 2) == (host->plan.own == 1);
      results.losses[i] = own ? static_cast<float>(i) : -1;
      results.correct[i] = own ? static_cast<int32_t>(i) : -1;
      results.counted[i] = own ? static_cast<int32_t>(2 * i) : -1;
      results.column(0)[i] = own ? static_cast<float>(3 * i) : -1;
      results.column(1)[i] = own ? static_cast<float>(4 * i) : -1;
    }
    host->ask(comm::HostAsk::evaluation, 5);
  }
  hosts.deliver();
  for (const auto& host : hosts.all) {
    REQUIRE(host->answered());
    const comm::EvaluationResults results = host->memory.evaluation();
    for (int64_t i = 0; i < samples; ++i) {
      CHECK(results.losses[i] == static_cast<float>(i));
      CHECK(results.correct[i] == static_cast<int32_t>(i));
      CHECK(results.counted[i] == static_cast<int32_t>(2 * i));
      CHECK(results.column(0)[i] == static_cast<float>(3 * i));
      CHECK(results.column(1)[i] == static_cast<float>(4 * i));
    }
  }
}

// Plays the last worker of a host: the results of an evaluation, then rounds of mail. What a host writes in a round
// depends on host and round.
class Correspondent {
 public:
  static constexpr uint64_t rounds = 6;
  static std::byte written_by(size_t host, uint64_t round) { return static_cast<std::byte>(16 * host + round); }

  explicit Correspondent(Host& host) : host_(host) {}

  bool is_done() const { return round_ > rounds && host_.answered(); }
  // Returns false if the host waits for others.
  bool step(size_t hosts) {
    if (is_done() || !host_.answered()) return false;
    comm::OutputMail mail(host_.memory.evaluation());
    if (round_ > 1) check(mail, hosts);
    if (round_ > rounds) return false;
    mail.set_round(round_);
    if (round_ > 0) std::ranges::fill(mail.slot(mail.own(), hosts), written_by(host_.plan.own, round_));
    ++round_;
    host_.ask(comm::HostAsk::evaluation, 5);
    return true;
  }
  void check(const comm::OutputMail& mail, size_t hosts) const {
    CHECK(mail.hosts() == hosts);
    CHECK(mail.own() == host_.plan.own);
    for (size_t other = 0; other < hosts; ++other) {
      const auto slot = mail.slot(other, hosts);
      CHECK(std::ranges::all_of(slot, [&](std::byte each) { return each == written_by(other, round_ - 1); }));
    }
  }

 private:
  Host& host_;
  uint64_t round_ = 0;  // the next; 0: the results
};

TEST_CASE("rounds of mail behind the results of an evaluation reach every host, though hosts are a round apart") {
  for (const size_t count : {2, 3, 6}) {
    CAPTURE(count);
    Hosts hosts(Split(count, std::vector<int64_t>{1}), count, 5, 9);
    std::vector<Correspondent> all;
    for (const auto& host : hosts.all) all.emplace_back(*host);
    hosts.deliver([&] {
      bool more = false;
      for (Correspondent& each : all) more = each.step(count) || more;
      return more;
    });
    for (size_t host = 0; host < count; ++host) {
      CHECK(all[host].is_done());
      all[host].check(comm::OutputMail(hosts[host].memory.evaluation()), count);
    }
  }
}

comm::ExchangeId id_of(size_t host) {
  comm::ExchangeId id;
  id.fill(static_cast<std::byte>(host + 1));
  return id;
}

TEST_CASE("the id by which GPUs meet is the first host's on every host, and no host has begun by it") {
  for (const size_t count : {2, 3, 6}) {
    CAPTURE(count);
    Hosts hosts(Split(count, std::vector<int64_t>{1}), count, 5, 0, Sums::by_gpus);
    for (const auto& host : hosts.all) {
      host->memory.meetings().offer_exchange_id(id_of(host->plan.own));
      if (host->plan.own + 1 < count) host->ask(comm::HostAsk::exchange, 5);
    }
    hosts.deliver();
    CHECK(!hosts[0].answered());  // nobody meets before all can
    hosts[count - 1].ask(comm::HostAsk::exchange, 5);
    hosts.deliver();
    for (const auto& host : hosts.all) {
      REQUIRE(host->answered());
      CHECK(host->memory.meetings().offered_exchange_id() == id_of(0));
      CHECK(host->exchange->workers_begun() == 0);
    }
  }
}

TEST_CASE("where the GPUs sum, hosts tell each other the results of ESTs, and no sums") {
  for (const Split& split : {Split{{1}, {1}}, Split{{3, 2}, {1, 1}}, Split{{1}, {2}, {1, 1}, {1}, {1}}}) {
    Hosts hosts(split, 7, 0, 0, Sums::by_gpus);
    for (int64_t step = 0; step < 3; ++step) {
      hosts[0].memory.gradients()[0].values[0] = 42;
      pass_on_contexts(hosts, step);
      CHECK(hosts[0].memory.gradients()[0].values[0] == 42);
      CHECK(hosts[0].exchange->workers_begun() > 0);
      for (const auto& host : hosts.all) host->ask(comm::HostAsk::commit, step);
      hosts.deliver();
      for (const auto& host : hosts.all) REQUIRE(host->answered());
    }
    CHECK_THROWS_WITH_AS(hosts[0].exchange->room_for(1, {partial, 1, round_number(3, 3), 0}),
                         doctest::Contains("where the GPUs of all hosts sum"), Error);
    CHECK_THROWS_AS(hosts[0].exchange->room_for(1, {sum, 1, round_number(3, 3), 0}), Error);
  }
}

TEST_CASE("frames that are not of the step that is due, or of no kind of a step, are refused") {
  Hosts hosts({{1}, {1}}, 1);
  StepExchange& exchange = *hosts[0].exchange;
  CHECK_THROWS_AS(exchange.room_for(1, {partial, 1, round_number(3, 1), 0}), Error);
  CHECK_THROWS_AS(exchange.room_for(1, {state, 1, round_number(3, 0), 0}), Error);
  CHECK_NOTHROW(exchange.room_for(1, {partial, 1, round_number(3, 0), 0}));
}

}  // namespace
}  // namespace estrain::hosts
