#include "core/state/run_directory/passed_spec.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include "core/job/spec/parsing/parse.h"
#include "tests/error_of.h"

namespace estrain::run_directory {
namespace {

constexpr const char* kSpec =
    "[job]\nname = \"passed\"\nests = 2\n[model]\nname = \"mlp\"\n[data]\nformat = \"synthetic\"\n[optimizer]\nlr = "
    "0.1\n[train]\nsteps = 3\n";

TEST_CASE("a spec that was passed on is the one that it was, as often as it is read") {
  const spec::JobSpec spec = spec::parse_text(kSpec, "job.toml");
  const UniqueFd fd = pass_spec(spec);
  for (int times = 0; times < 2; ++times) CHECK(spec::to_toml(read_passed_spec(fd.get())) == spec::to_toml(spec));
}

TEST_CASE("nobody can change it") {
  const UniqueFd fd = pass_spec(spec::parse_text(kSpec, "job.toml"));
  CHECK(::pwrite(fd.get(), "#", 1, 0) < 0);
  CHECK(::ftruncate(fd.get(), 0) < 0);
  CHECK(::fcntl(fd.get(), F_ADD_SEALS, 0) < 0);
}

TEST_CASE("what is no descriptor is an error") {
  CHECK(error_of([] { read_passed_spec(-1); }).fault() == Fault::io);
}

}  // namespace
}  // namespace estrain::run_directory
