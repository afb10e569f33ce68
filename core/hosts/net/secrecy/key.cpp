#include "core/hosts/net/secrecy/key.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "core/base/error.h"
#include "core/base/files/unique_fd.h"

namespace estrain::net {
namespace {

void require_private(const std::string& path, int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw system_error("cannot look at " + path, errno);
  if (!S_ISREG(status.st_mode) || status.st_size != static_cast<off_t>(key_bytes))
    throw Error::make(Fault::usage, "{}: a network key is a file of {} bytes", path, key_bytes)
        .advise("take the `network.key` of the run directory");
  if (status.st_uid != ::geteuid() || (status.st_mode & 077) != 0)
    throw Error::make(Fault::usage, "{}: the network key must belong to you, and no other user may read it", path)
        .advise("chmod 600 " + path);
}

// Writes the random bytes under another name first, so that no process finds a part of the key.
void make(const std::string& path) {
  std::string beside = path + ".XXXXXX";  // process ids repeat: containers begin with the same ids
  UniqueFd fd(::mkostemp(beside.data(), O_CLOEXEC));
  if (!fd) throw system_error("cannot make " + beside, errno);
  std::array<std::byte, key_bytes> bytes;
  const bool drawn = ::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
  const bool written = drawn && ::write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()) &&
                       ::fsync(fd.get()) == 0;
  const int failure = errno;
  ::OPENSSL_cleanse(bytes.data(), bytes.size());
  const bool linked = written && (::link(beside.c_str(), path.c_str()) == 0 || errno == EEXIST);
  const int not_linked = errno;
  ::unlink(beside.c_str());
  if (!written) throw system_error("cannot write " + beside, failure);
  if (!linked) throw system_error("cannot make " + path, not_linked);
}

}  // namespace

SharedKey::~SharedKey() { ::OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

SharedKey SharedKey::read(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));  // the file may be a FIFO
  if (!fd) throw system_error("cannot read the network key " + path, errno);
  require_private(path, fd.get());
  SharedKey key({});
  if (::read(fd.get(), key.bytes_.data(), key_bytes) != static_cast<ssize_t>(key_bytes))
    throw system_error("cannot read the network key " + path, errno);
  return key;
}

SharedKey SharedKey::read_or_make(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0) make(path);
  return read(path);
}

}  // namespace estrain::net
