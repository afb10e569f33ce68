// Hosts in one process, each with a shared memory of its own. Their frames wait in queues and are delivered in a random
// order, in order between any two of them.
#include "core/hosts/exchange/step_exchange.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <memory>
#include <random>

#include "core/base/error.h"
#include "core/comm/stage_control.h"
#include "core/comm/sums/partial_sum.h"
#include "core/comm/sums/tree_cut.h"

namespace estrain::hosts {
namespace {

using checkpoint::DType;
using checkpoint::Role;
using Presence = std::vector<std::vector<bool>>;        // [est][parameter]
using Gradients = std::vector<std::vector<float>>;      // [est][floats]
using Split = std::vector<std::vector<int64_t>>;        // [host][worker]: number of its ESTs
constexpr int64_t kSizes[] = {5, 1, 300, 4097, 64, 7};  // of the parameters
constexpr size_t kParameters = std::size(kSizes), kGeneratorBytes = 24;
constexpr size_t kFloatsOfPiece = 128;  // so that hosts and parameters have several

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

HostPlan plan_of(const Split& split, size_t own, int64_t step) {
  HostPlan plan;
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

struct Sent {
  net::FrameHead head;
  std::vector<std::byte> bytes;
};

// One host; what it sends waits in `to[host]`.
class Host : public Outbox {
 public:
  Host(const Split& split, size_t own, int64_t step, int64_t samples)
      : plan(plan_of(split, own, step)), manifest_(manifest(plan.ests())), memory(fd_.get()), to(split.size()) {
    comm::MemoryPlan wanted;
    wanted.manifest = manifest_.to_json();
    wanted.state_bytes = manifest_.layout.bytes;
    wanted.gradient_bytes = manifest_.layout.bytes;
    wanted.ests = plan.ests();
    wanted.parameters = kParameters;
    wanted.digests = static_cast<int64_t>(manifest_.digest_names.size());
    wanted.evaluation_samples = samples;
    wanted.ring_records = 8;
    memory.lay_out(wanted);
    memory.set_ready();
    comm::StageControl(memory).open();
    exchange = std::make_unique<StepExchange>(memory, plan, *this, kFloatsOfPiece);
  }

  void send(size_t host, const net::FrameHead& head, std::span<const std::byte> bytes) override {
    to[host].push_back({head, {bytes.begin(), bytes.end()}});
    sent_bytes += bytes.size();
  }
  void send_copy(size_t host, const net::FrameHead& head, std::span<const std::byte> bytes) override {
    send(host, head, bytes);
  }

  // Asks like the last worker to arrive, without waiting.
  void ask(comm::HostAsk what, int64_t step) { exchange->ask({what, Step(step), ++asked}); }
  // Does what the courier's loop does in between.
  bool work() {
    const size_t before = sent_bytes;
    return exchange->work() || sent_bytes != before;
  }
  bool answered() const { return memory.hosts().answered() == asked; }

  const HostPlan plan;

 private:
  const checkpoint::Manifest manifest_;
  UniqueFd fd_ = comm::JobMemory::create();

 public:
  comm::JobMemory memory;
  std::vector<std::deque<Sent>> to;
  std::unique_ptr<StepExchange> exchange;
  uint32_t asked = 0;
  size_t sent_bytes = 0;
};

class Hosts {
 public:
  Hosts(const Split& split, uint64_t seed, int64_t step = 0, int64_t samples = 0) : random(seed) {
    for (size_t host = 0; host < split.size(); ++host)
      all.push_back(std::make_unique<Host>(split, host, step, samples));
  }

  Host& operator[](size_t host) { return *all[host]; }
  int64_t ests() const { return all[0]->plan.ests(); }

  // Delivers until nothing is under way. `also`: something that may happen in between.
  void deliver(const std::function<bool()>& also = nullptr) {
    for (;;) {
      std::vector<std::pair<size_t, size_t>> waiting;
      for (size_t from = 0; from < all.size(); ++from) {
        for (size_t to = 0; to < all.size(); ++to) {
          if (!all[from]->to[to].empty()) waiting.emplace_back(from, to);
        }
      }
      bool more = also && random() % 3 == 0 && also();
      if (waiting.empty() || random() % 2 == 0) more = all[random() % all.size()]->work() || more;
      if (waiting.empty()) {
        for (const auto& host : all) more = host->work() || more;
        if (more || (also && also())) continue;
        return;
      }
      const auto [from, to] = waiting[random() % waiting.size()];
      const Sent sent = std::move(all[from]->to[to].front());
      all[from]->to[to].pop_front();
      const std::span<std::byte> room = all[to]->exchange->room_for(from, sent.head);
      REQUIRE(room.size() == sent.bytes.size());
      std::memcpy(room.data(), sent.bytes.data(), room.size());
      all[to]->exchange->received(from, sent.head);
    }
  }

  std::vector<std::unique_ptr<Host>> all;
  std::mt19937_64 random;
};

const checkpoint::StateTensor& tensor(const checkpoint::Manifest& of, const std::string& name,
                                      const std::string& slot) {
  for (const checkpoint::StateTensor& one : of.layout.tensors) {
    if (one.name == name && one.slot == slot) return one;
  }
  throw Error(Fault::bug, "no such tensor");
}

size_t offset_of(const checkpoint::Manifest& of, size_t parameter) {
  return tensor(of, "p" + std::to_string(parameter), "").offset / sizeof(float);
}

struct Sum {
  std::vector<float> values;
  std::vector<bool> present;
};

// By the definition of the tree.
Sum tree(const Gradients& gradients, const Presence& presence, int64_t lo, int64_t hi) {
  if (hi - lo == 1) return {gradients[static_cast<size_t>(lo)], presence[static_cast<size_t>(lo)]};
  const int64_t middle = comm::middle_of(lo, hi);
  Sum left = tree(gradients, presence, lo, middle);
  const Sum right = tree(gradients, presence, middle, hi);
  const checkpoint::Manifest of = manifest(1);
  for (size_t i = 0; i < kParameters; ++i) {
    const size_t at = offset_of(of, i), n = static_cast<size_t>(kSizes[i]);
    left.present[i] = comm::add_partials({left.values.data() + at, left.present[i]},
                                         {right.values.data() + at, right.present[i]}, left.values.data() + at, n);
  }
  return left;
}

// A worker that folds the gradients of its ESTs as far as the tree allows: parameter by parameter, the last one first.
class Folding {
 public:
  Folding(Host& host, size_t worker) : host_(&host), worker_(worker) {
    for (size_t i = 0; i < worker; ++i) first_slot_ += plan(i).buffers;
  }

  Host& host() { return *host_; }
  bool is_done() const { return folded_ == kParameters; }

  void fold_next(const Gradients& gradients, const Presence& presence) {
    ++folded_;
    const comm::FoldPlan fold = plan(worker_);
    for (size_t arrival = 0; arrival < fold.arrivals.size(); ++arrival)
      this->fold(fold.arrivals[arrival], first_rank() + arrival, gradients, presence);
    host_->memory.sums().note_folded(WorkerRank(static_cast<int64_t>(worker_)), static_cast<uint32_t>(folded_));
  }

 private:
  EstRange range(size_t worker) const { return host_->plan.here().workers[worker]; }
  size_t first_rank() const { return static_cast<size_t>(range(worker_).begin.value); }
  comm::FoldPlan plan(size_t worker) const {
    return comm::plan_fold(comm::SumOrder::tree, host_->plan.ests(), range(worker));
  }
  void fold(const comm::FoldPlan::Arrival& place, size_t rank, const Gradients& gradients, const Presence& presence) {
    const auto [depth, merges] = place;
    const size_t i = kParameters - folded_, at = offset_of(manifest(1), i), n = static_cast<size_t>(kSizes[i]);
    std::vector<float> sum(gradients[rank].begin() + static_cast<ptrdiff_t>(at),
                           gradients[rank].begin() + static_cast<ptrdiff_t>(at + n));
    bool present = presence[rank][i];
    for (int level = 1; level <= merges; ++level) {
      const comm::GradientSlot left = host_->memory.gradient_slot(first_slot_ + depth - level);
      present = comm::add_partials({left.values + at, left.presence[i] != 0}, {sum.data(), present}, sum.data(), n);
    }
    const comm::GradientSlot slot = host_->memory.gradient_slot(first_slot_ + depth - merges);
    std::ranges::copy(sum, slot.values + at);
    slot.presence[i] = present ? 1 : 0;
  }

  Host* host_;
  size_t worker_;
  int64_t first_slot_ = 0;
  size_t folded_ = 0;  // parameters
};

std::vector<Folding> workers_of(Host& host) {
  std::vector<Folding> workers;
  for (size_t i = 0; i < host.plan.here().workers.size(); ++i) workers.emplace_back(host, i);
  return workers;
}

// Numbers of very different sizes, whose sums depend on the order.
Gradients random_gradients(int64_t ests, std::mt19937_64& random) {
  const size_t floats = offset_of(manifest(1), kParameters - 1) + static_cast<size_t>(kSizes[kParameters - 1]);
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

void check_sum(Host& host, const Sum& expected) {
  const comm::GradientSlot sum = host.memory.gradient_slot(0);
  for (size_t i = 0; i < kParameters; ++i) {
    CAPTURE(i);
    CHECK((sum.presence[i] != 0) == expected.present[i]);
    if (!expected.present[i]) continue;
    const size_t at = offset_of(manifest(1), i), bytes = static_cast<size_t>(kSizes[i]) * sizeof(float);
    CHECK(std::memcmp(sum.values + at, expected.values.data() + at, bytes) == 0);
  }
}

void train_step(Hosts& hosts, int64_t step) {
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
    host.ask(comm::HostAsk::sums, step);
    return true;
  });
  for (const auto& host : hosts.all) {
    CAPTURE(host->plan.own);
    REQUIRE(host->answered());
    check_sum(*host, expected);
    check_contexts(*host, step);
  }
}

const Split kSplits[] = {
    {{1}, {1}},           {{4}, {4}}, {{3, 2}, {1, 1}},          {{2, 1}, {2}, {1, 1}}, {{1, 1, 1}, {5}, {2, 2}, {1}},
    {{7}, {1}, {1}, {4}}, {{6}, {6}}, {{1}, {1}, {1}, {1}, {1}}, {{8, 8}, {16}, {3}},
};

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

TEST_CASE("what all workers of a host have folded leaves while they fold the rest, and its sum may be used then") {
  Hosts hosts({{1, 1}, {2}}, 1);
  const Gradients gradients = random_gradients(hosts.ests(), hosts.random);
  const Presence presence(static_cast<size_t>(hosts.ests()), std::vector<bool>(kParameters, true));
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
  CHECK(!hosts[0].memory.sums().is_summed(offset_of(manifest(1), kParameters - 1)));
  fold_all_but_two(second[0]);
  hosts.deliver();

  const Sum expected = tree(gradients, presence, 0, hosts.ests());
  for (const auto& host : hosts.all) {
    CHECK(host->memory.sums().is_summed(offset_of(manifest(1), 3)));
    CHECK(!host->memory.sums().is_summed(0));
    for (size_t i = 3; i < kParameters; ++i) {
      const size_t at = offset_of(manifest(1), i), bytes = static_cast<size_t>(kSizes[i]) * sizeof(float);
      CHECK(host->memory.gradient_slot(0).presence[i] == 1);
      CHECK(std::memcmp(host->memory.gradient_slot(0).values + at, expected.values.data() + at, bytes) == 0);
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
    }
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

TEST_CASE("frames out of turn are refused") {
  Hosts hosts({{1}, {1}}, 1);
  StepExchange& exchange = *hosts[0].exchange;
  const uint64_t now = round_number(3, 0);
  CHECK_THROWS_WITH_AS(exchange.room_for(1, {sum, 4, now, 0}), "a sum out of turn", Error);
  CHECK_THROWS_AS(exchange.room_for(1, {partial, 1, round_number(3, 1), 0}), Error);  // of a later step
  CHECK_THROWS_AS(exchange.room_for(1, {partial, 1, now, 1}), Error);                 // begins in the middle
  CHECK_THROWS_AS(exchange.room_for(1, {partial, 1 << 20, now, 0}), Error);           // too long
  CHECK_THROWS_AS(exchange.room_for(1, {partial, 0, now, 0}), Error);
  CHECK_THROWS_AS(exchange.room_for(1, {state, 1, now, 0}), Error);
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
