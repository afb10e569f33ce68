// A token file: one byte of flags, then the context, the vocabulary in two bytes, and the file.
#include "tests/fuzz/read_samples.h"

namespace estrain::fuzz {
namespace {

class Files {
 public:
  Files() { folder_.link("tokens", file_.path()); }

  void read(const uint8_t* head, std::string_view bytes) {
    file_.set(bytes);
    spec::DataSection section;
    section.format = spec::DataFormat::tokens;
    section.path = folder_ / "tokens";
    section.token_type = (head[0] & 1) != 0 ? spec::TokenType::u32 : spec::TokenType::u16;
    section.holdout = (head[0] & 2) != 0 ? 0.25 : 0;
    accepts([&] { read_samples(data::open(section, 1 + head[1], 1, 1 + (head[2] | head[3] << 8))); });
  }

 private:
  Folder folder_;
  MemoryFile file_;
};

}  // namespace
}  // namespace estrain::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return estrain::fuzz::read_with_head<estrain::fuzz::Files, 4>(data, size);
}
