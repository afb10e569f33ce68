#include "core/planning/dispatch/action.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace estrain::dispatch {
namespace {

constexpr std::array<std::string_view, 3> kWords = {"it stood still for ", "its first step began ", "within "};

std::string_view words_of(Counted counted) { return kWords[static_cast<size_t>(counted)]; }

}  // namespace

WriteHistory note_of(const Job& job, std::string what, std::string reason) {
  WriteHistory note{job.id, std::move(what), job.targeted(), std::move(reason)};
  for (const auto& [group, count] : job.target) note.names.insert(note.names.end(), static_cast<size_t>(count), group);
  return note;
}

WriteHistory note_of(const Job& job, std::string what, Counted counted, double seconds) {
  WriteHistory note = note_of(job, std::move(what), sentence(counted, seconds));
  note.seconds = seconds;
  return note;
}

std::string sentence(Counted counted, double seconds) {
  if (counted == Counted::within) return fmt::format("{}{:.3g} s", words_of(counted), seconds);
  return fmt::format("{}{:.3f} s{}", words_of(counted), seconds, counted == Counted::began_earlier ? " earlier" : "");
}

std::optional<double> seconds_in(Counted counted, std::string_view reason) {
  const std::string_view words = words_of(counted);
  if (!reason.starts_with(words)) return std::nullopt;
  reason.remove_prefix(words.size());
  double seconds = 0;
  const auto [end, wrong] = std::from_chars(reason.data(), reason.data() + reason.size(), seconds);
  return wrong == std::errc() ? std::optional(seconds) : std::nullopt;
}

JobId job_of(const Action& action) {
  const auto job = []<typename One>(const One& one) -> JobId {
    if constexpr (requires { one.job; }) {
      return one.job;
    } else {
      return 0;
    }
  };
  return std::visit(job, action);
}

}  // namespace estrain::dispatch
