#pragma once
// Owns an HDF5 identifier (hid_t, a 64-bit integer), so that only the sources of this folder need
// hdf5.h.

#include <cstdint>
#include <utility>

namespace estrain::h5 {

class Handle {
 public:
  using Close = int (*)(int64_t);

  Handle() = default;
  Handle(int64_t id, Close close) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }

  int64_t get() const { return id_; }
  int64_t release() { return std::exchange(id_, -1); }

 private:
  int64_t id_ = -1;
  Close close_ = nullptr;
};

}  // namespace estrain::h5
