// Every format, from files that the test writes; and every possible error in them.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "core/data/formats/dataset.h"
#include "core/data/formats/synthetic.h"
#include "core/h5/file.h"
#include "data_files.h"
#include "golden.h"

namespace estrain::data {
namespace {

using spec::DataFormat;
using spec::DataSection;

struct ImageSample {
  std::vector<float> input;
  int64_t target = -1;
};

ImageSample read_image(const Dataset& dataset, int64_t index) {
  ImageSample sample;
  sample.input.resize(static_cast<size_t>(dataset.shape().elements()));
  dataset.read(index, SampleDraw::fixed(), reinterpret_cast<std::byte*>(sample.input.data()), &sample.target);
  return sample;
}

std::vector<float> over_255(const std::string& pixels) {
  std::vector<float> result;
  for (char pixel : pixels) result.push_back(static_cast<float>(static_cast<uint8_t>(pixel)) / 255.0f);
  return result;
}

Error refusal(const DataSection& section, std::optional<int64_t> classes = std::nullopt) {
  return error_of([&] { open(section, 4, 0, classes); });
}

// Five training and two test images of 2 x 3, under the standard names.
struct NamedIdxFolder : DataFolder {
  static constexpr const char* names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                          "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
  NamedIdxFolder() {
    for (size_t i = 0; i < 4; ++i) write(names[i], contents()[i]);
  }
  static std::array<std::string, 4> contents() {
    return {idx_bytes({5, 2, 3}, pattern_bytes(30)), idx_bytes({5}, std::string{0, 3, 1, 2, 0}),
            idx_bytes({2, 2, 3}, pattern_bytes(12, 99)), idx_bytes({2}, std::string{1, 3})};
  }
  DataSection section() const { return section_of(DataFormat::idx, path()); }
};

void check_idx_content(const DataPair& pair) {
  REQUIRE(pair.train->size() == 5);
  REQUIRE(pair.test);
  CHECK(pair.test->size() == 2);
  CHECK(pair.train->shape() == SampleShape::image(1, 2, 3));
  CHECK(pair.train->classes() == 4);
  CHECK(pair.test->classes() == 4);
  for (size_t i = 0; i < 5; ++i) {
    const ImageSample sample = read_image(*pair.train, static_cast<int64_t>(i));
    CHECK(sample.input == over_255(pattern_bytes(30).substr(6 * i, 6)));
    CHECK(sample.target == std::array{0, 3, 1, 2, 0}[i]);
  }
  CHECK(read_image(*pair.test, 1).input == over_255(pattern_bytes(12, 99).substr(6)));
}

struct Cifar10Folder : DataFolder {
  Cifar10Folder() {
    for (int file = 1; file <= 5; ++file)
      write(
          "data_batch_" + std::to_string(file) + ".bin",
          cifar_records(std::vector<std::string>(static_cast<size_t>(file), std::string(1, static_cast<char>(file)))));
    write("test_batch.bin", cifar_records({std::string(1, 9)}));
  }
};

template <typename T>
void write_hdf5(const std::string& path, h5::Type type, const std::vector<int64_t>& shape, const std::vector<T>& images,
                const std::vector<int64_t>& labels) {
  h5::File file = h5::File::create(path);
  {
    h5::Group root = file.root();
    root.create_dataset("images", type, shape).write(type, images.data());
    root.create_dataset("labels", h5::Type::i64, {static_cast<int64_t>(labels.size())})
        .write(h5::Type::i64, labels.data());
  }
  file.close();
}

}  // namespace

TEST_CASE("idx: plain files, gzipped files, files by name") {
  NamedIdxFolder folder;
  SUBCASE("plain") { check_idx_content(open(folder.section(), 0, 0)); }
  SUBCASE("gzipped") {
    for (size_t i = 0; i < 4; ++i) {
      std::filesystem::remove(folder / NamedIdxFolder::names[i]);
      folder.write_gzip(std::string(NamedIdxFolder::names[i]) + ".gz", NamedIdxFolder::contents()[i]);
    }
    check_idx_content(open(folder.section(), 0, 0));
  }
  SUBCASE("by name") {
    DataSection section = section_of(DataFormat::idx, "");
    section.images = folder / NamedIdxFolder::names[0];
    section.labels = folder / NamedIdxFolder::names[1];
    CHECK_FALSE(open(section, 0, 0).test);
    section.test_images = folder / NamedIdxFolder::names[2];
    section.test_labels = folder / NamedIdxFolder::names[3];
    check_idx_content(open(section, 0, 0));
    section.labels.clear();
    CHECK(refusal(section).fault() == Fault::spec);
  }
  SUBCASE("with channels") {
    folder.write(NamedIdxFolder::names[0], idx_bytes({5, 3, 2, 1}, pattern_bytes(30)));
    folder.write(NamedIdxFolder::names[2], idx_bytes({2, 3, 2, 1}, pattern_bytes(12)));
    const DataPair pair = open(folder.section(), 0, 0);
    CHECK(pair.train->shape() == SampleShape::image(3, 2, 1));
    CHECK(read_image(*pair.train, 4).input == over_255(pattern_bytes(30).substr(24)));
  }
}

TEST_CASE("idx: a gzip file of several members and more than its trailer says") {
  NamedIdxFolder folder;
  std::string pixels = pattern_bytes(5 * 100 * 100);
  const std::string images = idx_bytes({5, 100, 100}, pixels);
  folder.write_gzip("a.gz", images.substr(0, 49000));
  folder.write_gzip("b.gz", images.substr(49000));
  folder.write("images.gz", read_all(folder / "a.gz") + read_all(folder / "b.gz"));
  DataSection section = section_of(DataFormat::idx, "");
  section.images = folder / "images.gz";
  section.labels = folder / NamedIdxFolder::names[1];
  CHECK(read_image(*open(section, 0, 0).train, 4).input == over_255(pixels.substr(40000)));
}

TEST_CASE("idx: wrong files") {
  NamedIdxFolder folder;
  const auto [train_images, train_labels, test_images, test_labels] = NamedIdxFolder::contents();
  const auto refused = [&](Fault fault, const char* file, const char* text) {
    const Error error = refusal(folder.section());
    CAPTURE(error.message());
    CHECK(error.fault() == fault);
    CHECK(contains(error.message(), folder / file));
    CHECK(contains(error.message(), text));
  };
  SUBCASE("missing") {
    std::filesystem::remove(folder / NamedIdxFolder::names[1]);
    refused(Fault::io, NamedIdxFolder::names[1], "no such file");
    CHECK(contains(refusal(folder.section()).advice(), "data.path"));
  }
  SUBCASE("missing test file") {
    std::filesystem::remove(folder / NamedIdxFolder::names[2]);
    refused(Fault::io, NamedIdxFolder::names[2], "no such file");
  }
  SUBCASE("truncated at every byte") {
    for (size_t keep = 0; keep < train_images.size(); ++keep) {
      folder.write(NamedIdxFolder::names[0], train_images.substr(0, keep));
      refused(Fault::corrupt, NamedIdxFolder::names[0], keep < 4 ? "not an IDX file" : "truncated");
    }
  }
  SUBCASE("too long") {
    folder.write(NamedIdxFolder::names[0], train_images + "x");
    refused(Fault::corrupt, NamedIdxFolder::names[0], "too long");
  }
  SUBCASE("of another format") {
    folder.write(NamedIdxFolder::names[0], "\x89PNG and what follows it");
    refused(Fault::corrupt, NamedIdxFolder::names[0], "not an IDX file of images");
  }
  SUBCASE("labels instead of images") {
    folder.write(NamedIdxFolder::names[0], train_labels);
    refused(Fault::corrupt, NamedIdxFolder::names[0], "not an IDX file of images");
  }
  SUBCASE("images instead of labels") {
    folder.write(NamedIdxFolder::names[1], train_images);
    refused(Fault::corrupt, NamedIdxFolder::names[1], "not an IDX file of labels");
  }
  SUBCASE("more than memory holds") {
    folder.write(NamedIdxFolder::names[0], idx_bytes({0xffffffff, 0xffffffff, 0xffffffff}, "x"));
    refused(Fault::corrupt, NamedIdxFolder::names[0], "memory");
  }
  SUBCASE("counts differ") {
    folder.write(NamedIdxFolder::names[1], idx_bytes({4}, std::string{0, 1, 2, 3}));
    refused(Fault::corrupt, NamedIdxFolder::names[1], "4 labels");
  }
  SUBCASE("a test label that training does not have") {
    folder.write(NamedIdxFolder::names[3], idx_bytes({2}, std::string{1, 7}));
    refused(Fault::corrupt, NamedIdxFolder::names[3],
            "label 7 of sample 1 is out of range: there are 4 classes (0 to 3)");
  }
  SUBCASE("no pixels") {
    folder.write(NamedIdxFolder::names[0], idx_bytes({5, 0, 3}, ""));
    refused(Fault::corrupt, NamedIdxFolder::names[0], "no pixels");
  }
  SUBCASE("test images of another size") {
    folder.write(NamedIdxFolder::names[2], idx_bytes({2, 3, 3}, pattern_bytes(18)));
    const Error error = refusal(folder.section());
    CHECK(error.fault() == Fault::mismatch);
    CHECK(contains(error.message(), "[1, 2, 3]"));
    CHECK(contains(error.message(), "[1, 3, 3]"));
  }
  SUBCASE("a folder in the place of a file") {
    std::filesystem::remove(folder / NamedIdxFolder::names[1]);
    std::filesystem::create_directory(folder / NamedIdxFolder::names[1]);
    refused(Fault::io, NamedIdxFolder::names[1], "Is a directory");
  }
}

TEST_CASE("idx: labels are checked against the model's classes") {
  NamedIdxFolder folder;
  const Error error = refusal(folder.section(), 3);
  CHECK(error.fault() == Fault::corrupt);
  CHECK(contains(error.message(), folder / NamedIdxFolder::names[1]));
  CHECK(contains(error.message(), "label 3 of sample 1 is out of range: there are 3 classes (0 to 2)"));
  CHECK(open(folder.section(), 0, 0, 100).train->classes() == 100);
}

TEST_CASE("a gzip file cut or changed anywhere is corrupt") {
  NamedIdxFolder folder;
  folder.write_gzip("images.gz", NamedIdxFolder::contents()[0]);
  const std::string whole = read_all(folder / "images.gz");
  DataSection section = section_of(DataFormat::idx, "");
  section.images = folder / "images.gz";
  section.labels = folder / NamedIdxFolder::names[1];
  CHECK(open(section, 0, 0).train->size() == 5);
  for (size_t keep = 0; keep < whole.size(); ++keep) {
    folder.write("images.gz", whole.substr(0, keep));
    const Error error = refusal(section);
    CHECK(error.fault() == Fault::corrupt);
    CHECK(contains(error.message(), "images.gz: decompression failed"));
  }
  for (size_t at = whole.size() - 8; at < whole.size(); ++at) {  // checksum and size
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    folder.write("images.gz", changed);
    CHECK(refusal(section).fault() == Fault::corrupt);
  }
  folder.write("images.gz", whole + "rubbish behind it");
  CHECK(refusal(section).fault() == Fault::corrupt);
}

TEST_CASE("cifar10: five files in order") {
  Cifar10Folder folder;
  const DataPair pair = open(section_of(DataFormat::cifar10, folder.path()), 0, 0);
  CHECK(pair.train->size() == 15);
  CHECK(pair.train->classes() == 10);
  CHECK(pair.train->shape() == SampleShape::image(3, 32, 32));
  for (int64_t file = 1, index = 0; file <= 5; ++file) {
    for (int64_t i = 0; i < file; ++i, ++index) {
      const ImageSample sample = read_image(*pair.train, index);
      CHECK(sample.target == file);
      CHECK(sample.input == over_255(pattern_bytes(3072, static_cast<unsigned>(i))));
    }
  }
  CHECK(read_image(*pair.test, 0).target == 9);
}

TEST_CASE("cifar10: wrong files") {
  Cifar10Folder folder;
  const DataSection section = section_of(DataFormat::cifar10, folder.path());
  SUBCASE("missing") {
    std::filesystem::remove(folder / "data_batch_4.bin");
    const Error error = refusal(section);
    CHECK(error.fault() == Fault::io);
    CHECK(contains(error.message(), folder / "data_batch_4.bin"));
  }
  SUBCASE("truncated, empty") {
    for (size_t keep : {size_t{0}, size_t{1}, size_t{3072}, size_t{3074}}) {
      folder.write("data_batch_2.bin", read_all(folder / "data_batch_2.bin").substr(0, keep));
      const Error error = refusal(section);
      CHECK(error.fault() == Fault::corrupt);
      CHECK(contains(error.message(), folder / "data_batch_2.bin"));
      folder.write("data_batch_2.bin", cifar_records({"\1", "\1"}));
    }
  }
  SUBCASE("label out of range, counted within its file") {
    folder.write("data_batch_3.bin", cifar_records({"\1", "\12", "\1"}));
    const Error error = refusal(section);
    CHECK(error.fault() == Fault::corrupt);
    CHECK(contains(error.message(), folder / "data_batch_3.bin"));
    CHECK(contains(error.message(), "label 10 of sample 1 is out of range: there are 10 classes"));
  }
}

TEST_CASE("cifar100 takes the fine labels") {
  DataFolder folder;
  folder.write("train.bin", cifar_records({"\1\x63", "\23\7"}));
  folder.write("test.bin", cifar_records({"\2\3"}));
  const DataPair pair = open(section_of(DataFormat::cifar100, folder.path()), 0, 0);
  CHECK(pair.train->classes() == 100);
  CHECK(read_image(*pair.train, 0).target == 99);
  CHECK(read_image(*pair.train, 1).target == 7);
  CHECK(read_image(*pair.train, 1).input == over_255(pattern_bytes(3072, 1)));
  CHECK(pair.test->size() == 1);
}

TEST_CASE("text: bytes and the bytes behind them") {
  DataFolder folder;
  folder.write("text", "abcdefghijklmnopqrs\xff");  // 20 bytes
  DataSection section = section_of(DataFormat::text, folder / "text");
  const auto tokens = [](const Dataset& dataset, int64_t index) {
    std::array<std::string, 2> result;
    std::vector<int64_t> input(4), target(4);
    dataset.read(index, SampleDraw::fixed(), reinterpret_cast<std::byte*>(input.data()), target.data());
    for (int64_t token : input) result[0].push_back(static_cast<char>(token));
    for (int64_t token : target) result[1].push_back(static_cast<char>(token));
    CHECK(std::ranges::all_of(target, [](int64_t token) { return token >= 0 && token < 256; }));
    return result;
  };
  using Pair = std::array<std::string, 2>;
  SUBCASE("the last part is held out") {
    section.holdout = 0.3;  // 6 bytes
    const DataPair pair = open(section, 4, 0);
    CHECK(pair.train->shape() == SampleShape::tokens(4));
    CHECK(pair.train->classes() == 256);
    CHECK(pair.train->size() == 3);  // 14 bytes
    CHECK(tokens(*pair.train, 0) == Pair{"abcd", "bcde"});
    CHECK(tokens(*pair.train, 2) == Pair{"ijkl", "jklm"});
    CHECK(pair.test->size() == 1);
    CHECK(tokens(*pair.test, 0) == Pair{"opqr", "pqrs"});
  }
  SUBCASE("nothing is held out") {
    section.holdout = 0;
    const DataPair pair = open(section, 4, 0);
    CHECK_FALSE(pair.test);
    CHECK(pair.train->size() == 4);
    CHECK(open(section, 19, 0).train->size() == 1);
  }
  SUBCASE("a test file") {
    folder.write("test", "0123456789");
    section.test_path = folder / "test";
    const DataPair pair = open(section, 4, 0);
    CHECK(pair.train->size() == 4);
    CHECK(pair.test->size() == 2);
    CHECK(tokens(*pair.test, 1) == Pair{"4567", "5678"});
  }
  SUBCASE("too short for one sample, in training or in the test set") {
    section.holdout = 0;
    const Error error = error_of([&] { open(section, 20, 0); });
    CHECK(error.fault() == Fault::spec);
    CHECK(contains(error.message(), "21 are needed"));
    section.holdout = 0.1;
    CHECK(contains(error_of([&] { open(section, 4, 0); }).message(), "2 bytes from byte 18 on"));
    folder.write("text", "");
    CHECK(error_of([&] { open(section, 4, 0); }).fault() == Fault::spec);
  }
  SUBCASE("a byte that is no token of the model") {
    section.holdout = 0;
    CHECK(open(section, 4, 0, 256).train->size() == 4);
    const Error error = error_of([&] { open(section, 4, 0, 128); });
    CHECK(error.fault() == Fault::corrupt);
    CHECK(contains(error.message(), "text: byte 255 at offset 19 is not a token: there are 128 classes (0 to 127)"));
    folder.write("test", "0123456789\x80");
    folder.write("text", "abcdefghijklmnopqrst");
    section.test_path = folder / "test";
    CHECK(contains(error_of([&] { open(section, 4, 0, 128); }).message(), "test: byte 128 at offset 10"));
    CHECK(open(section, 4, 0, 129).test->size() == 2);
  }
  SUBCASE("missing") {
    section.path = folder / "no such text";
    const Error error = refusal(section);
    CHECK(error.fault() == Fault::io);
    CHECK(contains(error.message(), "no such text"));
  }
}

TEST_CASE("hdf5: uint8 and float32, with and without channels") {
  DataFolder folder;
  DataSection section = section_of(DataFormat::hdf5, folder / "train.h5");
  SUBCASE("uint8, colour, with a test file") {
    const std::string pixels = pattern_bytes(2 * 3 * 2 * 2);
    const std::vector<char> values(pixels.begin(), pixels.end());
    write_hdf5(section.path, h5::Type::u8, {2, 3, 2, 2}, values, {1, 4});
    CHECK_FALSE(open(section, 0, 0).test);
    section.test_path = section.path;
    const DataPair pair = open(section, 0, 0);
    CHECK(pair.train->shape() == SampleShape::image(3, 2, 2));
    CHECK(pair.train->classes() == 5);
    CHECK(read_image(*pair.train, 1).input == over_255(pixels.substr(12)));
    CHECK(read_image(*pair.train, 1).target == 4);
    CHECK(read_image(*pair.test, 0).input == over_255(pixels.substr(0, 12)));
  }
  SUBCASE("float32, grey") {
    const std::vector<float> values = {1.5f, -2.0f, 0.25f, 300.0f};
    write_hdf5(section.path, h5::Type::f32, {2, 1, 2}, values, {0, 1});
    const DataPair pair = open(section, 0, 0);
    CHECK(pair.train->shape() == SampleShape::image(1, 1, 2));
    CHECK(read_image(*pair.train, 1).input == std::vector<float>{0.25f, 300.0f});
  }
}

// chunked.h5, written by h5py: gzipped chunks of (3, 2, 3) of uint8 images whose pixels are 0, 5, 10, …; big-endian
// labels.
TEST_CASE("hdf5: compressed chunks and foreign byte order") {
  const DataPair pair =
      open(section_of(DataFormat::hdf5, std::string(ESTRAIN_SOURCE_DIR) + "/tests/core/data/chunked.h5"), 0, 0);
  CHECK(pair.train->size() == 4);
  CHECK(pair.train->shape() == SampleShape::image(1, 3, 4));
  for (int64_t i = 0; i < 4; ++i) {
    const ImageSample sample = read_image(*pair.train, i);
    CHECK(sample.target == std::array{2, 0, 1, 2}[static_cast<size_t>(i)]);
    for (int64_t p = 0; p < 12; ++p)
      CHECK(sample.input[static_cast<size_t>(p)] == static_cast<float>((i * 12 + p) * 5) / 255.0f);
  }
}

TEST_CASE("hdf5: wrong files") {
  DataFolder folder;
  const DataSection section = section_of(DataFormat::hdf5, folder / "train.h5");
  const std::vector<float> values(8, 1.0f);
  const auto refused = [&](Fault fault, const char* text) {
    const Error error = refusal(section);
    CAPTURE(error.message());
    CHECK(error.fault() == fault);
    CHECK(contains(error.message(), "train.h5"));
    CHECK(contains(error.message(), text));
  };
  SUBCASE("missing") { refused(Fault::io, "train.h5"); }
  SUBCASE("not HDF5") {
    folder.write("train.h5", pattern_bytes(5000));
    refused(Fault::corrupt, "train.h5");
  }
  SUBCASE("counts differ") {
    write_hdf5(section.path, h5::Type::f32, {2, 2, 2}, values, {0, 1, 2});
    refused(Fault::corrupt, "2 images, but 3 labels");
  }
  SUBCASE("label out of range") {
    write_hdf5(section.path, h5::Type::f32, {2, 2, 2}, values, {0, -1});
    refused(Fault::corrupt, "label -1 of sample 1 is out of range");
  }
  SUBCASE("rank") {
    write_hdf5(section.path, h5::Type::f32, {2, 4}, values, {0, 1});
    refused(Fault::mismatch, "images has 2 dimensions");
  }
  SUBCASE("type") {
    write_hdf5(section.path, h5::Type::f64, {1, 2, 2}, values, {0});
    refused(Fault::mismatch, "neither uint8 nor float32");
  }
  SUBCASE("no labels") {
    h5::File file = h5::File::create(section.path);
    file.root().create_dataset("images", h5::Type::f32, {2, 2, 2}).write(h5::Type::f32, values.data());
    file.close();
    refused(Fault::mismatch, "has no dataset labels");
  }
  SUBCASE("truncated") {
    write_hdf5(section.path, h5::Type::f32, {2, 2, 2}, values, {0, 1});
    const std::string whole = read_all(section.path);
    folder.write("train.h5", whole.substr(0, whole.size() / 2));
    refused(Fault::corrupt, "train.h5");
  }
}

TEST_CASE("synthetic data is a function of seed and index") {
  DataSection section;
  section.shape = {3, 5, 7};
  section.samples = 20;
  const auto hash = [&section](uint64_t seed) {
    const DataPair pair = open(section, 0, seed);
    std::vector<float> all;
    for (int64_t i = 0; i < pair.train->size(); ++i) {
      const ImageSample sample = read_image(*pair.train, i);
      all.insert(all.end(), sample.input.begin(), sample.input.end());
      all.push_back(static_cast<float>(sample.target));
    }
    return fnv<float>(all);
  };
  CHECK(hash(1) == 4581722895267005222u);  // fixed when the generator was written: the same on every machine
  CHECK(hash(2) != hash(1));
  const DataPair pair = open(section, 0, 1);
  CHECK(pair.train->shape() == SampleShape::image(3, 5, 7));
  CHECK(pair.train->classes() == synthetic_classes);
  CHECK(pair.test->size() == 2);
  section.samples = 21;  // the test set follows the training set
  CHECK(read_image(*open(section, 0, 1).train, 20).input == read_image(*pair.test, 0).input);
  CHECK(open(section, 0, 1, 3).train->classes() == 3);
}

TEST_CASE("synthetic classes can be told apart") {
  DataSection section;
  section.shape = {64};
  section.samples = 400;
  const DataPair pair = open(section, 0, 1);
  CHECK(pair.train->shape() == SampleShape::vector(64));
  // Class means over 300 samples classify the other samples.
  std::vector<std::vector<float>> means(10, std::vector<float>(64));
  std::vector<float> counts(10);
  for (int64_t i = 0; i < 300; ++i) {
    const ImageSample sample = read_image(*pair.train, i);
    counts[static_cast<size_t>(sample.target)] += 1;
    for (size_t j = 0; j < 64; ++j) means[static_cast<size_t>(sample.target)][j] += sample.input[j];
  }
  int right = 0;
  for (int64_t i = 300; i < 400; ++i) {
    const ImageSample sample = read_image(*pair.train, i);
    std::array<float, 10> distance{};
    for (size_t c = 0; c < 10; ++c) {
      REQUIRE(counts[c] > 0);
      for (size_t j = 0; j < 64; ++j) {
        const float d = sample.input[j] - means[c][j] / counts[c];
        distance[c] += d * d;
      }
    }
    right += std::ranges::min_element(distance) - distance.begin() == sample.target;
    CHECK(std::ranges::all_of(sample.input, [](float v) { return v >= -1 && v < 1; }));
  }
  CHECK(right >= 95);
}

TEST_CASE("synthetic: wrong keys") {
  DataSection section;
  section.shape = {3, 4};
  CHECK(refusal(section).fault() == Fault::spec);
  section.shape = {16};
  section.flip = true;
  CHECK(refusal(section).fault() == Fault::spec);
  section.shape = {1, 0, 3};
  CHECK(refusal(section).fault() == Fault::spec);
  section = DataSection();
  section.shape = {INT64_MAX, INT64_MAX, 3};
  CHECK(refusal(section).fault() == Fault::infeasible);
}

}  // namespace estrain::data
