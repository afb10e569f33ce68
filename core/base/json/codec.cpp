#include "core/base/json/codec.h"

#include "core/base/error.h"

namespace estrain::codec {

void refuse_message(std::string_view what) {
  throw Error::make(Fault::usage, "a message that makes no sense: {}", what);
}

}  // namespace estrain::codec
