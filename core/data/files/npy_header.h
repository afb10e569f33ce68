#pragma once
// An NpyHeader is the header of numpy's .npy file, versions 1 to 3, of an array of one dimension: a Python dictionary
// in a line of ASCII, with three keys in any order.

#include <cstdint>
#include <string>

#include "core/base/error.h"
#include "core/data/files/data_files.h"

namespace estrain::data {

struct NpyHeader {
  std::string type;     // as numpy writes a type: "<u2", "<f8", "|u1"
  uint64_t length = 0;  // declared number of elements
  size_t offset = 0;    // bytes before the first element

  // Whether the content begins as a .npy file.
  static bool is_in(const FileBytes& content);
  // Throws Fault::corrupt with `advice` if the header is cut short, or for an array of another number of dimensions.
  static NpyHeader read(const DataFile& file, const std::string& advice);
};

// Fault::corrupt: "FILE: the array WHAT", with `advice`.
Error unfit_array(const DataFile& file, const std::string& what, const std::string& advice);

}  // namespace estrain::data
