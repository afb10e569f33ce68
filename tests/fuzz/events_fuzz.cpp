// events.jsonl and similar files, as checkpoints quote them and `verify` reads them: lines of any type and depth are
// skipped. The kept history is a list, is read as stages, and does not depend on how often it was read.
#include "core/inspect/verify/history.h"
#include "core/state/record/saver.h"
#include "tests/fuzz/fuzz_input.h"

namespace estrain::fuzz {
namespace {

void read(std::string_view bytes) {
  static const MemoryFile file;
  record::StageHistory whole(file.path()), grown(file.path());
  file.set(bytes.substr(0, bytes.size() / 2));
  grown.follow();
  file.set(bytes);
  grown.follow();
  whole.follow();
  require(grown.to_json() == whole.to_json(), "a file is read on where it was left");
  require(grown.devices() == whole.devices(), "with the same devices");
  require(parse_json(whole.to_json(), "stages").is_array(), "a history is a list");
  require(whole.devices().find('\0') == std::string::npos, "an attribute has no zero byte");
  verify::stages_from_list(whole.to_json());
  verify::stages_from_list(bytes);
  verify::stages_from_events(bytes);
  require(verify::change_log_difference(bytes, bytes, Step(5)).empty(), "a log is the same as itself");
}

}  // namespace
}  // namespace estrain::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  estrain::fuzz::read(estrain::fuzz::text_of(data, size));
  return 0;
}
