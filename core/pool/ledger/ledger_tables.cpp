#include "core/pool/ledger/ledger_tables.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace estrain::pool {
namespace {

constexpr int64_t kApplication = 0x45535450;  // "ESTP"

constexpr const char* kTables = R"sql(
CREATE TABLE jobs (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, user TEXT NOT NULL, priority INTEGER NOT NULL, phase TEXT NOT NULL,
  reason TEXT NOT NULL, step INTEGER NOT NULL, total_steps INTEGER NOT NULL, ests INTEGER NOT NULL,
  devices INTEGER NOT NULL, least INTEGER NOT NULL, most INTEGER NOT NULL, deadline REAL, type TEXT NOT NULL,
  mixes_types INTEGER NOT NULL, weighs_offers INTEGER NOT NULL, submitted REAL NOT NULL, started REAL, finished REAL,
  target TEXT NOT NULL, owed INTEGER NOT NULL, unwanted INTEGER NOT NULL, not_before REAL NOT NULL,
  no_growth_before REAL NOT NULL, failures INTEGER NOT NULL, failed_at INTEGER NOT NULL, attained REAL NOT NULL,
  held REAL NOT NULL, lost REAL NOT NULL, starts INTEGER NOT NULL, mini_batch REAL NOT NULL,
  one_host INTEGER NOT NULL DEFAULT 0, home TEXT NOT NULL DEFAULT '');
CREATE TABLE speeds (
  job INTEGER NOT NULL, type TEXT NOT NULL, devices INTEGER NOT NULL, seconds REAL NOT NULL, times INTEGER NOT NULL,
  PRIMARY KEY (job, type, devices));
CREATE TABLE slots (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, state TEXT NOT NULL, for_good INTEGER NOT NULL, holder INTEGER NOT NULL,
  since REAL NOT NULL DEFAULT 0);
CREATE TABLE usage (user TEXT PRIMARY KEY, device_seconds REAL NOT NULL, at REAL NOT NULL);
CREATE TABLE history (
  id INTEGER PRIMARY KEY, time REAL NOT NULL, job INTEGER NOT NULL, what TEXT NOT NULL, devices INTEGER NOT NULL,
  reason TEXT NOT NULL);
CREATE TABLE settings (name TEXT PRIMARY KEY, value);
)sql";

constexpr const char* kSeenTable = R"sql(
CREATE TABLE seen (
  job INTEGER NOT NULL, type TEXT NOT NULL, devices INTEGER NOT NULL, in_use INTEGER NOT NULL, steps INTEGER NOT NULL,
  seconds REAL NOT NULL, PRIMARY KEY (job, type, devices, in_use));
)sql";

constexpr const char* kBatchTable = R"sql(
CREATE TABLE batches (
  job INTEGER PRIMARY KEY, own INTEGER NOT NULL, least INTEGER NOT NULL, most INTEGER NOT NULL, epochs INTEGER NOT NULL,
  own_steps INTEGER NOT NULL, batch INTEGER NOT NULL, lr_factor REAL NOT NULL, wanted INTEGER NOT NULL,
  epoch INTEGER NOT NULL, since_epoch INTEGER NOT NULL, not_before REAL NOT NULL);
)sql";

constexpr const char* kGoodputTables = R"sql(
ALTER TABLE batches ADD COLUMN wanted_lr_factor REAL NOT NULL DEFAULT 1;
ALTER TABLE batches ADD COLUMN noise_scale REAL NOT NULL DEFAULT 0;
UPDATE batches SET wanted = 0;
CREATE TABLE batch_times (
  job INTEGER NOT NULL, batch INTEGER NOT NULL, seconds REAL NOT NULL, times INTEGER NOT NULL,
  PRIMARY KEY (job, batch));
)sql";

constexpr const char* kPaceTable = R"sql(
CREATE TABLE paces (
  job INTEGER NOT NULL, number INTEGER NOT NULL, type TEXT NOT NULL, devices INTEGER NOT NULL, in_use INTEGER NOT NULL,
  since REAL NOT NULL, until REAL NOT NULL, steps REAL NOT NULL, PRIMARY KEY (job, number));
)sql";

constexpr const char* kToldColumn = R"sql(
ALTER TABLE paces ADD COLUMN told REAL NOT NULL DEFAULT 0;
UPDATE paces SET told = (until - since) / steps;
)sql";

// When the job was seen last on the devices that it has, how many these were, and how far it was.
constexpr const char* kSightColumns = R"sql(
ALTER TABLE jobs ADD COLUMN seen_at REAL NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN seen_devices INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN seen_step INTEGER NOT NULL DEFAULT 0;
)sql";

constexpr const char* kNameTables = R"sql(
ALTER TABLE history ADD COLUMN names TEXT NOT NULL DEFAULT '';
CREATE TABLE hosts (name TEXT PRIMARY KEY, cores INTEGER NOT NULL);
ALTER TABLE batches ADD COLUMN square_root INTEGER NOT NULL DEFAULT 0;
)sql";

constexpr const char* kWorkColumn = "ALTER TABLE jobs ADD COLUMN work TEXT NOT NULL DEFAULT ''";

constexpr const char* kHostColumns = R"sql(
ALTER TABLE jobs ADD COLUMN one_host INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN home TEXT NOT NULL DEFAULT '';
UPDATE jobs SET one_host = weighs_offers OR id IN (SELECT job FROM batches);
)sql";

int64_t pragma(const sqlite::Database& database, const char* name) {
  sqlite::Statement statement = database.prepare(fmt::format("PRAGMA {}", name));
  return statement.step() ? statement.whole(0) : 0;
}

// Makes the tables of a new database, unless another process has made them meanwhile.
void make_tables(sqlite::Database& database, const std::string& path) {
  if (pragma(database, "schema_version") == 0) database.use_write_ahead_log();
  database.transact([&] {
    const int64_t application = pragma(database, "application_id");
    if (application == kApplication) return;
    if (application != 0 || pragma(database, "user_version") != 0 || pragma(database, "schema_version") != 0) {
      throw Error::make(Fault::usage, "{}: this is a database, but not a pool's", path)
          .advise("give the pool a folder of its own");
    }
    database.execute(kTables);
    database.execute(kSeenTable);
    database.execute(kBatchTable);
    database.execute(kGoodputTables);
    database.execute(kPaceTable);
    database.execute(kToldColumn);
    database.execute(kSightColumns);
    database.execute(kNameTables);
    database.execute(kWorkColumn);
    database.execute(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kApplication, kLedgerFormat));
  });
}

void bring_here(sqlite::Database& database, int64_t format) {
  database.transact([&] {
    if (pragma(database, "user_version") != format) return;  // another process has done it meanwhile
    if (format == 1) {
      database.execute(kSeenTable);
      database.execute("ALTER TABLE speeds DROP COLUMN steps; ALTER TABLE speeds DROP COLUMN whole");
    }
    if (format < 3) database.execute(kBatchTable);
    if (format < 4) database.execute(kGoodputTables);
    if (format < 4) database.execute(kHostColumns);
    if (format < 5) database.execute("ALTER TABLE slots ADD COLUMN since REAL NOT NULL DEFAULT 0");
    if (format < 6) database.execute(kPaceTable);
    if (format < 7) {
      database.execute(kToldColumn);
      database.execute(kSightColumns);
      database.execute(kNameTables);
    }
    database.execute(kWorkColumn);
    database.execute(fmt::format("PRAGMA user_version = {}", kLedgerFormat));
  });
}

}  // namespace

sqlite::Database open_tables(const std::string& path) {
  sqlite::Database database = sqlite::Database::open(path, sqlite::Access::read_write);
  if (pragma(database, "application_id") != kApplication) make_tables(database, path);
  const int64_t format = pragma(database, "user_version");
  if (format >= 1 && format < kLedgerFormat) {
    bring_here(database, format);
  } else if (format != kLedgerFormat) {
    throw Error::make(Fault::usage, "{}: this pool has format {}, and this estrain knows format {}", path, format,
                      kLedgerFormat)
        .advise("use the newer estrain that made it; nothing was changed");
  }
  database.execute("PRAGMA synchronous = FULL");
  return database;
}

}  // namespace estrain::pool
