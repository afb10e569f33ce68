// IDX files, plain and gzipped, and every possible error in them.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "tests/core/data/formats/opened_samples.h"

namespace estrain::data {
namespace {

using spec::DataFormat;
using spec::DataSection;

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

TEST_CASE("a set without samples is refused, for training and for evaluations") {
  const NamedIdxFolder folder;
  folder.write(NamedIdxFolder::names[2], idx_bytes({0, 2, 3}, ""));
  folder.write(NamedIdxFolder::names[3], idx_bytes({0}, ""));
  const Error test = refusal(folder.section());
  CHECK(test.fault() == Fault::corrupt);
  CHECK(contains(test.message(), "t10k-labels-idx1-ubyte: the test set is empty, so there is nothing to evaluate"));
  CHECK(contains(test.advice(), "remove the keys of data that name it"));
  folder.write(NamedIdxFolder::names[0], idx_bytes({0, 2, 3}, ""));
  folder.write(NamedIdxFolder::names[1], idx_bytes({0}, ""));
  CHECK(contains(refusal(folder.section()).message(), "train-images-idx3-ubyte: the training set is empty"));
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

}  // namespace
}  // namespace estrain::data
