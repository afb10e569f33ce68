#include "core/hosts/step/factor_exchange.h"

#include <algorithm>
#include <numeric>

#include "core/state/comm/gradient_factors.h"
#include "tests/core/hosts/step/hosts_in_memory.h"

namespace estrain::hosts::in_memory {
namespace {

constexpr size_t kFactored = 3;                 // 4097 floats
constexpr uint32_t kFactorBytes = 64 + 3 * 64;  // of an EST, with the head
constexpr int64_t kDense = comm::kStepsBeforeFactors;

comm::FactorPlaces places(Host& host) {
  return {host.memory, offset_of(kFactored), static_cast<size_t>(kSizes[kFactored])};
}

void make_offer(Host& host, uint32_t bytes = kFactorBytes, float seconds = 1e-9f) {
  comm::FactorHead& head = places(host).head(host.plan.here().ests().begin);
  head = {};
  head.form = comm::FactorForm::linear;
  head.bytes = bytes;
  head.seconds = seconds;
}

std::byte mark(int64_t rank, int64_t step, size_t at) {
  return static_cast<std::byte>((static_cast<size_t>(rank * 31 + step * 7) + at) % 251);
}

// Plays the host's workers, one after another: a worker writes the factors of its ESTs.
void write_factors(Host& host, int64_t step) {
  const std::vector<EstRange>& workers = host.plan.here().workers;
  for (size_t worker = workers.size(); worker-- > 0;) {
    for (int64_t rank = workers[worker].begin.value; rank < workers[worker].end.value; ++rank) {
      std::byte* const at = places(host).at(VirtualRank(rank));
      for (size_t i = 0; i < kFactorBytes; ++i) at[i] = mark(rank, step, i);
    }
    host.memory.sums().note_factors(WorkerRank(static_cast<int64_t>(worker)),
                                    static_cast<uint32_t>(workers[worker].size()));
    host.work();
  }
}

void check_factors(Host& host, int64_t step) {
  CAPTURE(host.plan.own);
  for (int64_t rank = 0; rank < host.plan.ests(); ++rank) {
    CAPTURE(rank);
    const std::byte* const at = places(host).at(VirtualRank(rank));
    size_t wrong = 0;
    for (size_t i = 0; i < kFactorBytes; ++i) wrong += at[i] == mark(rank, step, i) ? 0 : 1;
    CHECK(wrong == 0);
  }
}

void commit(Hosts& hosts, int64_t step) {
  for (const auto& host : hosts.all) host->ask(comm::HostAsk::commit, step);
  hosts.deliver();
  for (const auto& host : hosts.all) REQUIRE(host->answered());
}

bool is_chosen(Host& host) { return comm::chosen_factors(host.memory)[kFactored] != 0; }

// The steps before the choice; `offer` makes a host's offer.
void train_dense(Hosts& hosts, const std::function<void(Host&)>& offer) {
  for (int64_t step = 0; step < kDense; ++step) {
    train_step(hosts, step, step + 1 == kDense ? offer : nullptr);
    commit(hosts, step);
  }
}

size_t sent_by(Hosts& hosts) {
  return std::accumulate(hosts.all.begin(), hosts.all.end(), size_t{0},
                         [](size_t sum, const auto& host) { return sum + host->sent_bytes; });
}

TEST_CASE("from a stage's fourth step on the factors of all hosts' ESTs reach each host, and no sum of theirs") {
  for (const Split& split :
       {Split{{1}, {1}}, Split{{3, 2}, {1, 1}}, Split{{2, 1}, {2}, {1, 1}}, Split{{7}, {1}, {1}, {4}}}) {
    CAPTURE(split.size());
    Hosts hosts(split, 5, 0, 0, Sums::with_all_factors);
    train_dense(hosts, [](Host& host) { make_offer(host); });
    for (const auto& host : hosts.all) {
      const EstRange own = host->plan.here().ests();
      CHECK(places(*host).head(own.begin).bytes == kFactorBytes);
      CHECK(places(*host).head(VirtualRank(own.end.value - 1)).bytes == kFactorBytes);
    }
    for (int64_t step = kDense; step < kDense + 3; ++step) {
      const size_t before = sent_by(hosts);
      for (const auto& host : hosts.all) CHECK(is_chosen(*host));
      train_step(
          hosts, step, [step](Host& host) { write_factors(host, step); }, kFactored);
      for (const auto& host : hosts.all) {
        check_factors(*host, step);
        CHECK(host->memory.sums().wait_factors());
        const FactorExchange::Summary chosen =
            host->exchange->take_chosen_factors().value_or(FactorExchange::Summary{});
        CHECK(chosen.parameters == (step == kDense ? 1 : 0));
        if (step == kDense) CHECK(chosen.gradient_bytes == bytes_of_parameter(kFactored));
        if (step == kDense) CHECK(chosen.bytes == kFactorBytes);
      }
      const size_t others = hosts.all.size() - 1;
      const size_t of_sums = 2 * others * bytes_of_parameter(kFactored);
      const size_t of_factors = others * static_cast<size_t>(hosts.ests()) * kFactorBytes;
      CHECK(sent_by(hosts) - before < of_sums + of_factors);  // other parameters have 377 floats and the contexts
      CHECK(sent_by(hosts) - before >= of_factors);
      commit(hosts, step);
    }
  }
}

TEST_CASE("the workers' request for sums is answered when the factors of all hosts have arrived") {
  Hosts hosts({{1}, {2}}, 3, 0, 0, Sums::with_all_factors);
  train_dense(hosts, [](Host& host) { make_offer(host); });
  std::vector<Folding> workers;
  const Gradients gradients = random_gradients(3, hosts.random);
  for (const auto& host : hosts.all) std::ranges::move(workers_of(*host), std::back_inserter(workers));
  for (Folding& worker : workers) {
    while (!worker.is_done()) worker.fold_next(gradients, all_present(3));
  }
  write_factors(hosts[0], kDense);
  hosts[1].memory.sums().note_factors(WorkerRank(0), 1);  // of its first EST alone
  for (const auto& host : hosts.all) host->ask(comm::HostAsk::sums, kDense);
  hosts.deliver();
  CHECK(!hosts[0].answered());
  CHECK(!hosts[1].answered());  // an own factor is not on its way
  hosts[1].memory.sums().note_factors(WorkerRank(0), 2);
  hosts.deliver();
  CHECK(hosts[0].answered());
  CHECK(hosts[1].answered());
}

TEST_CASE("factors are chosen where all hosts offer the same, and the network costs more time than the product") {
  struct Case {
    Sums sums;
    uint32_t bytes, bytes_of_last;
    float seconds;
    size_t FactorExchange::Summary::*counted;
  };
  using Summary = FactorExchange::Summary;
  constexpr float kLong = 1e6f;
  for (const Case& each : {Case{Sums::with_factors, kFactorBytes, kFactorBytes, 0, &Summary::parameters},
                           Case{Sums::with_factors, kFactorBytes, kFactorBytes, kLong, &Summary::too_slow},
                           Case{Sums::with_all_factors, kFactorBytes, kFactorBytes, kLong, &Summary::parameters},
                           Case{Sums::with_all_factors, kFactorBytes, 0, 0, &Summary::without_factors},
                           Case{Sums::with_all_factors, kFactorBytes, kFactorBytes + 64, 0, &Summary::without_factors},
                           Case{Sums::with_all_factors, 0, 0, 0, &Summary::without_factors},
                           // Half of 4097 floats, and more: 2 hosts with one EST each.
                           Case{Sums::with_all_factors, 8192, 8192, 0, &Summary::parameters},
                           Case{Sums::with_all_factors, 8256, 8256, 0, &Summary::too_large},
                           Case{Sums::by_couriers, kFactorBytes, kFactorBytes, 0, nullptr}}) {
    CAPTURE(each.bytes);
    CAPTURE(each.seconds);
    Hosts hosts({{1}, {1}}, 9, 0, 0, each.sums);
    train_dense(hosts, [&](Host& host) {
      make_offer(host, host.plan.own == 1 ? each.bytes_of_last : each.bytes, each.seconds);
      if (each.bytes == 0) places(host).head(host.plan.here().ests().begin) = {};
    });
    for (const auto& host : hosts.all) {
      CHECK(is_chosen(*host) == (each.counted == &Summary::parameters));
      const std::optional<Summary> chosen = host->exchange->take_chosen_factors();
      REQUIRE(chosen.has_value() == (each.counted != nullptr));
      if (!chosen) continue;
      CHECK(chosen.value().*each.counted == 1);
      CHECK(chosen->parameters + chosen->without_factors + chosen->too_large + chosen->too_slow == 1);
    }
  }
}

TEST_CASE("what earlier stages have left where offers are is no offer") {
  Hosts hosts({{1}, {1}}, 9, 0, 0, Sums::with_all_factors);
  for (const auto& host : hosts.all) make_offer(*host);  // gradients of an earlier stage may look like an offer
  for (const auto& host : hosts.all) host->begin_stage();
  train_dense(hosts, [](Host&) {});
  for (const auto& host : hosts.all) CHECK(!is_chosen(*host));
}

TEST_CASE("factors that are more than half of the sums' bytes are not chosen") {
  // The first host would send the factors of three ESTs to two hosts: 19,584 bytes. Of sums it sends 21,851.
  Hosts hosts({{3}, {1}, {1}}, 9, 0, 0, Sums::with_all_factors);
  train_dense(hosts, [](Host& host) { make_offer(host, 3264); });
  for (const auto& host : hosts.all) CHECK(!is_chosen(*host));
}

TEST_CASE("a host refuses factors that nobody chose") {
  Hosts hosts({{1}, {1}}, 3, 0, 0, Sums::with_all_factors);
  CHECK_THROWS_WITH_AS(hosts[0].exchange->room_for(1, {Kind::factors, 64, round_number(3, 0), 0}),
                       "factors of gradients, where none were chosen", Error);
  Hosts without({{1}, {1}}, 3);
  CHECK_THROWS_WITH_AS(without[0].exchange->room_for(1, {Kind::factors, 64, round_number(3, 0), 0}),
                       "factors of gradients, where all gradients go as sums", Error);
}

}  // namespace
}  // namespace estrain::hosts::in_memory
