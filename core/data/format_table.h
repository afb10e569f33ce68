#pragma once
// Holds the table of the data formats, with a row for each format; scans and recognises data by the table. Everything
// that a spec knows of a format is a row of core/job/spec/data_formats.h.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/data/formats/format.h"
#include "core/job/spec/job_spec.h"

namespace estrain::data {

struct FormatRow {
  spec::DataFormat name;
  const Format& (*format)();
};

// The rows. recognise() tries the formats in this order.
std::span<const FormatRow> format_table();

// The data sets known to recognise(), in words, for a message.
extern const char* const recognised_data;

// The format of a section. Throws Fault::bug if the format has no row.
const Format& format_of(const spec::DataSection& section);

// The files named by a section, in an order fixed by the format, training before test; empty for synthetic data. Throws
// Fault::spec where a needed key is empty, Fault::io where an idx folder lacks a standard name.
std::vector<FileName> file_names(const spec::DataSection& section);

// Scans a job's data for every possible mistake, before the job starts, and reports all mistakes: unreadable files,
// headers and sizes, every label, transforms. open() (dataset.h) refuses the same files, but stops at the first
// mistake.
//
// The cost is decompression plus one pass over labels, tokens and the first part of a text; pixels are checked only if
// compressed (photos/photo_scan.h).
//
// text_context, classes, arrays: as for open(). A mistake in the files is a finding, not an exception.
DataScan scan(const spec::DataSection& section, int64_t text_context, std::optional<int64_t> classes = std::nullopt,
              const std::vector<std::string>& arrays = {});

// Recognises the kind of data set at a path, by the names and first bytes of its files. For `estrain init`.
// Returns a section with format and paths set, and every further key at the default.
//
//   a folder with train-images-idx3-ubyte (or .gz)    idx
//   a folder with data_batch_1.bin                    cifar10
//   a folder with train.bin and test.bin              cifar100
//   a folder with train.h5 (and test.h5)              hdf5
//   a folder with train.bin and val.bin               tokens (nanoGPT's), of 16 bits
//   a folder with train/ and val/ (or test/)          as the first of the two folders; the second is for evaluation
//   a folder with JPEGImages/ and Annotations/        voc
//   a folder with .tar files                          webdataset
//   a folder with folders with image files            images
//   an HDF5 file                                      hdf5, without a test set
//   a .npy file, a file with llm.c's header           tokens
//   a .tar file                                       webdataset
//   a file without zero bytes in its first 64 KiB     text
//
// Throws Fault::usage for anything else, Fault::io if the path is unreadable.
spec::DataSection recognise(const std::string& path);

}  // namespace estrain::data
