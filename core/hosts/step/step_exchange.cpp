#include "core/hosts/step/step_exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/state/comm/records/step_record.h"

namespace estrain::hosts {
namespace {

using comm::HostAsk;

// Returns a number that depends on every digest of the pending record.
uint64_t record_digest(const comm::JobMemory& memory) {
  const comm::RecordView record = memory.ring().pending();
  uint64_t digest = 0;
  for (int64_t i = 0; i < memory.ring().digests(); ++i)
    digest += record.digests[i].load() * (2 * static_cast<uint64_t>(i) + 1);
  return digest;
}

}  // namespace

StepExchange::Peer::Peer(const SharedParts& parts, size_t host, int64_t step_of_frames)
    : step(step_of_frames),
      context_bytes(sizeof(uint32_t) + bytes_of(parts.context(host, step_of_frames))),
      evaluation_bytes(bytes_of(parts.evaluation(host))),
      context({std::span(context_bytes)}),
      evaluation({std::span(evaluation_bytes)}),
      done({std::as_writable_bytes(std::span(&said, 1))}) {}

StepExchange::StepExchange(comm::JobMemory& memory, HostPlan plan, StepOutbox& outbox, size_t piece)
    : memory_(memory),
      plan_(std::move(plan)),
      outbox_(outbox),
      parts_(memory, plan_),
      sums_(memory, plan_, parts_, outbox, piece),
      step_(plan_.step) {
  if (plan_.ests() != memory.ests()) throw Error(Fault::corrupt, "plan of a stage: not of this job's ESTs");
  for (size_t host = 0; host < plan_.hosts.size(); ++host) {
    if (host != plan_.own) peers_.try_emplace(host, parts_, host, step_);
  }
  sums_.begin(step_);
}

int64_t StepExchange::workers_begun() const {
  int64_t begun = 0;
  for (const auto& [host, peer] : peers_) {
    if (peer.begun) begun += static_cast<int64_t>(plan_.hosts[host].workers.size());
  }
  return begun;
}

void StepExchange::ask(const comm::HostRequest& request) {
  if (request.step.value != step_)
    throw Error::make(Fault::bug, "the workers exchange step {}, the courier is at {}", request.step, step_);
  request_ = request;
  asked_ = MonotonicClock::now();
  if (request.what == HostAsk::sums) {
    if (!sums_.is_all_folded()) throw Error(Fault::bug, "the workers ask for sums of what they have not folded");
    send_context();
  } else if (request.what == HostAsk::commit) {
    send_done();
  } else {
    send_to_all(evaluation, gather(parts_.evaluation(plan_.own)));
  }
  advance();
}

bool StepExchange::work() {
  const bool has_more = sums_.fold_piece();
  advance();
  return has_more;
}

void StepExchange::send_to_all(uint32_t kind, std::span<const std::byte> bytes) {
  for (const auto& [host, peer] : peers_) {
    const auto send = [&, to = host](const net::FrameHead& head, std::span<const std::byte> part) {
      outbox_.send_copy(to, head, part);
    };
    cut_into_frames(kind, round_number(plan_.stage, step_), {bytes}, send);
  }
}

void StepExchange::send_context() {
  const uint32_t suspect = static_cast<uint32_t>(memory_.ring().pending().head->suspect);
  std::vector<std::byte> left(sizeof suspect);
  std::memcpy(left.data(), &suspect, sizeof suspect);
  const std::vector<std::byte> context_bytes = gather(parts_.context(plan_.own, step_));
  left.insert(left.end(), context_bytes.begin(), context_bytes.end());
  send_to_all(context, left);
}

void StepExchange::send_done() {
  said_ = {record_digest(memory_), memory_.gate().pause_asked() ? 1u : 0u, 0};
  send_to_all(done, std::as_bytes(std::span(&said_, 1)));
}

Inflow& StepExchange::inflow_of(size_t host, uint32_t kind) {
  Peer& peer = peers_.at(host);
  switch (kind) {
    case partial:
      return sums_.partial(host);
    case sum:
      return sums_.sum(host);
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
  return inflow_of(host, head.kind).room_for(head);
}

void StepExchange::received(size_t host, const net::FrameHead& head) {
  Peer& peer = peers_.at(host);
  inflow_of(host, head.kind).received(head);
  peer.begun = true;
  if (head.kind == sum) sums_.received_sum(host);
  if (head.kind == done && peer.done.complete()) ++peer.step;
  advance();
}

bool StepExchange::all_have_sent(Inflow Peer::*what) const {
  return std::ranges::all_of(peers_, [what](const auto& peer) { return (peer.second.*what).complete(); });
}

void StepExchange::advance() {
  sums_.finish_pieces();
  if (request_.what == HostAsk::sums) {
    take_sums();
  } else if (request_.what == HostAsk::commit) {
    take_commit();
  } else if (request_.what == HostAsk::evaluation) {
    take_evaluation();
  }
}

void StepExchange::take_sums() {
  if (!sums_.complete() || !all_have_sent(&Peer::context)) return;
  sums_.end();
  for (auto& [host, peer] : peers_) {
    uint32_t suspect = 0;
    std::memcpy(&suspect, peer.context_bytes.data(), sizeof suspect);
    if (suspect != 0) comm::mark_suspect(*memory_.ring().pending().head, static_cast<comm::Nonfinite::Where>(suspect));
    scatter(std::span(peer.context_bytes).subspan(sizeof suspect), parts_.context(host, step_));
    peer.context.begin_anew();
  }
  answer();
}

void StepExchange::check_bits(size_t host, const StepDone& said) const {
  if (said.digest == said_.digest) return;
  throw Error::make(Fault::mismatch, "step {}: {} and {} have come to different bits", step_ + 1,
                    plan_.hosts[host].name, plan_.here().name)
      .advise(
          "below D2 all hosts of a job need processors of one kind; compare the parameters' digests of two runs, one "
          "on each host, by `estrain verify`");
}

void StepExchange::take_commit() {
  if (!all_have_sent(&Peer::done)) return;
  for (auto& [host, peer] : peers_) {
    check_bits(host, peer.said);
    peer.done.begin_anew();
  }
  const bool leads = plan_.own == 0;
  memory_.hosts().agree(Step(step_ + 1), (leads ? said_.pause : peers_.at(0).said.pause) != 0);
  memory_.sums().begin_step(plan_.here().workers.size());
  sums_.begin(++step_);
  answer();
}

void StepExchange::keep_whole_step() {
  if (request_.what == HostAsk::commit) memory_.hosts().agree(Step(step_ + 1), false);
}

void StepExchange::take_evaluation() {
  if (!all_have_sent(&Peer::evaluation)) return;
  for (auto& [host, peer] : peers_) {
    scatter(peer.evaluation_bytes, parts_.evaluation(host));
    peer.evaluation.begin_anew();
  }
  answer();
}

void StepExchange::answer() {
  const comm::HostRequest request = std::exchange(request_, {});
  if (request.what == HostAsk::sums) {
    ++pace_.exchanges;
    pace_.ns += (MonotonicClock::now() - asked_).count();
  }
  memory_.hosts().answer(request);
}

}  // namespace estrain::hosts
