#pragma once
// GPUs of one host passing data to each other by NCCL: sends and receives in groups, on a stream of their own beside
// what is computed. Nothing is added up on the way.
//
// A thread watches over it. Where the stage is aborted, since a worker was lost, or NCCL reports an error, it ends the
// communicator: kernels that wait for a peer come to their end, and with them whoever waits for the GPU. An error is
// thrown once the launcher has had time to abort the stage for a peer that it lost: then it was that peer's.

#include <c10/cuda/CUDAStream.h>

#include <memory>

#include "core/device/exchange.h"

namespace estrain::cuda {

// Throws Fault::device.
device::ExchangeId new_nccl_id();

// As Device::open_exchange(), by the stream `by`, which nothing else uses.
std::unique_ptr<device::Exchange> open_nccl_exchange(const device::ExchangeId& id, c10::cuda::CUDAStream by,
                                                     const device::ExchangeParty& party);

}  // namespace estrain::cuda
