#include "core/data/formats/cifar.h"

#include <span>

#include "core/base/error.h"
#include "core/data/formats/labelled_images.h"

namespace estrain::data {
namespace {

constexpr ImageLayout kCifarLayout{PixelType::u8, 3, 32, 32};

// A Cifar is CIFAR-10 or CIFAR-100.
struct Cifar {
  FixedClasses classes;
  size_t label_bytes;  // of a record; the last byte is the label
  std::vector<std::string> train_names;
  std::string test_name;

  size_t stride() const { return label_bytes + kCifarLayout.bytes(); }
};

void require_records(const DataFile& file, const Cifar& cifar) {
  const size_t size = file.content.size();
  if (size % cifar.stride() == 0 && size > 0) return;
  throw Error::make(Fault::corrupt, "{}: truncated or not CIFAR: {} bytes are not a multiple of the record size {}",
                    file.path, size, cifar.stride())
      .advise("download the file again; use the *binary* version, and the matching data.format (cifar10, cifar100)");
}

std::vector<int64_t> labels_in(const FileBytes& content, const Cifar& cifar) {
  std::vector<int64_t> labels;
  for (size_t at = cifar.label_bytes - 1; at < content.size(); at += cifar.stride())
    labels.push_back(static_cast<uint8_t>(content.bytes[at]));
  return labels;
}

void append_file(ImageTable& table, const DataFile& file, const Cifar& cifar) {
  require_records(file, cifar);
  const FileBytes& content = file.content;
  table.append({content.owner, content.data() + cifar.label_bytes, cifar.stride()}, labels_in(content, cifar),
               file.path);
}

std::unique_ptr<ImageTable> read_cifar(const Cifar& cifar, std::span<const DataFile> files) {
  auto table = std::make_unique<ImageTable>(kCifarLayout);
  for (const DataFile& file : files) append_file(*table, file, cifar);
  table->set_classes(cifar.classes.classes);
  return table;
}

LabelledFile scan_cifar_file(const std::string& path, const Cifar& cifar, std::vector<Finding>& findings) {
  LabelledFile result{path, {}, {}};
  note_file(findings, path, [&] {
    const FileBytes file = FileBytes::open(path);
    const size_t stride = cifar.stride();
    if (file.size() == 0 || file.size() % stride != 0) {
      throw Error::make(Fault::corrupt, "{}: {} bytes are not a multiple of the record size {}", path, file.size(),
                        stride)
          .advise("download the file again; use the *binary* version, and the matching data.format");
    }
    result.labels = labels_in(file, cifar);
    result.images = static_cast<int64_t>(result.labels->size());
    return fmt::format("{} images of {} with labels", *result.images, text_of(kCifarLayout));
  });
  return result;
}

class CifarFormat : public Format {
 public:
  explicit CifarFormat(Cifar cifar) : cifar_(std::move(cifar)) {}

  // The training files, then the test file.
  std::vector<FileName> file_names(const spec::DataSection& section) const override {
    if (section.path.empty()) throw Error(Fault::spec, "CIFAR data needs data.path, the folder of the .bin files");
    std::vector<FileName> names;
    for (const std::string& name : cifar_.train_names) names.push_back({name, section.path + "/" + name});
    names.push_back({cifar_.test_name, section.path + "/" + cifar_.test_name});
    return names;
  }
  DataPair open(const DataRequest& request, const std::vector<DataFile>& files) const override {
    const std::span all(files);
    return open_images({read_cifar(cifar_, all.first(files.size() - 1)), read_cifar(cifar_, all.last(1))}, request);
  }
  void scan(const DataRequest& request, DataScan& scan) const override {
    ScannedSet train{"training", kCifarLayout, {}}, test{"test", kCifarLayout, {}};
    const std::string folder = request.section.path + "/";
    for (const std::string& name : cifar_.train_names)
      train.files.push_back(scan_cifar_file(folder + name, cifar_, scan.findings));
    test.files.push_back(scan_cifar_file(folder + cifar_.test_name, cifar_, scan.findings));
    scan_images(scan, {std::move(train), std::move(test)}, request, cifar_.classes);
  }
  std::optional<DataPlace> in_folder(const std::filesystem::path& folder) const override {
    const bool is_one_file = cifar_.train_names.size() == 1;
    const bool found =
        exists(folder / cifar_.train_names.front()) && (!is_one_file || exists(folder / cifar_.test_name));
    return found ? std::optional(DataPlace{folder}) : std::nullopt;
  }

 private:
  Cifar cifar_;
};

}  // namespace

const Format& cifar10_format() {
  static const CifarFormat format(
      {{"CIFAR-10", 10},
       1,
       {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
       "test_batch.bin"});
  return format;
}

const Format& cifar100_format() {
  static const CifarFormat format({{"CIFAR-100", 100}, 2, {"train.bin"}, "test.bin"});
  return format;
}

}  // namespace estrain::data
