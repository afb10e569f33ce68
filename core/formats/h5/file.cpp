#include "core/formats/h5/file.h"

#include <fcntl.h>
#include <hdf5.h>

#include "core/base/files/input_file.h"
#include "core/formats/h5/failure.h"
#include "core/formats/h5/open_file.h"

namespace estrain::h5 {
namespace {

Handle access_plan() {
  Handle plan(check(H5Pcreate(H5P_FILE_ACCESS), Fault::bug, "file access properties"), H5Pclose);
  H5Pset_file_locking(plan.get(), false, true);
  return plan;
}

Handle creation_plan() {
  Handle plan(check(H5Pcreate(H5P_FILE_CREATE), Fault::bug, "file creation properties"), H5Pclose);
  H5Pset_link_creation_order(plan.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
  return plan;
}

// Reports the system's reason, which HDF5 would hide.
void require_regular_file(const std::string& path, int flags) { (void)open_input(path, flags); }

}  // namespace

Handle open_file(const std::string& path, unsigned mode) {
  const Handle access = access_plan();
  return {check(H5Fopen(path.c_str(), mode, access.get()), Fault::corrupt, path), H5Fclose};
}

File File::open(const std::string& path) {
  quiet();
  require_regular_file(path, O_RDONLY);
  return {open_file(path, H5F_ACC_RDONLY), path};
}

File File::open_for_update(const std::string& path) {
  quiet();
  require_regular_file(path, O_RDWR);
  return {open_file(path, H5F_ACC_RDWR), path};
}

File File::create(const std::string& path) {
  quiet();
  const Handle creation = creation_plan(), access = access_plan();
  const hid_t id = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), access.get());
  return {{check(id, Fault::io, path), H5Fclose}, path};
}

Group File::root() const {
  quiet();
  const hid_t id = H5Gopen2(id_.get(), "/", H5P_DEFAULT);
  return {{check(id, Fault::corrupt, path_), H5Gclose}, path_ + ": /"};
}

void File::close() {
  quiet();
  check(H5Fflush(id_.get(), H5F_SCOPE_LOCAL), Fault::io, path_);
  check(H5Fclose(id_.release()), Fault::io, path_);
}

}  // namespace estrain::h5
