#include "kernels/variants.h"

#define ESTRAIN_ISA baseline
#define ESTRAIN_VECTORS "kernels/vector_baseline.h"
#include "kernels/loops_average.h"
#include "kernels/loops_optimizer.h"
#include "kernels/loops_sum.h"

namespace estrain::kernels {

const Variant variant_baseline = {baseline::digest_words,          baseline::scale,    baseline::add,
                                  baseline::fold_scaled,           baseline::add_zero, baseline::average,
                                  baseline::loops_of(Optimizers{})};

}  // namespace estrain::kernels
