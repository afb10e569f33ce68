#pragma once
// A group: a folder of groups and datasets. Names may be paths ("model/fc.weight"); groups in between are made on
// creation.
//
// Groups made here remember the order in which their children were made; children() gives it back (h5py iterates so
// too). In other files children come sorted by name. Errors: Fault::mismatch for a name that is absent or of the other
// kind; Fault::io where the system refused.

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/h5/dataset.h"

namespace estrain::h5 {

struct Child {
  enum class Kind { group, dataset, other };  // other: named types, links that lead nowhere
  std::string name;
  Kind kind;
  uint64_t address;  // Object::address() of what the name leads to
};

class Group : public Object {
 public:
  bool contains(const std::string& name) const;
  std::vector<Child> children() const;

  Group group(const std::string& name) const;
  Dataset dataset(const std::string& name) const;

  Group create_group(const std::string& name);
  // Contiguous, its space reserved at once and not filled: offset() is known before anything is written.
  // `type` is one of the types that estrain writes (any but `other`).
  Dataset create_dataset(const std::string& name, Type type, const std::vector<int64_t>& shape);
  // A second name (hard link) for what `existing` names; both relative to this group.
  void link(const std::string& existing, const std::string& name);

 private:
  friend class File;
  friend class Image;
  Group(Handle id, std::string where) : Object(std::move(id), std::move(where)) {}
  std::string path_of(const std::string& name) const;
  Error not_found(const std::string& name, Child::Kind wanted) const;
};

}  // namespace estrain::h5
