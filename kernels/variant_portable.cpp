#include "kernels/variants.h"

#define ESTRAIN_ISA portable_baseline
#define ESTRAIN_VECTORS "kernels/vector_portable.h"
#include "kernels/loops_average.h"
#include "kernels/loops_optimizer.h"
#include "kernels/loops_sum.h"

namespace estrain::kernels {

const Variant variant_portable = {
    portable_baseline::digest_words,          portable_baseline::scale,    portable_baseline::add,
    portable_baseline::fold_scaled,           portable_baseline::add_zero, portable_baseline::average,
    portable_baseline::loops_of(Optimizers{})};

}  // namespace estrain::kernels
