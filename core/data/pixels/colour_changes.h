#pragma once
// Changes of the colours of an image of bytes, in place, with the bytes of torchvision's functions on a Pillow image.
// (torchvision's functions on tensors of bytes round otherwise.)
//
//   brightness   blended with black
//   contrast     blended with the mean of the image's grey, rounded to a whole number
//   saturation   blended with the image's grey
//   hue          turned, in 256 parts of a circle
//   posterize    the upper `bits` of a byte are kept
//   solarize     bytes from the threshold on are inverted
//   stretch      autocontrast: each channel is stretched from its least and largest byte to 0 and 255, rounded down
//   equalize     each channel is mapped by the running sum of its histogram, in whole numbers
//
// A blend is a + factor * (b - a) in fp32, cut off to a whole number from 0 to 255. Grey is (19595 red + 38470 green +
// 7471 blue + 32768) / 65536, rounded down. A grey image has neither saturation nor hue. As Pillow, the conversion to
// hue and back loses up to a few steps of a byte, even for a turn by 0.

#include <algorithm>
#include <cstdint>

namespace estrain::data {

// Bytes of an image, row after row: pixel i's channel c at first[i * pixel_step + c * channel_step]. The bytes of all
// pixels lie together. 1 channel or 3.
struct ImageBytes {
  uint8_t* first;
  int64_t pixels, channels, pixel_step, channel_step;
};

// The product and the sum are rounded to fp32 one after the other.
inline uint8_t blended(int from, int to, float factor) {
  const float value = static_cast<float>(from) + factor * static_cast<float>(to - from);
  return static_cast<uint8_t>(std::clamp(value, 0.0f, 255.0f));
}

void change_brightness(const ImageBytes& image, float factor);
void change_contrast(const ImageBytes& image, float factor);
void change_saturation(const ImageBytes& image, float factor);
// factor: parts of a circle, from -0.5 to 0.5.
void turn_hue(const ImageBytes& image, double factor);
void posterize(const ImageBytes& image, int bits);
void solarize(const ImageBytes& image, double threshold);
void stretch(const ImageBytes& image);
void equalize(const ImageBytes& image);

}  // namespace estrain::data
