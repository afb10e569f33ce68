#pragma once
// A SQLite database, and its statements. A database and its statements are for one thread at a time.
//
//   Database db = Database::open("queue.db", Access::read_write);
//   Statement jobs = db.prepare("SELECT id, name FROM jobs WHERE owner = ?");
//   for (jobs.bind(owner); jobs.step();) use(jobs.whole(0), jobs.text(1));
//
// Errors: Fault::io if the system refused (a full disk, no permission, another process that holds the file for
// longer than two seconds), Fault::corrupt for a damaged file or a file without a database, Fault::bug for a wrong
// statement. Every error names the file.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace estrain::sqlite {

enum class Access { read_only, read_write };  // read_write creates a missing file

class Statement {
 public:
  // Sets the next parameter, beginning with the first; copies a text.
  Statement& bind(int64_t value);
  Statement& bind(double value);  // NaN becomes NULL
  Statement& bind(std::string_view value);

  bool step();   // goes to the next row; false: no row is left
  void run();    // goes to the statement's end, then as reset()
  void reset();  // goes back to the statement's beginning, and drops the bound values

  // Columns of the present row, from 0. NULL is 0 or "".
  int64_t whole(int column) const;
  double number(int column) const;
  std::string text(int column) const;
  bool is_null(int column) const;

 private:
  friend class Database;
  struct Finalizer {
    void operator()(sqlite3_stmt* statement) const;
  };
  Statement(sqlite3* db, sqlite3_stmt* statement, std::string path)
      : db_(db), statement_(statement), path_(std::move(path)) {}
  void check(int result) const;

  sqlite3* db_;
  int bound_ = 0;
  std::unique_ptr<sqlite3_stmt, Finalizer> statement_;
  std::string path_;
};

class Database {
 public:
  // `path` must not go through a symbolic link (Fault::io).
  static Database open(const std::string& path, Access access);

  void execute(const std::string& statements);
  Statement prepare(std::string_view statement) const;  // must not outlive the database
  // Switches to a write-ahead log: readers and the writer do not wait for each other. Waits for other processes that
  // are switching or have just begun to write.
  void use_write_ahead_log();

  // Runs `body` in a transaction: makes all its writes durable at once, or none if `body` throws. Does not nest.
  void transact(const std::function<void()>& body);

 private:
  struct Closer {
    void operator()(sqlite3* db) const;
  };
  Database(std::unique_ptr<sqlite3, Closer> db, std::string path) : db_(std::move(db)), path_(std::move(path)) {}

  std::unique_ptr<sqlite3, Closer> db_;
  std::string path_;
};

}  // namespace estrain::sqlite
