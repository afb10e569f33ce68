#include "core/formats/h5/image/image.h"

#include <hdf5.h>

#include <algorithm>
#include <cstring>

#include "core/formats/h5/failure.h"

namespace estrain::h5 {
namespace {

// The file of FileImage's HDF5 driver. HDF5 allocates and frees this struct through open and close; `base` must come
// first.
struct ImageFile {
  H5FD_t base{};
  FileImage::Store* store = nullptr;
  haddr_t end_of_allocation = 0;
};

ImageFile* image(H5FD_t* file) { return reinterpret_cast<ImageFile*>(file); }
const ImageFile* image(const H5FD_t* file) { return reinterpret_cast<const ImageFile*>(file); }

H5FD_t* open_image(const char*, unsigned, hid_t access, haddr_t) {
  const auto* store = static_cast<FileImage::Store* const*>(H5Pget_driver_info(access));
  if (store == nullptr) return nullptr;
  auto* file = new ImageFile;
  file->store = *store;
  return &file->base;
}

herr_t close_image(H5FD_t* file) {
  delete image(file);
  return 0;
}

herr_t query(const H5FD_t*, unsigned long* features) {
  *features = H5FD_FEAT_AGGREGATE_METADATA;
  return 0;
}

haddr_t get_eoa(const H5FD_t* file, H5FD_mem_t) { return image(file)->end_of_allocation; }

herr_t set_eoa(H5FD_t* file, H5FD_mem_t, haddr_t end) {
  image(file)->end_of_allocation = end;
  return 0;
}

haddr_t get_eof(const H5FD_t* file, H5FD_mem_t) { return image(file)->store->length; }

herr_t read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t at, size_t size, void* bytes) {
  image(file)->store->bytes.read(at, static_cast<std::byte*>(bytes), size);
  return 0;
}

herr_t write(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t at, size_t size, const void* bytes) {
  image(file)->store->bytes.write(at, static_cast<const std::byte*>(bytes), size);
  return 0;
}

// Called at flush and close: the file ends after the last allocation.
herr_t truncate(H5FD_t* file, hid_t, hbool_t) {
  image(file)->store->length = image(file)->end_of_allocation;
  return 0;
}

H5FD_class_t driver_class() {
  H5FD_class_t driver{};
  driver.name = "estrain_image";
  driver.maxaddr = haddr_t{1} << 62;
  driver.fc_degree = H5F_CLOSE_WEAK;
  driver.fapl_size = sizeof(FileImage::Store*);
  driver.open = open_image;
  driver.close = close_image;
  driver.query = query;
  driver.get_eoa = get_eoa;
  driver.set_eoa = set_eoa;
  driver.get_eof = get_eof;
  driver.read = read;
  driver.write = write;
  driver.truncate = truncate;
  constexpr H5FD_mem_t one_free_list_per_kind[] = H5FD_FLMAP_DEFAULT;
  std::copy(std::begin(one_free_list_per_kind), std::end(one_free_list_per_kind), std::begin(driver.fl_map));
  return driver;
}

hid_t driver_id() {
  static const H5FD_class_t driver = driver_class();
  static const hid_t id = check(H5FDregister(&driver), Fault::bug, "image driver");
  return id;
}

// A file access property list for files in `store`; at close, store->length is the end of the file.
Handle image_access_plan(FileImage::Store* store) {
  Handle plan(check(H5Pcreate(H5P_FILE_ACCESS), Fault::bug, "file access properties"), H5Pclose);
  check(H5Pset_driver(plan.get(), driver_id(), &store), Fault::bug, "image driver");
  return plan;
}

Handle creation_plan(const ImageOptions& options) {
  Handle plan(check(H5Pcreate(H5P_FILE_CREATE), Fault::bug, "file creation properties"), H5Pclose);
  check(H5Pset_userblock(plan.get(), options.user_block), Fault::bug, "user block");
  H5Pset_link_creation_order(plan.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
  H5Pset_obj_track_times(plan.get(), false);
  return plan;
}

}  // namespace

FileImage FileImage::create(const ImageOptions& options) {
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

FileImage FileImage::open(SparseBytes structure, uint64_t length, const std::string& path) {
  quiet();
  auto store = std::make_unique<Store>(Store{std::move(structure), length});
  const Handle access = image_access_plan(store.get());
  const hid_t id = H5Fopen("image", H5F_ACC_RDONLY, access.get());
  Handle file(check(id, Fault::corrupt, path), H5Fclose);
  return {std::move(store), std::move(file), path};
}

Group FileImage::root() const {
  quiet();
  const hid_t id = H5Gopen2(id_.get(), "/", H5P_DEFAULT);
  return {{check(id, Fault::corrupt, path_), H5Gclose}, path_ + ": /"};
}

void FileImage::finish() {
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
