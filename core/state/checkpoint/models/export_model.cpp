#include "core/state/checkpoint/models/export_model.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <vector>

#include "core/base/error.h"
#include "core/base/files/own_file.h"
#include "core/formats/h5/file.h"
#include "core/state/checkpoint/bytes/byte_io.h"
#include "core/state/checkpoint/models/safetensors.h"
#include "core/state/checkpoint/state/structure.h"

namespace estrain::checkpoint {
namespace {

// A tensor of the model, under a name: a shared tensor has several names.
struct Export {
  std::string name;
  size_t tensor;  // the layout's tensor with the elements
};

bool belongs_to_model(Role role) { return role == Role::parameter || role == Role::buffer; }

// Returns the exports in the model's order, tied names last.
std::vector<Export> exports_of(const CheckpointFile& from, Weights weights) {
  const StateLayout& layout = from.layout();
  std::map<std::string, size_t> averages;
  for (size_t i = 0; i < layout.tensors.size(); ++i)
    if (layout.tensors[i].role == Role::average) averages.emplace(layout.tensors[i].name, i);
  if (weights == Weights::average && averages.empty())
    throw Error::make(Fault::usage, "{}: has no averages of the weights", from.path())
        .advise("a job keeps them with ema.decay");

  std::vector<Export> all;
  std::map<std::string, size_t> by_path;
  for (size_t i = 0; i < layout.tensors.size(); ++i) {
    if (!belongs_to_model(layout.tensors[i].role)) continue;
    const bool is_average = weights == Weights::average && layout.tensors[i].role == Role::parameter;
    const size_t values = is_average ? averages.at(layout.tensors[i].name) : i;
    all.push_back({layout.tensors[i].name, values});
    by_path.emplace(layout.tensors[i].path(), values);
  }
  for (const StateAlias& alias : layout.aliases)
    if (belongs_to_model(alias.role)) all.push_back({alias.name, by_path.at(alias.target_path())});
  return all;
}

void write_safetensors(const CheckpointFile& from, const std::string& path, Weights weights) {
  const StateLayout& layout = from.layout();
  std::vector<Export> exports = exports_of(from, weights);
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

void write_hdf5(const CheckpointFile& from, const std::string& path, Weights weights) {
  create_temporary(path);  // replaces an existing file of this name
  h5::File file = h5::File::create(path);
  {
    h5::Group root = file.root();
    const StateLayout& layout = from.layout();
    const std::vector<Export> exports = exports_of(from, weights);  // aliases stand last
    std::vector<std::byte> elements;
    size_t next = 0;
    for (const StateTensor& tensor : layout.tensors) {
      if (!belongs_to_model(tensor.role)) continue;
      elements.resize(tensor.bytes());
      from.read(exports[next++].tensor, elements.data());
      root.create_dataset(tensor.path().substr(1), h5_type(tensor.dtype), tensor.shape)
          .write(h5_type(tensor.dtype), elements.data());
    }
    for (const StateAlias& alias : layout.aliases)
      if (belongs_to_model(alias.role)) root.link(alias.target_path().substr(1), alias.path().substr(1));
  }
  file.close();
}

// `write` is given the temporary name.
template <typename Write>
void publish(const std::string& path, Disk& disk, Write&& write) {
  const std::string temporary = path + temporary_suffix;
  with_context("cannot write " + path, [&] {
    try {
      write(temporary);
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

}  // namespace

ModelReader::ModelReader(const CheckpointFile& from, Weights weights) : from_(from) {
  for (const Export& one : exports_of(from, weights)) by_name_.emplace(one.name, one.tensor);
}

const StateTensor* ModelReader::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &from_.layout().tensors[found->second];
}

void ModelReader::read(const StateTensor& tensor, std::byte* out) const {
  from_.read(static_cast<size_t>(&tensor - from_.layout().tensors.data()), out);
}

void write_whole_file(const std::string& path, std::span<const std::byte> bytes, Disk& disk) {
  publish(path, disk, [&](const std::string& temporary) {
    const UniqueFd fd = create_temporary(temporary);
    write_bytes(fd.get(), 0, bytes.data(), bytes.size());
  });
}

void export_model(const CheckpointFile& from, const std::string& path, const ModelExport& what, Disk& disk) {
  publish(path, disk, [&](const std::string& temporary) {
    what.format == ModelFormat::safetensors ? write_safetensors(from, temporary, what.weights)
                                            : write_hdf5(from, temporary, what.weights);
  });
}

}  // namespace estrain::checkpoint
