// Reads images as a job would and writes what came of each to a file, for photo_bits.py to compare with torchvision's;
// or reads them as fast as it can, and prints how long that took.
//
// usage: photo_dump KEYS.json OUT
//        photo_dump KEYS.json --time PASSES
// KEYS: {"format", "path", "crop", "resize", "scale", "flip", "mean", "std", "seed", "epoch"}; an epoch below 0 means
//       evaluation.
// OUT: per image one line of JSON {"name", "label", "cut": [top, left, height, width], "mirrored", "shape"} and its
//      float32.

#include <time.h>

#include <fstream>
#include <iostream>
#include <sstream>

#include "core/base/json/json.h"
#include "core/data/photos/photos.h"
#include "core/job/spec/enum_names.h"

namespace estrain::data {
namespace {

template <typename T>
void take(const Json& keys, const char* name, T& field) {
  if (keys.contains(name)) field = keys.at(name).get<T>();
}

spec::DataSection section_of(const Json& keys) {
  spec::DataSection section;
  section.format = *spec::from_string<spec::DataFormat>(keys.at("format").get<std::string>());
  take(keys, "path", section.path);
  take(keys, "crop", section.crop);
  take(keys, "resize", section.resize);
  take(keys, "scale", section.scale);
  take(keys, "flip", section.flip);
  take(keys, "mean", section.mean);
  take(keys, "std", section.std);
  return section;
}

struct Reader {
  Json keys;
  spec::DataSection section = section_of(keys);
  DataPair pair = open(section, 0, 0);
  const PhotoDataset& set = dynamic_cast<const PhotoDataset&>(*pair.train);
  std::vector<float> pixels = std::vector<float>(static_cast<size_t>(set.shape().elements()));

  SampleDraw draw(int64_t index) const {
    const int64_t epoch = keys.at("epoch");
    return epoch < 0 ? SampleDraw::fixed() : SampleDraw(keys.at("seed").get<uint64_t>(), Epoch(epoch), index);
  }
  int64_t read(int64_t index) {
    int64_t label = 0;
    set.read(index, draw(index), reinterpret_cast<std::byte*>(pixels.data()), &label);
    return label;
  }
};

void dump(Reader& reader, const std::string& path) {
  std::ofstream out(path, std::ios::binary);
  for (int64_t i = 0; i < reader.set.size(); ++i) {
    const int64_t label = reader.read(i);
    std::vector<std::byte> scratch;
    const image::Header header = image::read_header(reader.set.source().read(i, scratch));
    const Cut cut = PhotoCut(reader.section).of(header.size, reader.draw(i));
    const Rectangle& source = cut.resizing.source;
    const Json line = {{"name", reader.set.source().name(i)},
                       {"label", label},
                       {"cut", {source.top, source.left, source.height, source.width}},
                       {"mirrored", cut.mirrored},
                       {"shape", reader.set.shape().dims()}};
    out << line.dump() << '\n';
    out.write(reinterpret_cast<const char*>(reader.pixels.data()),
              static_cast<std::streamsize>(reader.pixels.size() * sizeof(float)));
  }
}

// Processor time of this thread: others on the machine do not count.
double own_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void time_passes(Reader& reader, int64_t passes) {
  for (int64_t pass = 0; pass < passes; ++pass) {
    const double start = own_seconds();
    for (int64_t i = 0; i < reader.set.size(); ++i) reader.read(i);
    std::cout << static_cast<double>(reader.set.size()) / (own_seconds() - start) << std::endl;
    if (std::string line; pass + 1 < passes && !std::getline(std::cin, line)) return;  // the other program's turn
  }
}

}  // namespace
}  // namespace estrain::data

int main(int count, char** words) {
  using namespace estrain;
  if (count != 3 && count != 4) return 2;
  try {
    std::ifstream file(words[1]);
    std::stringstream text;
    text << file.rdbuf();
    data::Reader reader{parse_json(text.str(), words[1])};
    if (count == 3) {
      data::dump(reader, words[2]);
    } else {
      data::time_passes(reader, std::stoll(words[3]));
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
