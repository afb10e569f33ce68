#include "kernels/pinned/precision.h"

namespace estrain::kernels::pinned {

const char* name_of(Element element) { return element == Element::f32 ? "f32" : "bf16"; }
const char* name_of(Math math) { return math == Math::exact ? "exact" : "tf32"; }

}  // namespace estrain::kernels::pinned
