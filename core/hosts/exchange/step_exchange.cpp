#include "core/hosts/exchange/step_exchange.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/comm/records/step_record.h"

namespace estrain::hosts {
namespace {

using comm::HostAsk;
using comm::Partial;

constexpr size_t kChunk = 4096;  // floats: what is summed stays in a cache

template <typename T>
std::span<const std::byte> bytes_at(const T* first, size_t count) {
  return {reinterpret_cast<const std::byte*>(first), count * sizeof(T)};
}

template <typename T>
std::span<std::byte> places_at(T* first, size_t count) {
  return {reinterpret_cast<std::byte*>(first), count * sizeof(T)};
}

FloatRange common(const FloatRange& one, const FloatRange& other) {
  const FloatRange both = {std::max(one.begin, other.begin), std::min(one.end, other.end)};
  return both.begin < both.end ? both : FloatRange{};
}

// Runs the program of a plan over pieces that lie at `values`, `n` floats each; a sum is written over its left operand.
// Returns where the bottom of the stack lies then.
float* run(const comm::FinishPlan& plan, float* const* values, const bool* present, size_t n) {
  struct Item {
    float* values;
    bool present;
  };
  std::array<Item, comm::kDeepestStack> stack;
  size_t height = 0;
  for (const int instruction : plan.program) {
    if (instruction >= 0) {
      stack[height++] = {values[instruction], present[instruction]};
      continue;
    }
    --height;
    Item& left = stack[height - 1];
    const Item& right = stack[height];
    left.present = comm::add_partials({left.values, left.present}, {right.values, right.present}, left.values, n);
  }
  return stack[0].values;
}

// Which source each entry of the stack that the program leaves lies in, and what it sums.
struct Left {
  size_t source;
  std::vector<size_t> sums;
};
std::vector<Left> what_is_left(const comm::FinishPlan& plan) {
  std::vector<Left> stack;
  for (const int instruction : plan.program) {
    if (instruction >= 0) {
      stack.push_back({static_cast<size_t>(instruction), {static_cast<size_t>(instruction)}});
      continue;
    }
    const Left right = std::move(stack.back());
    stack.pop_back();
    stack.back().sums.insert(stack.back().sums.end(), right.sums.begin(), right.sums.end());
  }
  return stack;
}

std::vector<EstRange> ranges_of_hosts(const HostPlan& plan) {
  std::vector<EstRange> ranges;
  for (const HostShare& host : plan.hosts) ranges.push_back(host.ests());
  return ranges;
}

}  // namespace

StepExchange::StepExchange(comm::JobMemory& memory, HostPlan plan, Outbox& outbox)
    : memory_(memory),
      plan_(std::move(plan)),
      outbox_(outbox),
      parts_(memory, plan_),
      own_share_(parts_.share(plan_.own)),
      peers_(plan_.hosts.size()),
      step_(plan_.step) {
  if (plan_.ests() != memory.ests()) throw Error(Fault::corrupt, "plan of a stage: not of this job's ESTs");
  for (size_t host = 0; host < peers_.size(); ++host) {
    if (!is_own(host)) lay_out_peer(host);
  }
  plan_sums();
}

int64_t StepExchange::rows_of(size_t host) const {
  return comm::plan_fold(comm::SumOrder::tree, plan_.ests(), plan_.hosts[host].ests()).passed_on;
}

void StepExchange::lay_out_peer(size_t host) {
  Peer& peer = peers_[host];
  peer.step = step_;
  const auto rows = static_cast<size_t>(rows_of(host));
  peer.presence.resize(rows * parts_.parameters().size());
  peer.partial_floats.resize(rows * own_share_.size());
  peer.context_bytes.resize(sizeof(uint32_t) + bytes_of(parts_.context(host, step_)));
  peer.evaluation_bytes.resize(bytes_of(parts_.evaluation(host)));
  peer.partial = Inflow({std::span(peer.presence), places_at(peer.partial_floats.data(), peer.partial_floats.size())});
  peer.sum_floats.resize(parts_.share(host).size());
  peer.sum = Inflow({places_at(peer.sum_floats.data(), peer.sum_floats.size())});
  peer.context = Inflow({std::span(peer.context_bytes)});
  peer.evaluation = Inflow({std::span(peer.evaluation_bytes)});
  peer.done = Inflow({places_at(&peer.said, 1)});
}

// The slots are numbered as the workers number them: core/train/shared/gradient_store.h.
void StepExchange::plan_sums() {
  const std::vector<EstRange>& workers = plan_.here().workers;
  fold_ = comm::plan_finish(comm::SumOrder::tree, plan_.ests(), workers);
  std::vector<int64_t> first_slot;
  int64_t slots = 0;
  for (const EstRange& range : workers) {
    first_slot.push_back(slots);
    slots += comm::plan_fold(comm::SumOrder::tree, plan_.ests(), range).buffers;
  }
  for (const comm::FinishPlan::Source& source : fold_.sources)
    fold_slots_.push_back(first_slot[static_cast<size_t>(source.worker.value)] + source.slot);
  for (const Left& left : what_is_left(fold_)) passed_on_.push_back(fold_slots_[left.source]);

  finish_ = comm::plan_finish(comm::SumOrder::tree, plan_.ests(), ranges_of_hosts(plan_));
  const size_t parameters = parts_.parameters().size();
  for (const comm::FinishPlan::Source& source : finish_.sources) {
    const auto host = static_cast<size_t>(source.worker.value), row = static_cast<size_t>(source.slot);
    if (is_own(host)) {
      const comm::GradientSlot slot = memory_.gradient_slot(passed_on_[row]);
      sources_.push_back({slot.values + own_share_.begin, slot.presence});
    } else {
      Peer& peer = peers_[host];
      sources_.push_back({peer.partial_floats.data() + row * own_share_.size(),
                          reinterpret_cast<const uint8_t*>(peer.presence.data()) + row * parameters});
    }
  }
}

template <typename Visit>
void StepExchange::for_others(Visit&& visit) {
  for (size_t host = 0; host < peers_.size(); ++host) {
    if (!is_own(host)) visit(host, peers_[host]);
  }
}

bool StepExchange::all_others(bool (*holds)(const Peer&)) const {
  for (size_t host = 0; host < peers_.size(); ++host) {
    if (!is_own(host) && !holds(peers_[host])) return false;
  }
  return true;
}

int64_t StepExchange::workers_begun() const {
  int64_t begun = 0;
  for (size_t host = 0; host < peers_.size(); ++host) {
    if (peers_[host].begun) begun += static_cast<int64_t>(plan_.hosts[host].workers.size());
  }
  return begun;
}

void StepExchange::ask(const comm::HostRequest& request) {
  if (request.step.value != step_)
    throw Error::make(Fault::bug, "the workers exchange step {}, the courier is at {}", request.step, step_);
  request_ = request;
  asked_ns_ = monotonic_ns();
  if (request.what == HostAsk::sums) {
    fold_host();
    send_partials();
  } else if (request.what == HostAsk::commit) {
    send_done();
  } else {
    send_to_all(evaluation, gather(parts_.evaluation(plan_.own)));
  }
  advance();
}

void StepExchange::send(size_t host, uint32_t kind, const std::vector<std::span<const std::byte>>& parts) {
  cut_into_frames(
      kind, round_number(plan_.stage, step_), parts,
      [&](const net::FrameHead& head, std::span<const std::byte> bytes) { outbox_.send(host, head, bytes); });
}

void StepExchange::send_to_all(uint32_t kind, std::span<const std::byte> bytes) {
  const auto send_copy = [&](size_t host) {
    cut_into_frames(
        kind, round_number(plan_.stage, step_), {bytes},
        [&](const net::FrameHead& head, std::span<const std::byte> piece) { outbox_.send_copy(host, head, piece); });
  };
  for_others([&](size_t host, Peer&) { send_copy(host); });
}

// What the host's workers pass on, as far as the tree allows, each sum in the place of its first part.
void StepExchange::fold_host() {
  const std::vector<FloatRange>& parameters = parts_.parameters();
  const size_t sources = fold_slots_.size();
  std::vector<float*> values(sources);
  std::vector<uint8_t> flags(sources);
  for (size_t i = 0; i < parameters.size(); ++i) {
    for (size_t source = 0; source < sources; ++source)
      flags[source] = memory_.gradient_slot(fold_slots_[source]).presence[i] != 0 ? 1 : 0;
    const auto* present = reinterpret_cast<const bool*>(flags.data());
    for (size_t at = parameters[i].begin; at < parameters[i].end; at += kChunk) {
      for (size_t source = 0; source < sources; ++source)
        values[source] = memory_.gradient_slot(fold_slots_[source]).values + at;
      run(fold_, values.data(), present, std::min(kChunk, parameters[i].end - at));
    }
    for (const Left& left : what_is_left(fold_)) {
      const bool any = std::ranges::any_of(left.sums, [&](size_t source) { return flags[source] != 0; });
      memory_.gradient_slot(fold_slots_[left.source]).presence[i] = any ? 1 : 0;
    }
  }
}

void StepExchange::send_partials() {
  const uint32_t suspect = static_cast<uint32_t>(memory_.ring().pending().head->suspect);
  std::vector<std::byte> left(sizeof suspect);
  std::memcpy(left.data(), &suspect, sizeof suspect);
  const std::vector<std::byte> context_bytes = gather(parts_.context(plan_.own, step_));
  left.insert(left.end(), context_bytes.begin(), context_bytes.end());
  for_others([&](size_t host, Peer&) {
    const FloatRange theirs = parts_.share(host);
    std::vector<std::span<const std::byte>> rows;
    for (const int64_t slot : passed_on_)
      rows.push_back(bytes_at(memory_.gradient_slot(slot).presence, parts_.parameters().size()));
    for (const int64_t slot : passed_on_)
      rows.push_back(bytes_at(memory_.gradient_slot(slot).values + theirs.begin, theirs.size()));
    send(host, partial, rows);
  });
  send_to_all(context, left);
}

// The sum of this host's share, where its own part of the first slot lies.
void StepExchange::finish_share() {
  float* target = memory_.gradient_slot(0).values + own_share_.begin;
  std::vector<float*> values(sources_.size());
  std::vector<uint8_t> flags(sources_.size());
  for (size_t i = 0; i < parts_.parameters().size(); ++i) {
    const FloatRange piece = common(parts_.parameters()[i], own_share_);
    for (size_t source = 0; source < sources_.size(); ++source)
      flags[source] = sources_[source].presence[i] != 0 ? 1 : 0;
    const auto* present = reinterpret_cast<const bool*>(flags.data());
    for (size_t at = piece.begin; at < piece.end; at += kChunk) {
      const size_t n = std::min(kChunk, piece.end - at), offset = at - own_share_.begin;
      for (size_t source = 0; source < sources_.size(); ++source) values[source] = sources_[source].floats + offset;
      const float* sum = run(finish_, values.data(), present, n);
      if (sum != target + offset) std::memcpy(target + offset, sum, n * sizeof(float));
    }
  }
  share_finished_ = true;
}

void StepExchange::send_sum() {
  const auto bytes = bytes_at(memory_.gradient_slot(0).values + own_share_.begin, own_share_.size());
  for_others([&](size_t host, Peer&) { send(host, sum, {bytes}); });
}

uint64_t StepExchange::record_digest() const {
  const comm::RecordView record = memory_.ring().pending();
  uint64_t digest = 0;
  for (int64_t i = 0; i < memory_.digests(); ++i)
    digest += record.digests[i].load() * (2 * static_cast<uint64_t>(i) + 1);
  return digest;
}

void StepExchange::send_done() {
  said_ = {record_digest(), memory_.gate().pause_asked() ? 1u : 0u, 0};
  send_to_all(done, bytes_at(&said_, 1));
}

Inflow& StepExchange::inflow_of(Peer& peer, uint32_t kind) {
  switch (kind) {
    case partial:
      return peer.partial;
    case sum:
      // Nobody can have summed what this host has not sent.
      if (request_.what != HostAsk::sums) throw Error(Fault::corrupt, "a sum out of turn");
      return peer.sum;
    case context:
      return peer.context;
    case done:
      return peer.done;
    case evaluation:
      return peer.evaluation;
    default:
      throw Error::make(Fault::corrupt, "a frame of kind {} does not belong to a step", kind);
  }
}

std::span<std::byte> StepExchange::room_for(size_t host, const net::FrameHead& head) {
  Peer& peer = peers_.at(host);
  if (step_of(head.number) != peer.step)
    throw Error::make(Fault::corrupt, "a frame of step {}, due was one of step {}", step_of(head.number), peer.step);
  return inflow_of(peer, head.kind).room_for(head);
}

void StepExchange::received(size_t host, const net::FrameHead& head) {
  Peer& peer = peers_.at(host);
  inflow_of(peer, head.kind).received(head);
  peer.begun = true;
  if (head.kind == done && peer.done.complete()) ++peer.step;
  advance();
}

void StepExchange::advance() {
  if (request_.what == HostAsk::sums) {
    take_sums();
  } else if (request_.what == HostAsk::commit) {
    take_commit();
  } else if (request_.what == HostAsk::evaluation) {
    take_evaluation();
  }
}

void StepExchange::take_sums() {
  if (!share_finished_) {
    if (!all_others([](const Peer& peer) { return peer.partial.complete(); })) return;
    finish_share();
    send_sum();
  }
  if (!all_others([](const Peer& peer) { return peer.sum.complete() && peer.context.complete(); })) return;
  uint8_t* presence = memory_.gradient_slot(0).presence;
  for (size_t i = 0; i < parts_.parameters().size(); ++i)
    presence[i] = std::ranges::any_of(sources_, [&](const Source& source) { return source.presence[i] != 0; }) ? 1 : 0;
  for_others([&](size_t host, Peer& peer) {
    uint32_t suspect = 0;
    std::memcpy(&suspect, peer.context_bytes.data(), sizeof suspect);
    if (suspect != 0) comm::mark_suspect(*memory_.ring().pending().head, static_cast<comm::Nonfinite::Where>(suspect));
    std::ranges::copy(peer.sum_floats, memory_.gradient_slot(0).values + parts_.share(host).begin);
    scatter(std::span(peer.context_bytes).subspan(sizeof suspect), parts_.context(host, step_));
    for (Inflow* inflow : {&peer.partial, &peer.sum, &peer.context}) inflow->begin_anew();
  });
  share_finished_ = false;
  answer();
}

void StepExchange::take_commit() {
  if (!all_others([](const Peer& peer) { return peer.done.complete(); })) return;
  for_others([&](size_t host, Peer& peer) {
    if (peer.said.digest != said_.digest) {
      throw Error::make(Fault::mismatch, "step {}: {} and {} have come to different bits", step_ + 1,
                        plan_.hosts[host].name, plan_.here().name)
          .advise(
              "below D2 all hosts of a job need processors of one kind; compare the parameters' digests of two runs, "
              "one "
              "on each host, by `estrain verify`");
    }
    peer.done.begin_anew();
  });
  const bool leads = plan_.own == 0;
  memory_.hosts().agree(Step(step_ + 1), (leads ? said_.pause : peers_[0].said.pause) != 0);
  ++step_;
  answer();
}

void StepExchange::keep_whole_step() {
  if (request_.what == HostAsk::commit) memory_.hosts().agree(Step(step_ + 1), false);
}

void StepExchange::take_evaluation() {
  if (!all_others([](const Peer& peer) { return peer.evaluation.complete(); })) return;
  for_others([&](size_t host, Peer& peer) {
    scatter(peer.evaluation_bytes, parts_.evaluation(host));
    peer.evaluation.begin_anew();
  });
  answer();
}

void StepExchange::answer() {
  const comm::HostRequest request = std::exchange(request_, {});
  if (request.what == HostAsk::sums) {
    ++pace_.exchanges;
    pace_.ns += monotonic_ns() - asked_ns_;
  }
  memory_.hosts().answer(request);
}

}  // namespace estrain::hosts
