#include "core/state/run_directory/term.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/error.h"
#include "core/base/files/files.h"
#include "core/base/files/own_file.h"
#include "core/base/files/run_files.h"
#include "core/base/json/json.h"

namespace estrain::run_directory {
namespace {

constexpr size_t kBytes = 64;  // always, for a write in place, which a full disk does not prevent

std::string path_of(const std::string& run) { return RunFiles(run).network_term(); }

}  // namespace

std::optional<Term> read_term(const std::string& run) {
  const std::optional<std::string> text = read_file_if_present(path_of(run));
  if (!text) return std::nullopt;
  try {
    const Json json = parse_json(*text, path_of(run));
    return Term{json.at("term").get<int64_t>(), json.at("stage").get<uint64_t>()};
  } catch (const nlohmann::json::exception& error) {
    throw Error::make(Fault::corrupt, "{}: {}", path_of(run), error.what());
  }
}

void write_term(const std::string& run, const Term& term) {
  std::string text = Json{{"term", term.term}, {"stage", term.stage}}.dump();
  text.resize(kBytes - 1, ' ');
  text += '\n';
  const UniqueFd file = open_own_file(path_of(run), O_WRONLY | O_CREAT);
  if (::pwrite(file.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()) ||
      ::fdatasync(file.get()) != 0)
    throw system_error("cannot write " + path_of(run), errno);
}

void begin_terms(const std::string& run) {
  if (!read_term(run)) write_term(run, {1, 0});
}

}  // namespace estrain::run_directory
