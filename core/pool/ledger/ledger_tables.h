#pragma once
// The tables of a pool's database (ledger.h).

#include <cstdint>
#include <string>

#include "core/formats/sqlite/database.h"

namespace estrain::pool {

inline constexpr int64_t kLedgerFormat = 8;

// Makes the tables where there are none, and brings those of older formats to this one. Throws as Ledger::open.
sqlite::Database open_tables(const std::string& path);

}  // namespace estrain::pool
