#include "core/pool/hosts/meeting.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "tests/scratch_folder.h"

namespace estrain::pool {
namespace {

TEST_CASE("a pool in a folder whose name is not UTF-8 writes its messages, with U+FFFD for each byte that is not") {
  const ScratchFolder folder;
  const std::string pool = folder / "latin1 \xe9\xff", shown = folder / "latin1 \xef\xbf\xbd\xef\xbf\xbd";
  std::filesystem::create_directory(pool);
  const MeetingFolder meeting(pool);
  DaemonSign sign;
  sign.folder = pool;
  sign.beat = 7;
  meeting.write(sign);
  REQUIRE(meeting.daemon().has_value());
  CHECK(meeting.daemon()->folder == shown);
  CHECK(meeting.daemon()->beat == 7);
  Task task;
  task.id = "1";
  task.run = pool + "/jobs/1";
  Orders orders;
  orders.to = "a life";
  orders.tasks = {task};
  meeting.write("nodeB", orders);
  const std::optional<Orders> read = meeting.orders("nodeB");
  REQUIRE(read.has_value());
  REQUIRE(read->tasks.size() == 1);
  CHECK(read->tasks[0].run == shown + "/jobs/1");
}

}  // namespace
}  // namespace estrain::pool
