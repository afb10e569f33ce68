#pragma once
// Pieces of memory, and which of them are a simulated GPU's. Those are in the process's reach only while the GPU
// computes: a host that touches them at another time ends the process, which says where it was.

#include <cstddef>
#include <map>
#include <mutex>

namespace estrain::simulated {

// By where they begin. Thread-safe.
class Pieces {
 public:
  void add(void* begin, size_t bytes);
  // Its size; 0: there is none.
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
