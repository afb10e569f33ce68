#pragma once
// Folders and archives of small images for tests.

#include <filesystem>
#include <string>
#include <vector>

#include "core/data/formats/dataset.h"
#include "data_files.h"
#include "tests/written_images.h"

namespace estrain::data {

struct PhotoFolder : DataFolder {
  void write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories(std::filesystem::path(*this / name).parent_path());
    DataFolder::write(name, content);
  }
  spec::DataSection section(spec::DataFormat format, const std::string& train, const std::string& test = "") const {
    spec::DataSection section;
    section.format = format;
    section.path = *this / train;
    if (!test.empty()) section.test_path = *this / test;
    section.crop = {8, 8};
    return section;
  }
};

// Three classes of two images each, of different sizes and kinds; one image in a subfolder of its own.
struct ThreeClasses : PhotoFolder {
  ThreeClasses() {
    unsigned seed = 0;
    for (const char* name : {"ant/1.jpg", "ant/2.JPEG", "bee/deep/1.png", "bee/2.jpg", "cat/1.png", "cat/2.jpeg"}) {
      const int side = 12 + static_cast<int>(seed) * 3;
      const testing::Picture picture = testing::some_picture(side, side + 4, 3, ++seed);
      write(std::string("train/") + name,
            std::string(name).ends_with("png") ? testing::png_bytes(picture) : testing::jpeg_bytes(picture));
    }
    write("val/bee/x.png", testing::png_bytes(testing::some_picture(20, 10, 3, 9)));
  }
  spec::DataSection section() const { return PhotoFolder::section(spec::DataFormat::images, "train", "val"); }
};

struct PhotoSample {
  std::vector<float> input;
  int64_t target = -1;

  bool operator==(const PhotoSample&) const = default;
};

inline PhotoSample read_photo(const Dataset& set, int64_t index, const SampleDraw& draw = SampleDraw::fixed()) {
  PhotoSample sample;
  sample.input.resize(static_cast<size_t>(set.shape().elements()));
  set.read(index, draw, reinterpret_cast<std::byte*>(sample.input.data()), &sample.target);
  return sample;
}

}  // namespace estrain::data
