#include "core/data/photos/photo_files.h"

#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>

#include "core/base/files/input_file.h"

namespace estrain::data {

std::span<const std::byte> read_listed(const FileTree& tree, int64_t index, uint64_t most,
                                       std::vector<std::byte>& scratch) {
  const UniqueFd file = open_input(tree.path(index));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw system_error(tree.path(index), errno);
  const uint64_t size = static_cast<uint64_t>(status.st_size);
  if (size != tree.bytes(index))
    throw Error::make(Fault::corrupt, "{} bytes, were {} when the data were opened", size, tree.bytes(index));
  if (size > most) throw Error::make(Fault::corrupt, "a file of {} bytes: more than {} MiB", size, most >> 20);
  scratch.resize(size);
  for (size_t done = 0; done < size;) {
    const ssize_t got = ::pread(file.get(), scratch.data() + done, size - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_error("cannot be read", errno);
    if (got == 0) throw Error(Fault::corrupt, "was cut short while it was being read");
    done += static_cast<size_t>(got);
  }
  return scratch;
}

Error about_photo(const Error& error, const PhotoFiles& files, int64_t index) {
  const Error named = error.within(fmt::format("{}: sample {}", files.name(index), index));
  return error.advice().empty() ? named.advise("replace the file or take it away; `estrain check` names all such files")
                                : named;
}

std::string photo_endings_in_words() {
  const std::span<const std::string_view> all = photo_endings;
  return fmt::format("{} or {}", fmt::join(all.first(all.size() - 1), ", "), all.back());
}

bool ends_like(const std::filesystem::path& name, std::span<const std::string_view> endings) {
  std::string text = name.extension().string();
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::find(endings, text) != endings.end();
}

bool has_file(const std::filesystem::path& folder, std::span<const std::string_view> endings) {
  int looked_at = 0;
  std::error_code refused;
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(folder, refused)) {
    if (ends_like(entry.path(), endings)) return true;
    if (++looked_at == most_entries_looked_at) break;
  }
  return false;
}

}  // namespace estrain::data
