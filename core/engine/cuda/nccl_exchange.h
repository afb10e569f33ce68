#pragma once
// Exchange between the GPUs of one host by NCCL: groups of sends and receives, on a separate stream in parallel with
// computations. NCCL never adds.
//
// A thread watches the exchange. If the stage is aborted because a worker was lost, or if NCCL reports an error, it
// ends the communicator: then kernels that wait for a peer finish, and so does any wait for the GPU. An error is thrown
// only after the launcher has had time to abort the stage for a lost peer, since that peer then caused the error.

#include <c10/cuda/CUDAStream.h>

#include <memory>

#include "core/engine/device/exchange.h"

namespace estrain::cuda {

// Throws Fault::device.
device::ExchangeId new_nccl_id();

// Like ComputeDevice::open_exchange(), on the stream `by`, which nothing else uses.
std::unique_ptr<device::Exchange> open_nccl_exchange(const device::ExchangeId& id, c10::cuda::CUDAStream by,
                                                     const device::ExchangeParty& party);

}  // namespace estrain::cuda
