#pragma once
// Places of a picture that a reader stops at: with the mouse, and with Tab and the arrow keys. They are a group of
// radio buttons, for these need no script: one stop of the Tab key, and arrow keys go from one to the next.

#include <string>
#include <vector>

namespace estrain::report {

struct ReadingPlace {
  double from = 0, to = 0;     // of the picture's width, 0 to 1
  std::string words;           // not escaped yet
  double top = 0, height = 1;  // of its height
};

// To stand in an element of class "area". `group` is a name of this page alone; `what` names the group.
std::string reading_places(const std::string& group, const std::string& what, const std::vector<ReadingPlace>& places);

}  // namespace estrain::report
