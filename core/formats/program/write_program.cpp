#include "core/formats/program/write_program.h"

#include <cstring>

#include "core/base/error.h"
#include "core/formats/program/zip.h"

namespace estrain::program {
namespace {

// Calls `visit` with the places in memory of a tensor's elements, in C order.
template <typename Visit>
void walk(const StoredTensor& tensor, Visit&& visit) {
  const size_t elements = tensor.bytes.size() / type_size(tensor.type);
  std::vector<int64_t> index(tensor.sizes.size());
  int64_t place = 0;
  for (size_t i = 0; i < elements; ++i) {
    visit(i, static_cast<size_t>(place));
    for (size_t d = index.size(); d-- > 0;) {
      place += tensor.strides[d];
      if (++index[d] < tensor.sizes[d]) break;
      place -= tensor.strides[d] * tensor.sizes[d];
      index[d] = 0;
    }
  }
}

void fill_in(const StoredTensor& tensor, const Fill& fill, std::byte* to) {
  if (is_in_c_order(tensor)) return fill(tensor, to);
  const size_t element = type_size(tensor.type);
  std::vector<std::byte> values(tensor.bytes.size());
  walk(tensor, [&](size_t i, size_t place) { std::memcpy(&values[i * element], to + place * element, element); });
  fill(tensor, values.data());
  walk(tensor, [&](size_t i, size_t place) { std::memcpy(to + place * element, &values[i * element], element); });
}

}  // namespace

std::vector<std::byte> with_weights(std::span<const std::byte> file, const std::string& path, const Fill& fill) {
  std::vector<std::byte> copy(file.begin(), file.end());
  const Program program = read_program(file, path);
  for (const auto* list : {&program.parameters, &program.buffers}) {
    for (const StoredTensor& tensor : *list) {
      if (!tensor.alias_of.empty() || tensor.bytes.empty()) continue;
      fill_in(tensor, fill, copy.data() + (tensor.bytes.data() - file.data()));
    }
  }
  with_context(path, [&] { ZipArchive(copy).renew_checksums(copy); });
  return copy;
}

}  // namespace estrain::program
