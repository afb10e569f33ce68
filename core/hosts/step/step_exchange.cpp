#include "core/hosts/step/step_exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/state/comm/gradient_factors.h"
#include "core/state/comm/meetings/host_meeting.h"
#include "core/state/comm/output_mail.h"
#include "core/state/comm/records/step_record.h"

namespace estrain::hosts {
namespace {

using comm::HostAsk;
using Suspect = uint32_t;  // a Nonfinite::Where before a context

// Returns a number that depends on every digest of the pending record.
uint64_t record_digest(const comm::JobMemory& memory) {
  const comm::RecordView record = memory.ring().pending();
  uint64_t digest = 0;
  for (int64_t i = 0; i < memory.ring().digests(); ++i)
    digest += record.digests[i].load() * (2 * static_cast<uint64_t>(i) + 1);
  return digest;
}

}  // namespace

StepExchange::StepExchange(comm::JobMemory& memory, HostPlan plan, StepOutbox& outbox, size_t piece)
    : memory_(memory),
      plan_(std::move(plan)),
      outbox_(outbox),
      piece_(piece),
      parts_(memory, plan_),
      factors_(plan_.factors && !plan_.gpus_sum
                   ? std::optional<FactorExchange>(std::in_place, memory, plan_, parts_, outbox)
                   : std::nullopt),
      contexts_(context, plan_.own, for_each_host([&](size_t host) { return context_bytes(host); }), outbox),
      dones_(done, plan_.own, for_each_host([](size_t) { return sizeof(StepDone); }), outbox),
      evaluations_(evaluation, plan_.own, for_each_host([&](size_t host) { return bytes_of(parts_.evaluation(host)); }),
                   outbox),
      exchange_ids_(exchange_id, plan_.own, for_each_host([](size_t) { return sizeof(comm::ExchangeId); }), outbox),
      begun_(plan_.hosts.size()),
      step_(plan_.step) {
  if (plan_.ests() != memory.ests()) throw Error(Fault::corrupt, "plan of a stage: not of this job's ESTs");
  open_mails();
  if (plan_.gpus_sum) return;
  sums_.emplace(memory, plan_, parts_, outbox, piece);
  sums_->begin(step_);
}

size_t StepExchange::context_bytes(size_t host) const {
  const size_t bytes = sizeof(Suspect) + bytes_of(parts_.context(host, plan_.step));
  return factors_ ? bytes + factors_->offer_bytes() : bytes;
}

template <typename BytesOfHost>
std::vector<size_t> StepExchange::for_each_host(BytesOfHost&& bytes_of_host) const {
  std::vector<size_t> all(plan_.hosts.size());
  for (size_t host = 0; host < all.size(); ++host) all[host] = bytes_of_host(host);
  return all;
}

template <typename Take>
void StepExchange::for_each_other(Take&& take) const {
  for (size_t host = 0; host < plan_.hosts.size(); ++host) {
    if (host != plan_.own) take(host);
  }
}

// A host may send a round before another host has taken the round before: two kinds of frames keep the rounds apart. No
// host is further ahead, as a round needs all hosts.
void StepExchange::open_mails() {
  if (!comm::OutputMail::is_in(memory_.evaluation())) return;
  const size_t hosts = plan_.hosts.size();
  const auto bytes = for_each_host([&](size_t) { return comm::OutputMail::bytes_of_slot(hosts); });
  for (const Kind kind : {mail_even, mail_odd}) mails_.emplace_back(kind, plan_.own, bytes, outbox_);
}

int64_t StepExchange::workers_begun() const {
  int64_t begun = 0;
  for_each_other([&](size_t host) {
    if (begun_[host]) begun += static_cast<int64_t>(plan_.hosts[host].workers.size());
  });
  return begun;
}

uint64_t StepExchange::number() const { return round_number(plan_.stage, step_); }

void StepExchange::ask(const comm::HostRequest& request) {
  if (request.step.value != step_)
    throw Error::make(Fault::bug, "the workers exchange step {}, the courier is at {}", request.step, step_);
  request_ = request;
  asked_ = MonotonicClock::now();
  if (request.what == HostAsk::sums) {
    if (factors_) factors_->send_ready();
    if (sums_ && !sums_->is_all_folded())
      throw Error(Fault::bug, "the workers ask for sums of what they have not folded");
    give_context();
  } else if (request.what == HostAsk::commit) {
    give_done();
  } else if (request.what == HostAsk::exchange) {
    exchange_ids_.give(number(), memory_.meetings().offered_exchange_id());
  } else {
    give_evaluation();
  }
  advance();
}

bool StepExchange::work() {
  if (factors_) factors_->send_ready();
  const bool has_more = sums_ && sums_->fold_piece();
  advance();
  return has_more;
}

void StepExchange::give_context() {
  const Suspect suspect = static_cast<Suspect>(memory_.ring().pending().head->suspect);
  std::vector<std::byte> left(sizeof suspect);
  std::memcpy(left.data(), &suspect, sizeof suspect);
  const std::vector<std::byte> own = gather(parts_.context(plan_.own, step_));
  left.insert(left.end(), own.begin(), own.end());
  if (factors_) {
    const std::vector<std::byte> offers = factors_->offers(waited_seconds_);
    left.insert(left.end(), offers.begin(), offers.end());
  }
  contexts_.give(number(), left);
}

void StepExchange::give_done() {
  const StepDone said = {record_digest(memory_), memory_.gate().pause_asked() ? 1u : 0u, 0};
  dones_.give(number(), std::as_bytes(std::span(&said, 1)));
}

void StepExchange::give_evaluation() {
  mail_round_ = mails_.empty() ? 0 : comm::OutputMail(memory_.evaluation()).round();
  if (mail_round_ == 0) {
    evaluations_.give(number(), gather(parts_.evaluation(plan_.own)));
  } else {
    const comm::OutputMail mail(memory_.evaluation());
    mails_[mail_round_ % 2].give(number(), mail.slot(plan_.own, plan_.hosts.size()));
  }
}

StepDone StepExchange::said_by(size_t host) const {
  StepDone said;
  std::memcpy(&said, dones_.of(host).data(), sizeof said);
  return said;
}

// A host that has committed the step has this host's word for it, and may be at the next step. Until this host gives
// its word, all hosts are at this step.
int64_t StepExchange::due_step(uint32_t kind) const { return kind != done && dones_.is_given() ? step_ + 1 : step_; }

GradientSums& StepExchange::sums_by_couriers() {
  if (!sums_) throw Error(Fault::corrupt, "sums of a host, where the GPUs of all hosts sum");
  return *sums_;
}

FactorExchange& StepExchange::factors_by_couriers() {
  if (!factors_) throw Error(Fault::corrupt, "factors of gradients, where all gradients go as sums");
  return *factors_;
}

Inflow& StepExchange::inflow_of(size_t host, uint32_t kind) {
  switch (kind) {
    case partial:
      return sums_by_couriers().partial(host);
    case sum:
      return sums_by_couriers().sum(host);
    case factors:
      return factors_by_couriers().from(host);
    case context:
      return contexts_.from(host);
    case done:
      return dones_.from(host);
    case evaluation:
      return evaluations_.from(host);
    case exchange_id:
      return exchange_ids_.from(host);
    case mail_even:
    case mail_odd:
      if (!mails_.empty()) return mails_[kind == mail_even ? 0 : 1].from(host);
      [[fallthrough]];
    default:
      throw Error::make(Fault::corrupt, "a frame of kind {} does not belong to a step", kind);
  }
}

std::span<std::byte> StepExchange::room_for(size_t host, const net::FrameHead& head) {
  const int64_t due = due_step(head.kind);
  if (step_of(head.number) != due)
    throw Error::make(Fault::corrupt, "a frame of step {}, due was one of step {}", step_of(head.number), due);
  return inflow_of(host, head.kind).room_for(head);
}

void StepExchange::received(size_t host, const net::FrameHead& head) {
  if (head.kind == factors) {
    factors_by_couriers().received(host, head);
  } else {
    inflow_of(host, head.kind).received(head);
  }
  if (head.kind != exchange_id) begun_[host] = true;
  if (head.kind == sum) sums_->received_sum(host);
  advance();
}

void StepExchange::advance() {
  if (sums_) sums_->finish_pieces();
  for (AllGather* each : {&contexts_, &dones_, &evaluations_, &exchange_ids_}) each->advance();
  for (AllGather& each : mails_) each.advance();
  if (request_.what == HostAsk::sums) {
    take_sums();
  } else if (request_.what == HostAsk::commit) {
    take_commit();
  } else if (request_.what == HostAsk::exchange) {
    take_exchange_id();
  } else if (request_.what == HostAsk::evaluation && mail_round_ > 0) {
    take_mail();
  } else if (request_.what == HostAsk::evaluation) {
    take_evaluation();
  }
}

void StepExchange::take_sums() {
  if ((sums_ && !sums_->complete()) || (factors_ && !factors_->complete()) || !contexts_.complete()) return;
  if (sums_) sums_->end();
  if (factors_) factors_->end();
  for_each_other([&](size_t host) {
    const std::span<const std::byte> bytes = contexts_.of(host);
    Suspect suspect = 0;
    std::memcpy(&suspect, bytes.data(), sizeof suspect);
    if (suspect != 0) comm::mark_suspect(*memory_.ring().pending().head, static_cast<comm::Nonfinite::Where>(suspect));
    scatter(bytes.subspan(sizeof suspect), parts_.context(host, step_));
    begun_[host] = true;
  });
  if (factors_ && step_ == plan_.step + comm::kStepsBeforeFactors - 1) choose_factors();
  contexts_.begin_anew();
  answer();
}

// This host has not told yet that the step is whole here. So no host is at the next step, and no frame of the next step
// is under way.
void StepExchange::choose_factors() {
  std::vector<std::span<const std::byte>> offers;
  for (size_t host = 0; host < plan_.hosts.size(); ++host)
    offers.push_back(contexts_.of(host).last(factors_->offer_bytes()));
  factors_->choose(offers);
  chosen_factors_ = factors_->summary();
  sums_.emplace(memory_, plan_, parts_, outbox_, piece_, factors_->chosen());
}

void StepExchange::check_bits(size_t host) const {
  if (said_by(host).digest == said_by(plan_.own).digest) return;
  const auto name = [](const HostShare& share) { return share.name.empty() ? "the launcher's host" : share.name; };
  const std::string kinds = plan_.any_processor ? "" : "below D2 all hosts of a job need processors of one kind; ";
  throw Error::make(Fault::mismatch, "step {}: {} and {} have come to different bits", step_ + 1,
                    name(plan_.hosts[host]), name(plan_.here()))
      .advise(kinds + "compare the parameters' digests of two runs, one on each host, by `estrain verify`");
}

void StepExchange::take_commit() {
  if (!dones_.complete()) return;
  for_each_other([this](size_t host) { check_bits(host); });
  dones_.begin_anew();
  memory_.hosts().agree(Step(step_ + 1), said_by(0).pause != 0);
  memory_.sums().begin_step(plan_.here().workers.size());
  ++step_;
  if (sums_) sums_->begin(step_);
  if (factors_) factors_->begin(step_);
  answer();
}

void StepExchange::keep_whole_step() {
  if (request_.what == HostAsk::commit) memory_.hosts().agree(Step(step_ + 1), false);
}

void StepExchange::take_evaluation() {
  if (!evaluations_.complete()) return;
  for_each_other([this](size_t host) { scatter(evaluations_.of(host), parts_.evaluation(host)); });
  evaluations_.begin_anew();
  if (!mails_.empty()) comm::OutputMail(memory_.evaluation()).set_hosts(plan_.hosts.size(), plan_.own);
  answer();
}

void StepExchange::take_mail() {
  AllGather& round = mails_[mail_round_ % 2];
  if (!round.complete()) return;
  const comm::OutputMail mail(memory_.evaluation());
  for_each_other([&](size_t host) { std::ranges::copy(round.of(host), mail.slot(host, plan_.hosts.size()).begin()); });
  round.begin_anew();
  answer();
}

void StepExchange::take_exchange_id() {
  if (!exchange_ids_.complete()) return;
  comm::ExchangeId id;
  std::ranges::copy(exchange_ids_.of(0), id.begin());
  exchange_ids_.begin_anew();
  memory_.meetings().offer_exchange_id(id);
  answer();
}

void StepExchange::answer() {
  const comm::HostRequest request = std::exchange(request_, {});
  if (request.what == HostAsk::sums) {
    const Nanoseconds waited = MonotonicClock::now() - asked_;
    ++pace_.exchanges;
    pace_.ns += waited.count();
    waited_seconds_ = seconds(waited).count();
  }
  memory_.hosts().answer(request);
}

}  // namespace estrain::hosts
