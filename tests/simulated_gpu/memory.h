#pragma once
// Blocks of memory, some of a simulated GPU. The process can access the GPU's blocks only while the GPU computes: any
// other access by the host ends the process with a stack trace.

#include <cstddef>
#include <map>
#include <mutex>

namespace estrain::simulated {

// Sorted by start address. Thread-safe.
class Pieces {
 public:
  void add(void* begin, size_t bytes);
  // Its size; 0 if there is none.
  size_t remove(void* begin);
  bool contain(const void* place);
  size_t bytes();

 protected:
  std::mutex mutex_;  // of all below
  std::map<std::byte*, size_t> pieces_;
  size_t bytes_ = 0;
};

class DeviceMemory : public Pieces {
 public:
  static DeviceMemory& of_process();

  void add(void* begin, size_t bytes);
  void open() { protect(true); }
  void close() { protect(false); }

 private:
  DeviceMemory();
  void protect(bool open);

  bool is_open_ = false;
};

}  // namespace estrain::simulated
