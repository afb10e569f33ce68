#pragma once
// The loops of kernels/portable/attention.h, once for each instruction set.

#include "kernels/per_isa.h"
#include "kernels/portable/attention.h"

namespace estrain::kernels {

struct AttentionLoops {
  void (*forward)(const portable::Attention& attention, const portable::AttentionForward& forward,
                  const Execution& execution);
  void (*backward)(const portable::Attention& attention, const portable::AttentionBackward& backward,
                   const Execution& execution);
};
ESTRAIN_PER_ISA(AttentionLoops, attention_loops);

}  // namespace estrain::kernels
