#pragma once
// Recognises the kind of data set at a path, by the names and first bytes of its files. For `estrain init`.

#include <string>

#include "core/job/spec/job_spec.h"

namespace estrain::data {

// A section with format and paths set, and everything else at its default.
//
//   a folder with train-images-idx3-ubyte (or .gz)    idx
//   a folder with data_batch_1.bin                    cifar10
//   a folder with train.bin and test.bin              cifar100
//   a folder with train.h5 (and test.h5)              hdf5
//   a folder with train.bin and val.bin               tokens (nanoGPT's), of 16 bits
//   a folder with train/ and val/ (or test/)          what the first of them is, the second one for evaluation
//   a folder with JPEGImages/ and Annotations/        voc
//   a folder with .tar files                          webdataset
//   a folder with folders with JPEG or PNG files      images
//   an HDF5 file                                      hdf5, without a test set
//   a .npy file, one with llm.c's header              tokens
//   a .tar file                                       webdataset
//   a file without zero bytes in its first 64 KiB     text
//
// Throws Fault::usage for anything else, Fault::io if it is unreadable.
spec::DataSection recognise(const std::string& path);

}  // namespace estrain::data
