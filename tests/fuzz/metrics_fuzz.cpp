// metrics.jsonl. Records must be equal after being written and read again; and a writer that continues any file leaves
// a readable file.
#include <bit>

#include "core/base/files/files.h"
#include "core/state/record/logs/metrics.h"
#include "core/state/record/logs/metrics_line.h"
#include "tests/fuzz/fuzz_input.h"

namespace estrain::fuzz {
namespace {

bool same_bits(const record::StepRecord& a, const record::StepRecord& b) {
  const auto bits = [](float value) { return std::bit_cast<uint32_t>(value); };
  return a.step == b.step && a.epoch == b.epoch && bits(a.loss) == bits(b.loss) &&
         std::equal(a.est_losses.begin(), a.est_losses.end(), b.est_losses.begin(), b.est_losses.end(),
                    [&](float x, float y) { return bits(x) == bits(y); });
}

void read(std::string_view bytes) {
  static const Folder folder;
  static const MemoryFile file;
  file.set(bytes);
  record::Metrics metrics;
  const bool readable = accepts([&] { metrics = record::read_metrics(file.path()); });
  for (const record::StepRecord& step : metrics.steps) {
    std::string line = record::to_line(step);
    line.pop_back();
    require(same_bits(std::get<record::StepRecord>(record::parse_line(line, "again")), step), "a line says it all");
  }
  const int64_t last = bytes.empty() ? 0 : static_cast<uint8_t>(bytes[0]);
  if (!accepts([&] {
        record::StepRecord next;
        next.step = Step(last + 1);
        record::MetricsWriter(file.path(), Step(last)).append({&next, 1});
      }))
    return;
  if (readable) require(accepts([&] { record::read_metrics(file.path()); }), "a continued file can be read");
}

}  // namespace
}  // namespace estrain::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  estrain::fuzz::read(estrain::fuzz::text_of(data, size));
  return 0;
}
