#pragma once
// The key of a run's network: 32 random bytes in a file that its owner alone may read, `network.key` in the run
// directory. A process that has it may take part in the run. It stands on no command line and in no log.

#include <array>
#include <cstddef>
#include <string>

namespace estrain::net {

inline constexpr size_t key_bytes = 32;

class Key {
 public:
  // Throws Fault::io where the file cannot be read, Fault::usage where it is not 32 bytes, belongs to another user, or
  // others may read it.
  static Key read(const std::string& path);
  // Makes the file, mode 0600, or reads what is there.
  static Key read_or_make(const std::string& path);
  explicit Key(const std::array<std::byte, key_bytes>& bytes) : bytes_(bytes) {}
  Key(const Key&) = default;
  Key& operator=(const Key&) = default;
  ~Key();  // leaves no copy in memory

  const std::array<std::byte, key_bytes>& bytes() const { return bytes_; }

 private:
  std::array<std::byte, key_bytes> bytes_;
};

}  // namespace estrain::net
