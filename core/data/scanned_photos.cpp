#include "core/data/scanned_photos.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>

#include "core/base/error.h"
#include "core/data/file_names.h"
#include "core/data/photos/image_folder.h"
#include "core/data/photos/voc.h"
#include "core/data/photos/webdataset.h"

namespace estrain::data {
namespace {

constexpr size_t kFilesNamed = 10;
constexpr const char* kReplace = "replace or remove the file";

// Whether an image file has its end marker; a truncated file lacks it. JPEG files may have further bytes after it.
bool has_end(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with("\x89PNG"))
    return text.find("IEND", text.size() - std::min<size_t>(text.size(), 64)) != text.npos;
  return text.rfind("\xff\xd9") != text.npos;
}

struct Damage {
  int64_t index;
  std::string words, advice;
};

// Throws where an image like this makes no sample.
using RequireFit = std::function<void(int64_t index, const image::Header& header, const SampleDraw& draw)>;

// Looks at every image of a set.
class PhotoSetScan {
 public:
  PhotoSetScan(const PhotoFiles& set, RequireFit require_fit, bool is_training)
      : set_(set),
        require_fit_(std::move(require_fit)),
        draw_(is_training ? SampleDraw(0, Epoch(0), 0) : SampleDraw::fixed()) {
    uint64_t total = 0;
    for (int64_t i = 0; i < set.size(); ++i) total += set.bytes(i);
    decodes_ = total <= most_bytes_decoded;
  }

  std::vector<Damage> run() {
    const unsigned threads = std::clamp(std::thread::hardware_concurrency(), 1u, 8u);
    std::vector<std::thread> others;
    try {
      for (unsigned i = 1; i < threads; ++i) others.emplace_back([this] { look_at_all(); });
    } catch (const std::system_error&) {
      // The system refuses more threads: the existing ones suffice.
    }
    look_at_all();
    for (std::thread& other : others) other.join();
    std::ranges::sort(damages_, {}, &Damage::index);
    return std::move(damages_);
  }
  bool decodes() const { return decodes_; }

 private:
  void look_at_all() {
    std::vector<std::byte> scratch;
    image::Image photo;
    for (int64_t i; (i = next_.fetch_add(1)) < set_.size();) {
      try {
        look_at(i, set_.read(i, scratch), photo);
      } catch (const Error& error) {
        std::lock_guard lock(mutex_);
        damages_.push_back({i, error.message(), error.advice()});
      }
    }
  }

  void look_at(int64_t index, std::span<const std::byte> file, image::Image& photo) const {
    require_fit_(index, image::read_header(file), draw_);
    if (decodes_) return image::decode(file, photo);
    if (!has_end(file)) throw Error(Fault::corrupt, "truncated: the end of the image is missing");
  }

  const PhotoFiles& set_;
  RequireFit require_fit_;
  SampleDraw draw_;
  bool decodes_ = false;
  std::atomic<int64_t> next_ = 0;
  std::mutex mutex_;
  std::vector<Damage> damages_;
};

void report(const PhotoSetScan& scan, const std::vector<Damage>& damages, const PhotoFiles& source,
            const std::string& name, std::vector<Finding>& findings) {
  if (damages.empty()) {
    findings.push_back(Finding::fine(
        "images",
        fmt::format("{} set: {}", name,
                    scan.decodes() ? "all images can be decoded" : "headers and ends of all images are complete")));
    return;
  }
  for (size_t i = 0; i < std::min(damages.size(), kFilesNamed); ++i) {
    const auto& [index, words, advice] = damages[i];
    findings.push_back(Finding::user_error(
        "images", fmt::format("{}: sample {} of the {} set: {}", source.name(index), index, name, words),
        advice.empty() ? kReplace : advice));
  }
  if (damages.size() > kFilesNamed) {
    findings.push_back(Finding::user_error(
        "images", fmt::format("{} more images of the {} set are damaged", damages.size() - kFilesNamed, name),
        "fix these and check again"));
  }
}

// An opened set.
struct OpenedPhotos {
  std::unique_ptr<PhotoSource> source;
  std::string what;  // "1000 images in 10 classes"
  LeftOut left_out;
};

class PhotosScan {
 public:
  PhotosScan(const spec::DataSection& section, std::vector<Finding>& findings)
      : section_(section), findings_(findings) {}

  std::vector<ScannedSet> run() {
    std::vector<ScannedSet> sets;
    for (const FileName& name : file_names(section_)) sets.push_back(scan_set(name, sets.empty()));
    return sets;
  }

 private:
  ScannedSet scan_set(const FileName& name, bool is_training) {
    ScannedSet set{is_training ? "training" : "test", std::nullopt, {{name.path + ": labels", {}, {}}}};
    try {
      const DataFile file = std::move(open_files({name}).front());
      OpenedPhotos opened = open(file, is_training);
      findings_.push_back(Finding::fine("data", fmt::format("{}: {}", name.path, opened.what)));
      note_left_out(file, opened);
      LabelledFile& labelled = set.files.front();
      labelled.images = opened.source->size();
      labelled.labels.emplace();
      for (int64_t i = 0; i < opened.source->size(); ++i) labelled.labels->push_back(opened.source->label(i));
      look_at_images(*opened.source, set.name);
    } catch (const Error& error) {
      findings_.push_back(unreadable(error));
    }
    return set;
  }

  OpenedPhotos open(const DataFile& file, bool is_training) {
    if (section_.format == spec::DataFormat::webdataset) {
      auto set = std::make_unique<WebDataset>(file);
      const std::string what = fmt::format("{} images in {} shards", set->size(), file.tree->size());
      LeftOut left_out = set->left_out();
      return {std::move(set), what, std::move(left_out)};
    }
    auto folder = std::make_unique<ImageFolder>(file, is_training ? std::vector<std::string>() : classes_);
    classes_ = folder->classes();
    const std::string what = fmt::format("{} images in {} classes", folder->size(), classes_.size());
    return {std::move(folder), what, file.tree->left_out()};
  }

  void note_left_out(const DataFile& file, const OpenedPhotos& opened) {
    if (opened.left_out.count() == 0) return;
    findings_.push_back(
        Finding::warn("data", fmt::format("{}: {}", file.path, opened.left_out.words()),
                      section_.format == spec::DataFormat::images
                          ? "images end in .jpg, .jpeg or .png"
                          : "images end in .jpg, .jpeg or .png, labels in .cls or .json, shards in .tar"));
  }

  void look_at_images(const PhotoSource& source, const std::string& name) {
    std::optional<PhotoPixels> pixels;
    try {
      pixels.emplace(section_);
    } catch (const Error& error) {
      return findings_.push_back(Finding::user_error("transforms", error.message(), error.advice()));
    }
    const auto fits = [&](int64_t, const image::Header& header, const SampleDraw& draw) {
      pixels->require_fit(header, draw);
    };
    PhotoSetScan scan(source, fits, name == "training");
    const std::vector<Damage> damages = scan.run();
    report(scan, damages, source, name, findings_);
  }

  const spec::DataSection& section_;
  std::vector<Finding>& findings_;
  std::vector<std::string> classes_;
};

}  // namespace

std::vector<ScannedSet> scan_photos(const spec::DataSection& section, std::vector<Finding>& findings) {
  return PhotosScan(section, findings).run();
}

int64_t scan_voc(const spec::DataSection& section, std::vector<Finding>& findings) {
  int64_t train_samples = 0;
  for (const FileName& name : file_names(section)) {
    const bool is_training = name.what == "training data";
    try {
      const VocDataset set(open_files({name}).front(), is_training ? section.list : section.test_list, section);
      findings.push_back(
          Finding::fine("data", fmt::format("{}: {} pictures in the list of the {} set, of {} classes", name.path,
                                            set.size(), is_training ? "training" : "test", set.classes())));
      if (is_training) train_samples = set.size();
      const auto fits = [&](int64_t index, const image::Header& header, const SampleDraw& draw) {
        set.require_fit(index, header, draw);
      };
      PhotoSetScan scan(set.folder(), fits, is_training);
      const std::vector<Damage> damages = scan.run();
      report(scan, damages, set.folder(), is_training ? "training" : "test", findings);
    } catch (const Error& error) {
      findings.push_back(unreadable(error));
    }
  }
  return train_samples;
}

}  // namespace estrain::data
