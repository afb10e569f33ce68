#include "core/formats/h5/group.h"

#include <hdf5.h>

#include "core/formats/h5/elsewhere.h"
#include "core/formats/h5/failure.h"
#include "core/formats/h5/type.h"

namespace estrain::h5 {
namespace {

constexpr unsigned keep_order = H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED;

Child describe(hid_t group, const char* name) {
  H5O_info_t info;
  const herr_t found = H5Oget_info_by_name2(group, name, &info, H5O_INFO_BASIC, H5P_DEFAULT);
  if (found < 0) {
    H5Eclear2(H5E_DEFAULT);
    return {name, Child::Kind::other, 0};
  }
  const auto kind = info.type == H5O_TYPE_GROUP     ? Child::Kind::group
                    : info.type == H5O_TYPE_DATASET ? Child::Kind::dataset
                                                    : Child::Kind::other;
  return {name, kind, info.addr};
}

herr_t collect_child(hid_t group, const char* name, const H5L_info_t*, void* children) {
  static_cast<std::vector<Child>*>(children)->push_back(describe(group, name));
  return 0;
}

bool remembers_order(hid_t group) {
  const Handle plan(H5Gget_create_plist(group), H5Pclose);
  unsigned flags = 0;
  return H5Pget_link_creation_order(plan.get(), &flags) >= 0 && (flags & keep_order) == keep_order;
}

std::string_view kind_name(Child::Kind kind) { return kind == Child::Kind::group ? "group" : "dataset"; }

// Property lists are expensive to create: the process makes a single list of each kind.
hid_t intermediate_groups() {
  static const hid_t plan = [] {
    const hid_t made = check(H5Pcreate(H5P_LINK_CREATE), Fault::bug, "link properties");
    H5Pset_create_intermediate_group(made, 1);
    H5Pset_char_encoding(made, H5T_CSET_UTF8);
    return made;
  }();
  return plan;
}

hid_t ordered_group() {
  static const hid_t plan = [] {
    const hid_t made = check(H5Pcreate(H5P_GROUP_CREATE), Fault::bug, "group properties");
    H5Pset_link_creation_order(made, keep_order);
    H5Pset_obj_track_times(made, false);
    return made;
  }();
  return plan;
}

// Creates the parent groups of `name`. HDF5 itself would create the groups with time stamps.
void make_parents(hid_t group, const std::string& name, const std::string& where) {
  for (size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
    const std::string parent = name.substr(0, slash);
    if (parent.empty() || H5Lexists(group, parent.c_str(), H5P_DEFAULT) > 0) continue;
    const hid_t made = H5Gcreate2(group, parent.c_str(), intermediate_groups(), ordered_group(), H5P_DEFAULT);
    H5Gclose(check(made, Fault::io, where));
  }
}

hid_t contiguous_unfilled() {
  static const hid_t plan = [] {
    const hid_t made = check(H5Pcreate(H5P_DATASET_CREATE), Fault::bug, "dataset properties");
    H5Pset_layout(made, H5D_CONTIGUOUS);
    H5Pset_alloc_time(made, H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(made, H5D_FILL_TIME_NEVER);
    H5Pset_obj_track_times(made, false);
    return made;
  }();
  return plan;
}

Handle space_of(const std::vector<int64_t>& shape, const std::string& where) {
  if (shape.empty()) return {check(H5Screate(H5S_SCALAR), Fault::bug, where), H5Sclose};
  const std::vector<hsize_t> sizes(shape.begin(), shape.end());
  const hid_t space = H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr);
  return {check(space, Fault::bug, where), H5Sclose};
}

}  // namespace

std::string Group::path_of(const std::string& name) const {
  return where_.ends_with('/') ? where_ + name : where_ + "/" + name;
}

bool Group::contains(const std::string& name) const {
  quiet();
  for (size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
    const std::string parent = name.substr(0, slash);
    if (!parent.empty() && H5Lexists(id_.get(), parent.c_str(), H5P_DEFAULT) <= 0) return false;
  }
  return check(H5Lexists(id_.get(), name.c_str(), H5P_DEFAULT), Fault::corrupt, path_of(name)) > 0;
}

std::vector<Child> Group::children() const {
  quiet();
  std::vector<Child> found;
  const H5_index_t order = remembers_order(id_.get()) ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME;
  check(H5Literate(id_.get(), order, H5_ITER_INC, nullptr, collect_child, &found), Fault::corrupt, where_);
  return found;
}

Error Group::not_found(const std::string& name, Child::Kind wanted) const {
  if (const std::optional<Error> refusal = take_link_refusal()) return refusal->within(path_of(name));
  Error reason = failure(Fault::corrupt, path_of(name));
  if (!contains(name))
    return Error::make(Fault::mismatch, "{}: no such {}", path_of(name), kind_name(wanted))
        .caused_by("output_node_error");
  if (describe(id_.get(), name.c_str()).kind != wanted)
    return Error::make(Fault::mismatch, "{}: is not a {}", path_of(name), kind_name(wanted));
  return reason;
}

Group Group::group(const std::string& name) const {
  quiet();
  (void)take_link_refusal();  // of another call
  const hid_t id = H5Gopen2(id_.get(), name.c_str(), H5P_DEFAULT);
  if (id < 0) throw not_found(name, Child::Kind::group);
  return {{id, H5Gclose}, path_of(name)};
}

DatasetObject Group::dataset(const std::string& name) const {
  quiet();
  (void)take_link_refusal();  // of another call
  Handle id(H5Dopen2(id_.get(), name.c_str(), H5P_DEFAULT), H5Dclose);
  if (id.get() < 0) throw not_found(name, Child::Kind::dataset);
  require_sources(id.get(), path_of(name));
  return {std::move(id), path_of(name)};
}

Group Group::create_group(const std::string& name) {
  quiet();
  const hid_t id = H5Gcreate2(id_.get(), name.c_str(), intermediate_groups(), ordered_group(), H5P_DEFAULT);
  return {{check(id, Fault::io, path_of(name)), H5Gclose}, path_of(name)};
}

DatasetObject Group::create_dataset(const std::string& name, Type type, const std::vector<int64_t>& shape) {
  quiet();
  const Handle space = space_of(shape, path_of(name));
  make_parents(id_.get(), name, path_of(name));
  const hid_t id = H5Dcreate2(id_.get(), name.c_str(), native_type(type), space.get(), intermediate_groups(),
                              contiguous_unfilled(), H5P_DEFAULT);
  return {{check(id, Fault::io, path_of(name)), H5Dclose}, path_of(name)};
}

void Group::link(const std::string& existing, const std::string& name) {
  quiet();
  make_parents(id_.get(), name, path_of(name));
  check(H5Lcreate_hard(id_.get(), existing.c_str(), id_.get(), name.c_str(), intermediate_groups(), H5P_DEFAULT),
        Fault::io, path_of(name));
}

}  // namespace estrain::h5
