#include "core/state/record/logs/appended_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/error.h"
#include "core/base/files/own_file.h"

namespace estrain::record {

AppendedFile::AppendedFile(std::string path, uint64_t keep)
    : path_(std::move(path)), fd_(open_own_file(path_, O_WRONLY | O_CREAT)), size_(keep) {
  if (::ftruncate(fd_.get(), static_cast<off_t>(size_)) != 0) throw system_error("cannot shorten " + path_, errno);
}

void AppendedFile::append(std::string_view content) {
  uint64_t end = size_;
  while (!content.empty()) {
    const ssize_t written = ::pwrite(fd_.get(), content.data(), content.size(), static_cast<off_t>(end));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const Error refused = system_error("cannot write " + path_, errno);
      // If even this fails, a torn record stays at the end until the next append overwrites it.
      [[maybe_unused]] const int cut = ::ftruncate(fd_.get(), static_cast<off_t>(size_));
      throw Error(refused);
    }
    end += static_cast<uint64_t>(written);
    content.remove_prefix(static_cast<size_t>(written));
  }
  size_ = end;
}

}  // namespace estrain::record
