#include "core/pool/daemon/chronicle.h"

#include <doctest/doctest.h>

#include "tests/scratch_folder.h"

namespace estrain::pool {
namespace {

size_t lines_in(const ServedPool& pool) { return Ledger::open(pool.directory.database()).history().size(); }

TEST_CASE("news are on the disk after a save, once, and a disk that takes none is waited for") {
  const ScratchFolder folder;
  ServedPool pool(folder.path(), "nodeA");
  Chronicle chronicle(pool);
  dispatch::State state = chronicle.load();
  state.policy = "fifo";
  pool.dispatcher.emplace(std::move(state), dispatch::Settings{});
  chronicle.carry_out(dispatch::Note{0, "joined", 2, "host nodeB"});
  CHECK(lines_in(pool) == 0);
  chronicle.save();
  CHECK(lines_in(pool) == 1);
  chronicle.save_all();
  CHECK(lines_in(pool) == 1);
  auto other = sqlite::Database::open(pool.directory.database(), sqlite::Access::read_write);
  other.execute("CREATE TRIGGER full BEFORE INSERT ON history BEGIN SELECT RAISE(ABORT, 'no room'); END");
  chronicle.add({1, 0, "lost", 0, "host nodeB"});
  chronicle.save_all();
  CHECK(lines_in(pool) == 1);
  other.execute("DROP TRIGGER full");
  chronicle.save_all();
  CHECK(lines_in(pool) == 2);
}

}  // namespace
}  // namespace estrain::pool
