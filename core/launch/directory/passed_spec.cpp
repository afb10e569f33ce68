#include "core/launch/directory/passed_spec.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "core/base/error.h"
#include "core/spec/parsing/parse.h"

namespace estrain::launch {

UniqueFd pass_spec(const spec::JobSpec& spec) {
  const std::string text = spec::to_toml(spec);
  UniqueFd fd(::memfd_create("estrain-spec", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd || ::pwrite(fd.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()) ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
    throw system_error("cannot pass the job's spec on", errno);
  return fd;
}

spec::JobSpec read_passed_spec(int fd) {
  const off_t size = ::lseek(fd, 0, SEEK_END);
  std::string text(static_cast<size_t>(size < 0 ? 0 : size), '\0');
  if (size < 0 || ::pread(fd, text.data(), text.size(), 0) != size)
    throw system_error("cannot read the job's spec", errno);
  return spec::parse_text(text, "the job's spec");
}

}  // namespace estrain::launch
