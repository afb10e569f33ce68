#pragma once
// Runs tasks on LibTorch's intra-op threads.

namespace estrain::operators {

// Calls task(context, i) for every i below `tasks`, each once, in no fixed order and on LibTorch's threads.
void run_in_parallel(int tasks, void (*task)(void*, int), void* context);

}  // namespace estrain::operators
