#include "kernels/portable/loops/elementwise.h"

#include "kernels/loops/walks.h"
#include "kernels/portable/loops/elementwise_formulas.h"
#include "kernels/portable/loops/tasks.h"

namespace estrain::kernels::ESTRAIN_ISA {

using Arguments = ElementwiseArguments;

// Fewer elements than this are not worth a second thread.
static constexpr int64_t least_elements = 16384;

// Applies formula(inputs...) to each element.
template <typename Formula, int inputs>
struct Loop {
  static void run(const Arguments& arguments, const Execution& execution) {
    const Formula formula(arguments.numbers);
    const Arguments a = arguments;
    for_ranges(execution, a.n, 64, least_elements, [&](int64_t begin, int64_t end) {
      for_vectors(begin, end, [&](size_t i, auto part) {
        const auto x = [&](int input) { return part.read(a.inputs[input] + i); };
        if constexpr (inputs == 1) part.write(a.out + i, formula(x(0)));
        if constexpr (inputs == 2) part.write(a.out + i, formula(x(0), x(1)));
        if constexpr (inputs == 3) part.write(a.out + i, formula(x(0), x(1), x(2)));
      });
    });
  }
};

extern const ElementwiseLoops elementwise_loops = table_of<Loop>();

}  // namespace estrain::kernels::ESTRAIN_ISA
