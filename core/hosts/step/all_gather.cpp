#include "core/hosts/step/all_gather.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/hosts/exchange/shared_parts.h"

namespace estrain::hosts {
namespace {

constexpr size_t kWidening = 4;  // blocks of a host after a round, for each block before the round

}  // namespace

std::vector<AllGather::Round> AllGather::rounds_of(size_t hosts, size_t own) {
  std::vector<Round> rounds;
  for (size_t width = 1; width < hosts; width *= kWidening) {
    Round round;
    for (size_t distance = width; distance < std::min(kWidening * width, hosts); distance += width) {
      const size_t blocks = std::min(width, hosts - distance);
      round.to.push_back({(own + distance) % hosts, blocks});
      round.from.push_back({(own + hosts - distance) % hosts, blocks});
    }
    rounds.push_back(std::move(round));
  }
  return rounds;
}

AllGather::AllGather(uint32_t kind, size_t own, const std::vector<size_t>& bytes, StepOutbox& outbox)
    : kind_(kind), own_(own), outbox_(outbox), rounds_(rounds_of(bytes.size(), own)) {
  for (const size_t size : bytes) blocks_.emplace_back(size);
  for (const Round& round : rounds_) {
    for (const Leg& leg : round.from) {
      Arrival& arrival = arrivals_[leg.host];
      arrival.bytes.resize(bytes_of(blocks_up_to(leg.host, leg.blocks)));
      arrival.inflow = Inflow({std::span(arrival.bytes)});
    }
  }
}

void AllGather::give(uint64_t number, std::span<const std::byte> own) {
  if (own.size() != blocks_[own_].size()) throw Error(Fault::bug, "a block of another size than the other hosts know");
  std::ranges::copy(own, blocks_[own_].begin());
  number_ = number;
  is_given_ = true;
  send(rounds_.front());
  advance();
}

Inflow& AllGather::from(size_t host) {
  const auto at = arrivals_.find(host);
  if (at == arrivals_.end())
    throw Error::make(Fault::corrupt, "a frame of kind {} of a host that has none for this host", kind_);
  return at->second.inflow;
}

void AllGather::advance() {
  const auto has_arrived = [this](const Leg& leg) { return arrivals_.at(leg.host).inflow.complete(); };
  while (is_given_ && round_ < rounds_.size() && std::ranges::all_of(rounds_[round_].from, has_arrived)) {
    take(rounds_[round_]);
    if (++round_ < rounds_.size()) send(rounds_[round_]);
  }
}

// Blocks of the host and of the hosts before it, so many in all.
std::vector<std::span<std::byte>> AllGather::blocks_up_to(size_t host, size_t number) {
  std::vector<std::span<std::byte>> blocks;
  for (size_t i = 0; i < number; ++i) blocks.emplace_back(blocks_[(host + blocks_.size() - i) % blocks_.size()]);
  return blocks;
}

void AllGather::send(const Round& round) {
  for (const Leg& leg : round.to) {
    const std::vector<std::byte> bytes = gather(blocks_up_to(own_, leg.blocks));
    cut_into_frames(kind_, number_, {bytes}, [&](const net::FrameHead& head, std::span<const std::byte> part) {
      outbox_.send_copy(leg.host, head, part);
    });
  }
}

void AllGather::take(const Round& round) {
  for (const Leg& leg : round.from) scatter(arrivals_.at(leg.host).bytes, blocks_up_to(leg.host, leg.blocks));
}

void AllGather::begin_anew() {
  is_given_ = false;
  round_ = 0;
  for (auto& [host, arrival] : arrivals_) arrival.inflow.begin_anew();
}

}  // namespace estrain::hosts
