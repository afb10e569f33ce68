// Reads images as a job would and writes what came of each to a file, for photo_bits.py to compare with torchvision's;
// or a job's mini-batches; or reads the images as fast as it can, and prints how long that took.
//
// usage: photo_dump KEYS.json OUT
//        photo_dump KEYS.json OUT --batches COUNT
//        photo_dump KEYS.json --time PASSES
// KEYS: {"format", "path", "crop", "resize", "scale", "flip", "orient", "rand_augment", "jitter", "erase", "mean",
//       "std", "seed", "epoch"}; an epoch below 0 means evaluation. For mini-batches also {"batch", "ests", "mixup",
//       "cutmix"}.
// OUT: per image one line of JSON {"name", "label", "cut": [top, left, height, width], "mirrored", "operations":
// [[kind,
//      is negative], ...], "order", "factors", "erased": [top, left, height, width], "shape"} and its float32. Or per
//      mini-batch one line of JSON {"rank", "labels", "share", "box": [top, bottom, left, right], "classes", "shape"},
//      its float32 and its labels' float32.

#include <time.h>

#include <fstream>
#include <iostream>
#include <sstream>

#include "core/base/json/json.h"
#include "core/data/photos/photos.h"
#include "core/data/reading/loader.h"
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
  take(keys, "orient", section.orient);
  take(keys, "rand_augment", section.rand_augment);
  take(keys, "jitter", section.jitter);
  take(keys, "erase", section.erase);
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

void write(std::ofstream& out, const Json& line, const std::vector<float>& numbers) {
  out << line.dump() << '\n';
  out.write(reinterpret_cast<const char*>(numbers.data()),
            static_cast<std::streamsize>(numbers.size() * sizeof(float)));
}

Json rectangle_of(const Reader& reader, int64_t index) {
  const SampleShape shape = reader.set.shape();
  const auto at = Erasing(reader.section.erase).of({shape.height, shape.width}, reader.draw(index));
  return at ? Json{at->top, at->left, at->height, at->width} : Json::array();
}

Json operations_of(const Reader& reader, int64_t index) {
  Json all = Json::array();
  for (const AugmentStep& step : RandAugment(reader.section.rand_augment).of(reader.draw(index)))
    all.push_back({static_cast<int>(step.kind), step.is_negative});
  return all;
}

void dump(Reader& reader, const std::string& path) {
  std::ofstream out(path, std::ios::binary);
  for (int64_t i = 0; i < reader.set.size(); ++i) {
    const int64_t label = reader.read(i);
    std::vector<std::byte> scratch;
    const image::Header header =
        image::read_header(reader.set.source().read(i, scratch), PhotoPixels(reader.section).orientation());
    const Cut cut = PhotoCut(reader.section).of(header.size, reader.draw(i));
    const Rectangle& source = cut.resizing.source;
    const JitterDraw jitter = Jitter(reader.section.jitter).of(reader.draw(i));
    const Json line = {{"name", reader.set.source().name(i)},
                       {"label", label},
                       {"cut", {source.top, source.left, source.height, source.width}},
                       {"mirrored", cut.mirrored},
                       {"operations", operations_of(reader, i)},
                       {"order", jitter.order},
                       {"factors", jitter.factors},
                       {"erased", rectangle_of(reader, i)},
                       {"shape", reader.set.shape().dims()}};
    write(out, line, reader.pixels);
  }
}

Json box_of(const Mix& mix) {
  if (!mix.box) return Json::array();
  return {mix.box->top, mix.box->bottom, mix.box->left, mix.box->right};
}

void dump_batches(Reader& reader, const std::string& path, int64_t count) {
  const auto number = [&](const char* key) { return reader.keys.at(key).get<int64_t>(); };
  const auto real = [&](const char* key) { return reader.keys.at(key).get<double>(); };
  const auto seed = reader.keys.at("seed").get<uint64_t>();
  const SampleShape shape = reader.set.shape();
  LoaderOptions options;
  options.readers = 3;
  options.seed = seed;
  if (real("mixup") + real("cutmix") > 0)
    options.mixing = Mixing({real("mixup"), real("cutmix"), seed, shape.height, shape.width, reader.set.classes()});
  const EpochSampler sampler(reader.set.size(), number("ests"), number("batch"), true, false, seed);
  Loader loader(reader.set, sampler, {VirtualRank(0), VirtualRank(number("ests"))}, Step(0), options);
  std::ofstream out(path, std::ios::binary);
  for (int64_t i = 0; i < count; ++i) {
    const LoadedBatch batch = loader.next();
    const Mix mix = batch.mix().value_or(Mix{.classes = reader.set.classes()});
    std::vector<float> numbers(batch.floats(), batch.floats() + batch.size() * shape.elements());
    std::vector<float> labels(static_cast<size_t>(batch.size() * mix.classes));
    mix_labels(mix, batch.size(), batch.targets(), labels.data());
    numbers.insert(numbers.end(), labels.begin(), labels.end());
    const Json line = {
        {"rank", batch.rank().value}, {"labels", std::vector<int64_t>(batch.targets(), batch.targets() + batch.size())},
        {"share", mix.share},         {"box", box_of(mix)},
        {"classes", mix.classes},     {"images", {batch.size(), shape.channels, shape.height, shape.width}},
        {"shape", {numbers.size()}}};
    write(out, line, numbers);
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
  if (count < 3 || count > 5) return 2;
  try {
    std::ifstream file(words[1]);
    std::stringstream text;
    text << file.rdbuf();
    data::Reader reader{parse_json(text.str(), words[1])};
    if (count == 3) {
      data::dump(reader, words[2]);
    } else if (count == 5) {
      data::dump_batches(reader, words[2], std::stoll(words[4]));
    } else {
      data::time_passes(reader, std::stoll(words[3]));
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
