#pragma once
// Distinct types for integers that must not be mixed up. A virtual rank names an EST for the whole job; a worker rank
// names a process of the current stage. Confusing the two is the classic bug of an elastic trainer.

#include <fmt/format.h>

#include <compare>
#include <cstdint>

namespace estrain {

template <typename Tag>
struct Id {
  int64_t value = 0;

  constexpr Id() = default;
  constexpr explicit Id(int64_t v) : value(v) {}
  constexpr auto operator<=>(const Id&) const = default;
  constexpr Id& operator++() {
    ++value;
    return *this;
  }
  constexpr Id next() const { return Id(value + 1); }
};

using VirtualRank = Id<struct VirtualRankTag>;  // an EST, 0..N-1, for the whole job
using WorkerRank = Id<struct WorkerRankTag>;    // a process of the current stage, 0..W-1
using Step = Id<struct StepTag>;                // number of completed optimizer updates; the state "at step t"
using Epoch = Id<struct EpochTag>;

// A contiguous range of virtual ranks [begin, end), hosted by a worker.
struct EstRange {
  VirtualRank begin;
  VirtualRank end;

  constexpr int64_t size() const { return end.value - begin.value; }
  constexpr bool contains(VirtualRank rank) const { return begin <= rank && rank < end; }
  constexpr bool operator==(const EstRange&) const = default;
};

}  // namespace estrain

template <typename Tag>
struct fmt::formatter<estrain::Id<Tag>> : fmt::formatter<int64_t> {
  auto format(const estrain::Id<Tag>& id, fmt::format_context& context) const {
    return fmt::formatter<int64_t>::format(id.value, context);
  }
};
