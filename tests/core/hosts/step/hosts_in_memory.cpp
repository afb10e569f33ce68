#include "tests/core/hosts/step/hosts_in_memory.h"

#include <algorithm>
#include <cmath>

#include "core/state/comm/sums/tree_cut.h"

namespace estrain::hosts::in_memory {
namespace {

using checkpoint::DType;
using checkpoint::Role;

const checkpoint::StateTensor& tensor(const checkpoint::Manifest& of, const std::string& name,
                                      const std::string& slot) {
  for (const checkpoint::StateTensor& one : of.layout.tensors) {
    if (one.name == name && one.slot == slot) return one;
  }
  throw Error(Fault::bug, "no such tensor");
}

uint8_t mark(int64_t rank, int64_t step) { return static_cast<uint8_t>(16 * step + rank + 1); }

// Writes what the ESTs of the host leave behind beside their gradients.
void leave_contexts(Host& host, int64_t step) {
  const checkpoint::Manifest of = manifest(host.plan.ests());
  std::byte* state = host.memory.state_of(Step(step + 1));
  const comm::RecordView record = host.memory.ring().pending();
  const EstRange ests = host.plan.here().ests();
  for (int64_t rank = ests.begin.value; rank < ests.end.value; ++rank) {
    std::memset(state + tensor(of, std::to_string(rank), "generator").offset, mark(rank, step), kGeneratorBytes);
    record.est_losses[rank] = static_cast<float>(mark(rank, step));
    record.digests[kParameters + 1 + static_cast<size_t>(rank)] = mark(rank, step);
  }
  if (ests.begin.value != 0) return;
  std::memset(state + tensor(of, "mean", "").offset, 77, 36);
  record.digests[kParameters] = 99;
}

void check_contexts(Host& host, int64_t step) {
  const checkpoint::Manifest of = manifest(host.plan.ests());
  const std::byte* state = host.memory.state_of(Step(step + 1));
  const comm::RecordView record = host.memory.ring().pending();
  for (int64_t rank = 0; rank < host.plan.ests(); ++rank) {
    CAPTURE(rank);
    const std::byte* generator = state + tensor(of, std::to_string(rank), "generator").offset;
    CHECK(generator[0] == std::byte{mark(rank, step)});
    CHECK(generator[kGeneratorBytes - 1] == std::byte{mark(rank, step)});
    CHECK(record.est_losses[rank] == static_cast<float>(mark(rank, step)));
    CHECK(record.digests[kParameters + 1 + static_cast<size_t>(rank)] == mark(rank, step));
  }
  CHECK(state[tensor(of, "mean", "").offset + 35] == std::byte{77});
  CHECK(record.digests[kParameters] == 99);
}

}  // namespace

checkpoint::Manifest manifest(int64_t ests) {
  checkpoint::Manifest manifest;
  for (size_t i = 0; i < kParameters; ++i) {
    manifest.layout.append(Role::parameter, "p" + std::to_string(i), "", DType::f32, {kSizes[i]});
    manifest.digest_names.push_back("p" + std::to_string(i));
  }
  manifest.layout.append(Role::buffer, "mean", "", DType::f32, {9});
  manifest.digest_names.emplace_back("mean");
  for (int64_t rank = 0; rank < ests; ++rank) {
    manifest.layout.append(Role::est, std::to_string(rank), "generator", DType::u8, {int64_t{kGeneratorBytes}});
    manifest.layout.append(Role::est, std::to_string(rank), "loss", DType::f32, {});
    manifest.digest_names.push_back("est/" + std::to_string(rank) + "/generator");
  }
  return manifest;
}

HostPlan plan_of(const Split& split, size_t own, int64_t step, Sums sums) {
  HostPlan plan;
  plan.gpus_sum = sums == Sums::by_gpus;
  plan.all_factors = sums == Sums::with_all_factors;
  plan.factors = plan.all_factors || sums == Sums::with_factors;
  plan.stage = 3;
  plan.step = step;
  plan.evaluation_batch = 4;
  plan.own = own;
  int64_t next = 0;
  for (size_t host = 0; host < split.size(); ++host) {
    HostShare share{.name = host == 0 ? "" : "h" + std::to_string(host), .address = "", .workers = {}};
    for (const int64_t ests : split[host]) {
      share.workers.push_back({VirtualRank(next), VirtualRank(next + ests)});
      next += ests;
    }
    plan.hosts.push_back(share);
  }
  return plan;
}

size_t offset_of(size_t parameter) {
  return tensor(manifest(1), "p" + std::to_string(parameter), "").offset / sizeof(float);
}

Sum tree(const Gradients& gradients, const Presence& presence, int64_t lo, int64_t hi) {
  if (hi - lo == 1) return {gradients[static_cast<size_t>(lo)], presence[static_cast<size_t>(lo)]};
  const int64_t middle = comm::middle_of(lo, hi);
  Sum left = tree(gradients, presence, lo, middle);
  const Sum right = tree(gradients, presence, middle, hi);
  for (size_t i = 0; i < kParameters; ++i) {
    const size_t at = offset_of(i), n = static_cast<size_t>(kSizes[i]);
    left.present[i] = comm::add_partials({left.values.data() + at, left.present[i]},
                                         {right.values.data() + at, right.present[i]}, left.values.data() + at, n);
  }
  return left;
}

std::vector<Folding> workers_of(Host& host) {
  std::vector<Folding> workers;
  for (size_t i = 0; i < host.plan.here().workers.size(); ++i) workers.emplace_back(host, i);
  return workers;
}

Gradients random_gradients(int64_t ests, std::mt19937_64& random) {
  const size_t floats = offset_of(kParameters - 1) + static_cast<size_t>(kSizes[kParameters - 1]);
  Gradients gradients(static_cast<size_t>(ests), std::vector<float>(floats));
  for (auto& one : gradients) {
    for (float& value : one)
      value = std::ldexp(static_cast<float>(random() % 2001) / 1000.0f - 1.0f, static_cast<int>(random() % 40) - 20);
  }
  return gradients;
}

Presence random_presence(int64_t ests, std::mt19937_64& random) {
  Presence presence(static_cast<size_t>(ests), std::vector<bool>(kParameters, true));
  for (auto& one : presence) {
    one[1] = random() % 2 == 0;
    one[3] = random() % 4 == 0;
    one[4] = false;
  }
  return presence;
}

Presence all_present(int64_t ests) { return Presence(static_cast<size_t>(ests), std::vector<bool>(kParameters, true)); }

void check_sum(Host& host, const Sum& expected, size_t i) {
  CAPTURE(i);
  const comm::GradientSlot sum = host.memory.gradients()[0];
  CHECK((sum.presence[i] != 0) == expected.present[i]);
  if (!expected.present[i]) return;
  const size_t at = offset_of(i);
  CHECK(std::memcmp(sum.values + at, expected.values.data() + at, bytes_of_parameter(i)) == 0);
}

void pass_on_contexts(Hosts& hosts, int64_t step) {
  for (const auto& host : hosts.all) {
    leave_contexts(*host, step);
    host->ask(comm::HostAsk::sums, step);
  }
  hosts.deliver();
  for (const auto& host : hosts.all) {
    CAPTURE(host->plan.own);
    REQUIRE(host->answered());
    check_contexts(*host, step);
  }
}

void train_step(Hosts& hosts, int64_t step, const std::function<void(Host&)>& before_asking,
                std::optional<size_t> skip) {
  const Gradients gradients = random_gradients(hosts.ests(), hosts.random);
  const Presence presence = random_presence(hosts.ests(), hosts.random);
  const Sum expected = tree(gradients, presence, 0, hosts.ests());
  std::vector<Folding> busy;
  for (const auto& host : hosts.all) std::ranges::move(workers_of(*host), std::back_inserter(busy));
  hosts.deliver([&] {
    if (busy.empty()) return false;
    std::swap(busy[hosts.random() % busy.size()], busy.back());
    Folding& worker = busy.back();
    Host& host = worker.host();
    worker.fold_next(gradients, presence);
    if (!worker.is_done()) return true;
    busy.pop_back();
    if (std::ranges::any_of(busy, [&](Folding& other) { return &other.host() == &host; })) return true;
    leave_contexts(host, step);
    if (before_asking) before_asking(host);
    host.ask(comm::HostAsk::sums, step);
    return true;
  });
  for (const auto& host : hosts.all) {
    CAPTURE(host->plan.own);
    REQUIRE(host->answered());
    for (size_t i = 0; i < kParameters; ++i) {
      if (i != skip) check_sum(*host, expected, i);
    }
    check_contexts(*host, step);
  }
}

}  // namespace estrain::hosts::in_memory
