#include "core/comm/messages/codec.h"

#include "core/base/error.h"

namespace estrain::comm {

void refuse_message(std::string_view what) {
  throw Error::make(Fault::usage, "a message that makes no sense: {}", what);
}

}  // namespace estrain::comm
