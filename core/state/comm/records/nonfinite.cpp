#include "core/state/comm/records/nonfinite.h"

#include <fmt/format.h>

#include <cmath>

namespace estrain::comm {
namespace {

std::string number(float value) {
  if (std::isnan(value)) return "NaN";
  return std::isinf(value) ? (value > 0 ? "inf" : "-inf") : fmt::format("{:.6g}", value);
}

}  // namespace

std::string in_words(const Nonfinite& found, std::span<const std::string> names) {
  const auto tensor = [&] {
    const size_t place = static_cast<size_t>(found.tensor);
    return place < names.size() ? names[place] : "?";
  };
  switch (found.where) {
    case Nonfinite::Where::gradient:
      return fmt::format("the gradient of {} is {} (virtual rank {}; its loss is {})", tensor(), number(found.value),
                         found.rank, number(found.loss));
    case Nonfinite::Where::loss:
      return fmt::format("the loss of virtual rank {} is {}, though its gradients are finite", found.rank,
                         number(found.loss));
    case Nonfinite::Where::norm:
      return fmt::format("the norm of the gradients is {}, though each EST's are finite", number(found.value));
    case Nonfinite::Where::update:
      return fmt::format(
          "the update makes parameter {}, or what the optimizer keeps of it, {}, though each EST's "
          "gradient is finite",
          tensor(), number(found.value));
    case Nonfinite::Where::weight:
      return "no target counts in any EST, so the loss has no mean (train.weight = \"tokens\")";
    case Nonfinite::Where::unknown:
      return "the loss or a gradient was not finite, but is when the step is repeated";
    case Nonfinite::Where::nowhere:
      break;
  }
  return "all numbers are finite";
}

}  // namespace estrain::comm
