#include "kernels/variants.h"

#define ESTRAIN_ISA avx2
#define ESTRAIN_VECTORS "kernels/vector_avx2.h"
#include "kernels/loops_average.h"
#include "kernels/loops_optimizer.h"
#include "kernels/loops_sum.h"

namespace estrain::kernels {

const Variant variant_avx2 = {avx2::digest_words,          avx2::scale,    avx2::add,
                              avx2::fold_scaled,           avx2::add_zero, avx2::average,
                              avx2::loops_of(Optimizers{})};

}  // namespace estrain::kernels
