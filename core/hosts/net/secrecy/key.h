#pragma once
// The key of a run's network: 32 random bytes in `network.key` in the run directory, a file readable only by its owner.
// A process with the key may take part in the run. The key stands on no command line and in no log.

#include <array>
#include <cstddef>
#include <string>

namespace estrain::net {

inline constexpr size_t key_bytes = 32;

class SharedKey {
 public:
  // Throws Fault::io if the file cannot be read, Fault::usage if the file is not 32 bytes, belongs to another user, or
  // is readable by other users.
  static SharedKey read(const std::string& path);
  // Makes the file, mode 0600, or reads an existing file.
  static SharedKey read_or_make(const std::string& path);
  explicit SharedKey(const std::array<std::byte, key_bytes>& bytes) : bytes_(bytes) {}
  SharedKey(const SharedKey&) = default;
  SharedKey& operator=(const SharedKey&) = default;
  ~SharedKey();  // leaves no copy in memory

  const std::array<std::byte, key_bytes>& bytes() const { return bytes_; }

 private:
  std::array<std::byte, key_bytes> bytes_;
};

}  // namespace estrain::net
