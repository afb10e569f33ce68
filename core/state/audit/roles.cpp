#include "core/state/audit/roles.h"

#include <algorithm>
#include <iterator>

namespace estrain::audit {
namespace {

bool are_comparable(const Party& party, size_t one, size_t other) {
  return party.any_kind || party.kinds[one] == party.kinds[other];
}

WorkerRank worker(size_t index) { return WorkerRank(static_cast<int64_t>(index)); }

// Returns the other workers, the next worker first, so that each worker soon takes part in an audit.
std::vector<size_t> partners_of(const Party& party, size_t owner) {
  const size_t workers = party.ranges.size();
  std::vector<size_t> partners;
  for (size_t step = 1; step < workers; ++step) {
    const size_t other = (owner + step) % workers;
    if (are_comparable(party, owner, other)) partners.push_back(other);
  }
  return partners;
}

}  // namespace

Roles roles_in(int64_t number, const Party& party) {
  const auto n = static_cast<size_t>(number);
  const size_t workers = party.ranges.size(), owner = n % workers, round = n / workers;
  const EstRange& ests = party.ranges[owner];
  Roles plan;
  plan.owner = plan.auditor = worker(owner);
  plan.rank = VirtualRank(ests.begin.value + static_cast<int64_t>(round % static_cast<size_t>(ests.size())));
  std::vector<size_t> partners = partners_of(party, owner), of_other_kind;
  if (partners.empty()) return plan;
  std::ranges::copy_if(partners, std::back_inserter(of_other_kind),
                       [&](size_t other) { return party.kinds[other] != party.kinds[owner]; });
  const std::vector<size_t>& preferred = of_other_kind.empty() ? partners : of_other_kind;
  const size_t auditor = preferred[round % preferred.size()];
  plan.auditor = worker(auditor);
  std::erase(partners, auditor);
  if (!partners.empty()) plan.judge = worker(partners[round % partners.size()]);
  return plan;
}

bool is_blind(const Party& party) {
  for (size_t owner = 0; owner < party.ranges.size(); ++owner)
    if (!partners_of(party, owner).empty()) return false;
  return true;
}

Verdict judge(const Roles& plan, const std::vector<std::vector<uint64_t>>& rows) {
  if (plan.is_blind()) return rows[2] == rows[0] ? Verdict::auditor : Verdict::owner;
  const bool owner_stands = rows[2] == rows[0];
  const bool auditor_stands = plan.judge ? rows[2] == rows[1] : rows[3] == rows[1];
  if (owner_stands == auditor_stands) return Verdict::undecided;
  return owner_stands ? Verdict::auditor : Verdict::owner;
}

}  // namespace estrain::audit
