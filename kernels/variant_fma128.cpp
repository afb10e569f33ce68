#include "kernels/variants.h"

#define ESTRAIN_ISA fma128
#define ESTRAIN_VECTORS "kernels/vector_fma128.h"
#include "kernels/loops_average.h"
#include "kernels/loops_optimizer.h"
#include "kernels/loops_sum.h"

namespace estrain::kernels {

const Variant variant_fma128 = {fma128::digest_words,          fma128::scale,    fma128::add,
                                fma128::fold_scaled,           fma128::add_zero, fma128::average,
                                fma128::loops_of(Optimizers{})};

}  // namespace estrain::kernels
