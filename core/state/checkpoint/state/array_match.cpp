#include "core/state/checkpoint/state/array_match.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <map>

#include "core/base/error.h"

namespace estrain::checkpoint {
namespace {

constexpr size_t named_at_most = 6;

std::string list(std::vector<std::string> names) {
  const size_t more = names.size() > named_at_most ? names.size() - named_at_most : 0;
  names.resize(names.size() - more);
  return fmt::format("{}{}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

std::string form(const ArrayForm& array) {
  const std::string tie = array.tied_to.empty() ? "" : " tied to " + array.tied_to;
  return fmt::format("{} [{}]{}", array.dtype, fmt::join(array.shape, ", "), tie);
}

}  // namespace

std::vector<ArrayForm> forms_of(const StateLayout& layout) {
  std::vector<ArrayForm> forms;
  std::map<std::string, const StateTensor*> by_path;
  for (const StateTensor& tensor : layout.tensors) {
    by_path.emplace(tensor.path(), &tensor);
    forms.push_back({tensor.path(), std::string(dtype_name(tensor.dtype)), tensor.shape, ""});
  }
  for (const StateAlias& alias : layout.aliases) {
    const StateTensor& target = *by_path.at(alias.target_path());
    forms.push_back({alias.path(), std::string(dtype_name(target.dtype)), target.shape, target.path()});
  }
  return forms;
}

void require_same_arrays(const std::vector<ArrayForm>& wanted, const std::vector<ArrayForm>& found) {
  std::map<std::string, const ArrayForm*> left;
  for (const ArrayForm& array : found) left.emplace(array.path, &array);
  std::vector<std::string> other_form, missing, superfluous;
  for (const ArrayForm& want : wanted) {
    const auto match = left.find(want.path);
    if (match == left.end()) {
      missing.push_back(want.path);
      continue;
    }
    if (form(*match->second) != form(want))
      other_form.push_back(
          fmt::format("{} is {} in the file, {} in the model", want.path, form(*match->second), form(want)));
    left.erase(match);
  }
  for (const ArrayForm& array : found)
    if (left.contains(array.path)) superfluous.push_back(array.path);

  std::vector<std::string> complaints;
  if (!other_form.empty()) complaints.push_back(list(std::move(other_form)));
  if (!missing.empty()) complaints.push_back("missing: " + list(std::move(missing)));
  if (!superfluous.empty()) complaints.push_back("superfluous: " + list(std::move(superfluous)));
  if (complaints.empty()) return;
  throw Error::make(Fault::mismatch, "does not fit the model: {}", fmt::join(complaints, "; "))
      .advise("check model.* and job.ests: names, types and shapes must agree exactly");
}

}  // namespace estrain::checkpoint
