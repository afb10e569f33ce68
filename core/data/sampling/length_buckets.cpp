#include "core/data/sampling/length_buckets.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/data/sampling/philox.h"

namespace estrain::data {
namespace {

// The random words of a window.
class Words {
 public:
  Words(uint64_t seed, Epoch epoch, int64_t window)
      : key_(philox_key(seed)), epoch_(static_cast<uint32_t>(epoch.value)), window_(static_cast<uint32_t>(window)) {}

  // Returns 0 to n - 1 in an order by the words from `first` on.
  std::vector<int64_t> shuffled(int64_t n, int64_t first) const {
    std::vector<int64_t> places(static_cast<size_t>(n));
    std::iota(places.begin(), places.end(), int64_t{0});
    for (int64_t i = 0; i < n; ++i)
      std::swap(places[static_cast<size_t>(i)], places[static_cast<size_t>(i + below(at(first + i), n - i))]);
    return places;
  }

 private:
  uint32_t at(int64_t k) const {
    const PhiloxCounter counter{window_, static_cast<uint32_t>(k / 4), epoch_,
                                static_cast<uint32_t>(PhiloxStream::buckets)};
    return philox(counter, key_)[static_cast<size_t>(k % 4)];
  }

  PhiloxKey key_;
  uint32_t epoch_, window_;
};

// Orders the samples of whole steps of `batch` samples for each EST.
void order_window(std::span<int64_t> window, const std::vector<int64_t>& lengths, int64_t batch, int64_t ests,
                  const Words& words) {
  std::vector<int64_t> sorted(window.begin(), window.end());
  std::ranges::stable_sort(sorted, {}, [&](int64_t sample) { return lengths[static_cast<size_t>(sample)]; });
  const int64_t chunk = batch * ests, steps = std::ssize(window) / chunk;
  const std::vector<int64_t> step_of = words.shuffled(steps, 0);
  auto next = sorted.begin();
  for (int64_t c = 0; c < steps; ++c) {
    const int64_t begin = step_of[static_cast<size_t>(c)] * chunk;
    for (const int64_t est : words.shuffled(ests, steps + c * ests))
      for (int64_t i = 0; i < batch; ++i) window[static_cast<size_t>(begin + i * ests + est)] = *next++;
  }
}

}  // namespace

void LengthBuckets::order(std::span<int64_t> list, int64_t batch, int64_t ests, Epoch epoch) const {
  const int64_t step = batch * ests, whole = std::ssize(list) / step * step;
  for (int64_t begin = 0, window = 0; begin < whole; begin += steps * step, ++window) {
    const int64_t size = std::min(steps * step, whole - begin);
    order_window(list.subspan(static_cast<size_t>(begin), static_cast<size_t>(size)), lengths, batch, ests,
                 Words(seed, epoch, window));
  }
}

}  // namespace estrain::data
