#include "core/formats/h5/image/image_driver.h"

#include <hdf5.h>

#include "core/formats/h5/failure.h"

namespace estrain::h5 {
namespace {

// HDF5 allocates and frees this struct through open and close; `base` must come first.
struct ImageFile {
  H5FD_t base{};
  Image::Store* store = nullptr;
  haddr_t end_of_allocation = 0;
};

ImageFile* image(H5FD_t* file) { return reinterpret_cast<ImageFile*>(file); }
const ImageFile* image(const H5FD_t* file) { return reinterpret_cast<const ImageFile*>(file); }

H5FD_t* open_image(const char*, unsigned, hid_t access, haddr_t) {
  const auto* store = static_cast<Image::Store* const*>(H5Pget_driver_info(access));
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
  driver.fapl_size = sizeof(Image::Store*);
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

}  // namespace

Handle image_access_plan(Image::Store* store) {
  Handle plan(check(H5Pcreate(H5P_FILE_ACCESS), Fault::bug, "file access properties"), H5Pclose);
  check(H5Pset_driver(plan.get(), driver_id(), &store), Fault::bug, "image driver");
  return plan;
}

}  // namespace estrain::h5
