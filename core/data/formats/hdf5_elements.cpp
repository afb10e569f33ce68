#include "core/data/formats/hdf5_elements.h"

#include <filesystem>
#include <new>
#include <optional>

#include "core/base/error.h"
#include "core/data/files/file_bytes.h"
#include "core/formats/h5/elsewhere.h"

namespace estrain::data {
namespace {

uint64_t bytes_of(const h5::Dataset& data, h5::Type as) {
  return static_cast<uint64_t>(data.elements()) * h5::type_size(as);
}

uint64_t size_with_sources(const std::string& path) {
  uint64_t bytes = std::filesystem::file_size(path);
  for (const std::string& file : h5::other_files(path)) bytes += std::filesystem::file_size(file);
  return bytes;
}

// Unwritten chunks take no space, so a small file can declare more data than fit into memory. But deflate, the
// strongest filter in use, shrinks data at most to 1/1032.
void require_stored(const h5::Dataset& data, const std::string& path) {
  constexpr uint64_t most_per_byte = 1032, small = 1 << 20;
  const uint64_t announced = bytes_of(data, data.type());
  if (announced <= small || announced / most_per_byte <= std::filesystem::file_size(path)) return;
  const uint64_t stored = size_with_sources(path);
  if (announced / most_per_byte <= stored) return;
  throw Error::make(Fault::corrupt, "{}: declares {} bytes of data, but the file has {}", data.where(), announced,
                    stored)
      .advise("it was never filled, or is damaged");
}

void require_inside(const h5::Dataset& data, uint64_t offset, uint64_t size) {
  const uint64_t bytes = bytes_of(data, data.type());
  if (offset <= size && bytes <= size - offset) return;
  throw Error::make(Fault::corrupt, "{}: truncated: it ends at byte {} of its file, the file at {}", data.where(),
                    offset + bytes, size)
      .advise("download the file again");
}

Elements read_elements(const h5::Dataset& data, h5::Type as) {
  constexpr std::align_val_t alignment{64};
  auto* memory = static_cast<std::byte*>(::operator new(bytes_of(data, as), alignment));
  Elements elements = {{memory, [](const std::byte* p) { ::operator delete(const_cast<std::byte*>(p), alignment); }},
                       memory};
  data.read(as, memory);
  return elements;
}

}  // namespace

Elements elements_of(const h5::Dataset& data, h5::Type as, const DataFile& file) {
  require_stored(data, file.path);
  const std::optional<uint64_t> offset = data.offset();
  if (!offset || as != data.type() || *offset % h5::type_size(as) != 0) return read_elements(data, as);
  const std::string path = data.file();
  const FileBytes content = path == file.path ? file.content : FileBytes::map(path);
  require_inside(data, *offset, content.size());
  return {content.owner, content.data() + *offset};
}

void require_readable(const h5::Dataset& data, const std::string& path) {
  require_stored(data, path);
  data.require_readable();
  if (const std::optional<uint64_t> offset = data.offset())
    require_inside(data, *offset, std::filesystem::file_size(data.file()));
}

}  // namespace estrain::data
