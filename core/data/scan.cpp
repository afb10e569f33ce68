#include "core/data/scan.h"

#include "core/data/format_table.h"
#include "core/formats/h5/filters.h"

namespace estrain::data {

DataScan scan(const spec::DataSection& section, int64_t text_context, std::optional<int64_t> classes,
              const std::vector<std::string>& arrays) {
  if (section.plugins) h5::allow_plugins();
  DataScan result;
  format_of(section).scan({section, text_context, 0, classes, arrays}, result);
  return result;
}

}  // namespace estrain::data
