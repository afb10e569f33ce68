// CIFAR-10 and CIFAR-100. The first byte selects one, and how the rest is divided into files. A record has 3 KB, so
// the rest is repeated up to a length given by the second and third byte.
#include "tests/fuzz/read_samples.h"

namespace estrain::fuzz {
namespace {

class Files {
 public:
  Files() {
    for (int i = 1; i <= 5; ++i) {
      folder_.link("data_batch_" + std::to_string(i) + ".bin", (i == 1 ? first_ : others_).path());
    }
    folder_.link("test_batch.bin", test_.path());
    folder_.link("train.bin", first_.path());
    folder_.link("test.bin", test_.path());
  }
  void read(uint8_t mode, std::string_view bytes) {
    const size_t record = (mode & 1) != 0 ? 3074 : 3073;
    first_.set(bytes);
    others_.set((mode & 2) != 0 ? bytes.substr(0, record) : bytes.substr(bytes.size() / 2));
    test_.set((mode & 4) != 0 ? bytes.substr(0, bytes.size() / record * record) : bytes);
    spec::DataSection section;
    section.format = (mode & 1) != 0 ? spec::DataFormat::cifar100 : spec::DataFormat::cifar10;
    section.path = folder_.path();
    if ((mode & 8) != 0) section.pad = 4, section.crop = {32, 32}, section.flip = true;
    const std::optional<int64_t> classes = (mode & 16) != 0 ? std::optional<int64_t>(3) : std::nullopt;
    accepts([&] { read_samples(data::open(section, 0, 1, classes)); });
  }

 private:
  Folder folder_;
  MemoryFile first_, others_, test_;
};

}  // namespace
}  // namespace estrain::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static estrain::fuzz::Files files;
  if (size < 4) return 0;
  const std::string_view pattern = estrain::fuzz::text_of(data + 3, size - 3);
  std::string bytes;
  const size_t length = (data[1] | data[2] << 8) % 20'000;
  while (bytes.size() < length) bytes += pattern;
  bytes.resize(length);
  files.read(data[0], bytes);
  return 0;
}
