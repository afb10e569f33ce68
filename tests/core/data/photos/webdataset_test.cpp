// Tar shards: samples, labels and errors.
#include "core/data/photos/webdataset.h"

#include <doctest/doctest.h>

#include "core/data/files/identity.h"
#include "core/data/format_table.h"
#include "tests/core/data/photo_folder.h"

namespace estrain::data {
namespace {

using spec::DataFormat;
using testing::png_bytes;
using testing::some_picture;
using testing::tar_bytes;

using Files = std::vector<std::pair<std::string, std::string>>;

std::string picture(unsigned seed) { return png_bytes(some_picture(10, 12, 3, seed)); }

// Two shards of training samples, one of test samples.
struct Shards : PhotoFolder {
  Shards() {
    write("train/b.tar", tar_bytes({{"x/001.png", picture(3)}, {"x/001.cls", "2\n"}}));
    write("train/a.tar", tar_bytes({{"000.json", R"({"label": 1, "text": "an ant"})"},
                                    {"000.txt", "a note"},
                                    {"000.png", picture(1)},
                                    {"v1.2/7.png", picture(2)},
                                    {"v1.2/7.cls", "0"},
                                    {"v1.2/7.json", "{}"},
                                    {"readme.txt", "not a sample"}}));
    write("test.tar", tar_bytes({{"t.cls", "1"}, {"t.PNG", picture(9)}}));
  }
  spec::DataSection section() const { return PhotoFolder::section(DataFormat::webdataset, "train", "test.tar"); }
};

TEST_CASE("samples are numbered through the shards, by name") {
  const Shards folder;
  const DataPair pair = open(folder.section(), 0, 0);
  REQUIRE(pair.train->size() == 3);
  CHECK(pair.train->classes() == 3);
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < 3; ++i) labels.push_back(read_photo(*pair.train, i).target);
  CHECK(labels == std::vector<int64_t>{1, 0, 2});
  CHECK(pair.test->size() == 1);
  CHECK(read_photo(*pair.test, 0).target == 1);
  for (unsigned i = 0; i < 3; ++i) {
    const testing::Picture written = some_picture(10, 12, 3, i + 1);
    const float corner = static_cast<float>(written.pixels[(1 * 12 + 2) * 3]) / 255.0f;
    CHECK(read_photo(*pair.train, i).input[0] == corner);
  }
}

TEST_CASE("a good set of shards passes the scan") {
  const Shards folder;
  const DataScan found = scan(folder.section(), 0);
  CHECK(found.fine());
  CHECK(contains(found.findings[0].seen, "train: 3 images in 2 shards"));
  CHECK(found.train_samples == 3);
  CHECK(found.classes == 3);
}

std::string refusal_of(const std::string& shard) {
  const PhotoFolder folder;
  folder.write("s.tar", shard);
  const spec::DataSection section = folder.section(DataFormat::webdataset, "s.tar");
  CHECK_FALSE(scan(section, 0).fine());
  const Error error = error_of([&] { open(section, 0, 0); });
  CHECK(error.fault() == Fault::corrupt);
  CHECK(contains(error.message(), "s.tar"));
  return error.message();
}

TEST_CASE("shards that are wrong are refused, with shard and sample") {
  const std::string image = picture(1);
  const auto says = [](const Files& files, const std::string& words) {
    const std::string message = refusal_of(tar_bytes(files));
    CAPTURE(message);
    CHECK(contains(message, words));
  };
  says({{"a.png", image}}, "s.tar: a: an image without its label");
  says({{"a.cls", "1"}}, "s.tar: a: a label without its image");
  says({{"a.png", image}, {"a.cls", "one"}}, "a: its .cls is not a whole number: \"one\"");
  says({{"a.png", image}, {"a.cls", "1 2"}}, "not a whole number");
  says({{"a.png", image}, {"a.cls", ""}}, "not a whole number");
  says({{"a.png", image}, {"a.jpg", image}, {"a.cls", "1"}}, "a: a second image");
  says({{"a.png", image}, {"a.json", R"({"name": 3})"}}, "neither \"cls\" nor \"label\"");
  says({{"a.png", image}, {"a.json", R"({"cls": "3"})"}}, "\"cls\" in its .json is not a whole number");
  says({{"a.png", image}, {"a.json", "{"}}, "its .json");
  says({{"a.png", image}, {"a.cls", "-1"}}, "label -1 of sample 0 is out of range");
  says({{"a.png", image}, {"a.cls", "99999999"}}, "label 99999999 of sample 0 is out of range");
  const std::string whole = tar_bytes({{"a.png", image}, {"a.cls", "0"}});
  CHECK(contains(refusal_of(whole.substr(0, 300)), "not a whole tar archive"));
  CHECK(contains(refusal_of(whole.substr(0, 600)), "truncated"));
  CHECK(contains(refusal_of(std::string(4096, 'z')), "not a whole tar archive"));
}

TEST_CASE("a name ends at its first dot; what looks like a sample and makes none is refused") {
  const std::string image = picture(1);
  const auto says = [](const Files& files, const std::string& words) {
    const std::string message = refusal_of(tar_bytes(files));
    CAPTURE(message);
    CHECK(contains(message, words));
  };
  says({{"a.png", image}, {"a.cls", "1"}, {"img.v2.0003.png", image}, {"img.v2.0003.cls", "0"}},
       "img: v2.0003.png makes no sample: a sample's name ends at its first dot");
  says({{"img.v2.0003.cls", "0"}, {"img.v2.0003.jpg", image}}, "img: v2.0003.cls makes no sample");
  says({{"a.avif", image}, {"a.json", R"({"cls": 0})"}}, "a: an image of a kind that is not read, .avif");
  says({{"a.png", image}, {"a.cls", "1"}, {"b.gif", image}}, "b: an image of a kind that is not read, .gif");
  says({{"a.png", image}, {"a.cls", "1"}, {"b.seg.png", image}, {"b.json", "{}"}}, "b: seg.png makes no sample");
}

TEST_CASE("further parts of a sample are left out, and said once") {
  const PhotoFolder folder;
  const std::string image = picture(1);
  folder.write("s.tar", tar_bytes({{"__index__/x.json", "{}"},
                                   {"a.png", image},
                                   {"a.seg.png", image},
                                   {"a.txt", "an ant"},
                                   {"a.cls", "1"},
                                   {"b.json", R"({"cls": 0})"},
                                   {"b.txt", "a bee"},
                                   {"b.jpg", image},
                                   {"dataset.json", "{}"},
                                   {"LICENSE", "free"}}));
  const DataPair pair = open(folder.section(DataFormat::webdataset, "s.tar"), 0, 0);
  CHECK(pair.train->size() == 2);
  REQUIRE(pair.notes.size() == 1);
  CHECK(contains(pair.notes[0],
                 "s.tar: 6 files are left out: 2 .json (the first is __index__/x.json), 2 .txt (the first "
                 "is a.txt), 1 .png (the first is a.seg.png), 1 without an ending (the first is LICENSE)"));
}

TEST_CASE("a tar file from a Mac: its ._ members are part of no sample") {
  const PhotoFolder folder;
  const std::string image = picture(1);
  folder.write("s.tar", tar_bytes({{"./._a.png", "Mac OS X"},
                                   {"./a.png", image},
                                   {"./._a.cls", "Mac OS X"},
                                   {"./a.cls", "1"},
                                   {"x/._b.cls", "Mac OS X"},
                                   {"x/b.cls", "0"},
                                   {"x/._b.jpg", "Mac OS X"},
                                   {"x/b.jpg", image}}));
  const DataPair pair = open(folder.section(DataFormat::webdataset, "s.tar"), 0, 0);
  REQUIRE(pair.train->size() == 2);
  CHECK(read_photo(*pair.train, 0).target == 1);
  CHECK(read_photo(*pair.train, 1).target == 0);
}

TEST_CASE("a damaged image in a shard is named when it is read, and by a scan") {
  const PhotoFolder folder;
  folder.write("s.tar",
               tar_bytes({{"good.png", picture(1)}, {"good.cls", "0"}, {"bad.png", "not one"}, {"bad.cls", "1"}}));
  const spec::DataSection section = folder.section(DataFormat::webdataset, "s.tar");
  const DataPair pair = open(section, 0, 0);
  CHECK(read_photo(*pair.train, 0).target == 0);
  CHECK(contains(error_of([&] { read_photo(*pair.train, 1); }).message(),
                 "s.tar: bad: sample 1: no JPEG, PNG, BMP, WebP or TIFF file"));
  CHECK_FALSE(scan(section, 0).fine());
}

TEST_CASE("a folder without shards") {
  const PhotoFolder folder;
  folder.write("s/notes.txt", "x");
  CHECK(contains(error_of([&] { open(folder.section(DataFormat::webdataset, "s"), 0, 0); }).message(),
                 "s: no .tar file in this folder"));
}

TEST_CASE("a compressed shard beside others is refused, not left out") {
  const PhotoFolder folder;
  folder.write("s/a.tar", tar_bytes({{"a.png", picture(1)}, {"a.cls", "0"}}));
  folder.write("s/b.tar.gz", "x");
  const Error error = error_of([&] { open(folder.section(DataFormat::webdataset, "s"), 0, 0); });
  CHECK(contains(error.message(), "s: 1 .tar.gz (the first is b.tar.gz)"));
  CHECK(contains(error.advice(), "decompress"));
}

TEST_CASE("identity and recognition of shards") {
  const Shards folder;
  const std::vector<FileName> names = file_names(folder.section());
  const DataIdentity known = identify(open_files(names));
  CHECK(is_untouched(known, names));
  CHECK(recognize(known, open_files(names)).changes.empty());
  std::string bytes = read_all(folder / "train/b.tar");
  bytes[600] = static_cast<char>(bytes[600] ^ 1);
  folder.write("train/b.tar", bytes);
  CHECK(recognize(known, open_files(names)).changes.size() == 1);
  CHECK(recognise(folder / "train").format == DataFormat::webdataset);
  CHECK(recognise(folder / "test.tar").format == DataFormat::webdataset);
  CHECK(recognise(folder / "test.tar").path == folder / "test.tar");
}

}  // namespace
}  // namespace estrain::data
