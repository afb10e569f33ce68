// The page for a handwritten run directory.

#include "core/inspect/report/page.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <limits>

#include "core/base/files/files.h"
#include "core/state/record/logs/metrics.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::report {
namespace {

bool has(const std::string& text, const std::string& words) { return text.find(words) != text.npos; }

size_t count(const std::string& text, const std::string& words) {
  size_t found = 0;
  for (size_t at = text.find(words); at != text.npos; at = text.find(words, at + words.size())) ++found;
  return found;
}

record::StepRecord step_record(int64_t step, float loss) {
  record::StepRecord record;
  record.step = Step(step);
  record.loss = loss;
  record.est_losses = {loss, loss};
  record.lr = 0.1;
  record.samples_per_second = 100;
  return record;
}

struct RunFolder {
  ScratchFolder folder;
  std::string path;

  explicit RunFolder(int64_t steps = 100, const std::string& name = "plain", float other = 0) : path(folder / "run") {
    make_folders(path);
    replace_bytes(path + "/job.toml",
                  fmt::format("[job]\nname = '''{}'''\nests = 2\n[model]\nname = \"mlp\"\n[data]\nformat = "
                              "\"synthetic\"\nshape = [4]\nsamples = 100\n[train]\nsteps = 100\n",
                              name));
    record::MetricsWriter metrics(path + "/metrics.jsonl", Step(0));
    std::vector<record::StepRecord> records;
    for (int64_t step = 1; step <= steps; ++step)
      records.push_back(step_record(step, 1 / static_cast<float>(step) + (step == 50 ? other : 0)));
    metrics.append(records);
    metrics.append(record::EvaluationRecord{Step(steps), 0.5, 0.75, 10});
    add_event(R"("event":"start","step":0,"devices":"cpu,cpu")");
    add_event(R"("event":"stage","stage":0,"step":0,"devices":["cpu","cpu"],"ranges":[[0,1],[1,2]])");
  }
  void add_event(const std::string& fields) {
    append_line(path + "/events.jsonl", fmt::format(R"({{"time":"2031-05-04T10:00:{:02}.000Z",{}}})", next_++, fields));
  }

  int next_ = 0;
};

TEST_CASE("a page shows curves, the time line, tables and nothing that loads or runs") {
  RunFolder run;
  run.add_event(R"("event":"fault","worker":1,"device":"cpu","step":40,"what":"ended by SIGKILL")");
  run.add_event(R"("event":"recovered","worker":1,"step":40,"seconds_to_next_step":1.5)");
  run.add_event(R"("event":"finished","step":100)");
  const RunRecords records = read_run(run.path);
  CHECK(records.steps == 100);
  CHECK(records.damage.empty());
  const std::string html = page({records}, {});
  for (const char* id : {"loss", "accuracy", "test-loss", "lr", "speed", "run-1", "run-1-line", "run-1-e1"})
    CHECK_MESSAGE(count(html, fmt::format("id=\"{}\"", id)) == 1, id);
  CHECK(has(html, "ended by SIGKILL"));
  CHECK(has(html, "<a class=\"fault"));
  CHECK(has(html, "Loss as a table"));
  CHECK(has(html, "default-src &#39;none&#39;") == false);
  CHECK(has(html, "content=\"default-src 'none'; style-src 'unsafe-inline'"));
  CHECK_FALSE(has(html, "<script"));
  CHECK_FALSE(has(html, "http://"));
  CHECK_FALSE(has(html, "https://"));
  CHECK_FALSE(has(html, "src=\""));
  CHECK_FALSE(has(html, "nan"));
}

TEST_CASE("hostile names and messages are text") {
  const std::string hostile = "<script>alert(1)</script>\"onload='x'";
  RunFolder run(10, "<script>alert(1)<script>\"onload=");
  const std::string quoted = Json(hostile).dump();
  run.add_event(
      fmt::format(R"("event":"fault","worker":1,"device":{0},"step":4,"what":{0},"cause":{0},"advice":{0})", quoted));
  run.add_event(fmt::format(R"("event":{0},"step":4,"why":{0})", quoted));
  run.add_event(fmt::format(R"("event":"stage","step":5,"devices":[{0}],"ranges":[[0,2]])", quoted));
  run.add_event(
      fmt::format(R"("event":"stage_speed","seconds":1,"workers":[{{"device":{0},"mini_batches":1}}])", quoted));
  run.add_event(fmt::format(R"("event":"resize","from":{0},"to":{0},"why":{0})", quoted));
  append_line(run.path + "/events.jsonl", fmt::format(R"({{"time":{0},"event":"stopped","why":{0}}})", quoted));
  replace_bytes(run.path + "/metrics.jsonl", bytes_of(run.path + "/metrics.jsonl") + "<script>alert(2)</script>\n");
  const RunRecords records = read_run(run.path);
  REQUIRE(records.name == "<script>alert(1)<script>\"onload=");
  const RunDifference difference{false, false, 0, hostile, {}};
  const std::string html = page({records, records}, {difference});
  CHECK(has(html, "&lt;script&gt;alert(1)&lt;/script&gt;"));
  CHECK_FALSE(has(html, "<script"));
  CHECK_FALSE(has(html, "\"onload"));
  CHECK_FALSE(has(html, "onload='x'"));
}

TEST_CASE("what is damaged is named, and the rest shown") {
  RunFolder run;
  std::string metrics = bytes_of(run.path + "/metrics.jsonl");
  metrics.insert(metrics.find('\n') + 1, "{\"step\": what\n");
  replace_bytes(run.path + "/metrics.jsonl", metrics);
  replace_bytes(run.path + "/events.jsonl", std::string(10, '\0') + "\n" + bytes_of(run.path + "/events.jsonl"));
  replace_bytes(run.path + "/job.toml", "[job\n");
  const RunRecords records = read_run(run.path);
  CHECK(records.steps == 100);
  CHECK(records.name == "run");
  REQUIRE(records.damage.size() == 3);
  CHECK(has(records.damage[0], run.path + "/job.toml:1:"));
  CHECK(records.damage[1] ==
        "damaged: 1 line(s) cannot be read and are left out, first " + run.path + "/metrics.jsonl:2");
  CHECK(records.damage[2] ==
        "damaged: 1 line(s) cannot be read and are left out, first " + run.path + "/events.jsonl:1");
  CHECK(count(page({records}, {}), "<p class=\"warning\">") == 3);
}

TEST_CASE("a run without records has a page, a folder without a run none") {
  const ScratchFolder folder;
  make_folders(folder / "run");
  CHECK(error_of([&] { read_run(folder / "run"); }).fault() == Fault::usage);
  replace_bytes(folder / "run/events.jsonl", "");
  const std::string html = page({read_run(folder / "run")}, {});
  CHECK(has(html, "None recorded."));
  CHECK(has(html, "did not begin to train"));
}

TEST_CASE("the difference of two runs is zero, or names the first step") {
  const RunFolder a, b, c(100, "plain", 0.25f);
  const RunDifference same = difference_of(a.path, b.path), other = difference_of(a.path, c.path);
  CHECK(same.compared);
  CHECK(same.identical);
  CHECK(same.losses.spans().size() == 100);
  CHECK(same.losses.in_spans(1).front().high == 0);
  CHECK(other.compared);
  CHECK_FALSE(other.identical);
  CHECK(other.first_step == 50);
  CHECK(other.losses.in_spans(1).front().high == doctest::Approx(0.25));
  const std::string html = page({read_run(a.path), read_run(b.path), read_run(c.path)}, {same, other});
  CHECK(has(html, "Run 2 from run 1: <strong>none: all bits are equal</strong>"));
  CHECK(has(html, "Run 3 from run 1: <strong>first at step 50</strong>"));
  CHECK(count(html, "id=\"difference-2\"") == 0);  // a chart of zeros
  CHECK(count(html, "id=\"difference-3\"") == 1);
  CHECK(has(html, "<th scope=\"col\">Run 1: plain</th><th scope=\"col\">Run 2: plain</th>"));
  CHECK(has(html, fmt::format("run directory</th><td>{}</td><td>{}</td>", a.path, b.path)));
}

// The text between the first `from` and the next `to`.
std::string part_of(const std::string& text, const std::string& from, const std::string& to) {
  const size_t begin = text.find(from);
  REQUIRE(begin != text.npos);
  return text.substr(begin, text.find(to, begin) - begin);
}

TEST_CASE("the axis of accuracies spans them, and does not begin at 0") {
  const RunFolder run;
  record::MetricsWriter writer(run.path + "/metrics.jsonl", Step(100));
  writer.append(record::EvaluationRecord{Step(110), 0.5, 0.8, 10});
  writer.append(record::EvaluationRecord{Step(120), 0.5, 0.9, 10});
  const std::string labels = part_of(page({read_run(run.path)}, {}), "id=\"accuracy\"", "class=\"area\"");
  CHECK(has(labels, ">0.85</span>"));
  CHECK_FALSE(has(labels, ">0</span>"));
}

TEST_CASE("the shares of the time add up to 100 %, and those of the steps to their share") {
  RunFolder run;
  run.add_event(R"("event":"first_step","seconds":0.7)");
  run.add_event(
      R"("event":"stage_speed","seconds":40,"exchange_seconds":7,"workers":[{"device":"cpu","computing_seconds":19}])");
  run.add_event(R"("event":"recovered","worker":1,"step":40,"seconds_to_next_step":1.1)");
  run.add_event(R"("event":"finished","step":100)");
  const std::string table = part_of(page({read_run(run.path)}, {}), "<table class=\"spent\">", "</table>");
  double whole = 0, steps = 0, of_steps = 0;
  for (size_t at = table.find("<th scope=\"row\">"); at != table.npos; at = table.find("<th scope=\"row\">", at + 1)) {
    const std::string row = table.substr(at, table.find("</tr>", at) - at);
    const size_t end = row.find(" %</td>"), begin = row.rfind('>', end) + 1;
    const double share = std::stod(row.substr(begin, end - begin));
    (has(row, "&nbsp;") ? of_steps : whole) += share;
    if (has(row, ">steps<")) steps = share;
  }
  CHECK(whole == doctest::Approx(100).epsilon(1e-9));
  CHECK(steps > 50);
  CHECK(of_steps == doctest::Approx(steps).epsilon(1e-9));
}

TEST_CASE("losses that are NaN in the same bits are no difference, those in other bits are") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const RunFolder a(100, "plain", nan), b(100, "plain", nan), c;
  const Series equal = difference_of(a.path, b.path).losses, other = difference_of(a.path, c.path).losses;
  CHECK(equal.not_finite() == 0);
  CHECK(equal.spans().size() == 100);
  CHECK(equal.in_spans(1).front().high == 0);
  CHECK(other.not_finite() == 1);
  CHECK(other.first_not_finite() == 50);
}

TEST_CASE("steps that repeat are left out and named, steps without an update are counted") {
  RunFolder run;
  const std::string path = run.path + "/metrics.jsonl";
  std::string metrics = bytes_of(path);
  const size_t first = metrics.find('\n') + 1, second = metrics.find('\n', first) + 1;
  const std::string line = metrics.substr(first, second - first);
  metrics.insert(second, line + line);
  replace_bytes(path, metrics);
  const RunRecords records = read_run(run.path);
  CHECK(records.steps == 100);
  CHECK(records.last_step == 100);
  CHECK(records.loss.spans().size() == 100);
  REQUIRE(records.damage.size() == 1);
  CHECK(records.damage[0] == "damaged: 2 line(s) of " + path + " repeat a step and are left out");

  record::MetricsWriter writer(path, Step(100));
  std::vector<record::StepRecord> more = {step_record(101, 0.5f), step_record(102, 0.5f), step_record(103, 0.5f)};
  more[0].left_out = more[2].left_out = true;
  writer.append(more);
  CHECK(read_run(run.path).steps == 103);
  CHECK(read_run(run.path).without_update == 2);
  CHECK(records.without_update == 0);
}

TEST_CASE("runs without a common step are not compared, and told so") {
  const RunFolder a, none(0);
  const RunDifference difference = difference_of(a.path, none.path);
  CHECK_FALSE(difference.compared);
  CHECK(has(difference.words, "no step in common"));
}

TEST_CASE("100,000 steps, 50 faults and 3000 stages are less than 2 MB") {
  RunFolder run(100'000);
  for (int i = 0; i < 50; ++i)
    run.add_event(fmt::format(R"("event":"fault","worker":1,"step":{},"what":"ended by SIGKILL")", 1000 * i));
  std::string stages;
  for (int i = 0; i < 3000; ++i)
    stages += fmt::format(
        "{{\"time\":\"2031-05-04T{:02}:{:02}:{:02}.000Z\",\"event\":\"stage\",\"step\":{},\"devices\":["
        "\"cpu\",\"cpu\"],\"ranges\":[[0,1],[1,2]]}}\n",
        11 + i / 3600, i / 60 % 60, i % 60, i * 30);
  replace_bytes(run.path + "/events.jsonl", bytes_of(run.path + "/events.jsonl") + stages);
  const std::string html = page({read_run(run.path)}, {});
  CHECK(html.size() < 2'000'000);
  CHECK(count(html, "<a class=\"fault") == 50);
}

}  // namespace
}  // namespace estrain::report
