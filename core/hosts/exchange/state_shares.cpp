#include "core/hosts/exchange/state_shares.h"

#include <algorithm>

#include "core/base/error.h"

namespace estrain::hosts {
namespace {

constexpr size_t kSharePage = 4096;

}  // namespace

Json StateShares::to_json() const { return {{"from", from}, {"to", to}, {"lr", lr}, {"evaluated", evaluated}}; }

StateShares StateShares::from_json(const Json& json) {
  try {
    StateShares shares{json.at("from").get<std::vector<std::string>>(), json.at("to").get<std::vector<std::string>>(),
                       json.at("lr").get<double>(), json.at("evaluated").get<int64_t>()};
    if (shares.from.empty()) throw Error(Fault::corrupt, "shares of the state: nobody sends it");
    return shares;
  } catch (const nlohmann::json::exception& error) {
    throw Error::make(Fault::corrupt, "shares of the state: {}", error.what());
  }
}

ByteRange state_share(size_t bytes, size_t senders, size_t place) {
  const size_t pages = (bytes + kSharePage - 1) / kSharePage;
  const auto border = [&](size_t at) { return std::min(bytes, pages * at / senders * kSharePage); };
  return {border(place), border(place + 1)};
}

}  // namespace estrain::hosts
