#include "core/base/json/json_lines.h"

#include "core/base/files/long_files.h"

namespace estrain {

void for_each_object(const std::string& path, const std::function<void(const Json&)>& visit) {
  for_each_object_with("", path, visit);
}

void for_each_object_with(std::string_view word, const std::string& path,
                          const std::function<void(const Json&)>& visit) {
  LineReader lines(path);
  for (std::string_view line; lines.next(&line);) {
    if (line.find(word) == line.npos) continue;
    const Json object = parse_json_if_sound(line);
    if (object.is_object()) visit(object);
  }
}

}  // namespace estrain
