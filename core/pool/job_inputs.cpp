#include "core/pool/job_inputs.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>

namespace estrain::pool {
namespace {

bool exists(const std::string& path) {
  std::error_code failure;
  return std::filesystem::exists(path, failure);
}

// Returns the longest path at the beginning of `text` that exists and is longer than the input. Nothing: there is none.
std::optional<std::string> longest_path(std::string_view text, size_t input) {
  text = text.substr(0, text.find('\n'));
  for (size_t end = text.size(); end > input + 1; --end) {
    const bool may_end = end == text.size() || std::string_view(" :,;'\"()").find(text[end]) != text.npos;
    if (may_end && exists(std::string(text.substr(0, end)))) return std::string(text.substr(0, end));
  }
  return std::nullopt;
}

// Returns whether the text goes on after an input's name, with the name of another file.
bool is_part_of_longer_name(std::string_view rest) {
  return !rest.empty() && std::string_view(" :,;'\"()/\n").find(rest.front()) == rest.npos;
}

// Returns where an absolute path begins that holds the place: names within other paths are not the input's.
bool begins_a_path(const std::string& text, size_t at) {
  return at == 0 || std::string_view(" :,;'\"(\n").find(text[at - 1]) != std::string_view::npos;
}

}  // namespace

std::vector<std::string> inputs_of(const spec::JobSpec& spec) {
  const spec::DataSection& data = spec.data;
  std::vector<std::string> all = {data.path,        data.images,    data.labels,         data.test_images,
                                  data.test_labels, data.test_path, data.sample_weights, spec.model.init};
  if (spec.model.is_users() && !spec.model.is_python()) all.insert(all.end(), {spec.model.file, spec.model.eval_file});
  std::vector<std::string> inputs;
  for (std::string& one : all) {
    if (!one.empty() && std::ranges::find(inputs, one) == inputs.end()) inputs.push_back(std::move(one));
  }
  return inputs;
}

std::vector<std::string> files_named_in(const std::string& text, const std::vector<std::string>& inputs) {
  std::vector<std::string> files;
  for (const std::string& input : inputs) {
    for (size_t at = text.find(input); at != text.npos; at = text.find(input, at + 1)) {
      const std::string_view rest = std::string_view(text).substr(at + input.size());
      if (!begins_a_path(text, at) || is_part_of_longer_name(rest)) continue;
      const bool goes_on = rest.starts_with('/');
      std::string file =
          goes_on ? longest_path(std::string_view(text).substr(at), input.size()).value_or(input) : input;
      if (std::ranges::find(files, file) == files.end()) files.push_back(std::move(file));
    }
  }
  return files;
}

}  // namespace estrain::pool
