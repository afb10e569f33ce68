#include "core/data/cifar.h"

#include "core/base/error.h"
#include "core/data/file_bytes.h"

namespace estrain::data {
namespace {

constexpr ImageLayout layout{PixelType::u8, 3, 32, 32};

struct Records {
  size_t label_bytes;  // the last of them counts
  int64_t classes;
  size_t stride() const { return label_bytes + layout.bytes(); }
};

Records records(Cifar kind) { return kind == Cifar::ten ? Records{1, 10} : Records{2, 100}; }

FileBytes open_records(const std::string& path, const Records& record) {
  FileBytes file = FileBytes::open(path);
  if (file.size() % record.stride() != 0 || file.size() == 0) {
    throw Error::make(Fault::corrupt, "{}: truncated or not CIFAR: {} bytes are no whole number of records of {}", path,
                      file.size(), record.stride())
        .advise(
            "fetch the file again; the *binary* version is needed, and data.format must say which (cifar10, cifar100)");
  }
  return file;
}

void append_file(ImageTable& table, const std::string& path, const Records& record) {
  const FileBytes file = open_records(path, record);
  std::vector<int64_t> labels;
  for (size_t at = record.label_bytes - 1; at < file.size(); at += record.stride())
    labels.push_back(static_cast<uint8_t>(file.bytes[at]));
  table.append({file.owner, file.data() + record.label_bytes, record.stride()}, labels, path);
}

std::unique_ptr<ImageTable> read_files(Cifar kind, const std::string& folder, const std::vector<std::string>& names) {
  auto table = std::make_unique<ImageTable>(layout);
  for (const std::string& name : names) append_file(*table, folder + "/" + name, records(kind));
  table->set_classes(records(kind).classes);
  return table;
}

}  // namespace

std::unique_ptr<ImageTable> read_cifar_train(Cifar kind, const std::string& folder) {
  if (kind == Cifar::hundred) return read_files(kind, folder, {"train.bin"});
  return read_files(
      kind, folder,
      {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"});
}

std::unique_ptr<ImageTable> read_cifar_test(Cifar kind, const std::string& folder) {
  return read_files(kind, folder, {kind == Cifar::ten ? "test_batch.bin" : "test.bin"});
}

}  // namespace estrain::data
