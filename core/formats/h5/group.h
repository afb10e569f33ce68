#pragma once
// A group: a folder of groups and datasets. Names may be paths ("model/fc.weight"); missing groups in between are
// created.
//
// Groups created by this class remember the order of their children, and children() returns this order (h5py iterates
// in the same order). In files from elsewhere children are sorted by name. Errors: Fault::mismatch for a name that is
// absent or of the other kind; Fault::io if the system refused.

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/formats/h5/dataset.h"

namespace estrain::h5 {

struct Child {
  enum class Kind { group, dataset, other };  // other: named types, dangling links
  std::string name;
  Kind kind;
  uint64_t address;  // Object::address() of the named object
};

class Group : public Object {
 public:
  bool contains(const std::string& name) const;
  std::vector<Child> children() const;

  Group group(const std::string& name) const;
  DatasetObject dataset(const std::string& name) const;

  Group create_group(const std::string& name);
  // Creates a contiguous dataset with its space reserved but not filled: offset() is known before anything is written.
  // `type` may be any type but `other`.
  DatasetObject create_dataset(const std::string& name, Type type, const std::vector<int64_t>& shape);
  // Creates a second name (hard link) for the object `existing`; both are relative to this group.
  void link(const std::string& existing, const std::string& name);

 private:
  friend class File;
  friend class FileImage;
  Group(Handle id, std::string where) : Object(std::move(id), std::move(where)) {}
  std::string path_of(const std::string& name) const;
  Error not_found(const std::string& name, Child::Kind wanted) const;
};

}  // namespace estrain::h5
