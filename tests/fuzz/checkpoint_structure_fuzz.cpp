// Checkpoints that are valid HDF5 files with a valid seal, but with invalid content: datasets of other types and
// shapes, attributes that are missing or of another class, links across groups. Input: a recipe.
//
// Also: an accepted checkpoint is refused after a change of any single byte.
#include <fuzzer/FuzzedDataProvider.h>

#include "core/formats/h5/image/image.h"
#include "core/state/checkpoint/state/state_layout.h"
#include "core/state/checkpoint/state/structure.h"
#include "kernels/digest.h"
#include "tests/fuzz/checkpoint_input.h"

namespace estrain::fuzz {
namespace {

using namespace checkpoint;

constexpr h5::Type types[] = {h5::Type::f32, h5::Type::f64, h5::Type::i64, h5::Type::u8, h5::Type::i32, h5::Type::u16};
constexpr const char* folders[] = {"model", "buffers", "optimizer", "ests", "data", "other"};

class Recipe {
 public:
  explicit Recipe(FuzzedDataProvider& from) : from_(from) {}

  bool often() { return from_.ConsumeIntegralInRange<int>(0, 15) != 0; }
  int64_t number() { return from_.ConsumeIntegral<int64_t>(); }
  std::string name() {
    static constexpr const char* usual[] = {"fc.weight", "fc.bias", "0", "1", "step", "generator", "loss", "exp_avg"};
    if (often()) return usual[from_.ConsumeIntegralInRange<size_t>(0, std::size(usual) - 1)];
    std::string any = from_.ConsumeRandomLengthString(12);
    std::replace(any.begin(), any.end(), '\0', '0');
    std::replace(any.begin(), any.end(), '/', '_');
    return any.empty() || any == "." ? "x" : any;
  }
  std::vector<int64_t> shape() {
    std::vector<int64_t> sizes(from_.ConsumeIntegralInRange<size_t>(0, 4));
    for (int64_t& size : sizes) size = from_.ConsumeIntegralInRange<int64_t>(0, 5);
    return sizes;
  }
  h5::Type type() { return types[from_.ConsumeIntegralInRange<size_t>(0, often() ? 3 : std::size(types) - 1)]; }
  const char* folder() {
    return folders[from_.ConsumeIntegralInRange<size_t>(0, often() ? 3 : std::size(folders) - 1)];
  }
  std::string text() { return from_.ConsumeRandomLengthString(40); }

 private:
  FuzzedDataProvider& from_;
};

// Attributes of a checkpoint; sometimes one is missing or of another class.
void add_attributes(h5::Group& root, Recipe& recipe) {
  for (const char* name : {"format", "estrain_version", "spec", "changes", "stages", "devices", "cpu", "algorithms"}) {
    if (!recipe.often()) continue;
    const bool as_text = recipe.often();
    if (as_text) root.set_string(name, std::string(name) == "format" ? "estrain checkpoint" : recipe.text());
    if (!as_text) root.set_f64(name, 0.5);
  }
  for (const char* name : {"format_version", "step", "ests"}) {
    if (!recipe.often()) continue;
    const bool usual = recipe.often();
    if (usual) root.set_i64(name, std::string(name) == "format_version" ? 1 : recipe.number());
    if (!usual) root.set_string(name, recipe.text());
  }
  if (recipe.often()) root.set_f64("lr", static_cast<double>(recipe.number()));
}

void add_dataset(h5::Group& root, Recipe& recipe) {
  const std::string folder = recipe.folder();
  const bool nested = (folder == "optimizer" || folder == "ests") == recipe.often();
  const std::string path = folder + "/" + recipe.name() + (nested ? "/" + recipe.name() : "");
  accepts([&] {
    if (root.contains(path)) return;
    h5::DatasetObject dataset = root.create_dataset(path, recipe.type(), recipe.shape());
    // The digest of elements that are all zero.
    if (recipe.often()) dataset.set_u64("digest", recipe.often() ? 0 : static_cast<uint64_t>(recipe.number()));
  });
}

void add_link(h5::Group& root, Recipe& recipe) {
  const std::string from = std::string(recipe.folder()) + "/" + recipe.name();
  const std::string to = std::string(recipe.folder()) + (recipe.often() ? "/" + recipe.name() : "");
  accepts([&] {
    if (root.contains(from) && !root.contains(to)) root.link(from, to);
  });
}

// The extents of elements known to HDF5, all zero, as listed in a seal.
std::vector<Extent> extents_of(const h5::Group& root) {
  std::vector<Extent> extents;
  accepts([&] {
    const Structure structure = read_structure(root);
    for (size_t i = 0; i < structure.offsets.size(); ++i) {
      if (const uint64_t bytes = structure.layout.tensors[i].bytes())
        extents.push_back({structure.offsets[i], bytes, structure.digests[i]});
    }
  });
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
  return extents;
}

std::string cook(FuzzedDataProvider& input) {
  Recipe recipe(input);
  h5::FileImage image = h5::FileImage::create({.user_block = 1024});
  std::vector<Extent> extents;
  {
    h5::Group root = image.root();
    add_attributes(root, recipe);
    for (const char* folder : folders) {
      if (recipe.often() && !root.contains(folder)) root.create_group(folder);
    }
    if (root.contains("data") && recipe.often()) {
      h5::Group data = root.group("data");
      data.set_i64("epoch", recipe.number());
      if (recipe.often()) data.set_i64("samples", recipe.number());
    }
    for (int i = 0; i < 12 && input.remaining_bytes() > 0; ++i) {
      if (recipe.often()) add_dataset(root, recipe);
      if (!recipe.often()) add_link(root, recipe);
    }
    extents = extents_of(root);
    if (recipe.often()) {
      accepts([&] {
        Structure structure = read_structure(root);
        set_digests(root, structure.datasets, structure.digests, structure.layout, structure.meta);
      });
    }
  }
  image.finish();
  std::string bytes(image.length(), '\0');
  image.read(0, reinterpret_cast<std::byte*>(bytes.data()), bytes.size());
  Seal seal{1024, bytes.size(), 0, {}};
  if (user_block_for(extents.size()) <= 1024) seal.extents = extents;
  for (const FileStretch& stretch : structure_of(seal))
    seal.structure += digest_of(stretch, reinterpret_cast<const std::byte*>(bytes.data()) + stretch.offset);
  const std::vector<std::byte> block = encode(seal);
  std::memcpy(bytes.data(), block.data(), block.size());
  return bytes;
}

void check(const uint8_t* data, size_t size) {
  static const MemoryFile file;
  FuzzedDataProvider input(data, size);
  const size_t at = input.ConsumeIntegral<uint16_t>();
  const uint8_t change = input.ConsumeIntegral<uint8_t>();
  std::string bytes = cook(input);
  file.set(bytes);
  const bool accepted = read_whole_checkpoint(file.path());
  if (!accepted || change == 0) return;
  bytes[at % bytes.size()] ^= static_cast<char>(change);
  file.set(bytes);
  require(!read_whole_checkpoint(file.path()), "a checkpoint of which one byte was changed is refused");
}

}  // namespace
}  // namespace estrain::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  estrain::fuzz::check(data, size);
  return 0;
}
