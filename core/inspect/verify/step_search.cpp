#include "core/inspect/verify/step_search.h"

#include <bit>
#include <cstring>

#include "core/base/error.h"

namespace estrain::verify {
namespace {

using record::FingerprintReader;
using record::StepRecord;

// Calls visit(i, j) for every pair of positions with the same step, ascending, until `visit` returns false.
template <typename StepOfA, typename StepOfB, typename Visit>
void for_each_common(size_t size_a, size_t size_b, StepOfA&& step_a, StepOfB&& step_b, Visit&& visit) {
  for (size_t i = 0, j = 0; i < size_a && j < size_b;) {
    const Step of_a = step_a(i), of_b = step_b(j);
    if (of_a == of_b && !visit(i, j)) return;
    i += of_a <= of_b;
    j += of_b <= of_a;
  }
}

template <typename Visit>
void for_each_common(const std::vector<StepRecord>& a, const std::vector<StepRecord>& b, Visit&& visit) {
  for_each_common(
      a.size(), b.size(), [&](size_t i) { return a[i].step; }, [&](size_t j) { return b[j].step; },
      [&](size_t i, size_t j) { return visit(a[i], b[j]); });
}

bool same_bits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

std::optional<Difference> loss_difference(const StepRecord& a, const StepRecord& b) {
  Difference difference{a.step, Evidence::loss, {}, {}, {}, {}};
  for (size_t rank = 0; rank < std::min(a.est_losses.size(), b.est_losses.size()); ++rank)
    if (!same_bits(a.est_losses[rank], b.est_losses[rank]))
      difference.losses.push_back({VirtualRank(static_cast<int64_t>(rank)), a.est_losses[rank], b.est_losses[rank]});
  if (difference.losses.empty() && same_bits(a.loss, b.loss)) return std::nullopt;
  if (difference.losses.empty()) difference.remarks.push_back("only the mean loss differs, not that of any EST");
  return difference;
}

void require_intact(const FingerprintReader& reader, size_t record) {
  if (!reader.intact(record))
    throw Error::make(Fault::corrupt, "{}: its record of step {} is damaged", reader.path(), reader.step(record));
}

// A damaged step number would hide records from the search.
void require_rising(const FingerprintReader& reader) {
  for (size_t i = 1; i < reader.size(); ++i)
    if (reader.step(i) != reader.step(i - 1).next()) require_intact(reader, i);
}

}  // namespace

CommonSteps common_steps(const record::Metrics& a, const record::Metrics& b) {
  CommonSteps common;
  for_each_common(a.steps, b.steps, [&](const StepRecord& of_a, const StepRecord&) {
    if (common.count++ == 0) common.first = of_a.step;
    common.last = of_a.step;
    return true;
  });
  return common;
}

CommonSteps common_steps(const FingerprintReader& a, const FingerprintReader& b) {
  CommonSteps common;
  const auto visit = [&](size_t i, size_t) {
    if (common.count++ == 0) common.first = a.step(i);
    common.last = a.step(i);
    return true;
  };
  for_each_common(
      a.size(), b.size(), [&](size_t i) { return a.step(i); }, [&](size_t j) { return b.step(j); }, visit);
  return common;
}

std::optional<Difference> first_loss_difference(const record::Metrics& a, const record::Metrics& b) {
  std::optional<Difference> found;
  for_each_common(a.steps, b.steps, [&](const StepRecord& of_a, const StepRecord& of_b) {
    found = loss_difference(of_a, of_b);
    return !found;
  });
  return found;
}

std::optional<Difference> first_record_difference(const FingerprintReader& a, const FingerprintReader& b) {
  require_rising(a);
  require_rising(b);
  std::optional<Difference> found;
  const auto visit = [&](size_t i, size_t j) {
    const auto of_a = a.digests(i), of_b = b.digests(j);
    if (std::memcmp(of_a.data(), of_b.data(), of_a.size_bytes()) == 0) return true;
    require_intact(a, i);
    require_intact(b, j);
    found = {a.step(i), Evidence::record, {}, {}, {}, {}};
    for (size_t k = 0; k < of_a.size(); ++k)
      if (of_a[k] != of_b[k]) found->digests.push_back(a.names()[k]);
    return false;
  };
  for_each_common(
      a.size(), b.size(), [&](size_t i) { return a.step(i); }, [&](size_t j) { return b.step(j); }, visit);
  return found;
}

}  // namespace estrain::verify
