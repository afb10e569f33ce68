#include "core/formats/sqlite/database.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::sqlite {
namespace {

TEST_CASE("what is written is read again, with zero bytes and nothing at all") {
  const ScratchFolder folder;
  const std::string text("a\0b", 3);
  {
    Database db = Database::open(folder / "t.db", Access::read_write);
    db.execute("CREATE TABLE t (a INTEGER, b REAL, c TEXT)");
    Statement row = db.prepare("INSERT INTO t VALUES (?,?,?)");
    row.bind(int64_t{1} << 40).bind(0.1).bind(text).run();
    row.bind(int64_t{2}).bind(std::nan("")).bind(std::string_view("")).run();
  }
  const Database db = Database::open(folder / "t.db", Access::read_only);
  Statement rows = db.prepare("SELECT a, b, c FROM t ORDER BY a DESC");
  REQUIRE(rows.step());
  CHECK(rows.whole(0) == int64_t{1} << 40);
  CHECK(rows.number(1) == 0.1);
  CHECK(rows.text(2) == text);
  REQUIRE(rows.step());
  CHECK(rows.is_null(1));
  CHECK(rows.text(2) == "");
  CHECK_FALSE(rows.step());
}

TEST_CASE("a transaction that throws leaves no trace") {
  const ScratchFolder folder;
  Database db = Database::open(folder / "t.db", Access::read_write);
  db.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)");
  CHECK(error_of([&] {
          db.transact([&] {
            db.execute("INSERT INTO t VALUES (1)");
            throw Error(Fault::interrupted, "enough");
          });
        }).fault() == Fault::interrupted);
  CHECK(error_of([&] {
          db.transact([&] { db.execute("INSERT INTO t VALUES (2); INSERT INTO t VALUES (2)"); });
        }).fault() == Fault::bug);
  Statement count = db.prepare("SELECT count(*) FROM t");
  REQUIRE(count.step());
  CHECK(count.whole(0) == 0);
}

TEST_CASE("a folder may lie behind a symbolic link, the database may not") {
  const ScratchFolder folder;
  std::filesystem::create_directory(folder / "disk");
  std::filesystem::create_directory_symlink(folder / "disk", folder / "home");
  Database::open(folder / "home/t.db", Access::read_write).execute("CREATE TABLE t (a)");
  CHECK(std::filesystem::exists(folder / "disk/t.db"));
  std::filesystem::create_symlink(folder / "disk/t.db", folder / "link.db");
  CHECK(error_of([&] { Database::open(folder / "link.db", Access::read_write); }).fault() == Fault::io);
}

TEST_CASE("files that are missing, damaged, foreign or locked are told apart") {
  const ScratchFolder folder;
  CHECK(error_of([&] { Database::open(folder / "none.db", Access::read_only); }).fault() == Fault::io);
  folder.write("text.db", std::string(5000, 'x'));
  Database text = Database::open(folder / "text.db", Access::read_write);
  CHECK(error_of([&] { text.execute("CREATE TABLE t (a)"); }).fault() == Fault::corrupt);

  Database first = Database::open(folder / "t.db", Access::read_write);
  Database second = Database::open(folder / "t.db", Access::read_write);
  first.execute("CREATE TABLE t (a); BEGIN EXCLUSIVE");
  const Error error = error_of([&] { second.execute("INSERT INTO t VALUES (1)"); });
  CHECK(error.fault() == Fault::io);
  CHECK(error.message().find("another process holds it") != std::string::npos);
}

}  // namespace
}  // namespace estrain::sqlite
