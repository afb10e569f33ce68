#include "core/hosts/net/peers/places.h"

#include <algorithm>
#include <tuple>

namespace estrain::net {

size_t Places::count(bool waiting) const {
  return static_cast<size_t>(std::ranges::count(all_, waiting, &Newcomer::waits));
}

size_t Places::count(const std::string& address, bool waiting) const {
  return static_cast<size_t>(
      std::ranges::count_if(all_, [&](const Newcomer& one) { return one.waits == waiting && one.address == address; }));
}

size_t Places::part_of(const std::string& address) const {
  return known_.contains(address) ? most : most_of_a_stranger;
}

Places::Admission Places::ask(uint64_t number, const std::string& address) {
  if (count(address, false) >= part_of(address)) {
    if (count(true) >= most_waiting || count(address, true) >= most_waiting_of_an_address)
      return {Admission::Is::is_refused, {}};
    all_.push_back({number, address, true});
    return {Admission::Is::waits, {}};
  }
  const auto gives_way = make_room();
  all_.push_back({number, address, false});
  return {Admission::Is::enters, gives_way};
}

std::optional<uint64_t> Places::make_room() {
  if (count(false) < most) return std::nullopt;
  const auto goes_first = [&](const Newcomer& one) {
    return std::tuple(!one.waits, !known_.contains(one.address), count(one.address, false));
  };
  const auto at = std::ranges::max_element(all_, {}, goes_first);  // the first of several: the oldest
  const uint64_t number = at->number;
  all_.erase(at);
  return number;
}

std::vector<uint64_t> Places::leave(uint64_t number) {
  std::vector<uint64_t> enter;
  std::erase_if(all_, [&](const Newcomer& one) { return one.number == number; });
  for (Newcomer& one : all_) {
    if (!one.waits || count(false) >= most || count(one.address, false) >= part_of(one.address)) continue;
    one.waits = false;
    enter.push_back(one.number);
  }
  return enter;
}

void Places::know(uint64_t number) {
  const auto at = std::ranges::find(all_, number, &Newcomer::number);
  if (at != all_.end() && known_.size() < most_known) known_.insert(at->address);
}

}  // namespace estrain::net
