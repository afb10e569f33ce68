#pragma once
// The annotation of a picture in PASCAL VOC: an XML file with an <object> for each thing that is seen, its <name>, its
// <bndbox> and whether it is <difficult>. Anything else in the file is passed over.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/formats/image/image.h"

namespace estrain::data {

constexpr uint64_t most_annotation_bytes = uint64_t{1} << 20;

// Edges in pixels from the picture's left and top: 0 is the edge itself. VOC's numbers are those of the first and the
// last pixel, from 1 on.
struct LabelledBox {
  double left = 0, top = 0, right = 0, bottom = 0;
  int64_t label = 0;  // place in the list of names
  bool is_difficult = false;

  bool operator==(const LabelledBox&) const = default;
};

// The twenty classes of VOC, in the alphabet's order.
const std::vector<std::string>& voc_names();

// In the order of the file. Throws Fault::corrupt where it is no such XML, and for an object whose name is none of
// `names` or whose box does not lie in a picture of this size.
std::vector<LabelledBox> read_annotation(std::string_view xml, const std::vector<std::string>& names,
                                         const image::Size& picture);

}  // namespace estrain::data
