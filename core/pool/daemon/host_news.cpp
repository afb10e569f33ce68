#include "core/pool/daemon/host_news.h"

#include <algorithm>
#include <utility>

#include "core/base/wall_time.h"

namespace estrain::pool {

void HostNews::take_up() {
  std::vector<std::string> lost;
  for (const dispatch::Slot& slot : dispatcher_.state().slots) {
    const std::string host = slot.host();
    if (!host.empty() && !hosts_.agents.is_member(host) && std::ranges::find(lost, host) == lost.end())
      lost.push_back(host);
  }
  for (const std::string& host : lost) on(host, HostLost{"its agent was gone when the daemon began"});
}

std::vector<dispatch::Note> HostNews::tend() {
  for (const AgentEvent& event : hosts_.agents.look())
    std::visit([&](const auto& one) { on(event.host, one); }, event.what);
  news_.give_up_orphans();
  for (const std::string& host : hosts_.agents.members()) {
    if (hosts_.agents.leaves(host)) on(host, HostLeaves{});
  }
  return std::exchange(notes_, {});
}

void HostNews::on(const std::string& host, const HostJoined& event) {
  try {
    dispatcher_.add_devices(event.devices, wall_seconds());
    dispatcher_.host_has(host, event.cores);
    notes_.push_back({0, "joined", std::ssize(event.devices), "host " + host});
  } catch (const Error& error) {
    notes_.push_back({0, "refused", 0, fmt::format("devices of host {}: {}", host, error.message())});
  }
}

void HostNews::on(const std::string& host, const HostRefused& event) {
  notes_.push_back({0, "refused", 0, fmt::format("the agent of host {}: {}", host, event.why)});
}

// Also withdraws devices that are lent again before the host has left.
void HostNews::on(const std::string& host, const HostLeaves&) {
  std::vector<std::string> names;
  bool has_others = false;
  for (const dispatch::Slot& slot : dispatcher_.state().slots) {
    if (slot.host() != host) continue;
    has_others |= slot.state == dispatch::Slot::State::leaving;
    if (slot.state == dispatch::Slot::State::present) names.push_back(slot.name);
  }
  if (!names.empty()) {
    dispatcher_.withdraw({names, dispatch::kNoHurry, true, 0}, wall_seconds());
  } else if (!has_others) {
    hosts_.agents.dismiss(host);
  }
}

void HostNews::on(const std::string& host, const HostLost& event) {
  const bool has_led = news_.forget_host(host);
  const auto& slots = dispatcher_.state().slots;
  const bool has_devices = std::ranges::any_of(slots, [&](const auto& slot) { return slot.host() == host; });
  if (has_devices || has_led) dispatcher_.lose_host(host, event.why, wall_seconds());
  news_.wait_for_heirs(fmt::format("host {} was lost", host));
}

}  // namespace estrain::pool
