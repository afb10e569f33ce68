#include "core/inspect/verify/checkpoint_pair.h"

#include <fmt/format.h>

#include <bit>

#include "core/state/checkpoint/state/recorded_digests.h"

namespace estrain::verify {
namespace {

using checkpoint::CheckpointFile;
using checkpoint::CheckpointMeta;
using checkpoint::StateLayout;
using checkpoint::StateTensor;

std::map<std::string, size_t> index_of(const StateLayout& layout) {
  std::map<std::string, size_t> index;
  for (size_t i = 0; i < layout.tensors.size(); ++i) index.emplace(layout.tensors[i].path(), i);
  return index;
}

bool same_form(const StateTensor& a, const StateTensor& b) { return a.dtype == b.dtype && a.shape == b.shape; }

// 8-byte aligned memory for a tensor.
class Elements {
 public:
  Elements(const CheckpointFile& file, size_t tensor) : words_(file.layout().tensors[tensor].bytes() / 8 + 1) {
    file.read_unchecked(tensor, reinterpret_cast<std::byte*>(words_.data()));
  }
  const std::byte* bytes() const { return reinterpret_cast<const std::byte*>(words_.data()); }

 private:
  std::vector<uint64_t> words_;
};

}  // namespace

const std::vector<uint64_t>& PresentDigests::of(const CheckpointFile& file) {
  const auto known = by_path_.find(file.path());
  if (known != by_path_.end()) return known->second;
  return by_path_.emplace(file.path(), file.present_digests()).first->second;
}

std::vector<std::string> PresentDigests::damaged(const CheckpointFile& file) {
  std::vector<std::string> paths;
  const std::vector<uint64_t>& present = of(file);
  for (size_t i = 0; i < present.size(); ++i)
    if (present[i] != file.digest(i)) paths.push_back(file.layout().tensors[i].path());
  return paths;
}

std::vector<std::string> layout_differences(const CheckpointFile& a, const CheckpointFile& b) {
  std::vector<std::string> differences;
  const std::map<std::string, size_t> in_a = index_of(a.layout()), in_b = index_of(b.layout());
  for (const StateTensor& tensor : a.layout().tensors) {
    const auto other = in_b.find(tensor.path());
    if (other == in_b.end())
      differences.push_back("only A has " + tensor.path());
    else if (!same_form(tensor, b.layout().tensors[other->second]))
      differences.push_back(tensor.path() + " is of another type or shape");
  }
  for (const StateTensor& tensor : b.layout().tensors)
    if (!in_a.contains(tensor.path())) differences.push_back("only B has " + tensor.path());
  return differences;
}

std::vector<TensorDifference> tensor_differences(const CheckpointFile& a, const CheckpointFile& b,
                                                 PresentDigests& present) {
  std::vector<TensorDifference> differences;
  const std::map<std::string, size_t> in_b = index_of(b.layout());
  for (size_t i = 0; i < a.layout().tensors.size(); ++i) {
    const StateTensor& tensor = a.layout().tensors[i];
    const auto other = in_b.find(tensor.path());
    if (other == in_b.end() || !same_form(tensor, b.layout().tensors[other->second])) continue;
    if (present.of(a)[i] == present.of(b)[other->second]) continue;
    const Elements of_a(a, i), of_b(b, other->second);
    if (std::optional<TensorDifference> found = compare_elements(tensor, of_a.bytes(), of_b.bytes()))
      differences.push_back(*std::move(found));
  }
  return differences;
}

std::vector<std::string> attribute_differences(const CheckpointMeta& a, const CheckpointMeta& b) {
  std::vector<std::string> differences;
  const auto compare = [&](std::string_view name, auto of_a, auto of_b, bool same) {
    if (!same) differences.push_back(fmt::format("{} is {} in A, {} in B", name, of_a, of_b));
  };
  compare("lr", a.lr, b.lr, std::bit_cast<uint64_t>(a.lr) == std::bit_cast<uint64_t>(b.lr));
  compare("step", a.step, b.step, a.step == b.step);
  compare("epoch", a.epoch, b.epoch, a.epoch == b.epoch);
  compare("samples", a.samples, b.samples, a.samples == b.samples);
  return differences;
}

std::vector<std::string> unlike_record(const CheckpointFile& file, PresentDigests& present,
                                       const record::FingerprintReader& fingerprints, size_t record) {
  const std::map<std::string, uint64_t> held = checkpoint::recorded_digests(file.layout(), present.of(file));
  const std::span<const uint64_t> recorded = fingerprints.digests(record);
  std::vector<std::string> names;
  for (size_t i = 0; i < recorded.size(); ++i) {
    const auto found = held.find(fingerprints.names()[i]);
    if (found == held.end() || found->second != recorded[i]) names.push_back(fingerprints.names()[i]);
  }
  return names;
}

}  // namespace estrain::verify
