#pragma once
// The events of many workers, by epoll(7): the system's part of a wait costs as much as has happened, however many
// workers there are. A poll of two descriptors of each worker takes milliseconds for ten thousand workers. On this
// side, watch() compares the numbers of all workers. Waits for a few descriptors are core/base/files/poll_set.h's.

#include <sys/epoll.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/base/files/unique_fd.h"
#include "core/run/decisions/state/member.h"

namespace estrain::launch {

class WorkerEvents {
 public:
  struct Event {
    decisions::WorkerId worker;
    bool has_message = false;  // else the worker's process has ended

    bool operator==(const Event&) const = default;
  };

  WorkerEvents();  // throws Fault::io

  // Readable while a watched worker has an event.
  int descriptor() const { return epoll_.get(); }

  // Watches these workers from now on, and no others. `workers`: a map by WorkerId. `descriptors_of(worker)`: the
  // worker's socket and its process, as descriptors of their own; negative: none. A worker's descriptors stay the same.
  // They are closed when the worker leaves the map, and the system ends their watch. Throws Fault::io.
  template <typename Workers, typename DescriptorsOf>
  void watch(const Workers& workers, DescriptorsOf&& descriptors_of) {
    const auto is_watched = [](const auto& worker, decisions::WorkerId id) { return worker.first == id; };
    if (std::equal(workers.begin(), workers.end(), watched_.begin(), watched_.end(), is_watched)) return;
    for (const auto& [id, worker] : workers) {
      if (std::ranges::binary_search(watched_, id)) continue;
      const std::pair<int, int> descriptors = descriptors_of(worker);
      add(descriptors.first, {id, true});
      add(descriptors.second, {id, false});
    }
    watched_.clear();
    for (const auto& [id, worker] : workers) watched_.push_back(id);
  }

  // Returns an event of each worker that has one, in the order of the workers: a message before the end of the process.
  // Does not wait.
  std::vector<Event> take();

 private:
  void add(int descriptor, Event event);
  std::span<const epoll_event> wait();

  UniqueFd epoll_;
  std::vector<decisions::WorkerId> watched_;  // ascending
  std::vector<epoll_event> ready_;            // room for the events of a wait
};

}  // namespace estrain::launch
