#include "core/state/checkpoint/state/structure.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>

#include "core/base/error.h"
#include "kernels/digest.h"

namespace estrain::checkpoint {
namespace {

constexpr const char* format_name = "estrain checkpoint";

DType dtype_of(const h5::DatasetObject& dataset) {
  switch (dataset.type()) {
    case h5::Type::f32:
      return DType::f32;
    case h5::Type::f64:
      return DType::f64;
    case h5::Type::i64:
      return DType::i64;
    case h5::Type::u8:
      return DType::u8;
    case h5::Type::i32:
      return DType::i32;
    default:
      throw Error::make(Fault::mismatch, "{}: holds {}, which does not belong in a checkpoint", dataset.where(),
                        h5::type_name(dataset.type()));
  }
}

bool has(const StateLayout& layout, Role role) {
  return std::ranges::any_of(layout.tensors, [role](const StateTensor& tensor) { return tensor.role == role; });
}

void write_meta(h5::Group& root, const CheckpointMeta& meta) {
  root.set_string("format", format_name);
  root.set_i64("format_version", format_version);
  root.set_string("estrain_version", meta.estrain_version);
  root.set_i64("step", meta.step.value);
  root.set_i64("ests", meta.ests);
  root.set_f64("lr", meta.lr);
  root.set_string("spec", meta.spec);
  root.set_string("changes", meta.changes);
  root.set_string("stages", meta.stages);
  root.set_string("devices", meta.devices);
  root.set_string("cpu", meta.cpu);
  root.set_string("algorithms", meta.algorithms);
  root.set_u64("checksum", 0);
  h5::Group data = root.create_group("data");
  data.set_i64("epoch", meta.epoch.value);
  data.set_i64("samples", meta.samples);
  data.set_string("files", meta.data);
}

CheckpointMeta read_meta(const h5::Group& root) {
  if (!root.has("format") || root.get_string("format") != format_name)
    throw Error::make(Fault::mismatch, "{}: not an estrain checkpoint", root.where());
  const int64_t version = root.get_i64("format_version");
  if (version != format_version)
    throw Error::make(Fault::mismatch, "{}: written in format {}; this estrain reads format {}", root.where(), version,
                      format_version);
  const h5::Group data = root.group("data");
  return {.estrain_version = root.get_string("estrain_version"),
          .step = Step(root.get_i64("step")),
          .epoch = Epoch(data.get_i64("epoch")),
          .samples = data.get_i64("samples"),
          .ests = root.get_i64("ests"),
          .lr = root.get_f64("lr"),
          .spec = root.get_string("spec"),
          .changes = root.get_string("changes"),
          .stages = root.get_string("stages"),
          .devices = root.get_string("devices"),
          .cpu = root.get_string("cpu"),
          .algorithms = root.get_string("algorithms"),
          .data = data.get_string("files")};
}

std::vector<std::string> lines_about(const StateLayout& layout, const std::vector<uint64_t>& digests) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < layout.tensors.size(); ++i) {
    const StateTensor& tensor = layout.tensors[i];
    lines.push_back(fmt::format("{} {} {} {:016x}\n", tensor.path(), dtype_name(tensor.dtype),
                                h5::shape_text(tensor.shape), digests[i]));
  }
  for (const StateAlias& alias : layout.aliases)
    lines.push_back(fmt::format("{} -> {}\n", alias.path(), alias.target_path()));
  std::sort(lines.begin(), lines.end());
  return lines;
}

// Returns the digest of the text defined by FORMAT.md.
uint64_t checksum(const CheckpointMeta& meta, const StateLayout& layout, const std::vector<uint64_t>& digests) {
  std::string text = fmt::format(
      "format_version={}\nestrain_version={}\nstep={}\nepoch={}\nsamples={}\nests={}\nlr={:016x}\nspec={}\nchanges={}\n"
      "stages={}\ndevices={}\ncpu={}\nalgorithms={}\nfiles={}\n",
      format_version, meta.estrain_version, meta.step, meta.epoch, meta.samples, meta.ests,
      std::bit_cast<uint64_t>(meta.lr), meta.spec, meta.changes, meta.stages, meta.devices, meta.cpu, meta.algorithms,
      meta.data);
  for (const std::string& line : lines_about(layout, digests)) text += line;
  return kernels::digest(text.data(), text.size());
}

// Collects the content of a group into a Structure. The first name of a dataset is its own, further names are aliases.
class Walk {
 public:
  explicit Walk(Structure& into) : into_(into) {}

  // Datasets directly in the group: /model and /buffers.
  void flat(const h5::Group& group, Role role) {
    for (const h5::Child& child : group.children()) add(group, child, role, {child.name, ""});
  }
  // A group for every name: /optimizer and /ests.
  void nested(const h5::Group& group, Role role) {
    for (const h5::Child& child : group.children()) {
      const h5::Group owner = group.group(child.name);
      for (const h5::Child& slot : owner.children()) add(owner, slot, role, {child.name, slot.name});
    }
  }

 private:
  struct Name {
    std::string name, slot;
  };
  struct Named {
    Role role;
    Name name;
  };

  void add(const h5::Group& group, const h5::Child& child, Role role, const Name& name) {
    const auto [first, is_new] = names_.emplace(child.address, Named{role, name});
    h5::DatasetObject dataset = group.dataset(child.name);
    if (!is_new) {
      const Named& target = first->second;
      if (role != target.role || !name.slot.empty())
        throw Error::make(Fault::mismatch, "{}: is also an array of another kind", dataset.where());
      into_.layout.aliases.push_back({role, name.name, target.name.name});
      return;
    }
    into_.layout.append(role, name.name, name.slot, dtype_of(dataset), dataset.shape());
    into_.digests.push_back(dataset.get_u64("digest"));
    into_.offsets.push_back(offset_of(dataset));
    into_.datasets.push_back(std::move(dataset));
  }

  static uint64_t offset_of(const h5::DatasetObject& dataset) {
    if (dataset.elements() == 0) return 0;
    const std::optional<uint64_t> offset = dataset.offset();
    if (!offset) throw Error::make(Fault::mismatch, "{}: not stored contiguously", dataset.where());
    return *offset;
  }

  Structure& into_;
  std::map<uint64_t, Named> names_;
};

}  // namespace

h5::Type h5_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return h5::Type::f32;
    case DType::f64:
      return h5::Type::f64;
    case DType::i64:
      return h5::Type::i64;
    case DType::u8:
      return h5::Type::u8;
    case DType::i32:
      return h5::Type::i32;
  }
  throw Error(Fault::bug, "a dtype that checkpoints cannot hold");
}

std::vector<h5::DatasetObject> create_structure(h5::Group& root, const StateLayout& layout,
                                                const CheckpointMeta& meta) {
  write_meta(root, meta);
  for (const char* folder : {"model", "buffers", "optimizer", "ests"}) root.create_group(folder);
  if (has(layout, Role::schedule)) root.create_group("schedule");
  if (has(layout, Role::average)) root.create_group("ema");
  std::vector<h5::DatasetObject> datasets;
  for (const StateTensor& tensor : layout.tensors) {
    datasets.push_back(root.create_dataset(tensor.path().substr(1), h5_type(tensor.dtype), tensor.shape));
    datasets.back().set_u64("digest", 0);
  }
  for (const StateAlias& alias : layout.aliases) root.link(alias.target_path().substr(1), alias.path().substr(1));
  return datasets;
}

void set_digests(h5::Group& root, std::vector<h5::DatasetObject>& datasets, const std::vector<uint64_t>& digests,
                 const StateLayout& layout, const CheckpointMeta& meta) {
  for (size_t i = 0; i < datasets.size(); ++i) datasets[i].set_u64("digest", digests[i]);
  root.set_u64("checksum", checksum(meta, layout, digests));
}

Structure read_structure(const h5::Group& root) {
  Structure structure;
  structure.meta = read_meta(root);
  Walk walk(structure);
  walk.flat(root.group("model"), Role::parameter);
  walk.flat(root.group("buffers"), Role::buffer);
  walk.nested(root.group("optimizer"), Role::optimizer);
  walk.nested(root.group("ests"), Role::est);
  if (root.contains("schedule")) walk.flat(root.group("schedule"), Role::schedule);
  if (root.contains("ema")) walk.flat(root.group("ema"), Role::average);
  return structure;
}

void require_checksum(const h5::Group& root, const Structure& structure) {
  if (root.get_u64("checksum") != checksum(structure.meta, structure.layout, structure.digests))
    throw Error::make(Fault::corrupt, "{}: its checksum differs from that of its attributes and datasets",
                      root.where());
}

}  // namespace estrain::checkpoint
