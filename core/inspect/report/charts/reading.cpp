#include "core/inspect/report/charts/reading.h"

#include <fmt/format.h>

#include "core/base/visible_text.h"

namespace estrain::report {

std::string reading_places(const std::string& group, const std::string& what, const std::vector<ReadingPlace>& places) {
  std::string html = fmt::format("<fieldset class=\"places\"><legend>{}, place by place with the arrow keys</legend>",
                                 html_escaped(what));
  for (const ReadingPlace& place : places) {
    html += fmt::format(
        "<label{} style=\"left:{:.2f}%;width:{:.2f}%{}\"><input type=\"radio\" name=\"{}\"><span>{}</span></label>",
        place.from + place.to > 1 ? " class=\"right\"" : "", 100 * place.from, 100 * (place.to - place.from),
        place.height < 1 ? fmt::format(";top:{:.1f}%;height:{:.1f}%", 100 * place.top, 100 * place.height) : "", group,
        html_escaped(place.words));
  }
  return html + "</fieldset>";
}

}  // namespace estrain::report
