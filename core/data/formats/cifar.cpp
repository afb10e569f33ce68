#include "core/data/formats/cifar.h"

#include "core/base/error.h"

namespace estrain::data {
namespace {

struct Records {
  size_t label_bytes;  // the last of them is used
  int64_t classes;
  size_t stride() const { return label_bytes + kCifarLayout.bytes(); }
};

Records records(Cifar kind) { return kind == Cifar::ten ? Records{1, 10} : Records{2, 100}; }

void require_records(const DataFile& file, const Records& record) {
  const size_t size = file.content.size();
  if (size % record.stride() == 0 && size > 0) return;
  throw Error::make(Fault::corrupt, "{}: truncated or not CIFAR: {} bytes are not a multiple of the record size {}",
                    file.path, size, record.stride())
      .advise("download the file again; use the *binary* version, and the matching data.format (cifar10, cifar100)");
}

void append_file(ImageTable& table, const DataFile& file, const Records& record) {
  require_records(file, record);
  const FileBytes& content = file.content;
  std::vector<int64_t> labels;
  for (size_t at = record.label_bytes - 1; at < content.size(); at += record.stride())
    labels.push_back(static_cast<uint8_t>(content.bytes[at]));
  table.append({content.owner, content.data() + record.label_bytes, record.stride()}, labels, file.path);
}

}  // namespace

std::vector<std::string> cifar_train_names(Cifar kind) {
  if (kind == Cifar::hundred) return {"train.bin"};
  return {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"};
}

std::string cifar_test_name(Cifar kind) { return kind == Cifar::ten ? "test_batch.bin" : "test.bin"; }

std::unique_ptr<ImageTable> read_cifar(Cifar kind, std::span<const DataFile> files) {
  auto table = std::make_unique<ImageTable>(kCifarLayout);
  for (const DataFile& file : files) append_file(*table, file, records(kind));
  table->set_classes(records(kind).classes);
  return table;
}

}  // namespace estrain::data
