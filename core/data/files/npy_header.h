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
  uint64_t length = 0;  // declared number of elements; the file may have fewer
  size_t offset = 0;    // bytes before the first element

  // Whether the content begins as a .npy file.
  static bool is_in(const FileBytes& content);
  // Reads the header of a file for which is_in() is true. Throws Fault::corrupt if the header is cut short; and, with
  // `advice`, if a key is missing, for Fortran order, and for another number of dimensions. Accepts any type.
  static NpyHeader read(const DataFile& file, const std::string& advice);
};

// Returns Fault::corrupt: "FILE: the array WHAT", with `advice`. `what`: "holds '<f8'".
Error unfit_array(const DataFile& file, const std::string& what, const std::string& advice);

}  // namespace estrain::data
