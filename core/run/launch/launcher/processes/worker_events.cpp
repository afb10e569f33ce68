#include "core/run/launch/launcher/processes/worker_events.h"

#include <cerrno>

#include "core/base/error.h"

namespace estrain::launch {
namespace {

constexpr size_t kEventsAtFirst = 64;

// What an event of a descriptor means, as the number that the system keeps with the descriptor.
uint64_t number_of(const WorkerEvents::Event& event) {
  return static_cast<uint64_t>(event.worker.value) << 1 | static_cast<uint64_t>(event.has_message);
}

WorkerEvents::Event event_of(uint64_t number) {
  return {decisions::WorkerId(static_cast<int64_t>(number >> 1)), (number & 1) != 0};
}

}  // namespace

WorkerEvents::WorkerEvents() : epoll_(::epoll_create1(EPOLL_CLOEXEC)), ready_(kEventsAtFirst) {
  if (!epoll_) throw system_error("cannot wait for workers", errno);
}

void WorkerEvents::add(int descriptor, Event event) {
  if (descriptor < 0) return;
  epoll_event wanted{};
  wanted.events = EPOLLIN;
  wanted.data.u64 = number_of(event);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &wanted) != 0)
    throw system_error("cannot wait for a worker", errno);
}

// All events that there are: a message and the end of its worker must not come apart. While there may be more than the
// list holds, the list grows, and the system tells them again.
std::span<const epoll_event> WorkerEvents::wait() {
  for (;;) {
    const int count = ::epoll_wait(epoll_.get(), ready_.data(), static_cast<int>(ready_.size()), 0);
    if (count < 0 && errno != EINTR) throw system_error("cannot wait for workers", errno);
    if (count < std::ssize(ready_)) return std::span(ready_).first(static_cast<size_t>(std::max(0, count)));
    ready_.resize(2 * ready_.size());
  }
}

std::vector<WorkerEvents::Event> WorkerEvents::take() {
  if (watched_.empty()) return {};
  std::vector<Event> events;
  for (const epoll_event& one : wait()) events.push_back(event_of(one.data.u64));
  std::ranges::sort(events, {}, [](const Event& one) { return std::pair(one.worker, !one.has_message); });
  const auto is_same = [](const Event& one, const Event& other) { return one.worker == other.worker; };
  events.erase(std::unique(events.begin(), events.end(), is_same), events.end());
  std::erase_if(events, [&](const Event& one) { return !std::ranges::binary_search(watched_, one.worker); });
  return events;
}

}  // namespace estrain::launch
