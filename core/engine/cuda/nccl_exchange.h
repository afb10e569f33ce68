#pragma once
// Exchange between the GPUs of one host by NCCL: groups of sends, receives and all-gathers, on a separate stream in
// parallel with computations. NCCL never adds.
//
// A thread watches the exchange. If the stage is aborted because a worker was lost, or if NCCL reports an error, the
// thread ends the communicator: then kernels that wait for a peer finish, and so does every wait for the GPU. The
// exchange throws an error only after the launcher has had time to abort the stage, since a lost peer may be the cause.

#include <c10/cuda/CUDAStream.h>

#include <memory>

#include "core/engine/device/exchange.h"

namespace estrain::cuda {

// Throws Fault::device.
device::ExchangeId new_nccl_id();

// Like ComputeDevice::open_exchange(), on the stream `by`. Only the exchange uses `by`.
std::unique_ptr<device::DeviceExchange> open_nccl_exchange(const device::ExchangeId& id, c10::cuda::CUDAStream by,
                                                           const device::ExchangeParty& party);

}  // namespace estrain::cuda
