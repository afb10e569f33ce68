#pragma once
// Small images of every kind and tar archives for tests, written with the usual libraries or byte by byte.

#include <cstdio>
//
#include <jpeglib.h>
#include <png.h>
#include <webp/encode.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace estrain::testing {

struct Picture {
  int height = 0, width = 0, channels = 3;
  std::vector<uint8_t> pixels;
};

// Smooth colours with some noise, different for each `seed`.
inline Picture some_picture(int height, int width, int channels = 3, unsigned seed = 0) {
  Picture picture{height, width, channels, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        const unsigned noise = (static_cast<unsigned>(y * 31 + x * 17 + c * 7) + seed * 101) * 2654435761u >> 28;
        picture.pixels.push_back(static_cast<uint8_t>(y * (3 + c) + x * 2 + static_cast<int>(seed * 23 + noise)));
      }
    }
  }
  return picture;
}

struct JpegSettings {
  int quality = 85;
  bool progressive = false;
  bool cmyk = false;  // four channels, stored unchanged
};

inline std::string jpeg_bytes(const Picture& picture, const JpegSettings& settings = {}) {
  jpeg_compress_struct state;
  jpeg_error_mgr errors;
  state.err = jpeg_std_error(&errors);
  jpeg_create_compress(&state);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&state, &memory, &size);
  state.image_height = static_cast<JDIMENSION>(picture.height);
  state.image_width = static_cast<JDIMENSION>(picture.width);
  state.input_components = picture.channels;
  state.in_color_space = settings.cmyk ? JCS_CMYK : picture.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&state);
  jpeg_set_quality(&state, settings.quality, TRUE);
  if (settings.progressive) jpeg_simple_progression(&state);
  jpeg_start_compress(&state, TRUE);
  for (int y = 0; y < picture.height; ++y) {
    auto* row = const_cast<JSAMPROW>(picture.pixels.data() + y * picture.width * picture.channels);
    jpeg_write_scanlines(&state, &row, 1);
  }
  jpeg_finish_compress(&state);
  jpeg_destroy_compress(&state);
  std::string bytes(reinterpret_cast<char*>(memory), size);
  std::free(memory);
  return bytes;
}

// `colour`: a PNG_COLOR_TYPE for the picture's channels. The pixels of a palette are indices, and index i is the colour
// (i, 255 - i, 2 i). 16-bit channels are the picture's bytes, each followed by the byte's complement.
struct PngSettings {
  int colour = PNG_COLOR_TYPE_RGB;
  int bits = 8;
  bool interlaced = false;
};

inline std::string png_bytes(const Picture& picture, const PngSettings& settings = {}) {
  std::string bytes;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  const auto append = [](png_structp state, png_bytep data, size_t count) {
    static_cast<std::string*>(png_get_io_ptr(state))->append(reinterpret_cast<char*>(data), count);
  };
  png_set_write_fn(png, &bytes, append, [](png_structp) {});
  png_set_IHDR(png, info, static_cast<png_uint_32>(picture.width), static_cast<png_uint_32>(picture.height),
               settings.bits, settings.colour, settings.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_color palette[256];
  for (int i = 0; i < 256; ++i) {
    palette[i] = {static_cast<png_byte>(i), static_cast<png_byte>(255 - i), static_cast<png_byte>(2 * i)};
  }
  if (settings.colour == PNG_COLOR_TYPE_PALETTE) png_set_PLTE(png, info, palette, 1 << settings.bits);
  png_write_info(png, info);
  std::vector<std::vector<uint8_t>> rows;
  const int count = picture.width * picture.channels;
  for (int y = 0; y < picture.height; ++y) {
    auto& row = rows.emplace_back();
    for (int i = 0; i < count; ++i) {
      const uint8_t byte = picture.pixels[static_cast<size_t>(y * count + i)];
      row.push_back(byte);
      if (settings.bits == 16) row.push_back(static_cast<uint8_t>(~byte));
    }
  }
  if (settings.bits < 8) png_set_packing(png);
  std::vector<png_bytep> pointers;
  for (auto& row : rows) pointers.push_back(row.data());
  png_write_image(png, pointers.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

// The bytes of a number, the lowest first.
inline std::string little_endian(int64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i, value >>= 8) text += static_cast<char>(value);
  return text;
}

// What stands before the rows of a BMP: sizes, masks or palette. A negative height: rows from the top.
struct BmpSettings {
  int bits = 24, compression = 0, colours = 0;
  std::string behind_header = {};  // masks, palette
};
inline std::string bmp_of_rows(int width, int height, const std::string& rows, const BmpSettings& settings = {}) {
  const int at = 54 + static_cast<int>(settings.behind_header.size());
  return "BM" + little_endian(at + static_cast<int>(rows.size()), 4) + little_endian(0, 4) + little_endian(at, 4) +
         little_endian(40, 4) + little_endian(width, 4) + little_endian(height, 4) + little_endian(1, 2) +
         little_endian(settings.bits, 2) + little_endian(settings.compression, 4) + little_endian(0, 12) +
         little_endian(settings.colours, 4) + little_endian(0, 4) + settings.behind_header + rows;
}

// A BMP of colours, from the bottom up.
inline std::string bmp_bytes(const Picture& picture) {
  std::string rows;
  for (int y = picture.height - 1; y >= 0; --y) {
    for (int x = 0; x < picture.width; ++x)
      for (int c = 2; c >= 0; --c)
        rows += static_cast<char>(picture.pixels[static_cast<size_t>((y * picture.width + x) * 3 + c)]);
    rows.resize((rows.size() + 3) / 4 * 4);
  }
  return bmp_of_rows(picture.width, picture.height, rows);
}

// A WebP file of colours; without a quality, lossless.
inline std::string webp_bytes(const Picture& picture, int quality = -1) {
  uint8_t* memory = nullptr;
  const int row = picture.width * 3;
  const size_t size = quality < 0
                          ? WebPEncodeLosslessRGB(picture.pixels.data(), picture.width, picture.height, row, &memory)
                          : WebPEncodeRGB(picture.pixels.data(), picture.width, picture.height, row,
                                          static_cast<float>(quality), &memory);
  std::string bytes(reinterpret_cast<char*>(memory), size);
  WebPFree(memory);
  return bytes;
}

// A chunk of a RIFF file, such as WebP.
inline std::string riff_chunk(const std::string& name, const std::string& content) {
  return name + little_endian(static_cast<int64_t>(content.size()), 4) + content +
         std::string(content.size() % 2, '\0');
}
inline std::string webp_of_chunks(const std::string& chunks) { return riff_chunk("RIFF", "WEBP" + chunks); }
// The picture's chunk of a simple WebP file.
inline std::string chunk_of_webp(const std::string& file) { return file.substr(12); }
// The first chunk of a WebP file with more than a picture. `flags`: 2 animation, 4 XMP, 8 EXIF, 16 alpha.
inline std::string webp_features(int flags, int width, int height) {
  return riff_chunk("VP8X", little_endian(flags, 4) + little_endian(width - 1, 3) + little_endian(height - 1, 3));
}

struct TiffTag {
  int number = 0;
  std::vector<int64_t> values = {};
  int width = 2;  // bytes of a value: 1, 2 or 4
};

// A TIFF file of strips, or of tiles where a tag 322 says so.
inline std::string tiff_of_pieces(std::vector<TiffTag> tags, const std::vector<std::string>& pieces,
                                  bool is_big_endian = false) {
  const auto put = [is_big_endian](int64_t value, int width) {
    const std::string text = little_endian(value, width);
    return is_big_endian ? std::string(text.rbegin(), text.rend()) : text;
  };
  std::string content;
  TiffTag places, sizes;
  bool has_tiles = false;
  for (const TiffTag& tag : tags) has_tiles = has_tiles || tag.number == 322;
  places.number = has_tiles ? 324 : 273, sizes.number = has_tiles ? 325 : 279, places.width = sizes.width = 4;
  for (const std::string& piece : pieces) {
    places.values.push_back(static_cast<int64_t>(8 + content.size()));
    sizes.values.push_back(static_cast<int64_t>(piece.size()));
    content += piece + std::string(piece.size() % 2, '\0');
  }
  tags.push_back(places), tags.push_back(sizes);
  std::sort(tags.begin(), tags.end(), [](const TiffTag& a, const TiffTag& b) { return a.number < b.number; });
  const auto at = static_cast<int64_t>(8 + content.size()),
             behind = at + 2 + 12 * static_cast<int64_t>(tags.size()) + 4;
  std::string entries, further;
  for (const TiffTag& tag : tags) {
    std::string values;
    for (const int64_t value : tag.values) values += put(value, tag.width);
    entries += put(tag.number, 2) +
               put(tag.width == 1   ? 1
                   : tag.width == 2 ? 3
                                    : 4,
                   2) +
               put(static_cast<int64_t>(tag.values.size()), 4);
    if (values.size() <= 4) {
      entries += values + std::string(4 - values.size(), '\0');
    } else {
      entries += put(behind + static_cast<int64_t>(further.size()), 4);
      further += values + std::string(values.size() % 2, '\0');
    }
  }
  return (is_big_endian ? "MM" : "II") + put(42, 2) + put(at, 4) + content + put(static_cast<int64_t>(tags.size()), 2) +
         entries + put(0, 4) + further;
}

// Tags of a picture in one strip. `colours`: 0 and 1 grey, 2 RGB, 3 a palette, 5 four inks, 6 luminance and
// chrominance.
inline std::vector<TiffTag> tiff_tags(const Picture& picture, int colours, int bits = 8, int compression = 1) {
  return {{256, {picture.width}},
          {257, {picture.height}},
          {258, std::vector<int64_t>(static_cast<size_t>(picture.channels), bits)},
          {259, {compression}},
          {262, {colours}},
          {277, {picture.channels}},
          {278, {picture.height}}};
}

inline std::string text_of_pixels(const Picture& picture) { return {picture.pixels.begin(), picture.pixels.end()}; }

inline std::string tiff_bytes(const Picture& picture) {
  return tiff_of_pieces(tiff_tags(picture, picture.channels == 1 ? 1 : 2), {text_of_pixels(picture)});
}

// A ustar archive of files, in order; names of up to 100 bytes. `type`: '0' for files.
inline std::string tar_member(const std::string& name, const std::string& content, char type = '0') {
  std::string header(512, '\0');
  const auto put = [&](size_t at, const std::string& text) { header.replace(at, text.size(), text); };
  const auto octal = [](size_t value, int digits) {
    char text[32];
    std::snprintf(text, sizeof text, "%0*zo", digits, value);
    return std::string(text);
  };
  put(0, name);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, octal(content.size(), 11));
  put(136, "00000000000");
  put(148, "        ");
  header[156] = type;
  put(257, std::string("ustar\0", 6) + "00");
  size_t sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  put(148, octal(sum, 6) + std::string("\0 ", 2));
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

inline std::string tar_bytes(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string bytes;
  for (const auto& [name, content] : files) bytes += tar_member(name, content);
  return bytes + std::string(1024, '\0');
}

}  // namespace estrain::testing
