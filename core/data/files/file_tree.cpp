#include "core/data/files/file_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "core/base/error.h"
#include "core/base/files/files.h"
#include "kernels/digest.h"

namespace estrain::data {
namespace {

constexpr size_t kMostKinds = 16;
constexpr const char* kOtherKinds = "of other kinds";

constexpr std::array<std::string_view, 12> kUnreadImages = {".avif", ".gif", ".heic", ".heif", ".jfif", ".jp2",
                                                            ".jxl",  ".pbm", ".pgm",  ".pnm",  ".ppm",  ".tga"};

std::string in_lower_case(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return result;
}

struct CodePoint {
  uint32_t value;
  size_t bytes;
};

// The number of bytes of a UTF-8 sequence, by the first byte; 0 if no sequence begins with the byte.
size_t length_of(uint8_t first) {
  return first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
}

// The first code point of a text. A byte outside of UTF-8 sequences counts as U+DC80 to U+DCFF.
CodePoint first_of(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const CodePoint alone = {0xdc00u + byte(0), 1};
  const size_t length = length_of(byte(0));
  if (length == 1) return {byte(0), 1};
  if (length == 0 || length > text.size()) return alone;
  uint32_t value = byte(0) & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return alone;
    value = value << 6 | (byte(i) & 0x3f);
  }
  constexpr std::array<uint32_t, 5> least = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = value >= 0xd800 && value < 0xe000;
  return value < least[length] || value > 0x10ffff || is_surrogate ? alone : CodePoint{value, length};
}

constexpr int kDeepest = 32;
constexpr int64_t kMostFiles = 1'000'000'000;

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

bool ends_in_one_of(std::string_view name, std::span<const std::string_view> endings) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::ranges::any_of(endings, [&](std::string_view ending) {
    return name.size() > ending.size() &&
           std::ranges::equal(name.substr(name.size() - ending.size()), ending, {}, lower);
  });
}

}  // namespace

std::string kind_of_file(std::string_view name) {
  name = name.substr(name.rfind('/') + 1);
  if (name.starts_with('.')) return "hidden";
  const size_t dot = name.rfind('.');
  if (dot == name.npos || dot + 1 == name.size()) return "without an ending";
  const std::string start = in_lower_case(name.substr(0, dot)), ending = in_lower_case(name.substr(dot));
  return start.ends_with(".tar") ? ".tar" + ending : ending;
}

void LeftOut::add(const std::string& kind, const std::string& path) {
  auto at = std::ranges::find(kinds_, kind, &Kind::name);
  if (at == kinds_.end() && kinds_.size() < kMostKinds) at = kinds_.insert(at, {kind, 0, path});
  if (at == kinds_.end()) at = std::ranges::find(kinds_, kOtherKinds, &Kind::name);
  if (at == kinds_.end()) at = kinds_.insert(at, {kOtherKinds, 0, path});
  if (++at->count > 1 && path < at->first) at->first = path;
}

int64_t LeftOut::count() const {
  int64_t sum = 0;
  for (const Kind& kind : kinds_) sum += kind.count;
  return sum;
}

std::vector<LeftOut::Kind> LeftOut::kinds() const {
  std::vector<Kind> sorted = kinds_;
  std::ranges::sort(
      sorted, [](const Kind& a, const Kind& b) { return a.count != b.count ? a.count > b.count : a.name < b.name; });
  return sorted;
}

std::string LeftOut::words() const {
  return fmt::format("{}: {}", count() == 1 ? "1 file is left out" : fmt::format("{} files are left out", count()),
                     in_words(kinds()));
}

std::string in_words(const std::vector<LeftOut::Kind>& kinds) {
  std::vector<std::string> words;
  for (const LeftOut::Kind& kind : kinds)
    words.push_back(fmt::format("{} {} (the first is {})", kind.count, kind.name, kind.first));
  return fmt::format("{}", fmt::join(words, ", "));
}

bool is_unread_image(std::string_view kind) { return std::ranges::find(kUnreadImages, kind) != kUnreadImages.end(); }

bool python_sorts_before(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    const CodePoint x = first_of(a), y = first_of(b);
    if (x.value != y.value) return x.value < y.value;
    a.remove_prefix(x.bytes), b.remove_prefix(y.bytes);
  }
  return a.empty() && !b.empty();
}

class FileTree::Walk {
 public:
  Walk(FileTree& tree, std::span<const std::string_view> endings) : tree_(tree), endings_(endings) {}

  void run() {
    struct stat status {};
    if (::stat(tree_.root_.c_str(), &status) != 0) throw system_error(tree_.root_, errno);
    tree_.stamp_ = FileStamp::of(status);
    if (S_ISDIR(status.st_mode)) {
      folder();
    } else {
      file("", status);
    }
    tree_.stamp_.size = tree_.total_bytes_;
    tree_.stamp_.modified_ns = modified_.value();
    tree_.stamp_.changed_ns = changed_.value();
  }

 private:
  // A position-dependent sum over words: equal for the same files in the same order.
  class Mix {
   public:
    void add(uint64_t value) {
      const uint32_t words[2] = {static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32)};
      sum_ += kernels::digest(reinterpret_cast<const std::byte*>(words), sizeof(words), at_);
      at_ += 2;
    }
    int64_t value() const { return static_cast<int64_t>(sum_); }

   private:
    uint64_t sum_ = 0, at_ = 0;
  };

  struct Entry {
    std::string name;
    struct stat status;
  };
  struct Listing {
    std::string name;  // of the folder, relative to the root
    std::vector<Entry> files, folders;
    struct stat status;
  };

  std::string path_of(const std::string& name) const { return name.empty() ? tree_.root_ : tree_.root_ + "/" + name; }

  // Lists the root's own files, then each folder of the root with everything below.
  void folder() {
    Listing root = read_entries("");
    emit(root);
    for (const Entry& entry : root.folders) {
      tree_.folders_.push_back(entry.name);
      std::vector<Listing> below;
      collect(entry.name, 1, below);
      std::ranges::sort(below, python_sorts_before, &Listing::name);
      for (const Listing& listing : below) emit(listing);
    }
  }

  void collect(const std::string& name, int depth, std::vector<Listing>& below) {
    if (depth > kDeepest)
      throw Error::make(Fault::io, "{}: folders more than {} deep", path_of(name), kDeepest)
          .advise("look for a link to a parent folder");
    Listing listing = read_entries(name);
    const std::vector<Entry> folders = std::move(listing.folders);
    below.push_back(std::move(listing));
    for (const Entry& entry : folders) collect(name + "/" + entry.name, depth + 1, below);
  }

  void emit(const Listing& listing) {
    note(listing.status);
    const std::string start = listing.name.empty() ? "" : listing.name + "/";
    for (const Entry& entry : listing.files) file(start + entry.name, entry.status);
  }

  Listing read_entries(const std::string& name) {
    const std::unique_ptr<DIR, CloseFolder> stream(::opendir(path_of(name).c_str()));
    if (!stream) throw system_error(path_of(name), errno);
    Listing listing{name, {}, {}, {}};
    if (::fstat(::dirfd(stream.get()), &listing.status) != 0) throw system_error(path_of(name), errno);
    for (;;) {
      errno = 0;
      const dirent* next = ::readdir(stream.get());
      if (!next && errno != 0) throw system_error(path_of(name) + ": cannot list the folder", errno);
      if (!next) break;
      add_entry(::dirfd(stream.get()), next->d_name, listing);
    }
    std::ranges::sort(listing.files, python_sorts_before, &Entry::name);
    std::ranges::sort(listing.folders, python_sorts_before, &Entry::name);
    return listing;
  }

  void add_entry(int fd, const char* name, Listing& listing) {
    const std::string_view text = name;
    if (text == "." || text == "..") return;
    const std::string from_root = listing.name.empty() ? std::string(text) : fmt::format("{}/{}", listing.name, text);
    struct stat status {};
    if (text.starts_with('.')) return tree_.left_out_.add("hidden", from_root);
    const bool wanted = ends_in_one_of(text, endings_);
    if (::fstatat(fd, name, &status, 0) != 0) {
      if (!wanted) return leave_out(from_root);  // a dangling link
      throw system_error(path_of(from_root), errno);
    }
    if (S_ISDIR(status.st_mode)) return listing.folders.push_back({name, status});
    if (!wanted) return leave_out(from_root);
    if (!S_ISREG(status.st_mode))
      throw Error::make(Fault::io, "{}: not a regular file", path_of(from_root)).advise("remove it");
    listing.files.push_back({name, status});
  }

  void leave_out(const std::string& name) { tree_.left_out_.add(kind_of_file(name), name); }

  void file(const std::string& name, const struct stat& status) {
    if (!S_ISREG(status.st_mode)) throw Error::make(Fault::io, "{}: not a regular file", path_of(name));
    if (tree_.size() >= kMostFiles) throw Error::make(Fault::io, "{}: more than {} files", tree_.root_, kMostFiles);
    tree_.append(name, static_cast<uint64_t>(status.st_size));
    note(status);
  }

  void note(const struct stat& status) {
    const FileStamp stamp = FileStamp::of(status);
    modified_.add(static_cast<uint64_t>(stamp.modified_ns));
    modified_.add(stamp.size);
    changed_.add(static_cast<uint64_t>(stamp.changed_ns));
    changed_.add(stamp.inode);
  }

  FileTree& tree_;
  std::span<const std::string_view> endings_;
  Mix modified_, changed_;
};

FileTree FileTree::list(const std::string& path, std::span<const std::string_view> endings) {
  FileTree tree;
  tree.root_ = path;
  while (tree.root_.size() > 1 && tree.root_.ends_with('/')) tree.root_.pop_back();
  Walk(tree, endings).run();
  return tree;
}

std::string_view FileTree::name(int64_t index) const {
  const size_t i = static_cast<size_t>(index);
  const uint64_t begin = i == 0 ? 0 : ends_[i - 1];
  return std::string_view(names_).substr(begin, ends_[i] - begin);
}

std::string FileTree::path(int64_t index) const {
  const std::string_view own = name(index);
  return own.empty() ? root_ : fmt::format("{}/{}", root_, own);
}

void FileTree::append(std::string_view name, uint64_t bytes) {
  names_ += name;
  ends_.push_back(names_.size());
  bytes_.push_back(bytes);
  total_bytes_ += bytes;
}

}  // namespace estrain::data
