#include "core/formats/h5/dataset.h"

#include <hdf5.h>

#include <functional>
#include <numeric>

#include "core/formats/h5/chunks.h"
#include "core/formats/h5/elsewhere.h"
#include "core/formats/h5/failure.h"
#include "core/formats/h5/filters.h"
#include "core/formats/h5/type.h"

namespace estrain::h5 {
namespace {

// A damaged file may declare any sizes. Every partial product, in bytes, must fit into 64 bits.
void require_countable(const std::vector<hsize_t>& sizes, const std::string& where) {
  constexpr hsize_t most = INT64_MAX / sizeof(double);
  hsize_t elements = 1;
  for (const hsize_t size : sizes) {
    if (size > 0 && (__builtin_mul_overflow(elements, size, &elements) || elements > most))
      throw Error::make(Fault::corrupt, "{}: declares more elements than any file has", where);
  }
}

std::vector<int64_t> shape_of(hid_t dataset, const std::string& where) {
  const Handle space(check(H5Dget_space(dataset), Fault::corrupt, where), H5Sclose);
  const int rank = check(H5Sget_simple_extent_ndims(space.get()), Fault::corrupt, where);
  std::vector<hsize_t> sizes(static_cast<size_t>(rank));
  check(H5Sget_simple_extent_dims(space.get(), sizes.data(), nullptr), Fault::corrupt, where);
  require_countable(sizes, where);
  return {sizes.begin(), sizes.end()};
}

}  // namespace

DatasetObject::DatasetObject(Handle id, std::string where) : Object(std::move(id), std::move(where)) {
  shape_ = shape_of(id_.get(), where_);
  const Handle stored(check(H5Dget_type(id_.get()), Fault::corrupt, where_), H5Tclose);
  const H5T_class_t kind = H5Tget_class(stored.get());
  float_ = kind == H5T_FLOAT;
  type_ = type_of(stored.get());
  numeric_ = kind == H5T_INTEGER || kind == H5T_FLOAT || type_ == Type::boolean;
  native_ = type_ == Type::boolean || (type_ != Type::other && H5Tequal(stored.get(), native_type(type_)) > 0);
}

int64_t DatasetObject::elements() const {
  return std::accumulate(shape_.begin(), shape_.end(), int64_t{1}, std::multiplies<>());
}

// Only a contiguous dataset has an offset; a chunked, compact, external or unallocated dataset has no offset.
std::optional<uint64_t> DatasetObject::offset() const {
  quiet();
  if (!native_ || elements() == 0) return std::nullopt;
  const haddr_t at = H5Dget_offset(id_.get());
  if (at == HADDR_UNDEF) return std::nullopt;
  return at;
}

std::string DatasetObject::file() const {
  quiet();
  const ssize_t length = check(H5Fget_name(id_.get(), nullptr, 0), Fault::corrupt, where_);
  std::string name(static_cast<size_t>(length) + 1, '\0');
  H5Fget_name(id_.get(), name.data(), name.size());
  name.pop_back();
  return name;
}

void DatasetObject::require_readable() const {
  quiet();
  h5::require_filters(id_.get(), where_);
}

void DatasetObject::require_whole_chunks(int64_t first, int64_t count) const {
  if (!shape_.empty() && !has_whole_chunks_) has_whole_chunks_ = require_stored_chunks(id_.get(), first, count, where_);
  if (!has_whole_sources_) require_sources(id_.get(), where_, true);
  has_whole_sources_ = true;
}

void DatasetObject::read(Type as, void* out) const {
  require_readable();
  if (!numeric_) throw Error::make(Fault::mismatch, "{}: holds no numbers", where_);
  if (elements() == 0) return;
  require_whole_chunks(0, shape_.empty() ? 0 : shape_[0]);
  check(H5Dread(id_.get(), native_type(as), H5S_ALL, H5S_ALL, H5P_DEFAULT, out), Fault::corrupt, where_);
}

void DatasetObject::read_rows(Type as, int64_t first, int64_t count, void* out) const {
  require_readable();
  if (!numeric_) throw Error::make(Fault::mismatch, "{}: holds no numbers", where_);
  if (shape_.empty() || first < 0 || count < 0 || first > shape_[0] - count)
    throw Error::make(Fault::mismatch, "{}: rows {} to {} of an array of shape {}", where_, first, first + count,
                      shape_text(shape_));
  if (count == 0 || elements() == 0) return;
  require_whole_chunks(first, count);
  std::vector<hsize_t> start(shape_.size(), 0), size(shape_.begin(), shape_.end());
  start[0] = static_cast<hsize_t>(first);
  size[0] = static_cast<hsize_t>(count);
  const Handle file_space(check(H5Dget_space(id_.get()), Fault::corrupt, where_), H5Sclose);
  check(H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, start.data(), nullptr, size.data(), nullptr), Fault::bug,
        where_);
  const Handle memory_space(
      check(H5Screate_simple(static_cast<int>(size.size()), size.data(), nullptr), Fault::bug, where_), H5Sclose);
  check(H5Dread(id_.get(), native_type(as), memory_space.get(), file_space.get(), H5P_DEFAULT, out), Fault::corrupt,
        where_);
}

void DatasetObject::write(Type from, const void* elements_in) {
  quiet();
  if (elements() == 0) return;
  check(H5Dwrite(id_.get(), native_type(from), H5S_ALL, H5S_ALL, H5P_DEFAULT, elements_in), Fault::io, where_);
}

}  // namespace estrain::h5
