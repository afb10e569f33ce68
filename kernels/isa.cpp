#include "kernels/isa.h"

namespace estrain::kernels {

Isa best_isa() {
  if (!__builtin_cpu_supports("fma")) return Isa::baseline;
  if (!__builtin_cpu_supports("avx2")) return Isa::fma128;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx512 ? Isa::avx512 : Isa::avx2;
}

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::baseline:
      return "baseline";
    case Isa::fma128:
      return "fma128";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
  }
  return "unknown";
}

}  // namespace estrain::kernels
