#pragma once
// CRC-32C (Castagnoli, the polynomial 0x1EDC6F41 bit-reversed), as in RFC 3720: the checksum of TFRecord
// files.

#include <cstdint>
#include <string_view>

namespace estrain::record {

uint32_t crc32c(std::string_view bytes);

// The form stored in TFRecord files: rotated right by 15 bits, plus a constant, so that a checksum of data with
// embedded checksums is robust.
uint32_t masked_crc32c(std::string_view bytes);

}  // namespace estrain::record
