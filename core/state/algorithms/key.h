#pragma once
// The key of a choice: an operation with everything that determines the possible algorithms and the speed of each, as
// text. The text is the same on every machine and in every version:
//
//   convolution_forward dilation=1x1 element=f32 filter=64x3x7x7 groups=1 input=8x3x224x224 math=exact …
//
// The name of the operation, then its fields, sorted by name.

#include <map>
#include <string>
#include <string_view>

namespace estrain::algorithms {

class Key {
 public:
  // Names, fields and values consist of letters, digits, '_' and '-'. Throws Fault::bug for other characters, which
  // would make the text ambiguous.
  explicit Key(std::string_view operation);
  Key& set(std::string_view field, std::string_view value);

  std::string text() const;

 private:
  std::string operation_;
  std::map<std::string, std::string, std::less<>> fields_;
};

}  // namespace estrain::algorithms
