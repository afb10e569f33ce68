// Folders of images: their samples, pixels and errors.
#include "core/data/photos/image_folder.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "core/data/files/identity.h"
#include "core/data/format_table.h"
#include "tests/core/data/photo_folder.h"

namespace estrain::data {
namespace {

using spec::DataFormat;
using testing::jpeg_bytes;
using testing::png_bytes;
using testing::some_picture;

std::vector<std::string> names_of(const PhotoFolder& folder, const std::string& root) {
  static constexpr std::string_view endings[] = {".jpg", ".jpeg", ".png"};
  const FileTree tree = FileTree::list(folder / root, endings);
  std::vector<std::string> names;
  for (int64_t i = 0; i < tree.size(); ++i) names.emplace_back(tree.name(i));
  return names;
}

TEST_CASE("files come in the order of torchvision's ImageFolder") {
  const PhotoFolder folder;
  // The order of sorted(os.walk): whole paths of folders are compared, and '-' sorts before '/'.
  const std::vector<std::string> expected = {"a/9.jpg",   "a/b/2.jpg", "a/b-c/1.jpg", "a/b/d/1.jpg",
                                             "a-z/1.png", "b/10.JPG",  "b/2.jpeg",    "b/x.jpg"};
  for (const std::string& name : expected) folder.write("train/" + name, "x");
  folder.write("train/b/notes.txt", "x");
  folder.write("train/.DS_Store", "x");
  const std::vector<std::string> found = names_of(folder, "train");
  CHECK(found == expected);
  CHECK(names_of(folder, "train//") == found);
}

TEST_CASE("samples have their folder's number, and a test set has the training set's") {
  const ThreeClasses folder;
  const DataPair pair = open(folder.section(), 0, 0);
  CHECK(pair.train->classes() == 3);
  CHECK(pair.train->shape() == SampleShape::image(3, 8, 8));
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < pair.train->size(); ++i) labels.push_back(read_photo(*pair.train, i).target);
  CHECK(labels == std::vector<int64_t>{0, 0, 1, 1, 2, 2});
  CHECK(pair.test->size() == 1);
  CHECK(read_photo(*pair.test, 0).target == 1);
}

TEST_CASE("pixels: the centre in evaluation, normalised channel by channel; a grey image three times") {
  const PhotoFolder folder;
  const testing::Picture picture = some_picture(11, 13, 3, 5), grey = some_picture(9, 9, 1, 6);
  folder.write("t/a/1.png", png_bytes(picture));
  folder.write("t/b/2.png", png_bytes(grey, {PNG_COLOR_TYPE_GRAY}));
  spec::DataSection section = folder.section(DataFormat::images, "t");
  section.mean = {0.5, 0.25, 0.125};
  section.std = {0.5, 2, 3};
  const DataPair pair = open(section, 0, 0);
  const PhotoSample sample = read_photo(*pair.train, 0);
  size_t i = 0;
  for (size_t c = 0; c < 3; ++c) {
    for (size_t y = 0; y < 8; ++y) {
      for (size_t x = 0; x < 8; ++x) {
        // (11 - 8) / 2 = 1.5 and (13 - 8) / 2 = 2.5 round to even
        const uint8_t byte = picture.pixels[((y + 2) * 13 + x + 2) * 3 + c];
        const float centred = static_cast<float>(byte) / 255.0f - static_cast<float>(section.mean[c]);
        CHECK(sample.input[i++] == centred / static_cast<float>(section.std[c]));
      }
    }
  }
  section.mean.clear(), section.std.clear();
  const PhotoSample repeated = read_photo(*open(section, 0, 0).train, 1);
  CHECK(std::equal(repeated.input.begin(), repeated.input.begin() + 64, repeated.input.begin() + 64));
  CHECK(repeated.input[0] == static_cast<float>(grey.pixels[0]) / 255.0f);
  section.channels = 1;
  const DataPair one = open(section, 0, 0);
  CHECK(one.train->shape() == SampleShape::image(1, 8, 8));
  CHECK(read_photo(*one.train, 1).input.size() == 64);
  const Error colours = error_of([&] { read_photo(*one.train, 0); });
  CHECK(contains(colours.message(), "t/a/1.png: sample 0: has colours"));
}

TEST_CASE("training: a function of seed, epoch and sample alone, and mirrored as drawn") {
  const ThreeClasses folder;
  spec::DataSection section = folder.section();
  section.scale = {0.2, 1.0};
  section.flip = true;
  const DataPair pair = open(section, 0, 0), again = open(section, 0, 0);
  const auto read = [](const DataPair& data, uint64_t seed, int64_t epoch, int64_t index) {
    return read_photo(*data.train, index, SampleDraw(seed, Epoch(epoch), index));
  };
  for (int64_t index = 0; index < 6; ++index) {
    CHECK(read(pair, 1, 0, index) == read(again, 1, 0, index));
    CHECK(read(pair, 1, 0, index) != read(pair, 1, 1, index));
    CHECK(read(pair, 1, 0, index) != read(pair, 2, 0, index));
  }
  // Without a random size, the draw determines only the position and the mirroring.
  section.scale.clear();
  section.crop = {12, 16};  // sample 0 unchanged
  const DataPair whole = open(section, 0, 0);
  const PhotoSample straight = read_photo(*whole.train, 0);
  int mirrored = 0;
  for (int64_t epoch = 0; epoch < 64; ++epoch) {
    const SampleDraw draw(7, Epoch(epoch), 0);
    const bool expected = (draw.words()[2] >> 31) != 0;
    mirrored += expected;
    std::vector<float> row(straight.input.begin(), straight.input.begin() + 16);
    if (expected) std::reverse(row.begin(), row.end());
    const PhotoSample sample = read_photo(*whole.train, 0, draw);
    CHECK(std::equal(row.begin(), row.end(), sample.input.begin()));
  }
  CHECK(mirrored > 16);
  CHECK(mirrored < 48);
}

TEST_CASE("a damaged image among good ones is named, by a scan and when it is read") {
  const ThreeClasses folder;
  const std::string jpeg = jpeg_bytes(some_picture(40, 40));
  folder.write("train/bee/2.jpg", jpeg.substr(0, jpeg.size() / 2));
  const DataPair pair = open(folder.section(), 0, 0);
  const Error error = error_of([&] { read_photo(*pair.train, 2); });
  CHECK(error.fault() == Fault::corrupt);
  CHECK(contains(error.message(), "train/bee/2.jpg: sample 2: truncated JPEG"));
  CHECK(contains(error.advice(), "estrain check"));
  CHECK(read_photo(*pair.train, 3).target == 1);
  const DataScan found = scan(folder.section(), 0);
  CHECK_FALSE(found.fine());
  int errors = 0;
  for (const Finding& finding : found.findings) {
    if (finding.severity != Severity::error) continue;
    ++errors;
    CHECK(contains(finding.seen, "train/bee/2.jpg: sample 2 of the training set: truncated JPEG"));
  }
  CHECK(errors == 1);
  CHECK(found.train_samples == 6);
  CHECK(found.classes == 3);
  CHECK(found.stored_shape == std::vector<int64_t>{3, 8, 8});
}

TEST_CASE("of thousands of JPEG files a scan names the one that is damaged") {
  const ThreeClasses folder;
  const std::string jpeg = jpeg_bytes(some_picture(12, 12));
  folder.write("train/bee/many000.jpg", jpeg);
  for (int i = 1; i < 3000; ++i)
    std::filesystem::create_hard_link(folder / "train/bee/many000.jpg",
                                      folder / fmt::format("train/bee/many{:03}.jpg", i));
  std::filesystem::remove(folder / "train/bee/many2017.jpg");
  folder.write("train/bee/many2017.jpg", jpeg.substr(0, jpeg.size() - 40));
  const DataScan found = scan(folder.section(), 0);
  CHECK(found.train_samples == 3006);
  std::vector<std::string> named;
  for (const Finding& finding : found.findings)
    if (finding.severity == Severity::error) named.push_back(finding.seen);
  REQUIRE(named.size() == 1);
  CHECK(contains(named[0], "train/bee/many2017.jpg: sample "));
  CHECK(contains(named[0], "truncated JPEG"));
}

TEST_CASE("a good folder passes the scan; names that are passed over are a warning") {
  const ThreeClasses folder;
  folder.write("train/ant/notes.txt", "x");
  const DataScan found = scan(folder.section(), 0);
  CHECK(found.fine());
  const auto warnings = std::ranges::count(found.findings, Severity::warning, &Finding::severity);
  CHECK(warnings == 1);
  const auto warning = std::ranges::find(found.findings, Severity::warning, &Finding::severity);
  CHECK(contains(warning->seen, "train: 1 file is left out: 1 .txt (the first is ant/notes.txt)"));
}

TEST_CASE("images of kinds that are not read are refused by kind, in a test set, too") {
  for (const char* name : {"x.avif", "x.JXL", "x.heic", "x.ppm", "x.pgm", "x.gif"}) {
    for (const char* set : {"train/bee/", "val/bee/"}) {
      const ThreeClasses folder;
      folder.write(std::string(set) + name, "x");
      folder.write(std::string(set) + "notes.txt", "x");
      CAPTURE(name);
      const Error error = error_of([&] { open(folder.section(), 0, 0); });
      CHECK(error.fault() == Fault::corrupt);
      CHECK(contains(error.message(), std::string("(the first is bee/") + name + ")"));
      CHECK_FALSE(contains(error.message(), ".txt"));
      CHECK(contains(error.advice(), "convert them to PNG"));
      CHECK_FALSE(scan(folder.section(), 0).fine());
    }
  }
}

TEST_CASE("hidden files and folders are no images and no classes") {
  const ThreeClasses folder;
  folder.write("train/ant/._1.jpg", "Mac OS X");
  folder.write("train/.ipynb_checkpoints/1-checkpoint.jpg", "x");
  folder.write("train/bee/deep/.ipynb_checkpoints/1-checkpoint.png", "x");
  const DataPair pair = open(folder.section(), 0, 0);
  CHECK(pair.train->size() == 6);
  CHECK(pair.train->classes() == 3);
  REQUIRE(pair.notes.size() == 1);
  CHECK(contains(pair.notes[0], "train: 3 files are left out: 3 hidden (the first is .ipynb_checkpoints)"));
  CHECK(scan(folder.section(), 0).fine());
}

// Python reads a name that is not UTF-8 with a surrogate for each such byte: above most letters, below emoji.
TEST_CASE("class and file names that are not UTF-8 come where Python sorts them") {
  const PhotoFolder folder;
  const std::vector<std::string> sorted = {"a",         "\xc3\xa9t\xc3\xa9", "\xe4\xb8\xad",    "\x80x",
                                           "\xe9t\xe9", "\xef\xbf\xbd",      "\xf0\x9f\x98\x80"};
  std::vector<std::string> expected;
  for (const std::string& name : sorted) {
    folder.write("train/" + name + "/1.png", png_bytes(some_picture(10, 10)));
    expected.push_back(name + "/1.png");
  }
  CHECK(names_of(folder, "train") == expected);
  const DataPair pair = open(folder.section(DataFormat::images, "train"), 0, 0);
  for (int64_t i = 0; i < pair.train->size(); ++i) CHECK(read_photo(*pair.train, i).target == i);
  for (const std::string& name : sorted) folder.write("files/c/" + name + ".png", "x");
  expected.clear();
  for (const std::string& name : sorted) expected.push_back("c/" + name + ".png");
  CHECK(names_of(folder, "files") == expected);
}

TEST_CASE("a scan keeps the advice of who reads an image") {
  const ThreeClasses folder;
  std::string two_bits = testing::bmp_bytes(some_picture(40, 40));
  two_bits[28] = 2;
  folder.write("train/bee/odd.bmp", two_bits);
  const DataScan found = scan(folder.section(), 0);
  const auto error = std::ranges::find(found.findings, Severity::error, &Finding::severity);
  REQUIRE(error != found.findings.end());
  CHECK(contains(error->seen, "BMP with 2 bits a pixel"));
  CHECK(contains(error->advice, "convert it to PNG"));
}

TEST_CASE("a scan warns of grey images of 16 bits, which lose what is above 255") {
  const ThreeClasses folder;
  folder.write("train/bee/grey.png", png_bytes(some_picture(40, 40, 1), {PNG_COLOR_TYPE_GRAY, 16}));
  const DataScan found = scan(folder.section(), 0);
  const auto warning = std::ranges::find(found.findings, Severity::warning, &Finding::severity);
  REQUIRE(warning != found.findings.end());
  CHECK(contains(warning->seen, "training set: 1 images have 16 bits of grey"));
  CHECK(std::ranges::find(found.findings, Severity::error, &Finding::severity) == found.findings.end());
}

TEST_CASE("folders that make no data set are refused in words") {
  const ThreeClasses folder;
  const auto refusal = [&] { return error_of([&] { open(folder.section(), 0, 0); }).message(); };
  SUBCASE("a class without images") {
    folder.write("train/dog/notes.txt", "x");
    CHECK(contains(refusal(),
                   "train/dog: no image (.jpg, .jpeg, .png, .bmp, .webp, .tif or .tiff) in the folder of this class"));
  }
  SUBCASE("an image beside the classes") {
    folder.write("train/stray.jpg", "x");
    CHECK(contains(refusal(), "train/stray.jpg: an image outside the class folders"));
  }
  SUBCASE("a class of the test set that training does not know") {
    folder.write("val/dog/1.jpg", "x");
    CHECK(contains(refusal(), "val/dog: no class of the training data has this name"));
  }
  SUBCASE("fewer classes than folders") {
    const Error error = error_of([&] { open(folder.section(), 0, 0, 2); });
    CHECK(contains(error.message(), "cat/1.png: label 2 of sample 4 is out of range: there are 2 classes"));
  }
  SUBCASE("a FIFO with an image's name") {
    REQUIRE(::mkfifo((folder / "train/ant/0.jpg").c_str(), 0600) == 0);
    CHECK(contains(refusal(), "train/ant/0.jpg: not a regular file"));
  }
  SUBCASE("a link to the folder above it") {
    std::filesystem::create_directory_symlink(folder / "train", folder / "train/ant/again");
    CHECK(contains(refusal(), "folders more than 32 deep"));
  }
  SUBCASE("no folder") {
    std::filesystem::remove_all(folder / "train");
    CHECK(contains(refusal(), "train: No such file"));
  }
  SUBCASE("nothing in the folder") {
    std::filesystem::remove_all(folder / "train");
    std::filesystem::create_directory(folder / "train");
    CHECK(contains(refusal(), "it has no subfolders"));
  }
}

TEST_CASE("an image smaller than the crop is named; scaled up it is taken") {
  const ThreeClasses folder;
  spec::DataSection section = folder.section();
  section.crop = {14, 14};
  const DataPair pair = open(section, 0, 0);
  CHECK(contains(error_of([&] { read_photo(*pair.train, 0); }).message(),
                 "ant/1.jpg: sample 0: 12 x 16 pixels are smaller than data.crop = [14, 14]"));
  CHECK_FALSE(scan(section, 0).fine());
  section.resize = {14};
  CHECK(read_photo(*open(section, 0, 0).train, 0).target == 0);
  CHECK(scan(section, 0).fine());
}

TEST_CASE("a file that changes or goes away after the data were opened is named when it is read") {
  const ThreeClasses folder;
  const DataPair pair = open(folder.section(), 0, 0);
  folder.write("train/ant/1.jpg", jpeg_bytes(some_picture(50, 50)));
  std::filesystem::remove(folder / "train/ant/2.JPEG");
  CHECK(contains(error_of([&] { read_photo(*pair.train, 0); }).message(), "when the data were opened"));
  CHECK(contains(error_of([&] { read_photo(*pair.train, 1); }).message(), "ant/2.JPEG: sample 1: "));
}

// File systems count time in steps of some milliseconds.
void let_file_times_differ() {
  const timespec time{0, 30'000'000};
  ::nanosleep(&time, nullptr);
}

TEST_CASE("identity: of a folder, every name, size and byte") {
  const ThreeClasses folder;
  const std::vector<FileName> names = file_names(folder.section());
  const DataIdentity known = identify(open_files(names));
  REQUIRE(known.files.size() == 2);
  CHECK(DataIdentity::from_json(known.to_json()) == known);
  CHECK(is_untouched(known, names));
  const auto changes = [&] { return recognize(known, open_files(names)).changes.size(); };
  CHECK(changes() == 0);
  let_file_times_differ();
  const std::string bytes = read_all(folder / "train/bee/2.jpg");
  SUBCASE("touched") {
    folder.write("train/bee/2.jpg", bytes);
    CHECK_FALSE(is_untouched(known, names));
    CHECK(changes() == 0);
  }
  SUBCASE("one bit") {
    std::string other = bytes;
    other[other.size() / 2] = static_cast<char>(other[other.size() / 2] ^ 1);
    folder.write("train/bee/2.jpg", other);
    CHECK_FALSE(is_untouched(known, names));
    CHECK(changes() == 1);
  }
  SUBCASE("a name") {
    std::filesystem::rename(folder / "train/bee/2.jpg", folder / "train/bee/3.jpg");
    CHECK_FALSE(is_untouched(known, names));
    CHECK(changes() == 1);
  }
  SUBCASE("another file") {
    folder.write("train/bee/3.jpg", bytes);
    CHECK_FALSE(is_untouched(known, names));
    CHECK(changes() == 1);
  }
  SUBCASE("one file less, in the test set") {
    std::filesystem::remove(folder / "val/bee/x.png");
    CHECK_FALSE(is_untouched(known, names));
    CHECK(changes() == 1);
  }
  SUBCASE("two files that change places") {
    std::filesystem::rename(folder / "train/ant/1.jpg", folder / "spare");
    std::filesystem::rename(folder / "train/bee/2.jpg", folder / "train/ant/1.jpg");
    std::filesystem::rename(folder / "spare", folder / "train/bee/2.jpg");
    CHECK(changes() == 1);
  }
  SUBCASE("elsewhere") {
    std::filesystem::copy(folder / "train", folder / "copy", std::filesystem::copy_options::recursive);
    spec::DataSection copy = folder.section();
    copy.path = folder / "copy";
    CHECK(recognize(known, open_files(file_names(copy))).changes.empty());
  }
}

TEST_CASE("a folder of images is recognised, with and without a folder for evaluation") {
  const ThreeClasses folder;
  spec::DataSection found = recognise(folder.path());
  CHECK(found.format == DataFormat::images);
  CHECK(found.path == folder / "train");
  CHECK(found.test_path == folder / "val");
  found = recognise(folder / "train");
  CHECK(found.format == DataFormat::images);
  CHECK(found.path == folder / "train");
  CHECK(found.test_path.empty());
}

}  // namespace
}  // namespace estrain::data
