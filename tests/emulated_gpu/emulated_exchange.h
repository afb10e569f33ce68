#pragma once
// Emulated GPUs of one host passing data to each other: their workers' memories are, by Unix sockets, so every transfer
// is through when it returns, or was cut off by an abort: then its memory is written when the exchange ends, as a GPU
// may do until then.

#include <memory>

#include "core/device/exchange.h"

namespace estrain::testing {

device::ExchangeId new_exchange_id();

// As device::Device::open_exchange().
std::unique_ptr<device::Exchange> open_emulated_exchange(const device::ExchangeId& id,
                                                         const device::ExchangeParty& party);

}  // namespace estrain::testing
