#include "core/state/checkpoint/checkpoint_file.h"

#include <unistd.h>

#include <cstring>
#include <map>

#include "core/base/error.h"
#include "core/base/files/input_file.h"
#include "core/formats/h5/image/image.h"
#include "core/state/checkpoint/bytes/byte_io.h"
#include "core/state/checkpoint/bytes/element_io.h"
#include "core/state/checkpoint/state/array_match.h"
#include "core/state/checkpoint/state/structure.h"

namespace estrain::checkpoint {
namespace {

bool looks_like_hdf5(int fd) {
  char signature[8] = {};
  return ::pread(fd, signature, sizeof signature, 0) == sizeof signature &&
         std::memcmp(signature, "\x89HDF\r\n\x1a\n", 8) == 0;
}

Error not_sealed(int fd, uint64_t length) {
  if (looks_like_hdf5(fd)) return Error(Fault::mismatch, "an HDF5 file, but not an estrain checkpoint");
  return Error::make(Fault::corrupt, "not an estrain checkpoint, or damaged ({} bytes)", length);
}

Seal read_seal(int fd) {
  const uint64_t length = length_of(fd);
  std::byte head[seal_head_bytes] = {};
  if (length < sizeof head) throw not_sealed(fd, length);
  read_bytes(fd, 0, head, sizeof head);
  if (!is_seal(head)) throw not_sealed(fd, length);
  std::vector<std::byte> block(user_block_of(head, length));
  read_bytes(fd, 0, block.data(), block.size());
  return decode(block, length);
}

// Reads everything but elements, checked against the seal: HDF5 then parses exactly these bytes.
h5::SparseBytes read_sealed_structure(int fd, const Seal& seal) {
  h5::SparseBytes structure;
  uint64_t digest = 0;
  std::vector<std::byte> bytes;
  for (const FileStretch& stretch : structure_of(seal)) {
    bytes.resize(stretch.bytes);
    read_bytes(fd, stretch.offset, bytes.data(), bytes.size());
    digest += digest_of(stretch, bytes.data());
    structure.write(stretch.offset, bytes.data(), bytes.size());
  }
  if (digest != seal.structure)
    throw Error(Fault::corrupt, "damaged: the digest of its structure differs from its seal");
  return structure;
}

// Checks that HDF5 and the seal agree on the elements.
void require_sealed_elements(const Structure& structure, const Seal& seal) {
  std::map<uint64_t, const Extent*> sealed;
  for (const Extent& extent : seal.extents) sealed.emplace(extent.offset, &extent);
  for (size_t i = 0; i < structure.layout.tensors.size(); ++i) {
    const StateTensor& tensor = structure.layout.tensors[i];
    if (tensor.bytes() == 0) continue;
    const auto extent = sealed.find(structure.offsets[i]);
    if (extent == sealed.end() || *extent->second != Extent{structure.offsets[i], tensor.bytes(), structure.digests[i]})
      throw Error::make(Fault::corrupt, "{}: differs from the seal", tensor.path());
  }
}

bool belongs(Role role, StatePart part) {
  return part == StatePart::everything || role == Role::parameter || role == Role::buffer;
}

// Takes a part of the layout, with unchanged offsets: offsets do not matter here.
StateLayout take(StatePart part, const StateLayout& layout) {
  StateLayout taken;
  for (const StateTensor& tensor : layout.tensors)
    if (belongs(tensor.role, part)) taken.tensors.push_back(tensor);
  for (const StateAlias& alias : layout.aliases)
    if (belongs(alias.role, part)) taken.aliases.push_back(alias);
  return taken;
}

}  // namespace

CheckpointFile CheckpointFile::open(const std::string& path) {
  CheckpointFile file;
  file.path_ = path;
  file.fd_ = open_input(path);
  with_context(path, [&] {
    const Seal seal = read_seal(file.fd_.get());
    const h5::FileImage image =
        h5::FileImage::open(read_sealed_structure(file.fd_.get(), seal), seal.length, "structure");
    Structure structure = read_structure(image.root());
    require_checksum(image.root(), structure);
    require_sealed_elements(structure, seal);
    file.meta_ = std::move(structure.meta);
    file.layout_ = std::move(structure.layout);
    file.digests_ = std::move(structure.digests);
    file.offsets_ = std::move(structure.offsets);
  });
  return file;
}

std::vector<uint64_t> CheckpointFile::read_present(const std::vector<WantedTensor>& wanted) const {
  std::vector<ElementRange> ranges;
  for (const WantedTensor& each : wanted)
    ranges.push_back({offsets_[each.tensor], layout_.tensors[each.tensor].bytes(), each.out});
  return with_context(path_, [&] { return read_elements(fd_.get(), ranges); });
}

void CheckpointFile::read_checked(const std::vector<WantedTensor>& wanted) const {
  const std::vector<uint64_t> digests = read_present(wanted);
  for (size_t i = 0; i < wanted.size(); ++i) require_digest(wanted[i].tensor, digests[i]);
}

void CheckpointFile::require_digest(size_t tensor, uint64_t present) const {
  if (present != digests_[tensor])
    throw Error::make(Fault::corrupt, "{}: {}: its elements are damaged: their digest differs", path_,
                      layout_.tensors[tensor].path());
}

std::vector<uint64_t> CheckpointFile::present_digests() const {
  std::vector<WantedTensor> all;
  for (size_t i = 0; i < layout_.tensors.size(); ++i) all.push_back({i, nullptr});
  return read_present(all);
}

void CheckpointFile::verify() const {
  const std::vector<uint64_t> present = present_digests();
  for (size_t i = 0; i < present.size(); ++i) require_digest(i, present[i]);
}

void CheckpointFile::read(size_t tensor, std::byte* out) const { read_checked({{tensor, out}}); }

void CheckpointFile::read_unchecked(size_t tensor, std::byte* out) const { read_present({{tensor, out}}); }

void CheckpointFile::read_state(const StateLayout& layout, std::byte* state, StatePart part) const {
  const StateLayout wanted_part = take(part, layout);
  with_context(path_, [&] { require_same_arrays(forms_of(wanted_part), forms_of(take(part, layout_))); });
  std::map<std::string, uint64_t> offsets;
  for (const StateTensor& tensor : wanted_part.tensors) offsets.emplace(tensor.path(), tensor.offset);
  std::vector<WantedTensor> wanted;
  for (size_t i = 0; i < layout_.tensors.size(); ++i)
    if (belongs(layout_.tensors[i].role, part)) wanted.push_back({i, state + offsets.at(layout_.tensors[i].path())});
  read_checked(wanted);
}

bool is_checkpoint(const std::string& path) {
  const UniqueFd fd = open_input(path);
  std::byte head[seal_head_bytes] = {};
  return ::pread(fd.get(), head, sizeof head, 0) == sizeof head && is_seal(head);
}

}  // namespace estrain::checkpoint
