#include "kernels/variants.h"

#define ESTRAIN_ISA avx512
#define ESTRAIN_VECTORS "kernels/vector_avx512.h"
#include "kernels/loops_average.h"
#include "kernels/loops_optimizer.h"
#include "kernels/loops_sum.h"

namespace estrain::kernels {

const Variant variant_avx512 = {avx512::digest_words,          avx512::scale,    avx512::add,
                                avx512::fold_scaled,           avx512::add_zero, avx512::average,
                                avx512::loops_of(Optimizers{})};

}  // namespace estrain::kernels
