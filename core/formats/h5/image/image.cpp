#include "core/formats/h5/image/image.h"

#include <hdf5.h>

#include <algorithm>
#include <cstring>

#include "core/formats/h5/failure.h"
#include "core/formats/h5/image/image_driver.h"

namespace estrain::h5 {
namespace {

Handle creation_plan(const ImageOptions& options) {
  Handle plan(check(H5Pcreate(H5P_FILE_CREATE), Fault::bug, "file creation properties"), H5Pclose);
  check(H5Pset_userblock(plan.get(), options.user_block), Fault::bug, "user block");
  H5Pset_link_creation_order(plan.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
  H5Pset_obj_track_times(plan.get(), false);
  return plan;
}

}  // namespace

Image Image::create(const ImageOptions& options) {
  quiet();
  auto store = std::make_unique<Store>();
  const Handle access = image_access_plan(store.get());
  H5Pset_meta_block_size(access.get(), options.metadata_block);
  H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_V18);
  const Handle creation = creation_plan(options);
  const hid_t id = H5Fcreate("image", H5F_ACC_TRUNC, creation.get(), access.get());
  Handle file(check(id, Fault::bug, "create an HDF5 image"), H5Fclose);
  return {std::move(store), std::move(file), "image"};
}

Image Image::open(SparseBytes structure, uint64_t length, const std::string& path) {
  quiet();
  auto store = std::make_unique<Store>(Store{std::move(structure), length});
  const Handle access = image_access_plan(store.get());
  const hid_t id = H5Fopen("image", H5F_ACC_RDONLY, access.get());
  Handle file(check(id, Fault::corrupt, path), H5Fclose);
  return {std::move(store), std::move(file), path};
}

Group Image::root() const {
  quiet();
  const hid_t id = H5Gopen2(id_.get(), "/", H5P_DEFAULT);
  return {{check(id, Fault::corrupt, path_), H5Gclose}, path_ + ": /"};
}

void Image::finish() {
  quiet();
  check(H5Fclose(id_.release()), Fault::bug, "finish an HDF5 image");
}

template <typename Visit>
void SparseBytes::for_each_page(uint64_t offset, size_t size, Visit&& visit) {
  for (size_t done = 0; done < size;) {
    const uint64_t at = offset + done;
    const size_t in_page = at % page_size;
    const size_t span = std::min(size - done, page_size - in_page);
    visit(at / page_size, in_page, done, span);
    done += span;
  }
}

void SparseBytes::write(uint64_t offset, const std::byte* bytes, size_t size) {
  for_each_page(offset, size, [&](uint64_t number, size_t in_page, size_t done, size_t span) {
    std::unique_ptr<Page>& page = pages_[number];
    if (!page) page = std::make_unique<Page>();
    std::memcpy(page->data() + in_page, bytes + done, span);
  });
}

void SparseBytes::read(uint64_t offset, std::byte* bytes, size_t size) const {
  for_each_page(offset, size, [&](uint64_t number, size_t in_page, size_t done, size_t span) {
    const auto page = pages_.find(number);
    if (page == pages_.end())
      std::memset(bytes + done, 0, span);
    else
      std::memcpy(bytes + done, page->second->data() + in_page, span);
  });
}

}  // namespace estrain::h5
