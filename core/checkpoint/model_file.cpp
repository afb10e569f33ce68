#include "core/checkpoint/model_file.h"

#include <cstring>
#include <map>

#include "core/base/error.h"
#include "core/checkpoint/array_match.h"
#include "core/checkpoint/checkpoint_file.h"
#include "core/checkpoint/structure.h"
#include "core/h5/file.h"

namespace estrain::checkpoint {
namespace {

bool of_model(Role role) { return role == Role::parameter || role == Role::buffer; }

// The model's names (of tensors and their aliases) with the tensor behind each.
struct WantedName {
  std::string name;
  size_t tensor;
};

std::vector<WantedName> wanted_names(const StateLayout& layout) {
  std::vector<WantedName> names;
  std::map<std::string, size_t> by_path;
  for (size_t i = 0; i < layout.tensors.size(); ++i) {
    if (!of_model(layout.tensors[i].role)) continue;
    names.push_back({layout.tensors[i].name, i});
    by_path.emplace(layout.tensors[i].path(), i);
  }
  for (const StateAlias& alias : layout.aliases) names.push_back({alias.name, by_path.at(alias.target_path())});
  return names;
}

std::vector<ArrayForm> wanted_forms(const StateLayout& layout) {
  std::vector<ArrayForm> forms;
  for (const WantedName& wanted : wanted_names(layout)) {
    const StateTensor& tensor = layout.tensors[wanted.tensor];
    forms.push_back({wanted.name, std::string(dtype_name(tensor.dtype)), tensor.shape, ""});
  }
  return forms;
}

// Arrays of the model by state_dict name, wherever in the file they are.
using Found = std::map<std::string, h5::Dataset>;

void collect(const h5::Group& group, Found& found) {
  for (const h5::Child& child : group.children())
    if (child.kind == h5::Child::Kind::dataset) found.emplace(child.name, group.dataset(child.name));
}

Found find_arrays(const h5::Group& root) {
  Found found;
  if (!root.contains("model")) collect(root, found);
  for (const char* folder : {"model", "buffers"})
    if (root.contains(folder)) collect(root.group(folder), found);
  return found;
}

std::vector<ArrayForm> found_forms(const Found& found) {
  std::vector<ArrayForm> forms;
  for (const auto& [name, dataset] : found)
    forms.push_back({name, std::string(h5::type_name(dataset.type())), dataset.shape(), ""});
  return forms;
}

// Two names of one tensor may be two datasets in a foreign file: they must hold the same bits.
void require_same_bits(const WantedName& name, const StateTensor& tensor, const h5::Dataset& dataset,
                       const std::byte* have) {
  std::vector<std::byte> again(tensor.bytes());
  dataset.read(h5_type(tensor.dtype), again.data());
  if (std::memcmp(again.data(), have, again.size()) != 0)
    throw Error::make(Fault::mismatch, "{} and {} are tied in the model, but differ in the file", tensor.name,
                      name.name);
}

void read_foreign(const std::string& path, const StateLayout& layout, std::byte* state) {
  const h5::File file = h5::File::open(path);
  if (file.root().has("format")) throw Error(Fault::corrupt, "a checkpoint whose seal is damaged");
  const Found found = find_arrays(file.root());
  require_same_arrays(wanted_forms(layout), found_forms(found));
  for (const WantedName& wanted : wanted_names(layout)) {
    const StateTensor& tensor = layout.tensors[wanted.tensor];
    const h5::Dataset& dataset = found.at(wanted.name);
    if (wanted.name == tensor.name)
      dataset.read(h5_type(tensor.dtype), state + tensor.offset);
    else
      require_same_bits(wanted, tensor, dataset, state + tensor.offset);
  }
}

}  // namespace

void read_model(const std::string& path, const StateLayout& layout, std::byte* state) {
  if (is_checkpoint(path)) return CheckpointFile::open(path).read_state(layout, state, Part::model);
  with_context(path, [&] { read_foreign(path, layout, state); });
}

}  // namespace estrain::checkpoint
