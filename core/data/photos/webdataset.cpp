#include "core/data/photos/webdataset.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/archive/tar.h"
#include "core/base/error.h"
#include "core/base/json/json.h"
#include "core/data/pixels/image_source.h"

namespace estrain::data {
namespace {

constexpr uint64_t kMostLabelBytes = 1 << 20;

// "a/b.c.jpg" is sample "a/b", part "c.jpg".
struct MemberName {
  std::string_view sample, part;
};

MemberName split_name(std::string_view name) {
  const size_t slash = name.rfind('/'), from = slash == name.npos ? 0 : slash + 1;
  const size_t dot = name.find('.', from);
  if (dot == name.npos || dot == from) return {name, ""};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return result;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const size_t first = text.find_first_not_of(blanks);
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(blanks) + 1 - first);
}

int64_t number_in(std::string_view text) {
  const std::string_view digits = trimmed(text);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc() && end == digits.data() + digits.size() && !digits.empty()) return value;
  throw Error::make(Fault::corrupt, "its .cls is not a whole number: \"{}\"", digits.substr(0, 40));
}

int64_t number_in_json(std::string_view text) {
  const Json json = parse_json(text, "its .json");
  for (const char* key : {"cls", "label"}) {
    if (!json.is_object() || !json.contains(key)) continue;
    if (json.at(key).is_number_integer()) return json.at(key).get<int64_t>();
    throw Error::make(Fault::corrupt, "\"{}\" in its .json is not a whole number", key);
  }
  throw Error(Fault::corrupt, "its .json has neither \"cls\" nor \"label\"");
}

}  // namespace

// Indexes one shard.
class WebDataset::Indexer {
 public:
  Indexer(WebDataset& set, uint32_t shard) : set_(set), shard_(shard), bytes_(set.shards_[shard].bytes) {}

  void run() {
    archive::each_member(bytes_, [this](const archive::Member& member) { add(member); });
    end_sample();
  }

 private:
  void add(const archive::Member& member) {
    const MemberName name = split_name(member.name);
    if (name.sample != sample_) {
      end_sample();
      sample_ = name.sample;
    }
    const std::string part = lower(name.part);
    if (part == "jpg" || part == "jpeg" || part == "png") return take(image_, member, "image");
    if (part == "cls") return take(cls_, member, ".cls");
    if (part == "json") return take(json_, member, ".json");
  }

  void take(std::optional<archive::Member>& place, const archive::Member& member, const char* what) {
    if (place) throw Error::make(Fault::corrupt, "{}: a second {}", sample_, what);
    place = member;
    place->name = {};
  }

  std::string_view text_of(const archive::Member& member) const {
    if (member.size > kMostLabelBytes)
      throw Error::make(Fault::corrupt, "a label of {} bytes: more than 1 MiB", member.size);
    return {reinterpret_cast<const char*>(bytes_.data()) + member.offset, member.size};
  }

  int64_t label() const {
    if (cls_) return number_in(text_of(*cls_));
    if (json_) return number_in_json(text_of(*json_));
    throw Error(Fault::corrupt, "an image without its label, .cls or .json");
  }

  // Files that are neither image nor label form no sample.
  void end_sample() {
    if (image_ || cls_) {
      with_context(sample_, [&] {
        if (!image_) throw Error(Fault::corrupt, "a label without its image, .jpg, .jpeg or .png");
        set_.names_ += sample_;
        set_.samples_.push_back({image_->offset, image_->size, label(), set_.names_.size(), shard_});
      });
    }
    image_ = cls_ = json_ = std::nullopt;
  }

  WebDataset& set_;
  uint32_t shard_;
  std::span<const std::byte> bytes_;
  std::string sample_;
  std::optional<archive::Member> image_, cls_, json_;
};

WebDataset::WebDataset(const DataFile& shards) : tree_(shards.tree) {
  if (tree_->size() == 0)
    throw Error::make(Fault::corrupt, "{}: no .tar file in this folder", shards.path)
        .advise("data.path must be a tar file or a folder of them");
  for (int64_t i = 0; i < tree_->size(); ++i) {
    shards_.push_back(FileBytes::map(tree_->path(i)));
    try {
      Indexer(*this, static_cast<uint32_t>(i)).run();
    } catch (const Error& error) {
      const Error named = error.within(tree_->path(i));
      throw named.fault() == Fault::corrupt && named.advice().empty()
          ? named.advise("download or create the file again")
          : named;
    }
  }
}

std::string WebDataset::name(int64_t index) const {
  const uint64_t begin = index == 0 ? 0 : at(index - 1).name_end;
  return fmt::format("{}: {}", tree_->path(at(index).shard), names_.substr(begin, at(index).name_end - begin));
}

std::span<const std::byte> WebDataset::read(int64_t index, std::vector<std::byte>&) const {
  const Sample& sample = at(index);
  if (sample.bytes > most_photo_bytes)
    throw Error::make(Fault::corrupt, "a file of {} bytes: more than 256 MiB", sample.bytes);
  return shards_[sample.shard].bytes.subspan(sample.offset, sample.bytes);
}

DataPair open_webdataset(const std::vector<DataFile>& files, const spec::DataSection& section,
                         std::optional<int64_t> classes) {
  auto train = std::make_unique<WebDataset>(files[0]);
  int64_t count = classes.value_or(0);
  for (int64_t i = 0; !classes && i < train->size(); ++i)
    count = std::max(count, std::min(train->label(i), most_classes - 1) + 1);
  require_labels(*train, count);
  DataPair pair;
  pair.train = std::make_unique<PhotoDataset>(std::move(train), count, section);
  if (files.size() > 1) {
    auto test = std::make_unique<WebDataset>(files[1]);
    require_labels(*test, count);
    pair.test = std::make_unique<PhotoDataset>(std::move(test), count, section);
  }
  return pair;
}

}  // namespace estrain::data
