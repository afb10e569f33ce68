#pragma once
// A dataset: an array of numbers of any rank, stored little-endian and in C order.
//
// Reading converts from any integer or float type, byte order, chunking or compression in the file. If the
// elements in the file are laid out as in memory, offset() is their place: then pread or mmap is faster
// than reading through HDF5, and avoids HDF5's global lock. Errors: Fault::mismatch for a dataset without
// numbers or a range outside the dataset, Fault::corrupt if HDF5 cannot read or a
// stored chunk is too short (chunks.h), Fault::io if the system refused.

#include <optional>
#include <vector>

#include "core/formats/h5/object.h"
#include "core/formats/h5/type.h"

namespace estrain::h5 {

class DatasetObject : public Object {
 public:
  const std::vector<int64_t>& shape() const { return shape_; }  // empty: a scalar
  int64_t elements() const;
  Type type() const { return type_; }        // as stored; `other` for half precision, strings, compounds
  bool numeric() const { return numeric_; }  // whether read() can convert the elements
  bool is_float() const { return float_; }   // of any precision

  // Returns the file of the dataset: a different file than the group's if a link leads to another file (elsewhere.h).
  std::string file() const;

  // Returns the bytes from the start of file() to element 0, if the elements are contiguous, in native byte order and
  // of type type(). Returns nothing for chunked, compressed, foreign-endian, empty or unallocated datasets.
  std::optional<uint64_t> offset() const;

  // Throws Fault::mismatch naming a filter needed for reading and not available (filters.h).
  void require_readable() const;
  // Reads all elements, converted to `as`, into `out`, which must have space for elements() elements.
  void read(Type as, void* out) const;
  // Reads `count` rows (entries of the first dimension) from row `first`.
  void read_rows(Type as, int64_t first, int64_t count, void* out) const;

  // Writes all elements, converted from `from`.
  void write(Type from, const void* elements);

 private:
  friend class Group;
  DatasetObject(Handle id, std::string where);
  void require_whole_chunks(int64_t first, int64_t count) const;  // of these rows, and of all sources (chunks.h)

  std::vector<int64_t> shape_;
  Type type_ = Type::other;
  bool numeric_ = false, float_ = false;
  bool native_ = false;  // stored as in memory
  mutable bool has_whole_chunks_ = false, has_whole_sources_ = false;
};

}  // namespace estrain::h5
