#pragma once
// Runs tasks on LibTorch's intra-op threads.

namespace estrain::operators {

// Calls task(context, i) for every i below `tasks`, each once, in any order and on any thread of LibTorch's.
void run_in_parallel(int tasks, void (*task)(void*, int), void* context);

}  // namespace estrain::operators
