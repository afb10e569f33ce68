#include "core/state/record/logs/openmetrics.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <limits>

#include "core/base/files/files.h"
#include "tests/core/state/record/sample_records.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::record {
namespace {

bool has(const std::string& text, const std::string& words) { return text.find(words) != text.npos; }

TEST_CASE("how a run stands, and the end of it") {
  OpenMetricsWriter writer("runs/a", "job");
  writer.note(sample_record(4));
  writer.note(EvaluationRecord{Step(3), 0.5, 0.75, 100});
  const std::string text = writer.text();
  CHECK(has(text, "# TYPE estrain_step gauge\n"));
  CHECK(has(text, "estrain_step{job_name=\"job\",run=\"runs/a\"} 4\n"));
  CHECK(has(text, "estrain_loss{job_name=\"job\",run=\"runs/a\"} 0.25\n"));
  CHECK(has(text, "estrain_test_accuracy{job_name=\"job\",run=\"runs/a\"} 0.75\n"));
  CHECK(text.ends_with("# EOF\n"));
}

TEST_CASE("numbers that are not finite, and hostile names") {
  OpenMetricsWriter writer("a\nb\xFF", "x\"} 1\\\x1B");
  StepRecord record = sample_record(1);
  record.loss = std::numeric_limits<float>::quiet_NaN();
  record.lr = std::numeric_limits<double>::infinity();
  writer.note(record);
  const std::string labels = "{job_name=\"x\\\"} 1\\\\ \",run=\"a\\nb\xEF\xBF\xBD\"}";
  CHECK(has(writer.text(), "estrain_loss" + labels + " NaN\n"));
  CHECK(has(writer.text(), "estrain_learning_rate" + labels + " +Inf\n"));
}

TEST_CASE("written at most once in a second, replaced as a whole, events counted") {
  const ScratchFolder folder;
  const std::string path = folder / "metrics.prom";
  append_line(folder / "events.jsonl", R"({"event":"stage","workers":3})");
  append_line(folder / "events.jsonl", R"({"event":"fault"})");
  OpenMetricsWriter writer(folder.path(), "job");
  writer.note(sample_record(1));
  writer.write_if_due(kNoTime);
  CHECK(has(bytes_of(path), "estrain_step{job_name=\"job\",run=\"" + folder.path() + "\"} 1\n"));
  CHECK(has(bytes_of(path), "estrain_workers{job_name=\"job\",run=\"" + folder.path() + "\"} 3\n"));
  CHECK(has(bytes_of(path), "event=\"fault\"} 1\n"));
  writer.note(sample_record(2));
  append_line(folder / "events.jsonl", R"({"event":"fault"})");
  writer.write_if_due(kNoTime + 999ms);
  CHECK(has(bytes_of(path), "\"} 1\n"));
  writer.write_if_due(kNoTime + 1s);
  CHECK(has(bytes_of(path), "estrain_step{job_name=\"job\",run=\"" + folder.path() + "\"} 2\n"));
  CHECK(has(bytes_of(path), "event=\"fault\"} 2\n"));
  CHECK_FALSE(std::filesystem::exists(path + ".tmp"));
  std::filesystem::remove(path);
  writer.write_if_due(kNoTime + 10s);  // nothing new
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("a link in its place is replaced, not written to") {
  const ScratchFolder folder;
  const std::string elsewhere = folder.write("elsewhere", "precious");
  std::filesystem::create_symlink(elsewhere, folder / "metrics.prom");
  std::filesystem::create_symlink(elsewhere, folder / "metrics.prom.tmp");
  OpenMetricsWriter(folder.path(), "job").write();
  CHECK(bytes_of(elsewhere) == "precious");
  CHECK(has(bytes_of(folder / "metrics.prom"), "# EOF"));
}

TEST_CASE("where it cannot be written it says so, and tries again") {
  const ScratchFolder folder;
  OpenMetricsWriter writer(folder / "none", "job");
  CHECK(error_of([&] { writer.write_if_due(kNoTime); }).fault() == Fault::io);
  std::filesystem::create_directory(folder / "none");
  writer.write_if_due(kNoTime + 2s);
  CHECK(std::filesystem::exists(folder / "none/metrics.prom"));
}

}  // namespace
}  // namespace estrain::record
