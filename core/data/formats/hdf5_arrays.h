#pragma once
// Reads the datasets of an HDF5 data file: elements in memory, and named arrays as samples.
//
// Each named array is a dataset at the file's root, with samples as the first dimension. The values are integers,
// booleans as h5py stores booleans, or floating-point numbers of any size, and are used unchanged. Types unknown to
// torch are widened: uint16 to int32, uint32 and uint64 to int64.
//
// An array NAME with offsets, the array NAME.offsets, is ragged: the samples have different lengths. Sample i is the
// rows [offsets[i], offsets[i + 1]) of NAME. The offsets are N + 1 whole numbers for N samples: they begin at 0, never
// fall, and end at the number of rows. Arrays of equal lengths may share offsets by a link.
// sampling/padded_array.h tells how mini-batches have ragged arrays.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/data/files/data_files.h"
#include "core/data/formats/dataset.h"
#include "core/formats/h5/dataset.h"
#include "core/formats/h5/group.h"
#include "core/formats/program/program.h"
#include "core/job/spec/job_spec.h"

namespace estrain::data {

// The elements of a dataset in memory. Elements with the same bytes in a file as in memory are mapped, in whichever
// file the elements are (core/formats/h5/elsewhere.h). Other elements are read once: random access would decompress a
// chunk per sample under HDF5's global lock.
struct Elements {
  std::shared_ptr<const std::byte> owner;
  const std::byte* first = nullptr;
};

// All elements of `data`, as `as`. Throws as require_readable(), and Fault::corrupt where HDF5 cannot read the
// elements.
Elements elements_of(const h5::DatasetObject& data, h5::Type as, const DataFile& file);

// Checks as much of a dataset as is possible without reading the elements. `path`: the data file's. Throws
// Fault::corrupt if the dataset declares more than the dataset's files can hold, or reaches beyond the end of a file;
// Fault::mismatch for a missing filter.
void require_readable(const h5::DatasetObject& data, const std::string& path);

// Whether the file holds pictures and classes (hdf5.h) for a program with these inputs. The file has `images` and
// `labels`, and the program takes no further array by name: no input has the name of another array. If an input has the
// name `images` or `labels`, the input is float32 or integers, and both datasets have the types and ranks of pictures
// and classes. Throws Fault::io or Fault::corrupt.
bool is_labelled_pictures(const std::string& path, const std::vector<program::UserInput>& inputs);

// Throws Fault::spec naming a key of `section` that transforms pictures: arrays are used unchanged.
void refuse_transforms(const spec::DataSection& section, const std::vector<std::string>& names);

// Reads the arrays `names`, in the given order. Ragged arrays are padded by the keys of `section`. Throws
// Fault::mismatch if an array is absent (listing the existing arrays) or has an unsupported type, Fault::corrupt if the
// numbers of samples differ, an array is damaged or offsets are wrong; Fault::spec for padding that does not fit the
// arrays; Fault::io.
std::unique_ptr<Dataset> read_hdf5_arrays(const DataFile& file, const std::vector<std::string>& names,
                                          const spec::DataSection& section);

// The names of the file's arrays with as many samples as the array of the most samples, in the order of the file's
// root; then the lengths and masks of the ragged ones. Throws Fault::io or Fault::corrupt.
std::vector<std::string> array_names(const std::string& path);

// The names of the datasets at the file's root, for a message; of many the first ones.
std::string names_in(const h5::Group& root);

}  // namespace estrain::data
