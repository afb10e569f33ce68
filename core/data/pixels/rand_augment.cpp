#include "core/data/pixels/rand_augment.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace estrain::data {
namespace {

constexpr int64_t kAugmentKinds = 14, kLastMagnitude = 30;
constexpr int64_t kMostAugmentedSide = 16384;

struct Turn {
  double cosine, sine;
};

// Of -1 degree times the magnitude, and of +1 degree times it, rounded to 15 decimals as Pillow's.
constexpr Turn kTurns[2][kLastMagnitude + 1] = {
    {{1.0, -0.0},
     {0.999847695156391, -0.017452406437284},
     {0.999390827019096, -0.034899496702501},
     {0.998629534754574, -0.052335956242944},
     {0.997564050259824, -0.069756473744125},
     {0.996194698091746, -0.087155742747658},
     {0.994521895368273, -0.104528463267653},
     {0.992546151641322, -0.121869343405147},
     {0.99026806874157, -0.139173100960065},
     {0.987688340595138, -0.156434465040231},
     {0.984807753012208, -0.17364817766693},
     {0.981627183447664, -0.190808995376545},
     {0.978147600733806, -0.207911690817759},
     {0.974370064785235, -0.224951054343865},
     {0.970295726275996, -0.241921895599668},
     {0.965925826289068, -0.258819045102521},
     {0.961261695938319, -0.275637355816999},
     {0.956304755963035, -0.292371704722737},
     {0.951056516295154, -0.309016994374947},
     {0.945518575599317, -0.325568154457157},
     {0.939692620785908, -0.342020143325669},
     {0.933580426497202, -0.3583679495453},
     {0.927183854566787, -0.374606593415912},
     {0.92050485345244, -0.390731128489274},
     {0.913545457642601, -0.4067366430758},
     {0.90630778703665, -0.422618261740699},
     {0.898794046299167, -0.438371146789077},
     {0.891006524188368, -0.453990499739547},
     {0.882947592858927, -0.469471562785891},
     {0.874619707139396, -0.484809620246337},
     {0.866025403784439, -0.5}},
    {{1.0, -0.0},
     {0.999847695156391, 0.017452406437284},
     {0.999390827019096, 0.034899496702501},
     {0.998629534754574, 0.052335956242944},
     {0.997564050259824, 0.069756473744126},
     {0.996194698091746, 0.087155742747658},
     {0.994521895368273, 0.104528463267653},
     {0.992546151641322, 0.121869343405147},
     {0.99026806874157, 0.139173100960066},
     {0.987688340595138, 0.156434465040231},
     {0.984807753012208, 0.17364817766693},
     {0.981627183447664, 0.190808995376545},
     {0.978147600733806, 0.20791169081776},
     {0.974370064785235, 0.224951054343865},
     {0.970295726275996, 0.241921895599668},
     {0.965925826289068, 0.258819045102521},
     {0.961261695938319, 0.275637355816999},
     {0.956304755963035, 0.292371704722737},
     {0.951056516295154, 0.309016994374948},
     {0.945518575599317, 0.325568154457157},
     {0.939692620785908, 0.342020143325669},
     {0.933580426497202, 0.358367949545301},
     {0.927183854566787, 0.374606593415912},
     {0.92050485345244, 0.390731128489274},
     {0.913545457642601, 0.4067366430758},
     {0.90630778703665, 0.422618261740699},
     {0.898794046299167, 0.438371146789078},
     {0.891006524188368, 0.453990499739547},
     {0.882947592858927, 0.469471562785891},
     {0.874619707139396, 0.484809620246337},
     {0.866025403784438, 0.5}},
};

// The pixel at column x and row y comes from column a x + b y + c and row d x + e y + f.
struct Affine {
  double a = 1, b = 0, c = 0, d = 0, e = 1, f = 0;
};

// Element `place` of torch.linspace(first, last, 31).
double strength(float first, float last, int64_t place) {
  const float step = (last - first) / static_cast<float>(kLastMagnitude);
  if (place <= kLastMagnitude / 2 - 1) return std::fma(step, static_cast<float>(place), first);
  return std::fma(-step, static_cast<float>(kLastMagnitude - place), last);
}

double translation(int64_t length, int64_t magnitude) {
  const double most = 150.0 / 331.0 * static_cast<double>(length);
  return std::trunc(strength(0.0f, static_cast<float>(most), magnitude));
}

Affine turned(const Turn& turn, const image::Size& size) {
  const auto [cosine, sine] = turn;
  const double x = static_cast<double>(size.width) / 2, y = static_cast<double>(size.height) / 2;
  return {cosine, sine, cosine * -x + sine * -y + x, -sine, cosine, -sine * -x + cosine * -y + y};
}

const uint8_t* copied(const ImageBytes& image) {
  thread_local std::vector<uint8_t> bytes;
  bytes.assign(image.first, image.first + image.pixels * image.channels);
  return bytes.data();
}

int64_t fixed_point(double value) { return static_cast<int64_t>(std::floor(value * 65536.0 + 0.5)); }

// Makes the columns [begin, end) of the row at `row` black.
void blacken(const ImageBytes& image, uint8_t* row, int64_t begin, int64_t end) {
  for (int64_t column = begin; column < end; ++column)
    for (int64_t c = 0; c < image.channels; ++c) row[column * image.pixel_step + c * image.channel_step] = 0;
}

// The places in `source` that the pixels of a row come from, all inside the image, in 16.16 fixed point.
struct Line {
  const uint8_t* source;
  int64_t width, x, y, right_x, right_y;
};

template <int64_t channels>
void copy_line(const ImageBytes& image, Line line, uint8_t* out, int64_t count) {
  if (count == 0) return;
  const int64_t step = image.pixel_step, channel_step = image.channel_step;
  const uint8_t* first = line.source + ((line.y >> 16) * line.width + (line.x >> 16)) * step;
  if (line.right_x == int64_t{1} << 16 && line.right_y == 0) {  // neighbours come from neighbours
    const bool is_packed = channel_step == 1;
    for (int64_t c = 0; c < (is_packed ? 1 : channels); ++c)
      std::copy_n(first + c * channel_step, count * step, out + c * channel_step);
    return;
  }
  for (int64_t i = 0; i < count; ++i, line.x += line.right_x, line.y += line.right_y, out += step) {
    const uint8_t* in = line.source + ((line.y >> 16) * line.width + (line.x >> 16)) * step;
    for (int64_t c = 0; c < channels; ++c) out[c * channel_step] = in[c * channel_step];
  }
}

void move_pixels(const ImageBytes& image, const image::Size& size, const Affine& from) {
  const uint8_t* source = copied(image);
  const int64_t right_x = fixed_point(from.a), right_y = fixed_point(from.d), down_x = fixed_point(from.b),
                down_y = fixed_point(from.e);
  int64_t first_x = fixed_point(from.c + from.a * 0.5 + from.b * 0.5),
          first_y = fixed_point(from.f + from.d * 0.5 + from.e * 0.5);
  const auto is_inside = [&](int64_t column) {
    const int64_t x = (first_x + column * right_x) >> 16, y = (first_y + column * right_y) >> 16;
    return x >= 0 && x < size.width && y >= 0 && y < size.height;
  };
  uint8_t* out = image.first;
  for (int64_t row = 0; row < size.height;
       ++row, first_x += down_x, first_y += down_y, out += size.width * image.pixel_step) {
    // The columns that come from inside the image follow each other: a row comes from a straight line.
    int64_t begin = 0, end = size.width;
    while (begin < end && !is_inside(begin)) ++begin;
    while (end > begin && !is_inside(end - 1)) --end;
    const Line line{source, size.width, first_x + begin * right_x, first_y + begin * right_y, right_x, right_y};
    blacken(image, out, 0, begin);
    blacken(image, out, end, size.width);
    if (image.channels == 3) {
      copy_line<3>(image, line, out + begin * image.pixel_step, end - begin);
    } else {
      copy_line<1>(image, line, out + begin * image.pixel_step, end - begin);
    }
  }
}

// The weighted mean of a pixel and its neighbours, in Pillow's order of additions: the row below, the own row, the row
// above.
int smoothed(const uint8_t* at, int64_t right, int64_t down) {
  constexpr float once = 1.0f / 13.0f, five = 5.0f / 13.0f;
  const auto row = [right](const uint8_t* middle, float weight) {
    return static_cast<float>(middle[-right]) * once + static_cast<float>(*middle) * weight +
           static_cast<float>(middle[right]) * once;
  };
  float sum = 0.5f;
  sum += row(at + down, once);
  sum += row(at, five);
  sum += row(at - down, once);
  return static_cast<int>(std::min(sum, 255.0f));
}

// The pixels at the edge stay.
void sharpen(const ImageBytes& image, const image::Size& size, float factor) {
  const uint8_t* source = copied(image);
  const int64_t right = image.pixel_step, down = size.width * image.pixel_step;
  for (int64_t y = 1; y < size.height - 1; ++y) {
    for (int64_t x = 1; x < size.width - 1; ++x) {
      for (int64_t c = 0; c < image.channels; ++c) {
        const int64_t at = y * down + x * right + c * image.channel_step;
        image.first[at] = blended(smoothed(source + at, right, down), source[at], factor);
      }
    }
  }
}

// One operation on one image.
class Operation {
 public:
  Operation(const AugmentStep& step, int64_t magnitude) : step_(step), magnitude_(magnitude) {}

  void apply(const ImageBytes& image, const image::Size& size) const {
    if (step_.kind >= Kind::shear_x && step_.kind <= Kind::rotate) return move_pixels(image, size, place(size));
    if (step_.kind == Kind::sharpness) return sharpen(image, size, factor());
    change_colours(image);
  }

 private:
  using Kind = AugmentKind;

  double with_sign(double value) const { return step_.is_negative ? -value : value; }
  float factor() const { return static_cast<float>(1.0 + with_sign(strength(0.0f, 0.9f, magnitude_))); }

  Affine place(const image::Size& size) const {
    const double shear = with_sign(strength(0.0f, 0.3f, magnitude_));
    if (step_.kind == Kind::shear_x) return {.b = shear};
    if (step_.kind == Kind::shear_y) return {.d = shear};
    if (step_.kind == Kind::translate_x) return {.c = -with_sign(translation(size.width, magnitude_))};
    if (step_.kind == Kind::translate_y) return {.f = -with_sign(translation(size.height, magnitude_))};
    return turned(kTurns[step_.is_negative ? 1 : 0][magnitude_], size);
  }

  void change_colours(const ImageBytes& image) const {
    if (step_.kind == Kind::brightness) change_brightness(image, factor());
    if (step_.kind == Kind::color) change_saturation(image, factor());
    if (step_.kind == Kind::contrast) change_contrast(image, factor());
    if (step_.kind == Kind::posterize) posterize(image, 8 - static_cast<int>(std::nearbyint(magnitude_ / 7.5)));
    if (step_.kind == Kind::solarize) solarize(image, 255.0 * strength(1.0f, 0.0f, magnitude_));
    if (step_.kind == Kind::auto_contrast) stretch(image);
    if (step_.kind == Kind::equalize) equalize(image);
  }

  AugmentStep step_;
  int64_t magnitude_;
};

}  // namespace

RandAugment::RandAugment(const std::vector<int64_t>& settings) {
  if (settings.empty()) return;
  operations_ = settings.at(0);
  magnitude_ = settings.at(1);
}

void RandAugment::require_fit(const image::Size& size) const {
  if (operations_ == 0 || std::max(size.height, size.width) <= kMostAugmentedSide) return;
  throw Error::make(Fault::spec, "data.rand_augment is for images of at most {} x {} pixels, and these have {} x {}",
                    kMostAugmentedSide, kMostAugmentedSide, size.height, size.width)
      .advise("set a smaller data.crop, or remove data.rand_augment");
}

std::vector<AugmentStep> RandAugment::of(const SampleDraw& draw) const {
  std::vector<AugmentStep> steps;
  for (uint32_t i = 0; i < operations_; ++i) {
    const PhiloxWords words = draw.words_of(PhiloxStream::rand_augment, i);
    steps.push_back({static_cast<AugmentKind>(below(words[0], kAugmentKinds)), words[1] >> 31 != 0});
  }
  return steps;
}

void RandAugment::apply(const std::vector<AugmentStep>& steps, const ImageBytes& image, const image::Size& size) const {
  for (const AugmentStep& step : steps) Operation(step, magnitude_).apply(image, size);
}

}  // namespace estrain::data
