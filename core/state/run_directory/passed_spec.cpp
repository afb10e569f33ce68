#include "core/state/run_directory/passed_spec.h"

#include "core/base/error.h"
#include "core/base/files/memory_file.h"
#include "core/job/spec/parsing/parse.h"

namespace estrain::run_directory {

UniqueFd pass_spec(const spec::JobSpec& spec) {
  return with_context("passing the job's spec on", [&] {
    UniqueFd fd = memory_file("estrain-spec", spec::to_toml(spec));
    seal_memory_file(fd.get());
    return fd;
  });
}

spec::JobSpec read_passed_spec(int fd) {
  return spec::parse_text(with_context("the job's spec", [&] { return read_memory_file(fd); }), "the job's spec");
}

}  // namespace estrain::run_directory
