#include "core/state/checkpoint/models/model_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/name_pattern.h"
#include "core/state/checkpoint/checkpoint_file.h"
#include "core/state/checkpoint/models/weights_file.h"
#include "core/state/checkpoint/state/array_match.h"
#include "core/state/checkpoint/state/state_layout.h"
#include "core/state/checkpoint/state/structure.h"

namespace estrain::checkpoint {
namespace {

bool of_model(Role role) { return role == Role::parameter || role == Role::buffer; }

// The model's names (of tensors and their aliases), each with its tensor.
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

// Returns the names to look for. A tied tensor has several: if one name suffices, the names present in the file; if the
// file has none of these, all names.
std::vector<WantedName> names_to_read(const StateLayout& layout, const WeightsFile& source) {
  std::vector<WantedName> names = wanted_names(layout);
  if (!source.ties_once) return names;
  std::set<std::string> present;
  for (const ArrayForm& form : source.forms) present.insert(form.path);
  std::set<size_t> there;
  for (const WantedName& name : names)
    if (present.contains(name.name)) there.insert(name.tensor);
  std::erase_if(names,
                [&](const WantedName& name) { return there.contains(name.tensor) && !present.contains(name.name); });
  return names;
}

std::vector<ArrayForm> wanted_forms(const StateLayout& layout, const std::vector<WantedName>& names) {
  std::vector<ArrayForm> forms;
  for (const WantedName& wanted : names) {
    const StateTensor& tensor = layout.tensors[wanted.tensor];
    forms.push_back({wanted.name, std::string(dtype_name(tensor.dtype)), tensor.shape, ""});
  }
  return forms;
}

// Returns the forms of a file after conversion. An array of another shape keeps its type, for the message.
std::vector<ArrayForm> converted_forms(std::vector<ArrayForm> found, const std::vector<ArrayForm>& wanted) {
  std::map<std::string, const ArrayForm*> by_path;
  for (const ArrayForm& want : wanted) by_path.emplace(want.path, &want);
  for (ArrayForm& form : found) {
    const auto want = by_path.find(form.path);
    if (want == by_path.end() || want->second->shape != form.shape || !is_convertible(form.dtype)) continue;
    form.dtype = want->second->dtype;
  }
  return found;
}

// Two names of one tensor may be two arrays in a foreign file: both arrays must have the same bits.
void require_same_bits(const WantedName& name, const StateTensor& tensor, const WeightsFile& source,
                       const std::byte* have) {
  std::vector<std::byte> again(tensor.bytes());
  source.read(name.name, tensor, again.data());
  if (std::memcmp(again.data(), have, again.size()) != 0)
    throw Error::make(Fault::mismatch, "{} and {} are tied in the model, but differ in the file", tensor.name,
                      name.name);
}

// Gives the arrays of the file the beginnings that the model's names have: the first prefix that fits a name is
// replaced.
WeightsFile with_prefixes(WeightsFile file, const std::vector<std::string>& prefixes) {
  if (prefixes.empty()) return file;
  std::map<std::string, std::string> original;
  for (ArrayForm& form : file.forms) {
    std::string name = form.path;
    for (const std::string& rule : prefixes) {
      const size_t equals = std::min(rule.find('='), rule.size());
      const std::string begin = rule.substr(0, equals);
      if (!name.starts_with(begin)) continue;
      name = (equals < rule.size() ? rule.substr(equals + 1) : "") + name.substr(begin.size());
      break;
    }
    const auto [other, is_new] = original.emplace(name, form.path);
    if (!is_new)
      throw Error::make(Fault::mismatch, "{} and {} both become {} by model.init_prefix", other->second, form.path,
                        name);
    form.path = name;
  }
  file.read = [read = std::move(file.read), original = std::move(original)](
                  const std::string& name, const StateTensor& as, std::byte* out) { read(original.at(name), as, out); };
  return file;
}

// Patterns with "!" leave out names taken by the patterns without "!"; if all patterns have "!", they leave out of all
// names.
bool is_taken(const std::vector<std::string>& patterns, const std::string& name) {
  const auto leaves_out = [](const std::string& pattern) { return pattern.starts_with('!'); };
  bool taken = std::ranges::all_of(patterns, leaves_out);
  for (const std::string& pattern : patterns) {
    if (!leaves_out(pattern))
      taken |= fits_pattern(pattern, name);
    else if (fits_pattern(pattern.substr(1), name))
      return false;
  }
  return taken;
}

void require_use(const std::vector<std::string>& patterns, const std::vector<WantedName>& names) {
  for (const std::string& pattern : patterns) {
    const std::string glob = pattern.substr(pattern.starts_with('!') ? 1 : 0);
    if (std::ranges::any_of(names, [&](const WantedName& name) { return fits_pattern(glob, name.name); })) continue;
    std::vector<std::string> some;
    for (size_t i = 0; i < names.size() && i < 4; ++i) some.push_back(names[i].name);
    throw Error::make(Fault::spec, "model.init_match: \"{}\" is the name of no parameter or buffer", pattern)
        .advise(
            fmt::format("the model's names are {}{}", fmt::join(some, ", "), names.size() > some.size() ? ", …" : ""));
  }
}

// Removes the tensors without a taken name.
void keep_taken(std::vector<WantedName>& names, const std::vector<std::string>& patterns) {
  std::set<size_t> taken;
  for (const WantedName& name : names)
    if (is_taken(patterns, name.name)) taken.insert(name.tensor);
  std::erase_if(names, [&](const WantedName& name) { return !taken.contains(name.tensor); });
}

// Returns the prefix that would make a name of the file the model's first name that is missing. Empty: there is none.
std::string fitting_prefix(const std::vector<ArrayForm>& wanted, const std::vector<ArrayForm>& found) {
  std::set<std::string> present;
  for (const ArrayForm& form : found) present.insert(form.path);
  const auto missing =
      std::ranges::find_if(wanted, [&](const ArrayForm& form) { return !present.contains(form.path); });
  if (missing == wanted.end()) return "";
  for (const ArrayForm& form : found) {
    if (form.shape != missing->shape || form.path == missing->path) continue;
    if (form.path.ends_with("." + missing->path)) return form.path.substr(0, form.path.size() - missing->path.size());
    if (missing->path.ends_with("." + form.path))
      return "=" + missing->path.substr(0, missing->path.size() - form.path.size());
  }
  return "";
}

// Returns a pattern for the module of the first tensor that does not fit.
std::string unfit_module(const std::vector<ArrayForm>& wanted, const std::vector<ArrayForm>& found) {
  std::map<std::string, const ArrayForm*> by_path;
  for (const ArrayForm& form : found) by_path.emplace(form.path, &form);
  for (const ArrayForm& want : wanted) {
    const auto have = by_path.find(want.path);
    if (have != by_path.end() && have->second->shape == want.shape) continue;
    return want.path.find('.') == want.path.npos ? want.path : want.path.substr(0, want.path.rfind('.')) + ".*";
  }
  return "head.*";
}

// Returns the advice where a file does not fit. `in_file`: all arrays of the file, after model.init_prefix.
std::string fitting_advice(const std::vector<ArrayForm>& wanted, const std::vector<ArrayForm>& found,
                           const std::vector<ArrayForm>& in_file, const std::set<std::string>& model_names) {
  const std::string fitting = fitting_prefix(wanted, in_file);
  if (!fitting.empty())
    return fmt::format("names begin otherwise in the file: try model.init_prefix = [\"{}\"]", fitting);
  const bool is_strange =
      std::ranges::none_of(in_file, [&](const ArrayForm& form) { return model_names.contains(form.path); });
  if (is_strange && !in_file.empty())
    return fmt::format(
        "no name of the file, as model.init_prefix (if it is given) makes names begin, is one of the model's; "
        "the file has {}{}",
        in_file.front().path, in_file.size() > 1 ? fmt::format(" and {} more", in_file.size() - 1) : "");
  return fmt::format("model.init_match takes a part, such as [\"*\", \"!{}\"]; all else keeps its values from the seed",
                     unfit_module(wanted, found));
}

// `in_file`: all arrays of the file, of which `found` are to be taken. `model_names`: all names of the model.
void require_fit(const std::vector<ArrayForm>& wanted, const std::vector<ArrayForm>& found,
                 const std::vector<ArrayForm>& in_file, const std::set<std::string>& model_names) {
  try {
    require_same_arrays(wanted, found);
  } catch (const Error& error) {
    throw Error(error.fault(), error.message()).advise(fitting_advice(wanted, found, in_file, model_names));
  }
}

TakenWeights read_foreign(const WeightsFile& source, const FirstWeights& from, const StateLayout& layout,
                          std::byte* state) {
  std::vector<WantedName> names = names_to_read(layout, source);
  const std::vector<WantedName> all_names = wanted_names(layout);
  std::set<std::string> model_names;
  for (const WantedName& name : all_names) model_names.insert(name.name);
  require_use(from.match, all_names);
  if (!from.match.empty()) keep_taken(names, from.match);
  const std::vector<ArrayForm> wanted = wanted_forms(layout, names);
  std::vector<ArrayForm> found = converted_forms(source.forms, wanted);
  const std::vector<ArrayForm> in_file = found;
  TakenWeights taken;
  if (!from.match.empty()) {
    std::set<std::string> paths;
    for (const ArrayForm& form : wanted) paths.insert(form.path);
    std::erase_if(found, [&](const ArrayForm& form) {
      if (paths.contains(form.path)) return false;
      taken.left.push_back(form.path);
      return true;
    });
  }
  require_fit(wanted, found, in_file, model_names);
  std::set<size_t> done;
  for (const WantedName& name : names) {
    const StateTensor& tensor = layout.tensors[name.tensor];
    if (done.insert(name.tensor).second)
      source.read(name.name, tensor, state + tensor.offset);
    else
      require_same_bits(name, tensor, source, state + tensor.offset);
  }
  for (size_t i = 0; i < layout.tensors.size(); ++i)
    if (of_model(layout.tensors[i].role) && !done.contains(i)) taken.kept.push_back(layout.tensors[i].name);
  taken.tensors = done.size();
  return taken;
}

}  // namespace

std::string TakenWeights::words() const {
  std::string text = kept.empty() ? fmt::format("all {} tensors come from the file", tensors)
                                  : fmt::format("{} of {} tensors come from the file; from the seed: {}", tensors,
                                                tensors + kept.size(), fmt::join(kept, ", "));
  if (!left.empty()) text += fmt::format("; left in the file: {}", fmt::join(left, ", "));
  return text;
}

TakenWeights read_model(const FirstWeights& from, const StateLayout& layout, std::byte* state) {
  std::error_code ignored;  // a path that cannot be looked at is told of when the file is opened
  if (std::filesystem::is_directory(from.path, ignored))
    throw Error::make(Fault::mismatch, "{}: a folder, not a file of weights", from.path)
        .advise(
            "give the file in it, such as model.safetensors, model.safetensors.index.json, or a run's "
            "checkpoints/latest");
  if (from.match.empty() && from.prefix.empty() && is_checkpoint(from.path)) {
    CheckpointFile::open(from.path).read_state(layout, state, StatePart::model);
    return {.tensors = static_cast<size_t>(std::ranges::count_if(layout.tensors, of_model, &StateTensor::role))};
  }
  const WeightsFile file = open_weights(from.path);
  return with_context(from.path, [&] { return read_foreign(with_prefixes(file, from.prefix), from, layout, state); });
}

}  // namespace estrain::checkpoint
