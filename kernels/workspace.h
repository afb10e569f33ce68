#pragma once
// Scratch memory of the calling thread: packed operands, padded images, partial sums.
//
// A slot has one purpose within a kernel and keeps its memory from call to call, so a page is faulted in only once. The
// next call for the same slot invalidates the contents. The memory may be passed to the tasks of a kernel.

#include <stddef.h>

namespace estrain::kernels {

static constexpr int num_workspace_slots = 16;

// At least `floats` floats, 64-byte aligned, with unspecified contents. Throws std::bad_alloc.
float* workspace(int slot, size_t floats);

}  // namespace estrain::kernels
