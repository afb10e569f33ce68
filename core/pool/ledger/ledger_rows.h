#pragma once
// The rows that a save of a pool's state writes (ledger.h): those that differ from what was saved before.

#include <map>
#include <string_view>
#include <vector>

#include "core/pool/ledger/ledger.h"

namespace estrain::pool {

// Statements of one save.
class LedgerRows {
 public:
  explicit LedgerRows(const sqlite::Database& database) : database_(database) {}

  // `before`: as it was saved; null: it was not.
  void write(const dispatch::Job& job, const dispatch::Job* before);
  void write(const Line& line);
  void write_slots(const std::vector<dispatch::Slot>& slots);  // instead of those before
  void write_usage(const std::string& user, const dispatch::Usage& used);
  void write_cores(const std::string& host, int64_t cores);
  template <typename T>
  void write_setting(std::string_view name, const T& value) {
    prepared("INSERT OR REPLACE INTO settings VALUES (?,?)").bind(name).bind(value).run();
  }

 private:
  void write_facts(const dispatch::Job& job);
  void write_batch(const dispatch::Job& job, const dispatch::Job* before);
  void write_speeds(const dispatch::Job& job, const dispatch::Job* before);
  void write_paces(const dispatch::Job& job, const dispatch::Job* before);
  // Each text is prepared once.
  sqlite::Statement& prepared(const char* text);

  const sqlite::Database& database_;
  std::map<const char*, sqlite::Statement> statements_;
};

}  // namespace estrain::pool
