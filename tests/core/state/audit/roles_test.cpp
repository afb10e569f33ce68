// The worker that audits another, and the one that is wrong.

#include "core/state/audit/roles.h"

#include <doctest/doctest.h>

#include <set>

namespace estrain::audit {
namespace {

Party party_of(const std::vector<std::string>& kinds, int64_t ests_each, bool any_kind) {
  Party party{{}, kinds, any_kind};
  for (size_t i = 0; i < kinds.size(); ++i) {
    const auto begin = static_cast<int64_t>(i) * ests_each;
    party.ranges.push_back({VirtualRank(begin), VirtualRank(begin + ests_each)});
  }
  return party;
}

TEST_CASE("audits go round over all ESTs, all owners and all auditors; owner, auditor and judge are three workers") {
  const Party workers = party_of({"cpu", "cpu", "cpu"}, 2, false);
  std::set<int64_t> ranks;
  std::set<std::pair<int64_t, int64_t>> pairs;
  for (int64_t number = 0; number < 12; ++number) {
    const Roles plan = roles_in(number, workers);
    CHECK(workers.ranges[static_cast<size_t>(plan.owner.value)].contains(plan.rank));
    CHECK(plan.owner != plan.auditor);
    REQUIRE(plan.judge);
    CHECK(*plan.judge != plan.owner);
    CHECK(*plan.judge != plan.auditor);
    ranks.insert(plan.rank.value);
    pairs.emplace(plan.owner.value, plan.auditor.value);
  }
  CHECK(ranks.size() == 6);
  CHECK(pairs.size() == 6);
}

TEST_CASE("the auditor is of another kind where all kinds give the same bits, and of the same kind below D2") {
  for (int64_t number = 0; number < 8; ++number) {
    const Party at_d2 = party_of({"cpu:avx2", "cpu:avx2", "cpu:sse", "cuda"}, 1, true);
    const Roles plan = roles_in(number, at_d2);
    CHECK(at_d2.kinds[static_cast<size_t>(plan.owner.value)] != at_d2.kinds[static_cast<size_t>(plan.auditor.value)]);
    const Party at_d1 = party_of({"cpu:avx2", "cpu:avx2", "cuda", "cuda"}, 1, false);
    const Roles same = roles_in(number, at_d1);
    CHECK(same.owner.value / 2 == same.auditor.value / 2);
    CHECK(!same.is_blind());
    CHECK(!same.judge);
  }
}

TEST_CASE("a worker without a partner audits itself, and is blind") {
  CHECK(roles_in(3, party_of({"cpu"}, 4, false)).is_blind());
  CHECK(roles_in(3, party_of({"cpu"}, 4, false)).rank == VirtualRank(3));
  CHECK(roles_in(0, party_of({"cpu:avx2", "cpu:sse"}, 1, false)).is_blind());
  CHECK(!roles_in(0, party_of({"cpu:avx2", "cpu:sse"}, 1, true)).is_blind());
}

TEST_CASE("a party is blind only if nobody in it has a partner") {
  CHECK(is_blind(party_of({"cpu"}, 4, true)));
  CHECK(is_blind(party_of({"cpu:avx2", "cpu:sse"}, 1, false)));
  CHECK(!is_blind(party_of({"cpu:avx2", "cpu:sse"}, 1, true)));
  CHECK(!is_blind(party_of({"cpu:sse", "cpu:avx2", "cpu:sse"}, 1, false)));
}

TEST_CASE("of three, the one that stands alone is wrong") {
  const Roles three = roles_in(0, party_of({"cpu", "cpu", "cpu"}, 1, false));
  CHECK(judge(three, {{1}, {2}, {2}, {}}) == Verdict::owner);
  CHECK(judge(three, {{1}, {2}, {1}, {}}) == Verdict::auditor);
  CHECK(judge(three, {{1}, {2}, {3}, {}}) == Verdict::undecided);
}

TEST_CASE("of two, the one that does not repeat its result is wrong; if both do, or neither does, it is undecided") {
  const Roles two = roles_in(0, party_of({"cpu", "cpu"}, 1, false));
  CHECK(judge(two, {{1}, {2}, {2}, {2}}) == Verdict::owner);
  CHECK(judge(two, {{1}, {2}, {3}, {2}}) == Verdict::owner);
  CHECK(judge(two, {{1}, {2}, {1}, {1}}) == Verdict::auditor);
  CHECK(judge(two, {{1}, {2}, {1}, {2}}) == Verdict::undecided);
  CHECK(judge(two, {{1}, {2}, {2}, {1}}) == Verdict::undecided);
}

TEST_CASE("one that audits itself is wrong whichever of its results is") {
  const Roles one = roles_in(0, party_of({"cpu"}, 1, false));
  CHECK(judge(one, {{1}, {2}, {2}, {}}) == Verdict::owner);
  CHECK(judge(one, {{1}, {2}, {1}, {}}) == Verdict::auditor);
}

}  // namespace
}  // namespace estrain::audit
