#include "kernels/cuda/families.h"
#include "kernels/cuda/kernels.h"

namespace estrain::kernels::cuda {

#define ESTRAIN_ENTRY_TABLE(Type, family) .family = family##_kernels,
#define ESTRAIN_ENTRY_FUNCTION(name, ...) .name = name,
extern const portable::DeviceKernels device_kernels = {ESTRAIN_DEVICE_TABLES(ESTRAIN_ENTRY_TABLE)
                                                           ESTRAIN_DEVICE_FUNCTIONS(ESTRAIN_ENTRY_FUNCTION)};
#undef ESTRAIN_ENTRY_TABLE
#undef ESTRAIN_ENTRY_FUNCTION

}  // namespace estrain::kernels::cuda
