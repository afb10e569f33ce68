#pragma once
// Finds the readable descriptors among many.

#include <poll.h>

#include <set>
#include <span>
#include <vector>

namespace estrain::pool {

class Readiness {
 public:
  void add(int descriptor) { polled_.push_back({descriptor, POLLIN, 0}); }
  void add(std::span<const pollfd> others) { polled_.insert(polled_.end(), others.begin(), others.end()); }

  // Waits until a descriptor can be read, at most `milliseconds`.
  void wait(int milliseconds) {
    ::poll(polled_.data(), polled_.size(), milliseconds);
    for (const pollfd& one : polled_) {
      if (one.revents != 0) ready_.insert(one.fd);
    }
  }
  bool has(int descriptor) const { return ready_.contains(descriptor); }
  // Returns the last `count` descriptors, in the order of adding.
  std::span<const pollfd> last(size_t count) const { return std::span(polled_).last(count); }

 private:
  std::vector<pollfd> polled_;
  std::set<int> ready_;
};

}  // namespace estrain::pool
