// Image data in valid HDF5 files with unsuitable content: any rank, shape, type, byte order, chunks, filters, missing
// or misnamed datasets, shapes far larger than the stored data. Input: a recipe.
#include <fuzzer/FuzzedDataProvider.h>
#include <hdf5.h>

#include "tests/fuzz/read_samples.h"

namespace estrain::fuzz {
namespace {

// A dataset of small numbers; only some chunks of a large one are written.
void add_dataset(hid_t file, const char* name, FuzzedDataProvider& input) {
  const hid_t types[] = {H5T_STD_U8LE,  H5T_IEEE_F32LE, H5T_STD_I64LE, H5T_STD_U8BE, H5T_IEEE_F32BE, H5T_STD_I16BE,
                         H5T_STD_U64LE, H5T_IEEE_F64LE, H5T_STD_I8LE,  H5T_C_S1,     H5T_STD_B8LE,   H5T_STD_U32LE};
  const hid_t type = types[input.ConsumeIntegralInRange<size_t>(0, std::size(types) - 1)];
  const int rank = input.ConsumeIntegralInRange<int>(0, 5);
  const bool chunked = input.ConsumeBool() && rank > 0;
  hsize_t sizes[5], chunk[5];
  size_t elements = 1;
  for (int i = 0; i < rank; ++i) {
    const bool small = input.ConsumeIntegralInRange<int>(0, 7) != 0 || !chunked;
    sizes[i] = small ? input.ConsumeIntegralInRange<hsize_t>(0, 6)
                     : input.ConsumeIntegral<uint64_t>() >> input.ConsumeIntegralInRange<int>(0, 63);
    chunk[i] = input.ConsumeIntegralInRange<hsize_t>(1, 4);
    if (__builtin_mul_overflow(elements, sizes[i], &elements)) elements = SIZE_MAX;
  }
  const hid_t space = rank == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(rank, sizes, nullptr);
  const hid_t plan = H5Pcreate(H5P_DATASET_CREATE);
  if (chunked) H5Pset_chunk(plan, rank, chunk);
  if (chunked && input.ConsumeBool()) H5Pset_deflate(plan, 1);
  if (chunked && input.ConsumeBool()) H5Pset_shuffle(plan);
  if (!chunked && input.ConsumeIntegralInRange<int>(0, 7) == 0) H5Pset_layout(plan, H5D_COMPACT);
  const hid_t dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, plan, H5P_DEFAULT);
  if (dataset >= 0 && elements > 0 && elements <= 4096 && H5Tget_class(type) != H5T_STRING &&
      input.ConsumeIntegralInRange<int>(0, 7) != 0) {
    std::vector<int64_t> values(elements);
    for (int64_t& value : values) value = input.ConsumeIntegral<uint8_t>() % 10;
    if (input.ConsumeIntegralInRange<int>(0, 7) == 0) values[0] = -values[0];
    H5Dwrite(dataset, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  }
  if (dataset >= 0) H5Dclose(dataset);
  H5Pclose(plan);
  if (space >= 0) H5Sclose(space);
}

void cook(const std::string& path, FuzzedDataProvider& input) {
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  if (input.ConsumeBool()) H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_LATEST);
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
  require(file >= 0, "a file is made");
  const char* const second = input.ConsumeIntegralInRange<int>(0, 15) != 0 ? "labels" : "label";
  add_dataset(file, "images", input);
  if (input.ConsumeIntegralInRange<int>(0, 15) != 0)
    add_dataset(file, second, input);
  else
    H5Lcreate_soft(input.ConsumeBool() ? "/images" : "/nowhere", file, second, H5P_DEFAULT, H5P_DEFAULT);
  H5Pclose(access);
  H5Fclose(file);
}

void check(const uint8_t* data, size_t size) {
  static const MemoryFile file;
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  FuzzedDataProvider input(data, size);
  spec::DataSection section;
  section.format = spec::DataFormat::hdf5;
  section.path = file.path();
  if (input.ConsumeBool()) section.resize = {4, 4};
  if (input.ConsumeBool()) section.channels = 3;
  file.set("");
  cook(file.path(), input);
  accepts([&] { read_samples(data::open(section, 0, 1)); });
}

}  // namespace
}  // namespace estrain::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  estrain::fuzz::check(data, size);
  return 0;
}
