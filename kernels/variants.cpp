#include "kernels/variants.h"

namespace estrain::kernels {

const Variant& variant(Isa isa) {
  switch (isa) {
    case Isa::avx512:
      return variant_avx512;
    case Isa::avx2:
      return variant_avx2;
    case Isa::fma128:
      return variant_fma128;
    case Isa::baseline:
      break;
  }
  return variant_baseline;
}

}  // namespace estrain::kernels
