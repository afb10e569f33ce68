#pragma once
// Exchange between the GPUs of one host or of several by NCCL: groups of sends, receives and all-gathers, on a separate
// stream in parallel with computations. NCCL never adds, and encrypts nothing.
//
// A thread watches the exchange. If the stage is aborted because a worker or host was lost, or if NCCL reports an
// error, the thread ends the communicator: then kernels that wait for a peer finish, and so does every wait for the
// GPU. The exchange throws an error only after the launcher has had time to abort the stage, since a lost peer may be
// the cause.

#include <c10/cuda/CUDAStream.h>

#include <memory>

#include "core/engine/device/exchange.h"

namespace estrain::cuda {

// As device::ComputeDevice::new_exchange(): one worker calls this function, all workers get the id. Throws
// Fault::device.
device::ExchangeId new_nccl_id();

// As device::ComputeDevice::open_exchange(), on the stream `by`, which only the exchange uses. Waits until all workers
// have opened their ends and all GPUs are connected; returns null if the stage is aborted meanwhile. Throws
// Fault::device.
std::unique_ptr<device::DeviceExchange> open_nccl_exchange(const device::ExchangeId& id, c10::cuda::CUDAStream by,
                                                           const device::ExchangeParty& party);

}  // namespace estrain::cuda
