#include "core/data/sampling/mixing.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/error.h"
#include "core/data/sampling/philox.h"
#include "core/data/sampling/portable_numbers.h"

namespace estrain::data {
namespace {

constexpr uint32_t kWordsOfEst = 1024;

// The words of a mini-batch's draw, by number.
class MixWords {
 public:
  MixWords(uint64_t seed, const batches::Cursor& cursor, VirtualRank rank)
      : counter_{static_cast<uint32_t>(cursor.samples),
                 static_cast<uint32_t>(static_cast<uint64_t>(cursor.samples) >> 32),
                 static_cast<uint32_t>(cursor.epoch.value),
                 static_cast<uint32_t>(PhiloxStream::mix) + kWordsOfEst * static_cast<uint32_t>(rank.value)},
        key_(philox_key(seed)) {}

  PhiloxWords words(uint32_t number) const {
    PhiloxCounter counter = counter_;
    counter[3] += number;
    return philox(counter, key_);
  }

 private:
  PhiloxCounter counter_;
  PhiloxKey key_;
};

// In (0, 1).
double open_unit(uint32_t word) { return (word + 0.5) * 0x1p-32; }

// A try of Jöhnk's, by logarithms: x and y may be too small for a double.
std::optional<double> try_of_johnk(double alpha, double u, double v) {
  const double log_x = logarithm(u) / alpha, log_y = logarithm(v) / alpha;
  if (exponential(log_x) + exponential(log_y) > 1) return std::nullopt;
  return 1 / (1 + exponential(log_y - log_x));
}

std::optional<double> try_of_cheng(double alpha, double u, double v) {
  const double sum = 2 * alpha, beta = std::sqrt((sum - 2) / (2 * alpha * alpha - sum)), gamma = alpha + 1 / beta;
  const double odds = beta * (logarithm(u) - logarithm(1 - u)), w = alpha * exponential(odds);
  const double r = gamma * odds - logarithm(4.0), s = alpha + r - w, z = u * u * v;
  const bool accepted = r + sum * (logarithm(sum) - logarithm(alpha + w)) >= logarithm(z);
  if (s + 1 + logarithm(5.0) < 5 * z && !accepted) return std::nullopt;
  return w / (alpha + w);
}

double share_of_beta(double alpha, const MixWords& words) {
  for (uint32_t number = 1; number < kWordsOfEst; ++number) {
    const PhiloxWords drawn = words.words(number);
    const double u = open_unit(drawn[0]), v = open_unit(drawn[1]);
    if (const auto share = alpha > 1 ? try_of_cheng(alpha, u, v) : try_of_johnk(alpha, u, v)) return *share;
  }
  throw Error(Fault::bug, "a Beta distribution accepted none of a thousand tries");
}

// A box with the area 1 - share around the centre, less what lies outside of the image.
Mix::Box box_around(int64_t row, int64_t column, double share, int64_t height, int64_t width) {
  const double half = 0.5 * std::sqrt(1.0 - share);
  const auto rows = static_cast<int64_t>(half * static_cast<double>(height));
  const auto columns = static_cast<int64_t>(half * static_cast<double>(width));
  return {std::max<int64_t>(row - rows, 0), std::min(row + rows, height), std::max<int64_t>(column - columns, 0),
          std::min(column + columns, width)};
}

}  // namespace

Mix Mixing::of(const batches::Cursor& cursor, VirtualRank rank) const {
  const MixWords words(options_.seed, cursor, rank);
  const PhiloxWords first = words.words(0);
  const bool is_cut = options_.mixup == 0 || (options_.cutmix > 0 && (first[0] >> 31) != 0);
  Mix mix{.share = share_of_beta(is_cut ? options_.cutmix : options_.mixup, words), .classes = options_.classes};
  if (!is_cut) return mix;
  const auto [height, width] = std::pair(options_.height, options_.width);
  mix.box = box_around(below(first[2], height), below(first[1], width), mix.share, height, width);
  const int64_t area = (mix.box->bottom - mix.box->top) * (mix.box->right - mix.box->left);
  mix.share = 1.0 - static_cast<double>(area) / static_cast<double>(height * width);
  return mix;
}

namespace {

void blend_image(double share, const float* before, int64_t numbers, float* image) {
  const float rest = static_cast<float>(1.0 - share), own = static_cast<float>(share);
  for (int64_t i = 0; i < numbers; ++i) image[i] = before[i] * rest + image[i] * own;
}

void paste_box(const Mix::Box& box, const SampleShape& shape, const float* before, float* image) {
  for (int64_t c = 0; c < shape.channels; ++c) {
    for (int64_t y = box.top; y < box.bottom; ++y) {
      const int64_t at = (c * shape.height + y) * shape.width;
      std::copy(before + at + box.left, before + at + box.right, image + at + box.left);
    }
  }
}

}  // namespace

// From the last sample on, so that the sample before is still unmixed; only sample 0 needs a copy of the last one.
void mix_images(const Mix& mix, const SampleShape& shape, int64_t samples, float* images) {
  const int64_t numbers = shape.elements();
  thread_local std::vector<float> last;
  last.assign(images + (samples - 1) * numbers, images + samples * numbers);
  for (int64_t i = samples - 1; i >= 0; --i) {
    const float* before = i == 0 ? last.data() : images + (i - 1) * numbers;
    if (mix.box) {
      paste_box(*mix.box, shape, before, images + i * numbers);
    } else {
      blend_image(mix.share, before, numbers, images + i * numbers);
    }
  }
}

void mix_labels(const Mix& mix, int64_t samples, const int64_t* labels, float* out) {
  const float rest = static_cast<float>(1.0 - mix.share), own = static_cast<float>(mix.share);
  std::fill_n(out, samples * mix.classes, 0.0f);
  for (int64_t i = 0; i < samples; ++i)
    if (labels[i] < 0 || labels[i] >= mix.classes)
      throw Error::make(Fault::mismatch, "label {} to be mixed is not one of the {} classes", labels[i], mix.classes)
          .advise("correct the data, or set model.classes above the largest label");
  for (int64_t i = 0; i < samples; ++i, out += mix.classes) {
    out[labels[i == 0 ? samples - 1 : i - 1]] = rest;
    out[labels[i]] += own;
  }
}

}  // namespace estrain::data
