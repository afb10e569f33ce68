#pragma once

#include <doctest/doctest.h>
#include <hdf5.h>

#include <vector>

namespace estrain::data {

// Adds a dataset that is never written: the chunks take no space.
inline void add_unwritten(hid_t file, const char* name, hid_t type, const std::vector<hsize_t>& sizes) {
  const std::vector<hsize_t> chunk(sizes.size(), 1), unlimited(sizes.size(), H5S_UNLIMITED);
  const hid_t space = H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), unlimited.data());
  const hid_t plan = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(plan, static_cast<int>(chunk.size()), chunk.data());
  const hid_t dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, plan, H5P_DEFAULT);
  REQUIRE(dataset >= 0);
  H5Dclose(dataset);
  H5Pclose(plan);
  H5Sclose(space);
}

}  // namespace estrain::data
