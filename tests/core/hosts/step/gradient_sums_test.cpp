#include "core/hosts/step/gradient_sums.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/hosts/exchange/wire.h"
#include "tests/core/hosts/step/hosts_in_memory.h"

namespace estrain::hosts {
namespace {

using namespace in_memory;

TEST_CASE("what all workers of a host have folded leaves while they fold the rest, and its sum may be used then") {
  Hosts hosts({{1, 1}, {2}}, 1);
  const Gradients gradients = random_gradients(hosts.ests(), hosts.random);
  const Presence presence = all_present(hosts.ests());
  std::vector<Folding> first = workers_of(hosts[0]), second = workers_of(hosts[1]);
  const auto fold_all_but_two = [&](Folding& worker) {
    for (size_t i = 2; i < kParameters; ++i) worker.fold_next(gradients, presence);
  };
  fold_all_but_two(first[0]);
  hosts.deliver();
  CHECK(hosts[0].sent_bytes == 0);
  fold_all_but_two(first[1]);
  hosts.deliver();
  CHECK(hosts[0].sent_bytes > 0);
  CHECK(!hosts[0].memory.sums().is_summed(offset_of(kParameters - 1)));
  fold_all_but_two(second[0]);
  hosts.deliver();

  const Sum expected = tree(gradients, presence, 0, hosts.ests());
  for (const auto& host : hosts.all) {
    CHECK(host->memory.sums().is_summed(offset_of(3)));
    CHECK(!host->memory.sums().is_summed(0));
    for (size_t i = 3; i < kParameters; ++i) check_sum(*host, expected, i);
  }
}

TEST_CASE("each host sends 2 P (H-1)/H values, and little else, where it passes on one partial sum") {
  Hosts hosts({{2}, {2}, {4}, {8}}, 1);
  train_step(hosts, 0);
  const double values = static_cast<double>(hosts[0].exchange->parts().floats()) * sizeof(float);
  for (const auto& host : hosts.all) {
    const double beside =
        3.0 * (600 + 128 * sizeof(float)) + 100;  // contexts, a piece more than others, presence flags
    CHECK(static_cast<double>(host->sent_bytes) <= 2 * values * 3 / 4 + beside);
  }
}

TEST_CASE("frames of partial sums and sums that come out of turn are refused") {
  Hosts hosts({{1}, {1}}, 1);
  StepExchange& exchange = *hosts[0].exchange;
  const uint64_t now = round_number(3, 0);
  CHECK_THROWS_WITH_AS(exchange.room_for(1, {sum, 4, now, 0}), "a sum out of turn", Error);
  CHECK_THROWS_AS(exchange.room_for(1, {partial, 1, now, 1}), Error);        // begins in the middle
  CHECK_THROWS_AS(exchange.room_for(1, {partial, 1 << 20, now, 0}), Error);  // too long
  CHECK_THROWS_AS(exchange.room_for(1, {partial, 0, now, 0}), Error);
  CHECK_NOTHROW(exchange.room_for(1, {partial, 1, now, 0}));
  // The first piece is host 0's, the second host 1's: that one is sent first.
  Folding worker = workers_of(hosts[0])[0];
  const Gradients gradients = random_gradients(2, hosts.random);
  for (size_t i = 0; i < kParameters; ++i) worker.fold_next(gradients, Presence(2, std::vector<bool>(kParameters)));
  exchange.work();
  CHECK_THROWS_WITH_AS(exchange.room_for(1, {sum, 1, now, 0}), "a sum out of turn", Error);
  exchange.work();
  CHECK_NOTHROW(exchange.room_for(1, {sum, 1, now, 0}));
}

}  // namespace
}  // namespace estrain::hosts
