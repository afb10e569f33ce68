#pragma once
// Gathers a block of bytes of each of H hosts on all hosts, in O(log H) frames a host.
//
// The hosts stand in a circle, in the order of the plan. Before a round a host has w blocks: the own block, and the
// blocks of the w - 1 hosts before. In the round the host sends these blocks to the hosts at the distances w, 2w and
// 3w. After the round each host has 4w blocks: ceil(log4 H) rounds of at most three frames. Up to four hosts send to
// each other in one round. (The dissemination barrier of Hensgen, Finkel and Manber, 1988, with blocks and three
// partners a round.)
//
// Each block arrives once on each host. A host sends to another host at most once in a gathering.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/hosts/exchange/inflow.h"
#include "core/hosts/exchange/outbox.h"

namespace estrain::hosts {

class AllGather {
 public:
  // `bytes`: of the block of each host; at least two hosts. `outbox` outlives this object.
  AllGather(uint32_t kind, size_t own, const std::vector<size_t>& bytes, StepOutbox& outbox);
  AllGather(const AllGather&) = delete;
  AllGather& operator=(const AllGather&) = delete;

  // Gives the block of this host, once in a gathering. The frames of the gathering carry `number`.
  void give(uint64_t number, std::span<const std::byte> own);
  bool is_given() const { return is_given_; }
  // Where frames of another host go. Throws Fault::corrupt if the other host has no frames for this host.
  Inflow& from(size_t host);
  // Sends the next round, once all frames of a round have arrived.
  void advance();
  bool complete() const { return is_given_ && round_ == rounds_.size(); }
  // A block of a complete gathering.
  std::span<const std::byte> of(size_t host) const { return blocks_.at(host); }
  // The next frames belong to the next gathering.
  void begin_anew();

 private:
  // Between this host and another one: the blocks of the sender and of the hosts before the sender.
  struct Leg {
    size_t host = 0, blocks = 0;
  };
  struct Round {
    std::vector<Leg> to, from;
  };

  // The blocks of a leg, one behind another, on their way to this host.
  struct Arrival {
    std::vector<std::byte> bytes;
    Inflow inflow;
  };

  static std::vector<Round> rounds_of(size_t hosts, size_t own);
  std::vector<std::span<std::byte>> blocks_up_to(size_t host, size_t number);
  void send(const Round& round);
  void take(const Round& round);

  const uint32_t kind_;
  const size_t own_;
  StepOutbox& outbox_;
  const std::vector<Round> rounds_;
  std::vector<std::vector<std::byte>> blocks_;  // [host]
  std::map<size_t, Arrival> arrivals_;          // [sender]
  uint64_t number_ = 0;
  bool is_given_ = false;
  size_t round_ = 0;  // the first whose blocks have not all arrived
};

}  // namespace estrain::hosts
