// libpng reports errors by longjmp, too; see jpeg.cpp.
#include <png.h>

#include <csetjmp>
#include <cstring>
#include <string>

#include "core/formats/image/formats.h"

namespace estrain::image {
namespace {

constexpr int64_t kMostPngPixelsPerByte = 1032 * 8;  // deflate's best, with one bit a pixel

// Makes a byte of each two, in place: 255 of all that is above.
void cut_off(std::vector<uint8_t>& pixels) {
  const size_t count = pixels.size() / 2;
  for (size_t i = 0; i < count; ++i) pixels[i] = pixels[2 * i] != 0 ? 255 : pixels[2 * i + 1];
  pixels.resize(count);
}

class PngDecoder {
 public:
  explicit PngDecoder(std::span<const std::byte> file) : left_(file), bytes_(file.size()) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, &failed, [](png_structp, png_const_charp) {});
    if (png_) info_ = png_create_info_struct(png_);
    if (!info_) {
      png_destroy_read_struct(&png_, &info_, nullptr);
      throw Error(Fault::bug, "libpng does not start");
    }
  }
  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  Header header() {
    if (!read_start()) throw error();
    const int colour = png_get_color_type(png_, info_);
    const bool grey = (colour & PNG_COLOR_MASK_COLOR) == 0;
    is_deep_grey_ = colour == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(png_, info_) == 16;
    const Header header = {
        {png_get_image_height(png_, info_), png_get_image_width(png_, info_)}, grey ? 1 : 3, is_deep_grey_};
    require_sane(header, bytes_, kMostPngPixelsPerByte);
    return header;
  }

  // To be called after header().
  void decode(Image& out) {
    if (!read_info()) throw error();
    const size_t row = png_get_rowbytes(png_, info_);
    if (row != static_cast<size_t>(out.size.width * out.channels * (is_deep_grey_ ? 2 : 1)))
      throw Error(Fault::bug, "PNG: rows have an unexpected length");
    out.pixels.resize(row * static_cast<size_t>(out.size.height));
    if (!read_rows(out.pixels.data())) throw error();
    if (is_deep_grey_) cut_off(out.pixels);
  }

 private:
  static void failed(png_structp png, png_const_charp words) {
    auto& self = *static_cast<PngDecoder*>(png_get_error_ptr(png));
    std::strncpy(self.words_, words, sizeof(self.words_) - 1);
    std::longjmp(self.back_, 1);
  }

  static void read(png_structp png, png_bytep out, size_t count) {
    auto& self = *static_cast<PngDecoder*>(png_get_io_ptr(png));
    if (count > self.left_.size()) png_error(png, "truncated");
    std::memcpy(out, self.left_.data(), count);
    self.left_ = self.left_.subspan(count);
  }

  bool read_start() {
    if (setjmp(back_) != 0) return false;
    png_set_read_fn(png_, this, &read);
    // Skips text, profiles and similar chunks, whose content may decompress to any size.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_set_user_limits(png_, 0x7fffffff, 0x7fffffff);
    png_read_info(png_, info_);
    return true;
  }

  bool read_info() {
    if (setjmp(back_) != 0) return false;
    png_set_palette_to_rgb(png_);
    png_set_expand_gray_1_2_4_to_8(png_);
    if (!is_deep_grey_) png_set_strip_16(png_);
    png_set_strip_alpha(png_);
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }

  bool read_rows(uint8_t* pixels) {
    if (setjmp(back_) != 0) return false;
    const size_t stride = png_get_rowbytes(png_, info_), height = png_get_image_height(png_, info_);
    for (int pass = 0; pass < passes_; ++pass)
      for (size_t y = 0; y < height; ++y) png_read_row(png_, pixels + y * stride, nullptr);
    png_read_end(png_, nullptr);
    return true;
  }

  Error error() const {
    const std::string words = words_;
    if (words == "truncated") return Error(Fault::corrupt, "truncated PNG");
    return Error::make(Fault::corrupt, "damaged PNG: {}", words);
  }

  std::span<const std::byte> left_;
  size_t bytes_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 1;
  bool is_deep_grey_ = false;
  std::jmp_buf back_;
  char words_[128] = {};
};

}  // namespace

bool is_png(std::span<const std::byte> file) {
  return file.size() >= 8 && png_sig_cmp(reinterpret_cast<png_const_bytep>(file.data()), 0, 8) == 0;
}

Header read_png_header(std::span<const std::byte> file) { return PngDecoder(file).header(); }

void decode_png(std::span<const std::byte> file, Image& out) {
  PngDecoder decoder(file);
  const Header header = decoder.header();
  out.size = header.size;
  out.channels = header.channels;
  decoder.decode(out);
}

}  // namespace estrain::image
