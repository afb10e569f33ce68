#include "core/data/photos/voc.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <pugixml.hpp>
#include <string_view>
#include <unordered_map>

#include "core/base/error.h"
#include "core/data/photos/photo_scan.h"

namespace estrain::data {
namespace {

std::string_view trimmed(const char* text) {
  constexpr std::string_view blanks = " \t\r\n";
  const std::string_view all = text;
  const size_t first = all.find_first_not_of(blanks);
  return first == all.npos ? "" : all.substr(first, all.find_last_not_of(blanks) + 1 - first);
}

// Some tools write "45.7".
double number_of(const pugi::xml_node& box, const char* name) {
  const std::string_view text = trimmed(box.child_value(name));
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && std::isfinite(value)) return value;
  throw Error::make(Fault::corrupt, "its {} is no number: \"{}\"", name, text.substr(0, 40));
}

int64_t label_of(const pugi::xml_node& object, const std::vector<std::string>& names) {
  const std::string_view name = trimmed(object.child_value("name"));
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) {
    throw Error::make(Fault::corrupt, "its class \"{}\" is not one of the {}", name.substr(0, 80), names.size())
        .advise("list all classes in data.names");
  }
  return found - names.begin();
}

LabelledBox box_of(const pugi::xml_node& object, const std::vector<std::string>& names, const image::Size& picture) {
  const pugi::xml_node box = object.child("bndbox");
  if (!box) throw Error(Fault::corrupt, "it has no bndbox");
  const double left = number_of(box, "xmin"), top = number_of(box, "ymin");
  const double right = number_of(box, "xmax"), bottom = number_of(box, "ymax");
  const bool lies_inside = left >= 0 && left <= right && right <= static_cast<double>(picture.width) && top >= 0 &&
                           top <= bottom && bottom <= static_cast<double>(picture.height);
  if (!lies_inside) {
    throw Error::make(Fault::corrupt,
                      "its box, columns {} to {} and rows {} to {}, does not lie in a picture of {} x {}", left, right,
                      top, bottom, picture.height, picture.width);
  }
  return {.left = std::max(left - 1, 0.0),
          .top = std::max(top - 1, 0.0),
          .right = right,
          .bottom = bottom,
          .label = label_of(object, names),
          .is_difficult = trimmed(object.child_value("difficult")) == "1"};
}

constexpr uint64_t kMostListBytes = uint64_t{64} << 20;
constexpr const char* kLayout =
    "data.path must be a folder as VOC unpacks: JPEGImages, Annotations and ImageSets/Main with the lists";

// Places in the tree by name, up to the last dot: "JPEGImages/000012".
std::unordered_map<std::string_view, int64_t> places_of(const FileTree& tree) {
  std::unordered_map<std::string_view, int64_t> places;
  for (int64_t i = 0; i < tree.size(); ++i) places.emplace(tree.name(i).substr(0, tree.name(i).rfind('.')), i);
  return places;
}

std::vector<std::string_view> lines_of(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  std::vector<std::string_view> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t')) line.remove_suffix(1);
    if (!line.empty()) lines.push_back(line);
    begin = end + 1;
  }
  return lines;
}

}  // namespace

const std::vector<std::string>& voc_names() {
  static const std::vector<std::string> names = {
      "aeroplane",   "bicycle", "bird",  "boat",      "bottle", "bus",         "car",   "cat",  "chair", "cow",
      "diningtable", "dog",     "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"};
  return names;
}

std::vector<LabelledBox> read_annotation(std::string_view xml, const std::vector<std::string>& names,
                                         const image::Size& picture) {
  pugi::xml_document document;
  const pugi::xml_parse_result parsed =
      document.load_buffer(xml.data(), xml.size(), pugi::parse_minimal | pugi::parse_escapes, pugi::encoding_utf8);
  if (!parsed) throw Error::make(Fault::corrupt, "no XML: {} at byte {}", parsed.description(), parsed.offset);
  const pugi::xml_node root = document.child("annotation");
  if (!root) throw Error(Fault::corrupt, "there is no <annotation> in it");
  std::vector<LabelledBox> boxes;
  int64_t number = 0;
  for (const pugi::xml_node& object : root.children("object"))
    boxes.push_back(with_context(fmt::format("object {}", ++number), [&] { return box_of(object, names, picture); }));
  return boxes;
}

VocFolder::VocFolder(const DataFile& folder, const std::string& list) : tree_(folder.tree) {
  const auto places = places_of(*tree_);
  const std::string list_name = "ImageSets/Main/" + list;
  const auto found = places.find(list_name);
  if (found == places.end())
    throw Error::make(Fault::corrupt, "{}/{}.txt: there is no such list", folder.path, list_name).advise(kLayout);
  std::vector<std::byte> text;
  const std::vector<std::string_view> lines = lines_of(read_listed(*tree_, found->second, kMostListBytes, text));
  if (lines.empty()) throw Error::make(Fault::corrupt, "{}: the list is empty", tree_->path(found->second));
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string_view name = lines[i];
    const auto place = [&](const char* where, const char* what) {
      const auto file = places.find(fmt::format("{}/{}", where, name));
      if (file != places.end()) return file->second;
      throw Error::make(Fault::corrupt, "{}: line {} names \"{}\", and there is no {} {}/{}{}",
                        tree_->path(found->second), i + 1, name.substr(0, 80), what, folder.path, where,
                        name.find(' ') == name.npos ? "" : ": lists of a single class are not taken")
          .advise(kLayout);
    };
    samples_.push_back({place("JPEGImages", "picture of that name in"), place("Annotations", "annotation of it in")});
  }
}

bool move_box(const LabelledBox& box, const Cut& cut, float* out) {
  const Resizing& resizing = cut.resizing;
  const auto moved = [](double at, int64_t from, int64_t length, int64_t to, int64_t part, int64_t seen) {
    const double scaled = (at - static_cast<double>(from)) * static_cast<double>(to) / static_cast<double>(length);
    return (scaled - static_cast<double>(part)) / static_cast<double>(seen);
  };
  const auto across = [&](double at) {
    const double x = moved(at, resizing.source.left, resizing.source.width, resizing.size.width, resizing.part.left,
                           resizing.part.width);
    return cut.mirrored ? 1 - x : x;
  };
  const auto down = [&](double at) {
    return moved(at, resizing.source.top, resizing.source.height, resizing.size.height, resizing.part.top,
                 resizing.part.height);
  };
  double left = across(box.left), right = across(box.right);
  if (cut.mirrored) std::swap(left, right);
  const double top = down(box.top), bottom = down(box.bottom);
  const double x = (left + right) / 2, y = (top + bottom) / 2;
  if (x < 0 || x >= 1 || y < 0 || y >= 1) return false;
  const double edges[4] = {left, top, right, bottom};
  for (size_t i = 0; i < 4; ++i) out[i] = static_cast<float>(std::clamp(edges[i], 0.0, 1.0));
  return true;
}

VocDataset::VocDataset(const DataFile& folder, const std::string& list, const spec::DataSection& section)
    : folder_(folder, list),
      pixels_(section),
      names_(section.names.empty() ? voc_names() : section.names),
      most_boxes_(section.boxes),
      takes_difficult_(section.difficult) {}

SampleShape VocDataset::shape() const {
  return SampleShape::fields({{"images", program::ScalarType::f32, pixels_.shape().dims()},
                              {"boxes", program::ScalarType::f32, {most_boxes_, 4}},
                              {"labels", program::ScalarType::i64, {most_boxes_}}});
}

void VocDataset::read(int64_t, const SampleDraw&, std::byte*, int64_t*) const {
  throw Error(Fault::bug, "a data set of several arrays was asked for one");
}

std::vector<LabelledBox> VocDataset::boxes_of(int64_t index, const image::Size& picture) const {
  thread_local std::vector<std::byte> file;
  return with_context("its annotation", [&] {
    const std::span<const std::byte> xml = folder_.read_annotation(index, file);
    std::vector<LabelledBox> boxes =
        read_annotation({reinterpret_cast<const char*>(xml.data()), xml.size()}, names_, picture);
    if (!takes_difficult_) std::erase_if(boxes, [](const LabelledBox& box) { return box.is_difficult; });
    if (static_cast<int64_t>(boxes.size()) > most_boxes_) {
      throw Error::make(Fault::corrupt, "{} objects, more than data.boxes = {}", boxes.size(), most_boxes_)
          .advise("set data.boxes to the most that a picture has");
    }
    return boxes;
  });
}

void VocDataset::require_fit(int64_t index, const image::Header& header, const SampleDraw& draw) const {
  pixels_.require_fit(header, draw);
  (void)boxes_of(index, header.size);
}

void VocDataset::read_fields(int64_t index, const SampleDraw& draw, std::span<std::byte* const> out) const {
  thread_local std::vector<std::byte> file;
  thread_local image::Image photo;
  auto* boxes = reinterpret_cast<float*>(out[1]);
  auto* labels = reinterpret_cast<int64_t*>(out[2]);
  std::fill(boxes, boxes + most_boxes_ * 4, 0.0f);
  std::fill(labels, labels + most_boxes_, int64_t{-1});
  try {
    image::decode(folder_.read(index, file), photo);
    const Cut cut = pixels_.show(photo, draw, reinterpret_cast<float*>(out[0]));
    int64_t count = 0;
    for (const LabelledBox& box : boxes_of(index, photo.size))
      if (move_box(box, cut, boxes + 4 * count)) labels[count++] = box.label;
  } catch (const Error& error) {
    throw about_photo(error, folder_, index);
  }
}

namespace {

// Scans one set. Returns the number of samples, or 0 if the number is unknown.
int64_t scan_set(const FileName& name, const spec::DataSection& section, bool is_training,
                 std::vector<Finding>& findings) {
  int64_t samples = 0;
  try {
    const VocDataset set(open_files({name}).front(), is_training ? section.list : section.test_list, section);
    samples = set.size();
    findings.push_back(
        Finding::fine("data", fmt::format("{}: {} pictures in the list of the {} set, of {} classes", name.path,
                                          set.size(), is_training ? "training" : "test", set.classes())));
    const auto fits = [&](int64_t index, const image::Header& header, const SampleDraw& draw) {
      set.require_fit(index, header, draw);
    };
    scan_photo_set(set.folder(), {.require_fit = fits, .is_training = is_training, .may_be_left_out = section.skip_bad},
                   findings);
  } catch (const Error& error) {
    findings.push_back(unreadable(error));
  }
  return samples;
}

class VocFormat : public Format {
 public:
  // The folder of data.list, then the folder of data.test_list if the section has the key.
  std::vector<FileName> file_names(const spec::DataSection& section) const override {
    if (section.path.empty())
      throw Error(Fault::spec, "data.format = \"voc\" needs data.path, such as VOCdevkit/VOC2012");
    std::vector<FileName> names = {{"training data", section.path, FileKind::listed, kEndings}};
    const std::string& test_path = section.test_path.empty() ? section.path : section.test_path;
    if (!section.test_list.empty()) names.push_back({"test data", test_path, FileKind::listed, kEndings});
    return names;
  }

  DataPair open(const DataRequest& request, const std::vector<DataFile>& files) const override {
    const spec::DataSection& section = request.section;
    DataPair pair;
    pair.train = std::make_unique<VocDataset>(files[0], section.list, section);
    if (files.size() > 1) pair.test = std::make_unique<VocDataset>(files[1], section.test_list, section);
    return pair;
  }

  void scan(const DataRequest& request, DataScan& scan) const override {
    const std::vector<FileName> names = file_names(request.section);
    scan.train_samples = scan_set(names[0], request.section, true, scan.findings);
    if (names.size() > 1) scan_set(names[1], request.section, false, scan.findings);
  }

  std::optional<DataPlace> in_folder(const std::filesystem::path& folder) const override {
    const bool found = exists(folder / "JPEGImages") && exists(folder / "Annotations");
    return found ? std::optional(DataPlace{folder}) : std::nullopt;
  }

 private:
  static constexpr std::string_view kEndings[] = {".jpg", ".jpeg", ".png", ".xml", ".txt"};
};

}  // namespace

const Format& voc_format() {
  static const VocFormat format;
  return format;
}

}  // namespace estrain::data
