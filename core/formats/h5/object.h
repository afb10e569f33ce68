#pragma once
// The common part of groups and datasets: a place for messages, an identity, and attributes.
//
// Attributes are scalars: int64, uint64, float64, or a variable-length UTF-8 string (of any length; h5py reads the
// string as str). Reading converts between number types. Errors: Fault::mismatch for an attribute that is absent or of
// another class, naming file, object and attribute; Fault::io if the system refused.

#include <string>
#include <string_view>
#include <vector>

#include "core/formats/h5/handle.h"

namespace estrain::h5 {

class Object {
 public:
  // "FILE: /model/fc.weight", for messages.
  const std::string& where() const { return where_; }
  // Returns the object's address: equal for two names (hard links) of the same object of a file.
  uint64_t address() const;

  bool has(const std::string& attribute) const;
  std::vector<std::string> attributes() const;  // names, sorted

  int64_t get_i64(const std::string& attribute) const;
  uint64_t get_u64(const std::string& attribute) const;
  double get_f64(const std::string& attribute) const;
  std::string get_string(const std::string& attribute) const;

  // Creates the attribute or overwrites an existing value (which must be of the same type).
  void set_i64(const std::string& attribute, int64_t value);
  void set_u64(const std::string& attribute, uint64_t value);
  void set_f64(const std::string& attribute, double value);
  void set_string(const std::string& attribute, const std::string& value);

 protected:
  Object(Handle id, std::string where) : id_(std::move(id)), where_(std::move(where)) {}

  Handle id_;
  std::string where_;

 private:
  Handle open_attribute(const std::string& name) const;
  void read_number(const std::string& name, int64_t memory_type, void* value) const;
  void write(const std::string& name, int64_t type, const void* value);
};

}  // namespace estrain::h5
