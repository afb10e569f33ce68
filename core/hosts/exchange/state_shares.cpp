#include "core/hosts/exchange/state_shares.h"

#include <algorithm>

#include "core/base/error.h"

namespace estrain::hosts {
namespace {

constexpr size_t kSharePage = 4096;

}  // namespace

void StateShares::require_sender() const {
  if (from.empty()) throw Error(Fault::corrupt, "no host sends shares of the state");
}

ByteRange state_share(size_t bytes, size_t senders, size_t place) {
  const size_t pages = (bytes + kSharePage - 1) / kSharePage;
  const auto border = [&](size_t at) { return std::min(bytes, pages * at / senders * kSharePage); };
  return {border(place), border(place + 1)};
}

}  // namespace estrain::hosts
