#include "core/pool/daemon/chronicle.h"

#include <doctest/doctest.h>

#include "tests/scratch_folder.h"

namespace estrain::pool {
namespace {

TEST_CASE("news are on the disk after a save, once, and a disk that takes none is waited for") {
  const ScratchFolder folder;
  const std::string path = folder / "pool.db";
  const auto lines = [&] { return Ledger::open(path).history().size(); };
  Chronicle chronicle(Ledger::open(path));
  dispatch::State state = chronicle.load();
  state.policy = "fifo";
  chronicle.note({0, "joined", 2, "host nodeB"}, state);
  CHECK(lines() == 0);
  chronicle.save(state);
  CHECK(lines() == 1);
  chronicle.save_all(state);
  CHECK(lines() == 1);
  auto other = sqlite::Database::open(path, sqlite::Access::read_write);
  other.execute("CREATE TRIGGER full BEFORE INSERT ON history BEGIN SELECT RAISE(ABORT, 'no room'); END");
  chronicle.add({1, 0, "lost", 0, "host nodeB"});
  chronicle.save_all(state);
  CHECK(lines() == 1);
  other.execute("DROP TRIGGER full");
  chronicle.save_all(state);
  CHECK(lines() == 2);
}

TEST_CASE("ends are on the disk with the state that they changed, and a disk that takes none is waited for") {
  const ScratchFolder folder;
  const std::string path = folder / "pool.db";
  const auto ends = [&] { return Ledger::open(path).ends().size(); };
  Chronicle chronicle(Ledger::open(path));
  dispatch::State state = chronicle.load();
  state.policy = "fifo";
  chronicle.keep({.job = 1, .user = "anna"});
  chronicle.save_or_throw(state);
  CHECK(ends() == 1);
  auto other = sqlite::Database::open(path, sqlite::Access::read_write);
  other.execute("CREATE TRIGGER full BEFORE INSERT ON ends BEGIN SELECT RAISE(ABORT, 'no room'); END");
  chronicle.keep({.job = 2, .user = "anna"});
  chronicle.save_all(state);
  CHECK(ends() == 1);
  other.execute("DROP TRIGGER full");
  chronicle.save_all(state);
  chronicle.save_all(state);
  CHECK(ends() == 2);
}

}  // namespace
}  // namespace estrain::pool
