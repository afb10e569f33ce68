// data.holdout: which samples of a training set are kept for evaluation.
#include "core/data/formats/holdout.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "core/data/format_table.h"
#include "core/data/sampling/sampler.h"
#include "core/formats/h5/file.h"
#include "tests/core/data/photo_folder.h"

namespace estrain::data {
namespace {

// Ten images of one class, three of another and one of a third; all in one folder each.
struct UnequalClasses : PhotoFolder {
  UnequalClasses() {
    unsigned seed = 0;
    for (const auto& [name, count] : {std::pair("ant", 10), std::pair("bee", 3), std::pair("cat", 1)})
      for (int i = 0; i < count; ++i)
        write(fmt::format("all/{}/{}.png", name, i), testing::png_bytes(testing::some_picture(9, 11, 3, ++seed)));
  }
  spec::DataSection section(double holdout) const {
    spec::DataSection section = PhotoFolder::section(spec::DataFormat::images, "all");
    section.holdout = holdout;
    return section;
  }
};

std::vector<PhotoSample> samples_of(const Dataset& set) {
  std::vector<PhotoSample> samples;
  for (int64_t i = 0; i < set.size(); ++i) samples.push_back(read_photo(set, i));
  return samples;
}

std::vector<int64_t> counts(const Dataset& set) {
  std::vector<int64_t> counts(3);
  for (const PhotoSample& sample : samples_of(set)) ++counts[static_cast<size_t>(sample.target)];
  return counts;
}

// The numbers of the images kept for evaluation at the fraction 0.25: the first of each class in torch's permutation.
std::set<int64_t> numbers_kept(uint64_t seed) {
  std::set<int64_t> kept;
  std::vector<int64_t> left = {3, 1, 0};
  for (const int64_t sample : randperm(14, seed))
    if (left[sample < 10 ? 0 : sample < 13 ? 1 : 2]-- > 0) kept.insert(sample);
  return kept;
}

TEST_CASE("a part of each class is kept, by the seed alone, and training goes without") {
  const UnequalClasses folder;
  const DataPair whole = open(folder.section(0), 0, 5), pair = open(folder.section(0.25), 0, 5);
  CHECK(whole.test == nullptr);
  REQUIRE(pair.test != nullptr);
  CHECK(counts(*pair.test) == std::vector<int64_t>{3, 1, 0});  // 2.5 and 0.75, rounded; of a single image none
  CHECK(counts(*pair.train) == std::vector<int64_t>{7, 2, 1});

  const std::set<int64_t> kept = numbers_kept(5);  // in the order of the files
  std::vector<PhotoSample> test, train;
  for (int64_t i = 0; i < 14; ++i) (kept.contains(i) ? test : train).push_back(read_photo(*whole.train, i));
  CHECK(samples_of(*pair.test) == test);
  CHECK(samples_of(*pair.train) == train);

  CHECK(samples_of(*open(folder.section(0.25), 0, 6).test) != test);
  CHECK(counts(*open(folder.section(0.999), 0, 5).train) == std::vector<int64_t>{1, 1, 1});
  CHECK(counts(*open(folder.section(0.001), 0, 5).test) == std::vector<int64_t>{1, 1, 0});
}

TEST_CASE("an image is augmented by its number among all images") {
  const UnequalClasses folder;
  spec::DataSection section = folder.section(0.25);
  section.scale = {0.2, 1.0};
  const DataPair pair = open(section, 0, 5);
  section.holdout = 0;
  const DataPair whole = open(section, 0, 5);
  const auto read = [](const Dataset& set, std::vector<int64_t> indices) {
    PhotoSample sample;
    sample.input.resize(static_cast<size_t>(set.shape().elements()));
    set.read_run({.indices = indices,
                  .draw = [](int64_t index, size_t) { return SampleDraw(5, Epoch(1), index); },
                  .out = {reinterpret_cast<std::byte*>(sample.input.data())},
                  .targets = &sample.target,
                  .is_abandoned = [] { return false; }});
    return sample;
  };
  std::vector<PhotoSample> all;
  for (int64_t i = 0; i < 14; ++i) all.push_back(read(*whole.train, {i}));
  const std::set<int64_t> kept = numbers_kept(5);
  int64_t train = 0, test = 0;
  for (int64_t i = 0; i < 14; ++i) {
    CAPTURE(i);
    const bool is_kept = kept.contains(i);
    const PhotoSample sample = read(is_kept ? *pair.test : *pair.train, {is_kept ? test++ : train++});
    CHECK(sample == all[static_cast<size_t>(i)]);
  }
}

TEST_CASE("the scan counts what is kept, and looks at every image as both sets would") {
  const UnequalClasses folder;
  const DataScan found = scan(folder.section(0.25), 0);
  CHECK(found.fine());
  CHECK(found.train_samples == 10);
  const auto says = [](const DataScan& scan, const std::string& words) {
    return std::ranges::any_of(scan.findings, [&](const Finding& each) { return contains(each.seen, words); });
  };
  CHECK(says(found, "4 of 14 samples are kept for evaluation"));
  CHECK(scan(folder.section(0), 0).train_samples == 14);
  spec::DataSection large = folder.section(0.25);
  large.crop = {32, 32};  // a cut of any size can be scaled to this, and no image has it in its centre
  large.scale = {0.2, 1.0};
  CHECK_FALSE(scan(large, 0).fine());
  large.holdout = 0;
  CHECK(scan(large, 0).fine());
}

TEST_CASE("shards and HDF5 files are divided by class, named arrays as a whole") {
  const UnequalClasses folder;
  std::vector<std::pair<std::string, std::string>> members;
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < 12; ++i) {
    labels.push_back(i % 4 == 0);
    members.emplace_back(fmt::format("s{}.png", i), testing::png_bytes(testing::some_picture(9, 11, 3, 3)));
    members.emplace_back(fmt::format("s{}.cls", i), std::to_string(labels.back()));
  }
  folder.write("shard.tar", testing::tar_bytes(members));
  {
    h5::File file = h5::File::create(folder / "train.h5");
    h5::Group root = file.root();
    root.create_dataset("images", h5::Type::u8, {12, 2, 2}).write(h5::Type::u8, std::vector<char>(48).data());
    root.create_dataset("labels", h5::Type::i64, {12}).write(h5::Type::i64, labels.data());
  }
  spec::DataSection shard = folder.section(0.34), pictures = shard;
  shard.format = spec::DataFormat::webdataset, shard.path = folder / "shard.tar";
  pictures.format = spec::DataFormat::hdf5, pictures.path = folder / "train.h5", pictures.crop.clear();
  for (const spec::DataSection& section : {shard, pictures}) {
    CAPTURE(section.path);
    const DataPair pair = open(section, 0, 5);
    REQUIRE(pair.test != nullptr);
    CHECK(counts(*pair.test) == std::vector<int64_t>{3, 1, 0});
    CHECK(counts(*pair.train) == std::vector<int64_t>{6, 2, 0});
    CHECK(scan(section, 0).train_samples == 8);
  }
  const DataPair arrays = open(pictures, 0, 5, std::nullopt, {"labels"});
  REQUIRE(arrays.test != nullptr);
  CHECK(arrays.test->size() == 4);
  CHECK(arrays.train->size() == 8);
  CHECK(scan(pictures, 0, std::nullopt, {"labels"}).train_samples == 8);
}

TEST_CASE("a set from which no sample can be kept is refused") {
  const PhotoFolder folder;
  for (const char* name : {"ant", "bee"})
    folder.write(fmt::format("all/{}/1.png", name), testing::png_bytes(testing::some_picture(9, 11)));
  spec::DataSection section = folder.section(spec::DataFormat::images, "all");
  section.holdout = 0.5;
  const Error refused = error_of([&] { open(section, 0, 0); });
  CHECK(refused.fault() == Fault::spec);
  CHECK(contains(refused.message(), "data.holdout = 0.5 keeps none of 2 samples: no class has two"));
}

}  // namespace
}  // namespace estrain::data
