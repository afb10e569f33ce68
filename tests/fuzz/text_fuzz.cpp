// A text as data: one byte of flags, then context, holdout and the length of the test file, then the bytes of both.
#include "tests/fuzz/read_samples.h"

namespace estrain::fuzz {
namespace {

class Files {
 public:
  Files() {
    folder_.link("text", text_.path());
    folder_.link("text.gz", text_.path());
    folder_.link("test", test_.path());
  }
  void read(const uint8_t* head, std::string_view bytes) {
    const size_t test_bytes = std::min<size_t>(bytes.size(), head[3]);
    test_.set(bytes.substr(0, test_bytes));
    text_.set(bytes.substr(test_bytes));
    spec::DataSection section;
    section.format = spec::DataFormat::text;
    section.path = folder_ / ((head[0] & 1) != 0 ? "text.gz" : "text");
    if ((head[0] & 2) != 0) section.test_path = folder_ / "test";
    section.holdout = head[2] / 256.0;
    accepts([&] { read_samples(data::open(section, 1 + head[1], 1)); });
  }

 private:
  Folder folder_;
  MemoryFile text_, test_;
};

}  // namespace
}  // namespace estrain::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return estrain::fuzz::read_with_head<estrain::fuzz::Files, 4>(data, size);
}
