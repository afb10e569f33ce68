#include "core/data/photos/photo_scan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>

#include "core/base/error.h"
#include "core/data/formats/labelled_images.h"
#include "core/job/spec/defaults.h"

namespace estrain::data {
namespace {

constexpr size_t kFilesNamed = 10;
constexpr const char* kReplace = "replace or remove the file";

// Whether an image file has the end marker; a truncated file lacks the marker. JPEG files may have further bytes after
// the marker.
bool has_end(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with("\x89PNG"))
    return text.find("IEND", text.size() - std::min<size_t>(text.size(), 64)) != text.npos;
  if (!text.starts_with("\xff")) return true;  // read_header() has found where the pixels are
  return text.rfind("\xff\xd9") != text.npos;
}

struct Damage {
  int64_t index;
  std::string words, advice;
};

// Looks at every image of a set.
class PhotoSetScan {
 public:
  PhotoSetScan(const PhotoFiles& set, const PhotoUse& use)
      : set_(set), use_(use), draw_(use.is_training ? SampleDraw(0, Epoch(0), 0) : SampleDraw::fixed()) {
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
  int64_t cut_off() const { return cut_off_; }  // images with 16 bits of grey

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

  void look_at(int64_t index, std::span<const std::byte> file, image::Image& photo) {
    const image::Header header = image::read_header(file, use_.orientation);
    if (header.is_cut_off) cut_off_.fetch_add(1);
    use_.require_fit(index, header, draw_);
    if (decodes_) return image::decode(file, photo);
    if (!has_end(file)) throw Error(Fault::corrupt, "truncated: the end of the image is missing");
  }

  const PhotoFiles& set_;
  const PhotoUse& use_;
  SampleDraw draw_;
  bool decodes_ = false;
  std::atomic<int64_t> next_ = 0, cut_off_ = 0;
  std::mutex mutex_;
  std::vector<Damage> damages_;
};

void report(const PhotoSetScan& scan, const std::vector<Damage>& damages, const PhotoFiles& source,
            const std::string& name, int64_t may_be_left_out, std::vector<Finding>& findings) {
  if (scan.cut_off() > 0) {
    findings.push_back(Finding::warn(
        "images",
        fmt::format("{} set: {} images have 16 bits of grey; what is above 255 becomes 255, as by Pillow's "
                    "convert(\"RGB\")",
                    name, scan.cut_off()),
        "convert them to 8 bits in the way that suits the images"));
  }
  if (damages.empty()) {
    findings.push_back(Finding::fine(
        "images",
        fmt::format("{} set: {}", name,
                    scan.decodes() ? "all images can be decoded" : "headers and ends of all images are complete")));
    return;
  }
  for (size_t i = 0; i < std::min(damages.size(), kFilesNamed); ++i) {
    const auto& [index, words, advice] = damages[i];
    const std::string seen = fmt::format("{}: sample {} of the {} set: {}", source.name(index), index, name, words);
    findings.push_back(std::ssize(damages) <= may_be_left_out
                           ? Finding::warn("images", seen, "data.skip_bad leaves the sample out")
                           : Finding::user_error("images", seen, advice.empty() ? kReplace : advice));
  }
  if (std::ssize(damages) <= may_be_left_out) return;
  if (damages.size() > kFilesNamed) {
    findings.push_back(Finding::user_error(
        "images", fmt::format("{} more images of the {} set are damaged", damages.size() - kFilesNamed, name),
        "fix these and check again"));
  }
}

class PhotosScan {
 public:
  PhotosScan(const spec::DataSection& section, const OpenPhotos& open, const std::string& taken,
             std::vector<Finding>& findings)
      : section_(section), open_(open), taken_(taken), findings_(findings) {}

  // The set, without a layout, since the sizes of the images differ.
  ScannedSet run(const FileName& name, bool is_training) {
    ScannedSet set{is_training ? "training" : "test", std::nullopt, {{name.path + ": labels", {}, {}}}};
    try {
      const DataFile file = std::move(open_files({name}).front());
      OpenedPhotos opened = open_(file, is_training);
      findings_.push_back(Finding::fine("data", fmt::format("{}: {}", name.path, opened.what)));
      note_left_out(file, opened);
      LabelledFile& labelled = set.files.front();
      labelled.images = opened.source->size();
      labelled.labels = labels_of(*opened.source);
      look_at_images(*opened.source, set.name);
    } catch (const Error& error) {
      findings_.push_back(unreadable(error));
    }
    return set;
  }

 private:
  void note_left_out(const DataFile& file, const OpenedPhotos& opened) {
    if (opened.left_out.count() == 0) return;
    findings_.push_back(Finding::warn("data", fmt::format("{}: {}", file.path, opened.left_out.words()), taken_));
  }

  void look_at_images(const PhotoSource& source, const std::string& name) {
    std::optional<PhotoPixels> pixels;
    try {
      pixels.emplace(section_);
    } catch (const Error& error) {
      return findings_.push_back(Finding::user_error("transforms", error.message(), error.advice()));
    }
    const bool may_be_held_out = name == "training" && spec::holdout(section_) > 0;
    const auto fits = [&](int64_t, const image::Header& header, const SampleDraw& draw) {
      pixels->require_fit(header, draw);
      if (may_be_held_out) pixels->require_fit(header, SampleDraw::fixed());
    };
    scan_photo_set(source, {fits, pixels->orientation(), name == "training", section_.skip_bad}, findings_);
  }

  const spec::DataSection& section_;
  const OpenPhotos& open_;
  const std::string& taken_;
  std::vector<Finding>& findings_;
};

// Notes the shape of photos for the model, whatever the sizes of the photos.
void note_photo_shape(DataScan& scan, const spec::DataSection& section) {
  const std::vector<int64_t>& size = section.crop.empty() ? section.resize : section.crop;
  if (size.size() != 2) return;  // a finding already
  scan.is_shape_of_model = true;
  scan.stored_shape = {section.channels.value_or(3), size[0], size[1]};
  scan.findings.push_back(
      Finding::fine("transforms", fmt::format("samples of [{}]", fmt::join(scan.stored_shape, ", "))));
}

}  // namespace

void scan_photo_set(const PhotoFiles& set, const PhotoUse& use, std::vector<Finding>& findings) {
  PhotoSetScan scan(set, use);
  const std::vector<Damage> damages = scan.run();
  report(scan, damages, set, use.is_training ? "training" : "test", use.may_be_left_out, findings);
}

void scan_photos(const DataRequest& request, const std::vector<FileName>& names, const OpenPhotos& open,
                 const std::string& taken, DataScan& scan) {
  PhotosScan photos(request.section, open, taken, scan.findings);
  std::vector<ScannedSet> sets;
  for (const FileName& name : names) sets.push_back(photos.run(name, sets.empty()));
  scan_images(scan, sets, request);
  note_photo_shape(scan, request.section);
}

}  // namespace estrain::data
