#pragma once
// Scans (format_table.h) photos: the lists, the labels, and every file's header and end; every pixel of a set of up to
// most_bytes_decoded. Several threads scan the files; findings are in file order. Findings name the first ten faulty
// files of a set and count the other faulty files.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/data/formats/format.h"
#include "core/data/photos/photos.h"

namespace estrain::data {

constexpr uint64_t most_bytes_decoded = uint64_t{256} << 20;

// Throws where an image with this header makes no sample.
using RequireFit = std::function<void(int64_t index, const image::Header& header, const SampleDraw& draw)>;

// How the images of a set are taken.
struct PhotoUse {
  RequireFit require_fit;
  image::Orientation orientation = image::Orientation::as_stored;
  bool is_training = false;
  int64_t may_be_left_out = 0;  // data.skip_bad: up to so many faulty files are warnings, not errors
};

// Scans every image of a set.
void scan_photo_set(const PhotoFiles& set, const PhotoUse& use, std::vector<Finding>& findings);

struct OpenedPhotos {
  std::unique_ptr<PhotoSource> source;
  std::string what;  // "1000 images in 10 classes"
  LeftOut left_out;
};

// Opens a set of labelled photos in a format. Called for the training set first.
using OpenPhotos = std::function<OpenedPhotos(const DataFile& file, bool is_training)>;

// Scans labelled photos of any size. `names`: the training set, and the test set if the section names a test set.
// `taken`: the endings of the files taken by the format, as the advice if files are left out.
void scan_photos(const DataRequest& request, const std::vector<FileName>& names, const OpenPhotos& open,
                 const std::string& taken, DataScan& scan);

}  // namespace estrain::data
