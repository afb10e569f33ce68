#pragma once
// CRC-32C (Castagnoli, the polynomial 0x1EDC6F41 bit-reversed), as RFC 3720 uses it: what TFRecord files are checked
// by.

#include <cstdint>
#include <string_view>

namespace estrain::record {

uint32_t crc32c(std::string_view bytes);

// As TFRecord stores it: turned by 15 bits to the right, plus a constant, so that a check of data that holds checks
// differs from them.
uint32_t masked_crc32c(std::string_view bytes);

}  // namespace estrain::record
