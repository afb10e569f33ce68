// A file of a folder in VOC's layout: the first byte says whether the rest is an annotation or a list. Boxes lie in
// their picture, and in what is seen of it.
#include <filesystem>

#include "core/base/files/files.h"
#include "core/data/photos/voc.h"
#include "tests/fuzz/read_samples.h"
#include "tests/written_images.h"

namespace estrain::fuzz {
namespace {

class Files {
 public:
  Files() {
    for (const char* part : {"annotation", "list"}) {
      for (const char* below : {"/JPEGImages", "/Annotations", "/ImageSets/Main"})
        std::filesystem::create_directories(folder_ / (std::string(part) + below));
      write(part, "JPEGImages/a.jpg", testing::jpeg_bytes(testing::some_picture(30, 40)));
    }
    folder_.link("annotation/Annotations/a.xml", file_.path());
    write("annotation", "ImageSets/Main/train.txt", "a");
    write("list", "Annotations/a.xml", "<annotation/>");
    folder_.link("list/ImageSets/Main/train.txt", file_.path());
  }

  void read(const uint8_t* head, std::string_view bytes) {
    const bool is_list = head[0] % 2 == 1;
    file_.set(bytes);
    if (!is_list) look_at(bytes);
    spec::DataSection section;
    section.format = spec::DataFormat::voc;
    section.path = folder_ / (is_list ? "list" : "annotation");
    section.test_list = "";
    section.crop = {8, 8};
    section.scale = {0.1, 1.0};
    section.flip = true;
    section.difficult = true;
    (void)accepts([&] { read_samples(data::open(section, 0, 1)); });
  }

 private:
  void write(const std::string& part, const std::string& name, const std::string& content) const {
    write_file_atomically(folder_ / (part + "/" + name), content);
  }

  static void look_at(std::string_view xml) {
    std::vector<data::LabelledBox> boxes;
    (void)accepts([&] { boxes = data::read_annotation(xml, data::voc_names(), {30, 40}); });
    for (const data::LabelledBox& box : boxes) {
      require(box.label >= 0 && box.label < 20, "a label is a class");
      require(0 <= box.left && box.left <= box.right && box.right <= 40, "columns lie in the picture");
      require(0 <= box.top && box.top <= box.bottom && box.bottom <= 30, "rows lie in the picture");
      float seen[4];
      if (!data::move_box(box, {{{3, 4, 20, 30}, {50, 60}, {5, 6, 20, 20}}, true}, seen)) continue;
      for (const float edge : seen) require(edge >= 0 && edge <= 1, "an edge lies in what is seen");
    }
  }

  Folder folder_;
  MemoryFile file_;
};

}  // namespace
}  // namespace estrain::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return estrain::fuzz::read_with_head<estrain::fuzz::Files, 1>(data, size);
}
