#include "kernels/portable/attention.h"

#include <stdexcept>

#include "kernels/portable/calls/device_kernels.h"

namespace estrain::kernels::portable {
namespace {

void check(const Attention& a) {
  const int64_t row = (a.keys + 63) / 64 * 64;
  const double drawn =
      static_cast<double>(row) * static_cast<double>(a.batch) * static_cast<double>(a.heads * a.queries);
  if (a.dropout.probability > 0 && drawn > 0x1p34) {
    throw std::invalid_argument("attention: dropout of more than 2^34 elements in one call");
  }
}

}  // namespace

void attention(const Attention& attention, const AttentionForward& forward, const Execution& execution) {
  check(attention);
  attention_loops_of(execution).forward(attention, forward, execution);
}

void attention_backward(const Attention& attention, const AttentionBackward& backward, const Execution& execution) {
  check(attention);
  attention_loops_of(execution).backward(attention, backward, execution);
}

}  // namespace estrain::kernels::portable
