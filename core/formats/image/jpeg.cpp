// libjpeg reports errors by longjmp. No object with a destructor may therefore be created between setjmp and the last
// call, and exceptions are thrown only afterwards.
#include <csetjmp>
#include <cstdio>  // must come before jpeglib.h
//
#include <jpeglib.h>
// Messages of jerror.h partly depend on definitions in jpeglib.h.
#include <jerror.h>

#include <string>

#include "core/formats/image/formats.h"

namespace estrain::image {
namespace {

constexpr int kMostScans = 1000;
// A block of 64 pixels takes at least one bit.
constexpr int64_t kMostJpegPixelsPerByte = 512;

// Returns whether a warning means damage, which libjpeg fills with grey or noise. All other warnings of libjpeg concern
// bytes without effect on pixels.
bool is_damage(int message) {
  switch (message) {
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_JPEG_EOF:
    case JWRN_MUST_RESYNC:
    case JWRN_ARITH_BAD_CODE:
      return true;
    default:
      return false;
  }
}

class JpegDecoder {
 public:
  explicit JpegDecoder(std::span<const std::byte> file) : file_(file) {
    state_.err = jpeg_std_error(&errors_);
    state_.client_data = this;
    errors_.error_exit = [](j_common_ptr state) { self(state).fail(state->err->msg_code); };
    errors_.emit_message = [](j_common_ptr state, int level) {
      if (level < 0 && is_damage(state->err->msg_code)) self(state).fail(state->err->msg_code);
    };
    errors_.output_message = [](j_common_ptr) {};
    progress_.progress_monitor = [](j_common_ptr state) {
      if (reinterpret_cast<j_decompress_ptr>(state)->input_scan_number > kMostScans) self(state).fail(0);
    };
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&state_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  Header header() {
    if (!read_start()) throw error();
    const Header header = {{state_.image_height, state_.image_width}, state_.num_components == 1 ? 1 : 3};
    require_sane(header, file_.size(), kMostJpegPixelsPerByte);
    return header;
  }

  // To be called after header(). `rows` must have space for state's width and components.
  void decode(uint8_t* rows) {
    if (!read_rows(rows)) throw error();
  }
  bool is_cmyk() const { return state_.num_components == 4; }

 private:
  static JpegDecoder& self(j_common_ptr state) { return *static_cast<JpegDecoder*>(state->client_data); }

  [[noreturn]] void fail(int message) {
    message_ = message;
    std::longjmp(back_, 1);
  }

  bool read_start() {
    if (setjmp(back_) != 0) return false;
    jpeg_create_decompress(&state_);
    state_.progress = &progress_;
    jpeg_mem_src(&state_, reinterpret_cast<const unsigned char*>(file_.data()), file_.size());
    jpeg_read_header(&state_, TRUE);
    return true;
  }

  bool read_rows(uint8_t* rows) {
    if (setjmp(back_) != 0) return false;
    if (state_.num_components == 4) {
      state_.out_color_space = JCS_CMYK;
    } else if (state_.num_components != 1) {
      state_.out_color_space = JCS_RGB;
    }
    jpeg_start_decompress(&state_);
    while (state_.output_scanline < state_.output_height) {
      JSAMPROW row = rows + static_cast<size_t>(state_.output_scanline) * state_.output_width *
                                static_cast<size_t>(state_.output_components);
      jpeg_read_scanlines(&state_, &row, 1);
    }
    jpeg_finish_decompress(&state_);
    return true;
  }

  Error error() {
    switch (message_) {
      case 0:
        return Error::make(Fault::corrupt, "JPEG with more than {} scans", kMostScans);
      case JWRN_JPEG_EOF:
      case JERR_INPUT_EOF:
      case JERR_INPUT_EMPTY:
        return Error(Fault::corrupt, "truncated JPEG");
      default:
        char text[JMSG_LENGTH_MAX];
        errors_.format_message(reinterpret_cast<j_common_ptr>(&state_), text);
        return Error::make(Fault::corrupt, "damaged JPEG: {}", text);
    }
  }

  std::span<const std::byte> file_;
  jpeg_decompress_struct state_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf back_;
  int message_ = 0;
};

// Returns a * b / 255, rounded to nearest: exact for products of two bytes.
int over_255(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

}  // namespace

void inks_to_rgb(Image& picture) {
  const std::vector<uint8_t>& pixels = picture.pixels;
  uint8_t* out = picture.pixels.data();
  for (size_t i = 0; i < pixels.size(); i += 4, out += 3) {
    const uint8_t inks[4] = {pixels[i], pixels[i + 1], pixels[i + 2], pixels[i + 3]};
    for (int c = 0; c < 3; ++c) {
      const int light = inks[3] - over_255(255 - inks[c], inks[3]);
      out[c] = static_cast<uint8_t>(light < 0 ? 0 : light);
    }
  }
  picture.pixels.resize(pixels.size() / 4 * 3);
  picture.channels = 3;
}

bool is_jpeg(std::span<const std::byte> file) {
  return file.size() >= 3 && file[0] == std::byte{0xff} && file[1] == std::byte{0xd8} && file[2] == std::byte{0xff};
}

Header read_jpeg_header(std::span<const std::byte> file) { return JpegDecoder(file).header(); }

void decode_jpeg(std::span<const std::byte> file, Image& out) {
  JpegDecoder decoder(file);
  const Header header = decoder.header();
  make_room(out, header, decoder.is_cmyk() ? 4 : header.channels);
  decoder.decode(out.pixels.data());
  if (decoder.is_cmyk()) inks_to_rgb(out);
}

}  // namespace estrain::image
