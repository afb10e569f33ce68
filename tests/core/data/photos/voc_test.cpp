// PASCAL VOC: what an annotation says, where boxes go when a picture is cut, and what is said of damaged files.

#include "core/data/photos/voc.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "tests/core/data/photo_folder.h"
#include "tests/error_of.h"

namespace estrain::data {
namespace {

namespace fs = std::filesystem;

constexpr image::Size kPicture = {30, 40};  // rows, columns

std::string object(const std::string& name, const std::array<int, 4>& box, bool difficult = false) {
  return fmt::format(
      "<object><name>{}</name><pose>Left</pose><difficult>{}</difficult><bndbox><xmin>{}</xmin><ymin>{}</ymin>"
      "<xmax>{}</xmax><ymax>{}</ymax></bndbox><part><name>head</name><bndbox><xmin>x</xmin></bndbox></part></object>\n",
      name, difficult ? 1 : 0, box[0], box[1], box[2], box[3]);
}

std::string annotation(const std::string& objects) {
  return "<?xml version=\"1.0\"?>\n<!-- by hand -->\n<annotation><folder>VOC</folder>\n" + objects + "</annotation>\n";
}

std::string complaint(const std::string& xml) {
  return error_of([&] { (void)read_annotation(xml, voc_names(), kPicture); }).message();
}

// Three pictures, of 40 x 30, 20 x 30 and 40 x 30 columns and rows.
struct Voc : PhotoFolder {
  Voc() {
    write("ImageSets/Main/train.txt", "a\nb \r\n\n");
    write("ImageSets/Main/val.txt", "c");
    write("JPEGImages/a.jpg", testing::jpeg_bytes(testing::some_picture(30, 40, 3, 1)));
    write("JPEGImages/b.jpg", testing::jpeg_bytes(testing::some_picture(30, 20, 3, 2)));
    write("JPEGImages/c.png", testing::png_bytes(testing::some_picture(30, 40, 3, 3)));
    write("Annotations/a.xml", annotation(object("cat", {1, 1, 20, 15}) + object("dog", {5, 6, 7, 8}, true) +
                                          object("person", {21, 16, 40, 30})));
    write("Annotations/b.xml", annotation(""));
    write("Annotations/c.xml", annotation(object("dog", {11, 4, 20, 30})));
    section.format = spec::DataFormat::voc;
    section.path = path();
    section.resize = {15, 20};
    section.boxes = 3;
  }

  spec::DataSection section;
};

struct Sample {
  std::vector<float> pixels, boxes;
  std::vector<int64_t> labels;
};

Sample sample_of(const Dataset& set, int64_t index, const SampleDraw& draw = SampleDraw::fixed()) {
  const SampleShape shape = set.shape();
  Sample sample{std::vector<float>(static_cast<size_t>(shape.parts[0].elements())),
                std::vector<float>(static_cast<size_t>(shape.parts[1].elements())),
                std::vector<int64_t>(static_cast<size_t>(shape.parts[2].elements()))};
  std::byte* const out[3] = {reinterpret_cast<std::byte*>(sample.pixels.data()),
                             reinterpret_cast<std::byte*>(sample.boxes.data()),
                             reinterpret_cast<std::byte*>(sample.labels.data())};
  set.read_fields(index, draw, out);
  return sample;
}

TEST_CASE("an annotation: boxes from edge to edge, in the order of the file; parts and unknown elements passed over") {
  const std::string xml = annotation(object("cat", {1, 2, 40, 30}) + object(" tvmonitor\n", {0, 3, 7, 8}, true));
  const std::vector<LabelledBox> boxes = read_annotation(xml, voc_names(), kPicture);
  REQUIRE(boxes.size() == 2);
  CHECK(boxes[0] == LabelledBox{0, 1, 40, 30, 7, false});
  CHECK(boxes[1] == LabelledBox{0, 2, 7, 8, 19, true});
  CHECK(read_annotation(annotation(""), voc_names(), kPicture).empty());
  CHECK(voc_names().size() == 20);
  CHECK(std::ranges::is_sorted(voc_names()));
}

TEST_CASE("an annotation that is damaged: what is wrong, and in which object") {
  CHECK(complaint("") == "no XML: No document element found at byte 0");
  CHECK(complaint(annotation("").substr(0, 70)).starts_with("no XML: "));
  CHECK(complaint("<svg/>") == "there is no <annotation> in it");
  CHECK(complaint(annotation(object("cat", {1, 1, 2, 2}) + object("cow ", {0, 0, 41, 3}))) ==
        "object 2: its box, columns 0 to 41 and rows 0 to 3, does not lie in a picture of 30 x 40");
  CHECK(complaint(annotation(object("cat", {9, 1, 8, 2}))).starts_with("object 1: its box"));
  CHECK(complaint(annotation(object("unicorn", {1, 1, 2, 2}))) ==
        "object 1: its class \"unicorn\" is not one of the 20");
  CHECK(complaint(annotation("<object><name>cat</name></object>")) == "object 1: it has no bndbox");
  CHECK(complaint(annotation("<object><name>cat</name><bndbox><xmin>1e999</xmin></bndbox></object>")) ==
        "object 1: its xmin is no number: \"1e999\"");
}

TEST_CASE("a box goes with its picture: scaled, cut, mirrored, clipped; left out where its centre is cut off") {
  const LabelledBox box{10, 5, 30, 25, 0, false};
  float out[4];
  const auto moved = [&](const Cut& cut) {
    REQUIRE(move_box(box, cut, out));
    return std::vector<float>(out, out + 4);
  };
  const Rectangle whole{0, 0, 30, 40};
  CHECK(moved({{whole, {60, 20}, {0, 0, 60, 20}}, false}) == std::vector<float>{0.25f, 1 / 6.0f, 0.75f, 5 / 6.0f});
  CHECK(moved({{{5, 20, 20, 10}, {8, 8}, {0, 0, 8, 8}}, false}) == std::vector<float>{0, 0, 1, 1});
  // The right half of the picture, at its own size.
  CHECK_FALSE(move_box({10, 5, 29, 25, 0, false}, {{whole, {30, 40}, {0, 20, 30, 20}}, false}, out));
  CHECK(moved({{whole, {30, 40}, {0, 20, 30, 20}}, false}) == std::vector<float>{0, 1 / 6.0f, 0.5f, 5 / 6.0f});
  CHECK(moved({{whole, {30, 40}, {0, 12, 30, 24}}, true}) == std::vector<float>{0.25f, 1 / 6.0f, 1, 5 / 6.0f});
}

TEST_CASE("samples are those of the lists; places without a box have zeros and the class -1") {
  const Voc voc;
  const DataPair pair = open(voc.section, 0, 1);
  REQUIRE(pair.train->size() == 2);
  REQUIRE(pair.test->size() == 1);
  CHECK(pair.train->classes() == 20);
  const SampleShape shape = pair.train->shape();
  REQUIRE(shape.parts.size() == 3);
  CHECK(shape.parts[0] == SampleShape::Field{"images", program::ScalarType::f32, {3, 15, 20}});
  CHECK(shape.parts[1] == SampleShape::Field{"boxes", program::ScalarType::f32, {3, 4}});
  CHECK(shape.parts[2] == SampleShape::Field{"labels", program::ScalarType::i64, {3}});

  const Sample first = sample_of(*pair.train, 0);
  CHECK(first.labels == std::vector<int64_t>{7, 14, -1});
  CHECK(first.boxes == std::vector<float>{0, 0, 0.5f, 0.5f, 0.5f, 0.5f, 1, 1, 0, 0, 0, 0});
  CHECK(sample_of(*pair.train, 1).labels == std::vector<int64_t>{-1, -1, -1});
  CHECK(sample_of(*pair.test, 0).labels == std::vector<int64_t>{11, -1, -1});

  spec::DataSection other = voc.section;
  other.difficult = true;
  other.names = {"person", "cat", "dog"};
  other.test_list = "";
  const DataPair renamed = open(other, 0, 1);
  CHECK(renamed.test == nullptr);
  CHECK(sample_of(*renamed.train, 0).labels == std::vector<int64_t>{1, 2, 0});
}

TEST_CASE("training mirrors picture and boxes together, by the sample's own draw") {
  Voc voc;
  voc.section.flip = true;
  const DataPair pair = open(voc.section, 0, 1);
  const Sample plain = sample_of(*pair.train, 0);
  int mirrored = 0;
  for (int64_t epoch = 0; epoch < 16; ++epoch) {
    const Sample sample = sample_of(*pair.train, 0, SampleDraw(5, Epoch(epoch), 0));
    if (sample.pixels == plain.pixels) {
      CHECK(sample.boxes == plain.boxes);
      continue;
    }
    ++mirrored;
    CHECK(sample.pixels[0] == plain.pixels[19]);
    CHECK(sample.boxes == std::vector<float>{0.5f, 0, 1, 0.5f, 0, 0.5f, 0.5f, 1, 0, 0, 0, 0});
  }
  CHECK(mirrored > 2);
  CHECK(mirrored < 14);
}

TEST_CASE("damaged folders and files are named, with the sample") {
  Voc voc;
  const auto refusal = [&] { return error_of([&] { (void)open(voc.section, 0, 1); }); };
  const auto wrong_sample = [&](int64_t index) {
    const DataPair pair = open(voc.section, 0, 1);
    return error_of([&] { (void)sample_of(*pair.train, index); });
  };
  voc.section.boxes = 1;
  CHECK(wrong_sample(0).message() ==
        (voc / "JPEGImages/a.jpg") + ": sample 0: its annotation: 2 objects, more than data.boxes = 1");
  voc.section.boxes = 3;
  voc.write("Annotations/b.xml", annotation(object("cat", {1, 1, 30, 5})));
  CHECK(wrong_sample(1).message() == (voc / "JPEGImages/b.jpg") +
                                         ": sample 1: its annotation: object 1: its box, columns 1 to 30 and rows 1 to "
                                         "5, does not lie in a picture of 30 x 20");
  voc.section.list = "test";
  CHECK(refusal().message() == "data: " + (voc / "ImageSets/Main/test") + ".txt: there is no such list");
  voc.section.list = "train";
  voc.write("ImageSets/Main/train.txt", "a\n../b\n");
  CHECK(refusal().message() == "data: " + (voc / "ImageSets/Main/train.txt") +
                                   ": line 2 names \"../b\", and there is no picture of that name in " +
                                   voc.section.path + "/JPEGImages");
  voc.write("ImageSets/Main/train.txt", "a  1\n");
  CHECK(refusal().message().ends_with(": lists of a single class are not taken"));
  fs::remove((voc / "Annotations/c.xml"));
  voc.write("ImageSets/Main/train.txt", "a\n");
  CHECK(refusal().message().ends_with("there is no annotation of it in " + voc.section.path + "/Annotations"));
}

}  // namespace
}  // namespace estrain::data
