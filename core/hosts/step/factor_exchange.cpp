#include "core/hosts/step/factor_exchange.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "core/hosts/exchange/wire.h"

namespace estrain::hosts {
namespace {

struct Offer {
  uint32_t bytes = 0;  // 0: none
  float seconds = 0;
};

double waited_seconds(std::span<const std::byte> offers) {
  double waited;
  std::memcpy(&waited, offers.data(), sizeof waited);
  return waited;
}

Offer offer_at(std::span<const std::byte> offers, size_t candidate) {
  Offer offer;
  std::memcpy(&offer, offers.data() + sizeof(double) + candidate * sizeof offer, sizeof offer);
  return offer;
}

template <typename T>
void append(std::vector<std::byte>& bytes, const T& value) {
  const auto* first = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), first, first + sizeof value);
}

}  // namespace

FactorExchange::FactorExchange(comm::JobMemory& memory, const HostPlan& plan, const SharedParts& parts,
                               StepOutbox& outbox)
    : memory_(memory), plan_(plan), parts_(parts), outbox_(outbox), is_chosen_(parts.parameters().size()) {
  for (const EstRange& worker : plan.here().workers)
    most_arrivals_ = std::max(most_arrivals_, static_cast<size_t>(worker.size()));
  for (size_t i = 0; i < parts.parameters().size(); ++i) {
    if (comm::FactorPlaces::can_hold(parts.parameters()[i].size(), plan.ests())) candidates_.push_back(i);
  }
  for (const size_t parameter : candidates_) own_head(parameter) = {};  // no offer
}

comm::FactorHead& FactorExchange::own_head(size_t parameter) const {
  const ParameterRange& range = parts_.parameters()[parameter];
  return comm::FactorPlaces(memory_, range.begin, range.size()).head(plan_.here().ests().begin);
}

size_t FactorExchange::offer_bytes() const { return sizeof(double) + candidates_.size() * sizeof(Offer); }

std::vector<std::byte> FactorExchange::offers(double waited_seconds) const {
  std::vector<std::byte> bytes;
  append(bytes, waited_seconds);
  for (const size_t parameter : candidates_) {
    const comm::FactorHead& head = own_head(parameter);
    append(bytes, Offer{head.bytes, head.seconds});
  }
  return bytes;
}

plan::FactorOffers FactorExchange::offers_for(size_t candidate,
                                              const std::vector<std::span<const std::byte>>& offers) const {
  const ParameterRange& range = parts_.parameters()[candidates_[candidate]];
  plan::FactorOffers all;
  all.gradient_bytes = static_cast<double>(range.size() * sizeof(float));
  all.bytes_of_all = static_cast<double>(parts_.floats() * sizeof(float));
  for (size_t host = 0; host < plan_.hosts.size(); ++host) {
    const Offer offer = offer_at(offers[host], candidate);
    all.hosts.push_back({offer.bytes, static_cast<double>(offer.seconds), waited_seconds(offers[host]),
                         static_cast<size_t>(plan_.hosts[host].ests().size())});
  }
  return all;
}

// A worker finds the bytes of its ESTs' factors in the heads.
void FactorExchange::choose(const std::vector<std::span<const std::byte>>& offers) {
  uint8_t* const chosen = comm::chosen_factors(memory_);
  std::fill_n(chosen, is_chosen_.size(), uint8_t{0});
  for (size_t candidate = candidates_.size(); candidate-- > 0;) {
    const plan::FactorOffers of_hosts = offers_for(candidate, offers);
    switch (plan::choice_of(of_hosts, plan_.all_factors)) {
      case plan::FactorChoice::without:
        ++summary_.without_factors;
        continue;
      case plan::FactorChoice::too_large:
        ++summary_.too_large;
        continue;
      case plan::FactorChoice::too_slow:
        ++summary_.too_slow;
        continue;
      case plan::FactorChoice::sent:
        break;
    }
    const size_t parameter = candidates_[candidate];
    chosen_.push_back({parameter, of_hosts.hosts.front().bytes});
    ++summary_.parameters;
    summary_.gradient_bytes += parts_.parameters()[parameter].size() * sizeof(float);
    summary_.bytes += chosen_.back().bytes;
    is_chosen_[parameter] = true;
    chosen[parameter] = 1;
    const EstRange own = plan_.here().ests();
    for (int64_t rank = own.begin.value; rank < own.end.value; ++rank) {
      comm::FactorHead head;
      head.bytes = static_cast<uint32_t>(chosen_.back().bytes);
      std::memcpy(place(chosen_.back(), VirtualRank(rank)).data(), &head, sizeof head);
    }
  }
  lay_out();
}

std::span<std::byte> FactorExchange::place(const Chosen& chosen, VirtualRank rank) const {
  const ParameterRange& range = parts_.parameters()[chosen.parameter];
  return {comm::FactorPlaces(memory_, range.begin, range.size()).at(rank), chosen.bytes};
}

// In the order of sending: the first EST of each worker, then the second of each.
void FactorExchange::lay_out() {
  if (chosen_.empty()) return;
  for (size_t host = 0; host < plan_.hosts.size(); ++host) {
    if (host == plan_.own) continue;
    Places places;
    const std::vector<EstRange>& workers = plan_.hosts[host].workers;
    for (int64_t arrival = 0; arrival < plan_.hosts[host].ests().size(); ++arrival) {
      for (const EstRange& worker : workers) {
        if (arrival >= worker.size()) continue;
        for (const Chosen& chosen : chosen_) places.push_back(place(chosen, VirtualRank(worker.begin.value + arrival)));
      }
    }
    inflows_.emplace(host, Inflow(std::move(places)));
  }
}

void FactorExchange::begin(int64_t step) {
  step_ = step;
  arrival_ = worker_ = number_ = 0;
  sent_ = 0;
  if (!inflows_.empty() && have_arrived()) memory_.sums().note_factors_arrived();
}

bool FactorExchange::have_arrived() const {
  return std::ranges::all_of(inflows_, [](const auto& one) { return one.second.complete(); });
}

void FactorExchange::send_ready() {
  const std::vector<EstRange>& workers = plan_.here().workers;
  while (!is_sent()) {
    const EstRange& worker = workers[worker_];
    if (arrival_ < static_cast<size_t>(worker.size())) {
      if (memory_.sums().factors_of(worker_) <= arrival_ * chosen_.size() + number_) return;
      send(place(chosen_[number_], VirtualRank(worker.begin.value + static_cast<int64_t>(arrival_))));
      if (++number_ < chosen_.size()) continue;
    }
    number_ = 0;
    worker_ = (worker_ + 1) % workers.size();
    if (worker_ == 0) ++arrival_;
  }
}

void FactorExchange::send(std::span<const std::byte> bytes) {
  const uint64_t number = round_number(plan_.stage, step_);
  for (const auto& peer : inflows_) {
    cut_into_frames(Kind::factors, number, {bytes}, [&](net::FrameHead head, std::span<const std::byte> piece) {
      head.offset += sent_;
      outbox_.send(peer.first, head, piece);
    });
  }
  sent_ += bytes.size();
}

Inflow& FactorExchange::from(size_t host) {
  const auto at = inflows_.find(host);
  if (at == inflows_.end()) throw Error(Fault::corrupt, "factors of gradients, where none were chosen");
  return at->second;
}

void FactorExchange::received(size_t host, const net::FrameHead& head) {
  from(host).received(head);
  if (have_arrived()) memory_.sums().note_factors_arrived();
}

bool FactorExchange::complete() const { return is_sent() && have_arrived(); }

void FactorExchange::end() {
  for (auto& [host, inflow] : inflows_) inflow.begin_anew();
}

}  // namespace estrain::hosts
