#include <fcntl.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/files/files.h"
#include "core/formats/h5/file.h"
#include "core/state/checkpoint/bytes/byte_io.h"
#include "core/state/checkpoint/bytes/element_io.h"
#include "core/state/checkpoint/checkpoint_file.h"
#include "core/state/checkpoint/state/structure.h"

namespace estrain::checkpoint {
namespace {

std::vector<uint64_t> present_digests(int fd, const Structure& structure) {
  std::vector<ElementRange> ranges;
  for (size_t i = 0; i < structure.offsets.size(); ++i)
    ranges.push_back({structure.offsets[i], structure.layout.tensors[i].bytes(), nullptr});
  return read_elements(fd, ranges);
}

std::vector<Extent> extents_of(const Structure& structure) {
  std::vector<Extent> extents;
  for (size_t i = 0; i < structure.offsets.size(); ++i)
    if (const uint64_t bytes = structure.layout.tensors[i].bytes())
      extents.push_back({structure.offsets[i], bytes, structure.digests[i]});
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
  return extents;
}

// Sets the digests inside the HDF5 file and returns where the elements are.
std::vector<Extent> renew_digests(const std::string& path, int fd) {
  h5::File file = h5::File::open_for_update(path);
  std::vector<Extent> extents;
  {
    h5::Group root = file.root();
    Structure structure = read_structure(root);
    structure.digests = present_digests(fd, structure);
    set_digests(root, structure.datasets, structure.digests, structure.layout, structure.meta);
    extents = extents_of(structure);
  }
  file.close();
  return extents;
}

uint64_t present_user_block(int fd) {
  std::byte head[seal_head_bytes];
  read_bytes(fd, 0, head, sizeof head);
  if (!is_seal(head)) throw Error(Fault::mismatch, "not an estrain checkpoint");
  return user_block_of(head, length_of(fd));
}

}  // namespace

void reseal(const std::string& path) {
  with_context(path, [&] {
    const UniqueFd fd = open_file(path, O_RDWR);
    const uint64_t user_block = present_user_block(fd.get());
    Seal seal = {user_block, 0, 0, renew_digests(path, fd.get())};
    if (user_block_for(seal.extents.size()) > user_block)
      throw Error(Fault::mismatch, "holds more datasets than its user block has room for");
    seal.length = length_of(fd.get());
    std::vector<std::byte> bytes;
    for (const FileStretch& stretch : structure_of(seal)) {
      bytes.resize(stretch.bytes);
      read_bytes(fd.get(), stretch.offset, bytes.data(), bytes.size());
      seal.structure += digest_of(stretch, bytes.data());
    }
    const std::vector<std::byte> block = encode(seal);
    write_bytes(fd.get(), 0, block.data(), block.size());
  });
}

}  // namespace estrain::checkpoint
