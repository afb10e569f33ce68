#include "core/hosts/courier/opening_patience.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"

namespace estrain::hosts {
namespace {

constexpr Nanoseconds kLongestTick = 100ms;

std::string called(const std::string& host) { return host.empty() ? "the coordinator" : host; }

}  // namespace

void OpeningPatience::hear(const std::string& host, OpeningWait wait) {
  const auto known = waits_.find(host);
  if (known != waits_.end() && known->second == wait) return;
  waits_[host] = std::move(wait);
  idle_ = 0ns;
}

void OpeningPatience::note_opened(const std::string& host) {
  if (opened_.insert(host).second) idle_ = 0ns;
}

bool OpeningPatience::is_waited_for(const std::string& host, const std::string& by) const {
  const auto wait = waits_.find(by);
  return wait != waits_.end() && !opened_.contains(by) &&
         std::ranges::find(wait->second.hosts, host) != wait->second.hosts.end();
}

std::optional<OpeningPatience::Unanswered> OpeningPatience::look(MonotonicTime now) {
  idle_ += std::min(now - looked_.value_or(now), kLongestTick);
  looked_ = now;
  if (idle_ < opening_patience) return std::nullopt;
  const auto blame = [&](const std::string& host) {
    const auto waiting = std::ranges::count_if(hosts_, [&](const std::string& by) { return is_waited_for(host, by); });
    return std::tuple(is_waited_for(host, ""), !waits_.contains(host), waiting);
  };
  const std::string* worst = nullptr;
  for (const std::string& host : hosts_) {
    if (!opened_.contains(host) && (worst == nullptr || blame(host) > blame(*worst))) worst = &host;
  }
  if (worst == nullptr) return std::nullopt;
  Unanswered found{*worst, why(*worst)};
  idle_ = 0ns;
  return found;
}

std::string OpeningPatience::why(const std::string& host) const {
  std::string words = fmt::format("a stage has not opened for {:.0f} s:", seconds(idle_).count());
  const auto own = waits_.find(host);
  if (is_waited_for(host, "")) {
    words += " the coordinator waits for it";
  } else if (own == waits_.end()) {
    words += " it says nothing";
  } else if (own->second.hosts.empty()) {
    words += " it does not say what it waits for";
  } else {
    words += " it waits for";
    for (const std::string& other : own->second.hosts)
      words += (&other == own->second.hosts.data() ? " " : ", ") + called(other);
  }
  for (const std::string& by : hosts_) {
    if (by != host && is_waited_for(host, by)) words += fmt::format("; {} waits for it", by);
  }
  return words;
}

}  // namespace estrain::hosts
