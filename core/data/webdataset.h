#pragma once
// Samples in tar archives (shards), in WebDataset's layout: files that stand one behind another and have one name up to
// the first dot are a sample; what is behind the dot says what a file is.
//
//   .jpg .jpeg .png    the image
//   .cls               its label: a number in ASCII
//   .json              or an object with the number as "cls" or "label"; looked at where there is no .cls
//   anything else      passed over
//
// The shards are a folder's .tar files by name, or one file. They are mapped, and their headers read once, when the
// data are opened: then every sample has a number, in the shards' order, and shuffling and resuming are exact as for
// any other data.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/data_files.h"
#include "core/data/photos.h"

namespace estrain::data {

class WebDataset : public PhotoSource {
 public:
  // Throws Fault::corrupt where there is no shard, one is no tar archive or cut short, or a sample lacks its image or
  // label or has two of one; it names shard and sample.
  explicit WebDataset(const DataFile& shards);

  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  int64_t label(int64_t index) const override { return at(index).label; }
  std::string name(int64_t index) const override;  // "shards/train-0003.tar: n01440764_18"
  uint64_t bytes(int64_t index) const override { return at(index).bytes; }
  std::span<const std::byte> read(int64_t index, std::vector<std::byte>& scratch) const override;

 private:
  struct Sample {
    uint64_t offset, bytes;  // of the image in its shard
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
};

// Training samples in the first of `files`, test samples in the second one, where there is one. Throws, too, where a
// label is not in [0, classes); without `classes` there is one more than the largest label of the training data.
DataPair open_webdataset(const std::vector<DataFile>& files, const spec::DataSection& section,
                         std::optional<int64_t> classes);

}  // namespace estrain::data
