#pragma once
// Emulated GPUs of one host passing data to each other: their workers' memories are, by Unix sockets, so every transfer
// is through when it returns.

#include <atomic>
#include <cstdint>
#include <memory>

#include "core/device/exchange.h"

namespace estrain::testing {

device::ExchangeId new_exchange_id();

// As device::Device::open_exchange().
std::unique_ptr<device::Exchange> open_emulated_exchange(const device::ExchangeId& id, uint32_t worker,
                                                         uint32_t workers, const std::atomic<uint32_t>& abort);

}  // namespace estrain::testing
