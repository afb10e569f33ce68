#include "core/state/run_directory/term.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/base/files/files.h"
#include "tests/scratch_folder.h"

namespace estrain::run_directory {
namespace {

TEST_CASE("the term of a run is read as it was written last") {
  const ScratchFolder folder;
  const std::string run = folder.path();
  CHECK(!read_term(run));
  write_term(run, {123456789, 77});
  write_term(run, {2, 5});
  CHECK(read_term(run) == Term{2, 5});
  write_file_atomically(run + "/network.term", "{\"term\": \"two\"}");
  CHECK_THROWS_AS(read_term(run), Error);
}

}  // namespace
}  // namespace estrain::run_directory
