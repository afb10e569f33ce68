#pragma once
// Reads samples in tar archives (shards), in WebDataset's layout: consecutive files with the same name up to the first
// dot form a sample; the extension tells a file's role.
//
//   .jpg .png .tif ...      the image (photo_files.h)
//   .cls                    the label: a number in ASCII
//   .json                   or an object with the number as "cls" or "label"; used without a .cls
//   other names             left out: further parts of a sample (seg.png, txt), files of no sample
//
// A file that looks like a sample and makes no sample is refused: a name with more dots ("v2.0003.png" would be the
// extension), an image of an unread kind. Names without a dot, names that begin with a dot (a Mac's ._1.jpg) and
// __folders__ are left out without ending a sample, as by the webdataset library.
//
// The shards are a folder's .tar files sorted by name, or a single file. The shards are mapped, and the headers read
// once, when the data are opened. Then every sample has a number, in the shards' order, and shuffling and resuming are
// as exact as for other data.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/formats/format.h"
#include "core/data/photos/photos.h"

namespace estrain::data {

class WebDataset : public PhotoSource {
 public:
  // Throws Fault::corrupt, naming shard and sample, if the folder has no shard, a shard is not a tar archive or is
  // truncated, or a sample does not have exactly one image and one label.
  explicit WebDataset(const DataFile& shards);

  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  int64_t label(int64_t index) const override { return at(index).label; }
  std::string name(int64_t index) const override;  // "shards/train-0003.tar: n01440764_18"
  uint64_t bytes(int64_t index) const override { return at(index).bytes; }
  std::span<const std::byte> read(int64_t index, std::vector<std::byte>& scratch) const override;
  // Members of the shards, and files of the shards' folder.
  const LeftOut& left_out() const { return left_out_; }

 private:
  struct Sample {
    uint64_t offset, bytes;  // position of the image in the shard
    int64_t label;
    uint64_t name_end;  // in names_
    uint32_t shard;
  };
  class Indexer;
  const Sample& at(int64_t index) const { return samples_[static_cast<size_t>(index)]; }

  std::shared_ptr<const FileTree> tree_;
  std::vector<FileBytes> shards_;
  std::vector<Sample> samples_;
  std::string names_;
  LeftOut left_out_;
};

const Format& webdataset_format();

}  // namespace estrain::data
