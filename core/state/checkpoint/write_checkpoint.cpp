#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/files/own_file.h"
#include "core/formats/h5/image/image.h"
#include "core/state/checkpoint/bytes/byte_io.h"
#include "core/state/checkpoint/bytes/element_io.h"
#include "core/state/checkpoint/checkpoint_file.h"
#include "core/state/checkpoint/state/structure.h"

namespace estrain::checkpoint {
namespace {

constexpr uint64_t structure_per_tensor =
    512;  // approximate bytes: the structure is then contiguous, before the elements

// A file that is removed unless published.
class TemporaryFile {
 public:
  TemporaryFile(std::string final_path, Disk& disk)
      : path_(final_path + temporary_suffix),
        final_path_(std::move(final_path)),
        disk_(disk),
        fd_(create_temporary(path_)) {}
  TemporaryFile(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (!published_) ::unlink(path_.c_str());
  }

  const std::string& path() const { return path_; }
  int fd() const { return fd_.get(); }

  void publish(uint64_t length) {
    if (::ftruncate(fd_.get(), static_cast<off_t>(length)) != 0) throw system_error("cannot write", errno);
    disk_.sync_file(fd_.get(), path_);
    disk_.rename(path_, final_path_);
    published_ = true;
    disk_.sync_folder(std::filesystem::path(final_path_).parent_path().string());
  }

 private:
  std::string path_, final_path_;
  Disk& disk_;
  UniqueFd fd_;
  bool published_ = false;
};

// The place of a tensor's elements.
struct Place {
  uint64_t offset;
  size_t tensor;
};

std::vector<Place> places_of(const std::vector<h5::DatasetObject>& datasets) {
  std::vector<Place> places;
  for (size_t i = 0; i < datasets.size(); ++i)
    if (const std::optional<uint64_t> offset = datasets[i].offset()) places.push_back({*offset, i});
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.offset < b.offset; });
  return places;
}

uint64_t end_of(const Place& place, const StateLayout& layout) {
  return place.offset + layout.tensors[place.tensor].bytes();
}

std::vector<Extent> write_all_elements(ElementWriter& writer, const std::vector<Place>& places,
                                       const StateLayout& layout, const std::byte* state) {
  std::vector<Extent> extents;
  for (const Place& place : places) {
    const StateTensor& tensor = layout.tensors[place.tensor];
    const uint64_t digest = writer.write(place.offset, state + tensor.offset, tensor.bytes());
    extents.push_back({place.offset, tensor.bytes(), digest});
  }
  writer.finish();
  return extents;
}

std::vector<uint64_t> digests_by_tensor(const std::vector<Place>& places, const std::vector<Extent>& extents,
                                        size_t num_tensors) {
  std::vector<uint64_t> digests(num_tensors, 0);
  for (size_t i = 0; i < places.size(); ++i) digests[places[i].tensor] = extents[i].digest;
  return digests;
}

bool all_zero(const std::vector<std::byte>& bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

void write_structure_and_seal(int fd, const h5::FileImage& image, Seal seal) {
  std::vector<std::byte> bytes;
  for (const FileStretch& stretch : structure_of(seal)) {
    bytes.resize(stretch.bytes);
    image.read(stretch.offset, bytes.data(), bytes.size());
    seal.structure += digest_of(stretch, bytes.data());
    // Unwritten parts already read as zeros.
    if (!all_zero(bytes)) write_bytes(fd, stretch.offset, bytes.data(), bytes.size());
  }
  const std::vector<std::byte> block = encode(seal);
  write_bytes(fd, 0, block.data(), block.size());
}

// Returns the length of the file.
uint64_t write_file(const TemporaryFile& file, const StateLayout& layout, const std::byte* state,
                    const CheckpointMeta& meta) {
  const uint64_t user_block = user_block_for(layout.tensors.size());
  const uint64_t structure = std::bit_ceil(structure_per_tensor * layout.tensors.size() + 4096);
  h5::FileImage image = h5::FileImage::create({.user_block = user_block, .metadata_block = structure});
  std::vector<Extent> extents;
  {
    h5::Group root = image.root();
    std::vector<h5::DatasetObject> datasets = create_structure(root, layout, meta);
    const std::vector<Place> places = places_of(datasets);
    ElementWriter writer(file.path(), file.fd(), places.empty() ? 0 : end_of(places.back(), layout));
    extents = write_all_elements(writer, places, layout, state);
    set_digests(root, datasets, digests_by_tensor(places, extents, datasets.size()), layout, meta);
  }
  image.finish();
  write_structure_and_seal(file.fd(), image, {user_block, image.length(), 0, std::move(extents)});
  return image.length();
}

}  // namespace

void write_checkpoint(const std::string& path, const StateLayout& layout, const std::byte* state,
                      const CheckpointMeta& meta, Disk& disk) {
  with_context("cannot save checkpoint " + path, [&] {
    TemporaryFile file(path, disk);
    file.publish(write_file(file, layout, state, meta));
  });
}

}  // namespace estrain::checkpoint
