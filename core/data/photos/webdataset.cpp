#include "core/data/photos/webdataset.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/base/error.h"
#include "core/base/json/json.h"
#include "core/data/formats/holdout.h"
#include "core/data/photos/photo_scan.h"
#include "core/data/pixels/image_source.h"
#include "core/formats/archive/tar.h"
#include "core/job/spec/defaults.h"

namespace estrain::data {
namespace {

constexpr uint64_t kMostLabelBytes = 1 << 20;

// "a/b.c.jpg" is sample "a/b", part "c.jpg".
struct MemberName {
  std::string_view sample, part;
};

// Returns nothing for a name that is part of no sample.
std::optional<MemberName> split_name(std::string_view name) {
  const size_t slash = name.rfind('/'), from = slash == name.npos ? 0 : slash + 1;
  const size_t dot = name.find('.', from), meta = name.find("__", 2);
  if (dot == name.npos || dot == from) return std::nullopt;
  if (name.starts_with("__") && meta < name.find('/', 2) && (meta + 2 == name.size() || name[meta + 2] == '/'))
    return std::nullopt;
  return MemberName{name.substr(0, dot), name.substr(dot + 1)};
}

// Whether an unknown part would be an image or label under another name.
bool looks_like_one(std::string_view part) {
  const auto ends_so = [part](std::string_view ending) { return part.ends_with(ending); };
  return std::ranges::any_of(photo_endings, ends_so) || ends_so(".cls");
}

Error no_sample(const std::string& part) {
  const std::string kind = kind_of_file("x." + part);
  if (is_unread_image(kind))
    return Error::make(Fault::corrupt, "an image of a kind that is not read, {}", kind)
        .advise("write the shards with PNG or JPEG images");
  return Error::make(Fault::corrupt, "{} makes no sample: a sample's name ends at its first dot", part)
      .advise("write the shards with other names, such as img_v2_0003.png instead of img.v2.0003.png");
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
    archive::each_member(bytes_, [this](const archive::TarMember& member) { add(member); });
    end_sample();
  }

 private:
  void add(const archive::TarMember& member) {
    const std::optional<MemberName> name = split_name(member.name);
    if (!name) return leave_out(member);
    if (name->sample != sample_) {
      end_sample();
      sample_ = name->sample;
    }
    const std::string part = lower(name->part);
    if (std::ranges::find(photo_endings, "." + part) != std::end(photo_endings)) return take(image_, member, "image");
    if (part == "cls") return take(cls_, member, ".cls");
    if (part == "json") return take(json_, member, ".json");
    if (part_of_none_.empty() && (looks_like_one(part) || is_unread_image(kind_of_file("x." + part))))
      part_of_none_ = name->part;
    leave_out(member);
  }

  void leave_out(const archive::TarMember& member) {
    set_.left_out_.add(kind_of_file(member.name), std::string(member.name));
  }

  void take(std::optional<archive::TarMember>& place, const archive::TarMember& member, const char* what) {
    if (place) throw Error::make(Fault::corrupt, "{}: a second {}", sample_, what);
    place = member;
    place->name = {};
  }

  std::string_view text_of(const archive::TarMember& member) const {
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
    if (!image_ && !part_of_none_.empty()) with_context(sample_, [&] { throw no_sample(part_of_none_); });
    if (image_ || cls_) {
      with_context(sample_, [&] {
        if (!image_) throw Error::make(Fault::corrupt, "a label without its image, {}", photo_endings_in_words());
        set_.names_ += sample_;
        set_.samples_.push_back({image_->offset, image_->size, label(), set_.names_.size(), shard_});
      });
    } else if (json_) {
      set_.left_out_.add(".json", sample_ + ".json");
    }
    image_ = cls_ = json_ = std::nullopt;
    part_of_none_.clear();
  }

  WebDataset& set_;
  uint32_t shard_;
  std::span<const std::byte> bytes_;
  std::string sample_;
  std::optional<archive::TarMember> image_, cls_, json_;
  std::string part_of_none_;  // the first unknown part to look like an image or label
};

namespace {

void require_plain_shards(const FileTree& tree) {
  std::vector<LeftOut::Kind> packed = tree.left_out().kinds();
  std::erase_if(packed,
                [](const LeftOut::Kind& kind) { return !kind.name.starts_with(".tar.") && kind.name != ".tgz"; });
  if (packed.empty()) return;
  throw Error::make(Fault::corrupt, "{}: {}", tree.root(), in_words(packed))
      .advise(
          "decompress these shards (gunzip, unzstd), or take them out of the folder: a sample is read where it lies");
}

}  // namespace

WebDataset::WebDataset(const DataFile& shards) : tree_(shards.tree), left_out_(tree_->left_out()) {
  require_plain_shards(*tree_);
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

namespace {

class WebDatasetFormat : public Format {
 public:
  std::vector<FileName> file_names(const spec::DataSection& section) const override {
    return one_or_two(section, {"", "", FileKind::listed, kEndings},
                      "data.format = \"webdataset\" needs data.path, a tar file or a folder of them");
  }

  // Without request.classes, the number of classes is the largest training label plus 1.
  DataPair open(const DataRequest& request, const std::vector<DataFile>& files) const override {
    auto train = std::make_unique<WebDataset>(files[0]);
    int64_t count = request.classes.value_or(0);
    for (int64_t i = 0; !request.classes && i < train->size(); ++i)
      count = std::max(count, std::min(train->label(i), most_classes - 1) + 1);
    require_labels(*train, count);
    DataPair pair;
    note_left_out(pair, files[0].path, train->left_out());
    const std::vector<int64_t> labels = labels_of(*train);
    pair.train = std::make_unique<PhotoDataset>(std::move(train), count, request.section);
    if (files.size() > 1) {
      auto test = std::make_unique<WebDataset>(files[1]);
      require_labels(*test, count);
      note_left_out(pair, files[1].path, test->left_out());
      pair.test = std::make_unique<PhotoDataset>(std::move(test), count, request.section);
    } else {
      hold_out(pair, labels, spec::holdout(request.section), request.seed);
    }
    return pair;
  }

  void scan(const DataRequest& request, DataScan& scan) const override {
    const auto open = [](const DataFile& file, bool) -> OpenedPhotos {
      auto set = std::make_unique<WebDataset>(file);
      const std::string what = fmt::format("{} images in {} shards", set->size(), file.tree->size());
      LeftOut left_out = set->left_out();
      return {std::move(set), what, std::move(left_out)};
    };
    scan_photos(request, file_names(request.section), open,
                fmt::format("images end in {}, labels in .cls or .json, shards in .tar", photo_endings_in_words()),
                scan);
  }

  bool is_set(const std::filesystem::path& folder) const override { return has_file(folder, kEndings); }
  bool is_file(const std::filesystem::path& path, std::string_view) const override { return ends_like(path, kEndings); }

 private:
  static constexpr std::string_view kEndings[] = {".tar"};
};

}  // namespace

const Format& webdataset_format() {
  static const WebDatasetFormat format;
  return format;
}

}  // namespace estrain::data
