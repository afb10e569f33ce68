#include "core/checkpoint/export_model.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <vector>

#include "core/base/error.h"
#include "core/base/own_file.h"
#include "core/checkpoint/byte_io.h"
#include "core/checkpoint/safetensors.h"
#include "core/checkpoint/structure.h"
#include "core/h5/file.h"

namespace estrain::checkpoint {
namespace {

// A tensor of the model under one of its names.
struct Export {
  std::string name;
  size_t tensor;
};

bool belongs_to_model(Role role) { return role == Role::parameter || role == Role::buffer; }

// In the model's order, with tied names after all others.
std::vector<Export> exports_of(const StateLayout& layout) {
  std::vector<Export> all;
  std::map<std::string, size_t> by_path;
  for (size_t i = 0; i < layout.tensors.size(); ++i) {
    if (!belongs_to_model(layout.tensors[i].role)) continue;
    all.push_back({layout.tensors[i].name, i});
    by_path.emplace(layout.tensors[i].path(), i);
  }
  for (const StateAlias& alias : layout.aliases)
    if (belongs_to_model(alias.role)) all.push_back({alias.name, by_path.at(alias.target_path())});
  return all;
}

void write_safetensors(const CheckpointFile& from, const std::string& path) {
  const StateLayout& layout = from.layout();
  std::vector<Export> exports = exports_of(layout);
  std::stable_sort(exports.begin(), exports.end(), [&](const Export& a, const Export& b) {
    return element_size(layout.tensors[a.tensor].dtype) > element_size(layout.tensors[b.tensor].dtype);
  });
  std::vector<SafetensorForm> forms;
  for (const Export& one : exports)
    forms.push_back({one.name, layout.tensors[one.tensor].dtype, layout.tensors[one.tensor].shape});
  const std::string header = safetensors_header(forms, {{"format", "pt"},
                                                        {"estrain_version", from.meta().estrain_version},
                                                        {"step", fmt::format("{}", from.meta().step)}});
  const UniqueFd fd = create_temporary(path);
  write_bytes(fd.get(), 0, reinterpret_cast<const std::byte*>(header.data()), header.size());
  uint64_t at = header.size();
  std::vector<std::byte> elements;
  for (const Export& one : exports) {
    elements.resize(layout.tensors[one.tensor].bytes());
    from.read(one.tensor, elements.data());
    write_bytes(fd.get(), at, elements.data(), elements.size());
    at += elements.size();
  }
}

void write_hdf5(const CheckpointFile& from, const std::string& path) {
  create_temporary(path);  // replaces whatever has that name
  h5::File file = h5::File::create(path);
  {
    h5::Group root = file.root();
    std::vector<std::byte> elements;
    for (size_t i = 0; i < from.layout().tensors.size(); ++i) {
      const StateTensor& tensor = from.layout().tensors[i];
      if (!belongs_to_model(tensor.role)) continue;
      elements.resize(tensor.bytes());
      from.read(i, elements.data());
      root.create_dataset(tensor.path().substr(1), h5_type(tensor.dtype), tensor.shape)
          .write(h5_type(tensor.dtype), elements.data());
    }
    for (const StateAlias& alias : from.layout().aliases)
      if (belongs_to_model(alias.role)) root.link(alias.target_path().substr(1), alias.path().substr(1));
  }
  file.close();
}

}  // namespace

void export_model(const CheckpointFile& from, const std::string& path, ModelFormat format, Disk& disk) {
  const std::string temporary = path + temporary_suffix;
  with_context("cannot write " + path, [&] {
    try {
      format == ModelFormat::safetensors ? write_safetensors(from, temporary) : write_hdf5(from, temporary);
      disk.sync_file(UniqueFd(::open(temporary.c_str(), O_RDONLY | O_CLOEXEC)).get(), temporary);
      disk.rename(temporary, path);
    } catch (...) {
      ::unlink(temporary.c_str());
      throw;
    }
    const std::string folder = std::filesystem::path(path).parent_path().string();
    disk.sync_folder(folder.empty() ? "." : folder);
  });
}

}  // namespace estrain::checkpoint
