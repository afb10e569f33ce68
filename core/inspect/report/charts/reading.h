#pragma once
// Places in a picture. A reader selects a place with the mouse, or with Tab and the arrow keys. The places are a group
// of radio buttons and need no script: the Tab key selects the group, the arrow keys move within the group.

#include <string>
#include <vector>

namespace estrain::report {

struct ReadingPlace {
  double from = 0, to = 0;     // fraction of the picture's width, 0 to 1
  std::string words;           // not escaped yet
  double top = 0, height = 1;  // fraction of the picture's height
};

// HTML for an element of class "area". `group` must be unique on the page; `what` is the group's label.
std::string reading_places(const std::string& group, const std::string& what, const std::vector<ReadingPlace>& places);

}  // namespace estrain::report
