#include "core/formats/sqlite/database.h"

#include <sqlite3.h>

#include <cmath>
#include <filesystem>

#include "core/base/clock.h"
#include "core/base/error.h"

namespace estrain::sqlite {
namespace {

constexpr std::chrono::milliseconds kPatience{2000};

// SQLite refuses a link anywhere in the path, not only as the file. Home folders often lie behind a link.
std::string with_resolved_folder(const std::filesystem::path& path) {
  std::error_code failure;
  const std::filesystem::path folder =
      std::filesystem::canonical(std::filesystem::absolute(path).parent_path(), failure);
  return failure ? path : folder / path.filename();
}

Error failure(sqlite3* db, int result, const std::string& path) {
  const std::string words = db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(result);
  switch (result & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return Error::make(Fault::corrupt, "{}: {}", path, words)
          .advise("`sqlite3 FILE .recover` may save what is in it");
    case SQLITE_FULL:
      return Error::make(Fault::io, "{}: {}", path, words).advise("make room on the disk");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Error::make(Fault::io, "{}: another process holds it: {}", path, words);
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
    case SQLITE_NOMEM:
      return Error::make(Fault::io, "{}: {}", path, words);
    default:
      return Error::make(Fault::bug, "{}: {}", path, words);
  }
}

}  // namespace

void Statement::Finalizer::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
void Database::Closer::operator()(sqlite3* db) const { sqlite3_close_v2(db); }

void Statement::check(int result) const {
  if (result != SQLITE_OK && result != SQLITE_ROW && result != SQLITE_DONE) throw failure(db_, result, path_);
}

Statement& Statement::bind(int64_t value) {
  check(sqlite3_bind_int64(statement_.get(), ++bound_, value));
  return *this;
}
Statement& Statement::bind(double value) {
  check(sqlite3_bind_double(statement_.get(), ++bound_, value));
  return *this;
}
Statement& Statement::bind(std::string_view value) {
  check(sqlite3_bind_text64(statement_.get(), ++bound_, value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
  return *this;
}
bool Statement::step() {
  const int result = sqlite3_step(statement_.get());
  if (result == SQLITE_ROW) return true;
  if (result != SQLITE_DONE) {
    const Error error = failure(db_, result, path_);
    sqlite3_reset(statement_.get());
    throw Error(error);
  }
  return false;
}

void Statement::run() {
  while (step()) {
  }
  reset();
}

void Statement::reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
  bound_ = 0;
}

int64_t Statement::whole(int column) const { return sqlite3_column_int64(statement_.get(), column); }
double Statement::number(int column) const { return sqlite3_column_double(statement_.get(), column); }
bool Statement::is_null(int column) const { return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL; }

std::string Statement::text(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  if (bytes == nullptr) return {};
  return {bytes, static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

Database Database::open(const std::string& path, Access access) {
  const std::string file = with_resolved_folder(path);
  sqlite3* opened = nullptr;
  const int flags = access == Access::read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  const int result = sqlite3_open_v2(file.c_str(), &opened, flags | SQLITE_OPEN_NOFOLLOW, nullptr);
  std::unique_ptr<sqlite3, Closer> db(opened);
  if (result != SQLITE_OK) throw failure(opened, result, path);
  sqlite3_extended_result_codes(opened, 1);
  sqlite3_busy_timeout(opened, static_cast<int>(kPatience.count()));
  return {std::move(db), path};
}

void Database::execute(const std::string& statements) {
  const int result = sqlite3_exec(db_.get(), statements.c_str(), nullptr, nullptr, nullptr);
  if (result != SQLITE_OK) throw failure(db_.get(), result, path_);
}

void Database::use_write_ahead_log() {
  // For this statement SQLite does not wait by itself.
  int result = SQLITE_BUSY;
  for (auto waited = 0ms; waited < kPatience; waited += std::chrono::milliseconds(sqlite3_sleep(1))) {
    result = sqlite3_exec(db_.get(), "PRAGMA journal_mode = WAL", nullptr, nullptr, nullptr);
    if ((result & 0xff) != SQLITE_BUSY) break;
  }
  if (result != SQLITE_OK) throw failure(db_.get(), result, path_);
}

Statement Database::prepare(std::string_view statement) const {
  sqlite3_stmt* prepared = nullptr;
  const int result =
      sqlite3_prepare_v2(db_.get(), statement.data(), static_cast<int>(statement.size()), &prepared, nullptr);
  if (result != SQLITE_OK) throw failure(db_.get(), result, path_);
  return {db_.get(), prepared, path_};
}

void Database::transact(const std::function<void()>& body) {
  execute("BEGIN IMMEDIATE");
  try {
    body();
    execute("COMMIT");
  } catch (...) {
    // After some errors SQLite has rolled back by itself.
    if (sqlite3_get_autocommit(db_.get()) == 0) sqlite3_exec(db_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
    throw;
  }
}

}  // namespace estrain::sqlite
