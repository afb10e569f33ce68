#include "core/data/photos/voc_annotation.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <pugixml.hpp>

#include "core/base/error.h"

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

}  // namespace estrain::data
