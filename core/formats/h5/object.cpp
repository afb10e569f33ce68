#include "core/formats/h5/object.h"

#include <hdf5.h>

#include <memory>

#include "core/formats/h5/failure.h"

namespace estrain::h5 {
namespace {

static_assert(std::is_same_v<hid_t, int64_t>);

herr_t collect_name(hid_t, const char* name, const H5A_info_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

Handle string_type() {
  Handle type(check(H5Tcopy(H5T_C_S1), Fault::bug, "string type"), H5Tclose);
  H5Tset_size(type.get(), H5T_VARIABLE);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  return type;
}

struct FreeHdf5Memory {
  void operator()(char* memory) const { H5free_memory(memory); }
};

std::string read_variable_string(hid_t attribute, hid_t stored, const std::string& what) {
  Handle type(check(H5Tcopy(H5T_C_S1), Fault::bug, what), H5Tclose);
  H5Tset_size(type.get(), H5T_VARIABLE);
  H5Tset_cset(type.get(), H5Tget_cset(stored));
  char* text = nullptr;
  check(H5Aread(attribute, type.get(), &text), Fault::corrupt, what);
  std::unique_ptr<char, FreeHdf5Memory> owned(text);
  return text == nullptr ? std::string() : std::string(text);
}

std::string read_fixed_string(hid_t attribute, hid_t stored, const std::string& what) {
  std::string text(H5Tget_size(stored), '\0');
  check(H5Aread(attribute, stored, text.data()), Fault::corrupt, what);
  text.resize(std::min(text.size(), text.find('\0')));
  return text;
}

}  // namespace

uint64_t Object::address() const {
  quiet();
  H5O_info_t info;
  check(H5Oget_info2(id_.get(), &info, H5O_INFO_BASIC), Fault::corrupt, where_);
  return info.addr;
}

bool Object::has(const std::string& attribute) const {
  quiet();
  return check(H5Aexists(id_.get(), attribute.c_str()), Fault::corrupt, where_) > 0;
}

std::vector<std::string> Object::attributes() const {
  quiet();
  std::vector<std::string> names;
  check(H5Aiterate2(id_.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, collect_name, &names), Fault::corrupt, where_);
  return names;
}

Handle Object::open_attribute(const std::string& name) const {
  quiet();
  Handle attribute(H5Aopen(id_.get(), name.c_str(), H5P_DEFAULT), H5Aclose);
  if (attribute.get() < 0) {
    const Error reason = failure(Fault::corrupt, where_ + " @" + name);
    throw has(name)
        ? reason
        : Error::make(Fault::mismatch, "{}: has no attribute '{}'", where_, name).caused_by("output_node_error");
  }
  Handle space(H5Aget_space(attribute.get()), H5Sclose);
  if (H5Sget_simple_extent_npoints(space.get()) != 1)
    throw Error::make(Fault::mismatch, "{}: attribute '{}' is not a scalar", where_, name);
  return attribute;
}

void Object::read_number(const std::string& name, int64_t memory_type, void* value) const {
  const Handle attribute = open_attribute(name);
  const Handle stored(H5Aget_type(attribute.get()), H5Tclose);
  const H5T_class_t kind = H5Tget_class(stored.get());
  if (kind != H5T_INTEGER && kind != H5T_FLOAT)
    throw Error::make(Fault::mismatch, "{}: attribute '{}' is not a number", where_, name);
  check(H5Aread(attribute.get(), memory_type, value), Fault::corrupt, where_ + " @" + name);
}

int64_t Object::get_i64(const std::string& attribute) const {
  int64_t value = 0;
  read_number(attribute, H5T_NATIVE_INT64, &value);
  return value;
}

uint64_t Object::get_u64(const std::string& attribute) const {
  uint64_t value = 0;
  read_number(attribute, H5T_NATIVE_UINT64, &value);
  return value;
}

double Object::get_f64(const std::string& attribute) const {
  double value = 0;
  read_number(attribute, H5T_NATIVE_DOUBLE, &value);
  return value;
}

std::string Object::get_string(const std::string& attribute) const {
  const Handle handle = open_attribute(attribute);
  const Handle stored(H5Aget_type(handle.get()), H5Tclose);
  const std::string what = where_ + " @" + attribute;
  if (H5Tget_class(stored.get()) != H5T_STRING)
    throw Error::make(Fault::mismatch, "{}: attribute '{}' is not a string", where_, attribute);
  if (H5Tis_variable_str(stored.get()) > 0) return read_variable_string(handle.get(), stored.get(), what);
  return read_fixed_string(handle.get(), stored.get(), what);
}

void Object::write(const std::string& name, int64_t type, const void* value) {
  quiet();
  const std::string what = where_ + " @" + name;
  static const hid_t scalar = H5Screate(H5S_SCALAR);
  const hid_t id = has(name) ? H5Aopen(id_.get(), name.c_str(), H5P_DEFAULT)
                             : H5Acreate2(id_.get(), name.c_str(), type, scalar, H5P_DEFAULT, H5P_DEFAULT);
  const Handle attribute(check(id, Fault::io, what), H5Aclose);
  check(H5Awrite(attribute.get(), type, value), Fault::io, what);
}

void Object::set_i64(const std::string& attribute, int64_t value) { write(attribute, H5T_NATIVE_INT64, &value); }

void Object::set_u64(const std::string& attribute, uint64_t value) { write(attribute, H5T_NATIVE_UINT64, &value); }

void Object::set_f64(const std::string& attribute, double value) { write(attribute, H5T_NATIVE_DOUBLE, &value); }

void Object::set_string(const std::string& attribute, const std::string& value) {
  quiet();
  const char* text = value.c_str();
  write(attribute, string_type().get(), &text);
}

}  // namespace estrain::h5
