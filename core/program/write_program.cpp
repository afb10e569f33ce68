#include "core/program/write_program.h"

#include "core/base/error.h"
#include "core/program/zip.h"

namespace estrain::program {

std::vector<std::byte> with_weights(std::span<const std::byte> file, const std::string& path, const Fill& fill) {
  std::vector<std::byte> copy(file.begin(), file.end());
  const Program program = read_program(file, path);
  for (const auto* list : {&program.parameters, &program.buffers}) {
    for (const StoredTensor& tensor : *list) {
      if (!tensor.alias_of.empty() || tensor.bytes.empty()) continue;
      fill(tensor, copy.data() + (tensor.bytes.data() - file.data()));
    }
  }
  with_context(path, [&] { ZipArchive(copy).renew_checksums(copy); });
  return copy;
}

}  // namespace estrain::program
