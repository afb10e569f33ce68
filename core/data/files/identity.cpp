#include "core/data/files/identity.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "core/base/json/json.h"
#include "kernels/digest.h"

namespace estrain::data {
namespace {

using Bytes = std::span<const std::byte>;

constexpr uint64_t kBlockBytes = 64 << 10;
constexpr uint64_t kBlocks = 64;
constexpr uint64_t kWordBytes = 4;

uint64_t digest_of(Bytes content, uint64_t begin, uint64_t bytes) {
  return kernels::digest(content.data() + begin, bytes, begin / kWordBytes);
}

// The first block starts at the beginning of the content, the last block ends at the end.
uint64_t sampled_digest(Bytes content) {
  if (content.size() <= kBlocks * kBlockBytes) return digest_of(content, 0, content.size());
  const uint64_t stride = (content.size() - kBlockBytes) / (kBlocks - 1) / kWordBytes * kWordBytes;
  uint64_t sum = 0;
  for (uint64_t block = 0; block + 1 < kBlocks; ++block) sum += digest_of(content, block * stride, kBlockBytes);
  const uint64_t last = (content.size() - kBlockBytes) / kWordBytes * kWordBytes;
  return sum + digest_of(content, last, content.size() - last);
}

// A TreeDigest is the digest of many files: names and sizes, and the blocks sampled from the files as from a single
// long file. Each block begins at a word boundary.
class TreeDigest {
 public:
  explicit TreeDigest(const FileTree& tree) : tree_(tree) {
    for (int64_t i = 0; i < tree.size(); ++i) {
      const std::string line = fmt::format("{}\n{}\n", tree.name(i), tree.bytes(i));
      add(Bytes(reinterpret_cast<const std::byte*>(line.data()), line.size()));
    }
  }

  // Reads bytes [begin, begin + size) of file `index`, up to the end of the file.
  void read(int64_t index, uint64_t begin, uint64_t size) {
    const FileBytes file = FileBytes::map(tree_.path(index));
    if (file.size() != tree_.bytes(index))
      throw Error::make(Fault::io, "{}: changed while it was read", tree_.path(index)).advise("try again");
    begin = std::min<uint64_t>(begin / kWordBytes * kWordBytes, file.size());
    add(file.bytes.subspan(begin, std::min<uint64_t>(size, file.size() - begin)));
  }

  uint64_t value() const { return sum_; }

 private:
  void add(Bytes bytes) {
    sum_ += kernels::digest(bytes.data(), bytes.size(), at_);
    at_ += (bytes.size() + kWordBytes - 1) / kWordBytes;
  }

  const FileTree& tree_;
  uint64_t sum_ = 0, at_ = 0;
};

uint64_t sampled_digest(const FileTree& tree) {
  TreeDigest digest(tree);
  const uint64_t stride = (std::max(tree.total_bytes(), kBlockBytes) - kBlockBytes) / (kBlocks - 1);
  uint64_t block = 0, begin = 0;  // start of the current file among all bytes
  for (int64_t i = 0; i < tree.size() && block < kBlocks; begin += tree.bytes(i), ++i) {
    for (; block < kBlocks; ++block) {
      const uint64_t place = block * stride;
      if (place >= begin + tree.bytes(i)) break;
      digest.read(i, place - begin, kBlockBytes);
    }
  }
  return digest.value();
}

std::optional<uint64_t> whole_digest(const FileTree& tree) {
  if (tree.total_bytes() > most_bytes_digested) return std::nullopt;
  TreeDigest digest(tree);
  for (int64_t i = 0; i < tree.size(); ++i) digest.read(i, 0, tree.bytes(i));
  return digest.value();
}

std::optional<uint64_t> whole_digest(const DataFile& file) {
  if (!file.samples.empty()) return std::nullopt;
  if (file.tree) return whole_digest(*file.tree);
  const Bytes content = file.content.bytes;
  if (content.size() > most_bytes_digested) return std::nullopt;
  return digest_of(content, 0, content.size());
}

FileIdentity sample(const DataFile& file) {
  if (!file.samples.empty()) return {file.what, file.path, {}, 0, 0, std::nullopt, file.samples};
  if (file.tree) {
    return {file.what, file.path, file.stamp(), file.tree->total_bytes(), sampled_digest(*file.tree), std::nullopt};
  }
  const FileBytes& content = file.content;
  return {file.what, file.path, content.stamp, content.size(), sampled_digest(content.bytes), std::nullopt};
}

// Equal stamps mean equal bytes: the digest is reused.
std::optional<uint64_t> whole_digest_beside(const FileIdentity& known, const FileIdentity& now, const DataFile& file) {
  if (now.stamp == known.stamp && known.whole) return known.whole;
  return whole_digest(file);
}

bool same_content(const FileIdentity& a, const FileIdentity& b) {
  const bool both_whole = a.whole && b.whole;
  return a.samples == b.samples && a.size == b.size && a.sampled == b.sampled && (!both_whole || a.whole == b.whole);
}

const FileIdentity* find(const DataIdentity& identity, const std::string& what) {
  const auto at = std::ranges::find(identity.files, what, &FileIdentity::what);
  return at == identity.files.end() ? nullptr : &*at;
}

Json to_json(const FileStamp& stamp) {
  return {{"device", stamp.device},
          {"inode", stamp.inode},
          {"size", stamp.size},
          {"modified_ns", stamp.modified_ns},
          {"changed_ns", stamp.changed_ns}};
}

FileStamp stamp_from_json(const Json& json) {
  return {json.at("device"), json.at("inode"), json.at("size"), json.at("modified_ns"), json.at("changed_ns")};
}

Json to_json(const FileIdentity& file) {
  Json json = {{"what", file.what},
               {"path", file.path},
               {"size", file.size},
               {"sampled", file.sampled},
               {"whole", file.whole ? Json(*file.whole) : Json()},
               {"stamp", to_json(file.stamp)}};
  if (!file.samples.empty()) json["samples"] = file.samples;
  return json;
}

FileIdentity file_from_json(const Json& json) {
  FileIdentity file{json.at("what"), json.at("path"),    stamp_from_json(json.at("stamp")),
                    json.at("size"), json.at("sampled"), std::nullopt};
  file.samples = json.value("samples", "");
  if (!json.at("whole").is_null()) file.whole = json.at("whole").get<uint64_t>();
  return file;
}

}  // namespace

std::string DataIdentity::to_json() const {
  if (files.empty()) return "";
  Json list = Json::array();
  for (const FileIdentity& file : files) list.push_back(data::to_json(file));
  return list.dump(-1, ' ', false, Json::error_handler_t::replace);
}

DataIdentity DataIdentity::from_json(std::string_view text) {
  DataIdentity identity;
  if (text.empty()) return identity;
  try {
    for (const Json& file : parse_json(text, "identity of the data")) identity.files.push_back(file_from_json(file));
  } catch (const nlohmann::json::exception& error) {
    throw Error::make(Fault::corrupt, "identity of the data: {}", error.what());
  }
  return identity;
}

std::string DataChange::in_words() const {
  if (!was) return fmt::format("{}: a new file of the data ({}), absent when the run began", is->path, is->what);
  if (!is) return fmt::format("{}: no longer a file of the data ({})", was->path, was->what);
  const std::string elsewhere = was->path == is->path ? "" : fmt::format(" (then {})", was->path);
  if (was->samples != is->samples)
    return fmt::format("{}: {}, were {}{}", is->path, is->samples, was->samples, elsewhere);
  if (was->size != is->size) return fmt::format("{}: {} bytes, were {}{}", is->path, is->size, was->size, elsewhere);
  return fmt::format("{}: other contents in the same {} bytes{}", is->path, is->size, elsewhere);
}

DataIdentity identify(const std::vector<DataFile>& files) { return recognize({}, files).now; }

Recognition recognize(const DataIdentity& known, const std::vector<DataFile>& files) {
  Recognition seen;
  for (const DataFile& file : files) {
    const FileIdentity* was = find(known, file.what);
    FileIdentity now = sample(file);
    now.whole = was ? whole_digest_beside(*was, now, file) : whole_digest(file);
    if (!was) {
      seen.changes.push_back({std::nullopt, now});
    } else if (!same_content(*was, now)) {
      seen.changes.push_back({*was, now});
    }
    seen.now.files.push_back(std::move(now));
  }
  for (const FileIdentity& was : known.files)
    if (!find(seen.now, was.what)) seen.changes.push_back({was, std::nullopt});
  return seen;
}

bool is_untouched(const DataIdentity& known, const std::vector<FileName>& names) {
  return known.files.size() == names.size() && std::ranges::all_of(names, [&](const FileName& name) {
           const FileIdentity* was = find(known, name.what);
           return was && stamp_of(name) == was->stamp;
         });
}

Error changed_data(const std::vector<DataChange>& changes) {
  std::vector<std::string> words;
  for (const DataChange& change : changes) words.push_back(change.in_words());
  return Error::make(Fault::mismatch, "the data have changed since the run began: {}", fmt::join(words, "; "))
      .advise(
          "restore the files, or accept other data from this step on, and so other bits, with "
          "`estrain train --resume --accept-data`")
      .caused_by("data_changed");
}

DataIdentity require_same(const DataIdentity& known, const std::vector<DataFile>& files) {
  Recognition seen = recognize(known, files);
  if (!seen.changes.empty()) throw changed_data(seen.changes);
  return std::move(seen.now);
}

}  // namespace estrain::data
