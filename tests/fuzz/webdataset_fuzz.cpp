// A tar archive of samples. The first byte is the number of classes (0: by the labels); the rest is the archive. Every
// member found lies inside it.
#include "core/formats/archive/tar.h"
#include "tests/fuzz/read_samples.h"

namespace estrain::fuzz {
namespace {

class Files {
 public:
  Files() { folder_.link("s.tar", file_.path()); }

  void read(const uint8_t* head, std::string_view bytes) {
    file_.set(bytes);
    const auto lies_inside = [&](const archive::TarMember& member) {
      require(member.size <= bytes.size() && member.offset <= bytes.size() - member.size, "a member lies inside");
    };
    const bool whole = accepts([&] { archive::each_member(std::as_bytes(std::span(bytes)), lies_inside); });
    spec::DataSection section;
    section.format = spec::DataFormat::webdataset;
    section.path = folder_ / "s.tar";
    section.crop = {8, 8};
    section.scale = {0.1, 1.0};
    const auto given = head[0] == 0 ? std::nullopt : std::optional<int64_t>(head[0]);
    const bool read = accepts([&] { read_samples(data::open(section, 0, 1, given)); });
    require(whole || !read, "no samples come from a damaged archive");
  }

 private:
  Folder folder_;
  MemoryFile file_;
};

}  // namespace
}  // namespace estrain::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return estrain::fuzz::read_with_head<estrain::fuzz::Files, 1>(data, size);
}
