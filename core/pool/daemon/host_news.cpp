#include "core/pool/daemon/host_news.h"

#include <algorithm>
#include <utility>

#include "core/base/clock.h"

namespace estrain::pool {

void HostNews::take_up() {
  std::vector<std::string> lost;
  for (const dispatch::Slot& slot : dispatcher_.state().slots) {
    const std::string host = slot.host();
    if (!host.empty() && !hosts_.agents.is_member(host) && std::ranges::find(lost, host) == lost.end())
      lost.push_back(host);
  }
  for (const std::string& host : lost) give_up(host, "its agent was gone when the daemon began");
}

std::vector<dispatch::Note> HostNews::tend() {
  for (const AgentNews& news : hosts_.agents.look()) carry_out(news);
  news_.give_up_orphans();
  for (const std::string& host : hosts_.agents.members()) {
    if (hosts_.agents.leaves(host)) release(host);
  }
  return std::exchange(notes_, {});
}

// Agents writes the orders.
void HostNews::carry_out(const AgentNews& news) {
  const auto& [host, action] = news;
  if (const auto* admit_host = std::get_if<AdmitHost>(&action.deed)) return admit(host, *admit_host);
  if (const auto* end = std::get_if<TellTaskEnd>(&action.deed)) return news_.on_task_ended(host, *end);
  if (const auto* look = std::get_if<TellLook>(&action.deed)) return news_.on_task_seen(host, *look);
  if (std::holds_alternative<FreeHost>(action.deed)) return release(host);
  if (std::holds_alternative<GiveUpHost>(action.deed)) return give_up(host, action.reason);
  if (std::holds_alternative<RefuseHost>(action.deed))
    notes_.push_back({0, "refused", 0, fmt::format("the agent of host {}: {}", host, action.reason)});
}

void HostNews::admit(const std::string& host, const AdmitHost& action) {
  try {
    dispatcher_.tell(dispatch::DevicesAdded{action.devices});
    dispatcher_.tell(dispatch::CoresKnown{host, action.cores});
    notes_.push_back({0, "joined", std::ssize(action.devices), "host " + host});
  } catch (const Error& error) {
    notes_.push_back({0, "refused", 0, fmt::format("devices of host {}: {}", host, error.message())});
  }
}

// Also withdraws devices lent again before the host has left.
void HostNews::release(const std::string& host) {
  std::vector<std::string> names;
  bool has_others = false;
  for (const dispatch::Slot& slot : dispatcher_.state().slots) {
    if (slot.host() != host) continue;
    has_others |= slot.state == dispatch::Slot::State::leaving;
    if (slot.state == dispatch::Slot::State::present) names.push_back(slot.name);
  }
  if (!names.empty()) {
    dispatcher_.tell(dispatch::Withdrawal{names, std::nullopt, true, 0});
  } else if (!has_others) {
    hosts_.agents.dismiss(host);
  }
}

void HostNews::give_up(const std::string& host, const std::string& reason) {
  const bool has_led = news_.forget_host(host);
  const auto& slots = dispatcher_.state().slots;
  const bool has_devices = std::ranges::any_of(slots, [&](const auto& slot) { return slot.host() == host; });
  if (has_devices || has_led) dispatcher_.tell(dispatch::HostVanished{host, reason});
  news_.wait_for_heirs(fmt::format("host {} was lost", host));
}

}  // namespace estrain::pool
