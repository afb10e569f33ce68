#pragma once
// Hosts of a job in one process, each with a shared memory of its own. The test plays the hosts' workers. Frames wait
// in queues and are delivered in a random order; frames between two hosts keep their order.

#include <doctest/doctest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/hosts/step/step_exchange.h"
#include "core/state/comm/output_mail.h"
#include "core/state/comm/stage_control.h"
#include "core/state/comm/sums/partial_sum.h"

namespace estrain::hosts::in_memory {

using Presence = std::vector<std::vector<bool>>;               // [est][parameter]
using Gradients = std::vector<std::vector<float>>;             // [est][floats]
using Split = std::vector<std::vector<int64_t>>;               // [host][worker]: number of the worker's ESTs
inline constexpr int64_t kSizes[] = {5, 1, 300, 4097, 64, 7};  // of the parameters
inline constexpr size_t kParameters = std::size(kSizes), kGeneratorBytes = 24;
inline constexpr size_t kFloatsOfPiece = 128;  // so hosts and parameters have several pieces

checkpoint::Manifest manifest(int64_t ests);
enum class Sums { by_couriers, by_gpus, with_factors, with_all_factors };
HostPlan plan_of(const Split& split, size_t own, int64_t step, Sums sums = Sums::by_couriers);
// The first float of a parameter in a gradient slot, and the bytes of its floats.
size_t offset_of(size_t parameter);
inline size_t bytes_of_parameter(size_t parameter) { return static_cast<size_t>(kSizes[parameter]) * sizeof(float); }

struct Sent {
  net::FrameHead head;
  std::vector<std::byte> bytes;
};

// A host; sent frames wait in `to[host]`.
class Host : public StepOutbox {
 public:
  Host(const Split& split, size_t own, int64_t step, int64_t samples, Sums sums = Sums::by_couriers)
      : plan(plan_of(split, own, step, sums)), manifest_(manifest(plan.ests())), memory(fd_.get()), to(split.size()) {
    comm::MemoryPlan wanted;
    wanted.manifest = manifest_.to_json();
    wanted.state_bytes = manifest_.layout.bytes;
    wanted.gradient_bytes = manifest_.layout.bytes;
    wanted.ests = plan.ests();
    wanted.parameters = kParameters;
    wanted.digests = static_cast<int64_t>(manifest_.digest_names.size());
    wanted.evaluation_samples = samples;
    wanted.evaluation_columns = 2;
    wanted.evaluation_numbers = samples > 0 ? 3 + comm::OutputMail::numbers : 0;
    wanted.ring_records = 8;
    memory.lay_out(wanted);
    memory.set_ready();
    comm::StageControl(memory).open();
    begin_stage();
  }

  void begin_stage() { exchange = std::make_unique<StepExchange>(memory, plan, *this, kFloatsOfPiece); }

  void send(size_t host, const net::FrameHead& head, std::span<const std::byte> bytes) override {
    to[host].push_back({head, {bytes.begin(), bytes.end()}});
    sent_bytes += bytes.size();
  }
  void send_copy(size_t host, const net::FrameHead& head, std::span<const std::byte> bytes) override {
    send(host, head, bytes);
  }

  // Asks like the last worker to arrive, without waiting.
  void ask(comm::HostAsk what, int64_t step) { exchange->ask({what, Step(step), ++asked}); }
  // Works like the courier's loop between two frames.
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
  Hosts(const Split& split, uint64_t seed, int64_t step = 0, int64_t samples = 0, Sums sums = Sums::by_couriers)
      : random(seed) {
    for (size_t host = 0; host < split.size(); ++host)
      all.push_back(std::make_unique<Host>(split, host, step, samples, sums));
  }

  Host& operator[](size_t host) { return *all[host]; }
  int64_t ests() const { return all[0]->plan.ests(); }

  // Delivers until no frame is under way. `also`: something that may happen in between.
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
      deliver_one(from, to);
    }
  }

  // Delivers the frames under way from a host to another one, and no others.
  void deliver(size_t from, size_t to) {
    while (!all[from]->to[to].empty()) deliver_one(from, to);
  }

  std::vector<std::unique_ptr<Host>> all;
  std::mt19937_64 random;

 private:
  void deliver_one(size_t from, size_t to) {
    const Sent sent = std::move(all[from]->to[to].front());
    all[from]->to[to].pop_front();
    const std::span<std::byte> room = all[to]->exchange->room_for(from, sent.head);
    REQUIRE(room.size() == sent.bytes.size());
    std::memcpy(room.data(), sent.bytes.data(), room.size());
    all[to]->exchange->received(from, sent.head);
  }
};

struct Sum {
  std::vector<float> values;
  std::vector<bool> present;
};

// The sum over ESTs [lo, hi) by the definition of the tree.
Sum tree(const Gradients& gradients, const Presence& presence, int64_t lo, int64_t hi);

// A worker that folds its ESTs' gradients as far as the tree allows, parameter by parameter, the last one first.
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
  void fold(const comm::FoldPlan::EstArrival& place, size_t rank, const Gradients& gradients,
            const Presence& presence) {
    const auto [depth, merges] = place;
    const size_t i = kParameters - folded_, at = offset_of(i), n = static_cast<size_t>(kSizes[i]);
    std::vector<float> sum(gradients[rank].begin() + static_cast<ptrdiff_t>(at),
                           gradients[rank].begin() + static_cast<ptrdiff_t>(at + n));
    bool present = presence[rank][i];
    for (int level = 1; level <= merges; ++level) {
      const comm::GradientSlot left = host_->memory.gradients()[first_slot_ + depth - level];
      present = comm::add_partials({left.values + at, left.presence[i] != 0}, {sum.data(), present}, sum.data(), n);
    }
    const comm::GradientSlot slot = host_->memory.gradients()[first_slot_ + depth - merges];
    std::ranges::copy(sum, slot.values + at);
    slot.presence[i] = present ? 1 : 0;
  }

  Host* host_;
  size_t worker_;
  int64_t first_slot_ = 0;
  size_t folded_ = 0;  // parameters
};

std::vector<Folding> workers_of(Host& host);

// Returns numbers of very different sizes: their sums depend on the order.
Gradients random_gradients(int64_t ests, std::mt19937_64& random);
// One parameter is absent everywhere, two parameters are absent from some ESTs.
Presence random_presence(int64_t ests, std::mt19937_64& random);
Presence all_present(int64_t ests);

// Has all hosts train a step up to the answer for its sums, and checks the sums and the contexts on each.
// `before_asking` is called for each host when its workers have folded, and `skip`: the parameter whose sum is not the
// couriers'.
void train_step(Hosts& hosts, int64_t step, const std::function<void(Host&)>& before_asking = nullptr,
                std::optional<size_t> skip = std::nullopt);
// Has all hosts ask for the sums of a step in which their GPUs have summed. Checks the contexts on each.
void pass_on_contexts(Hosts& hosts, int64_t step);
// The sum of parameter `i` on this host has the bits of `expected`.
void check_sum(Host& host, const Sum& expected, size_t i);

inline const Split kSplits[] = {
    {{1}, {1}},
    {{4}, {4}},
    {{3, 2}, {1, 1}},
    {{2, 1}, {2}, {1, 1}},
    {{1, 1, 1}, {5}, {2, 2}, {1}},
    {{7}, {1}, {1}, {4}},
    {{6}, {6}},
    {{1}, {1}, {1}, {1}, {1}},
    {{8, 8}, {16}, {3}},
    {{1}, {2}, {1}, {1, 1}, {1}, {1}, {1}, {2}, {1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}},
};

}  // namespace estrain::hosts::in_memory
