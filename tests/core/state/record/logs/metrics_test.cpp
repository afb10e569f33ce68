#include "core/state/record/logs/metrics.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/base/json/json.h"
#include "core/state/record/logs/metrics_line.h"
#include "tests/core/state/record/sample_records.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::record {
namespace {

std::vector<uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

std::vector<int64_t> steps_of(const Metrics& metrics) {
  std::vector<int64_t> steps;
  for (const StepRecord& record : metrics.steps) steps.push_back(record.step.value);
  return steps;
}

TEST_CASE("a line is JSON, with numbers to read and bits to compare") {
  StepRecord record = sample_record(3);
  record.est_losses = {0.1f, 2.f};
  const Json line = parse_json(to_line(record), "line");
  CHECK(to_line(record).ends_with("}\n"));
  CHECK(line.at("step") == 3);
  CHECK(line.at("epoch") == 0);
  CHECK(line.at("est_losses").dump() == "[0.1,2]");
  CHECK(line.at("est_loss_bits").dump() == "[\"3dcccccd\",\"40000000\"]");
  CHECK(line.at("lr").get<double>() == record.lr);
  CHECK(line.at("samples_per_s") == 1234.5);
  const Json evaluation = parse_json(to_line(EvaluationRecord{Step(7), 0.25, 0.9, 100}), "line");
  CHECK(evaluation.dump() == R"({"step":7,"eval":{"loss":0.25,"accuracy":0.9,"predictions":100}})");
}

TEST_CASE("terms of the loss are numbers by name; a line without terms has none") {
  StepRecord record = sample_record(3);
  CHECK_FALSE(parse_json(to_line(record), "line").contains("terms"));
  record.terms = {{"ce", 0.1f}, {"k\"l", std::numeric_limits<float>::infinity()}, {"é", -3e-9f}};
  for (const bool left_out : {false, true}) {
    record.left_out = left_out;
    const std::string text = to_line(record);
    const Json line = parse_json(text, "line");
    CHECK(line.at("terms").dump() == R"({"ce":0.1,"k\"l":null,"é":-3e-09})");
    for (const std::string& form : {text.substr(0, text.size() - 1), line.dump()}) {
      const auto read = std::get<StepRecord>(parse_line(form, "line"));
      REQUIRE(read.terms.size() == 3);
      CHECK(read.terms[0] == record.terms[0]);
      CHECK(read.terms[1].first == "k\"l");
      CHECK(std::isnan(read.terms[1].second));
      CHECK(read.terms[2] == record.terms[2]);
      CHECK(read.left_out == left_out);
    }
  }
}

TEST_CASE("every bit of a loss survives: NaN payloads, infinities, -0, denormals") {
  const ScratchFolder folder;
  StepRecord record = sample_record(1);
  record.loss = std::numeric_limits<float>::quiet_NaN();
  record.est_losses = {std::bit_cast<float>(0x7fc12345u), -0.f, std::numeric_limits<float>::infinity(),
                       std::numeric_limits<float>::denorm_min()};
  record.lr = std::nextafter(0.1, 1.0);
  MetricsWriter(folder / "m", Step(0)).append(std::vector<StepRecord>{record});
  const Metrics metrics = read_metrics(folder / "m");
  REQUIRE(metrics.steps.size() == 1);
  CHECK(bits_of(metrics.steps[0].est_losses) == bits_of(record.est_losses));
  CHECK(std::bit_cast<uint32_t>(metrics.steps[0].loss) == std::bit_cast<uint32_t>(record.loss));
  CHECK(metrics.steps[0].lr == record.lr);
}

TEST_CASE("a step without an update is marked, in a line that is JSON whatever its losses are") {
  StepRecord record = sample_record(3);
  record.loss = std::numeric_limits<float>::quiet_NaN();
  record.est_losses = {-std::numeric_limits<float>::infinity(), 2.f};
  for (const bool left_out : {false, true}) {
    record.left_out = left_out;
    const std::string text = to_line(record);
    const Json line = parse_json(text, "line");
    CHECK(line.contains("left_out") == left_out);
    CHECK(line.at("loss").is_null());
    CHECK(line.at("est_losses").dump() == "[null,2]");
    CHECK(line.at("est_loss_bits").dump() == "[\"ff800000\",\"40000000\"]");
    for (const std::string& form : {text.substr(0, text.size() - 1), line.dump()}) {  // the fast path, and any JSON
      const auto read = std::get<StepRecord>(parse_line(form, "line"));
      CHECK(read.left_out == left_out);
      CHECK(read.samples_per_second == record.samples_per_second);
      CHECK(bits_of(read.est_losses) == bits_of(record.est_losses));
    }
  }
}

TEST_CASE("steps and evaluations come back; a resumed run drops what is behind its checkpoint") {
  const ScratchFolder folder;
  {
    MetricsWriter writer(folder / "m", Step(0));
    writer.append(sample_records(1, 5));
    writer.append(EvaluationRecord{Step(5), 0.5, 0.75, 64});
    writer.append(sample_records(6, 8));
    writer.append(EvaluationRecord{Step(8), 0.4, 0.8, 64});
  }
  CHECK(steps_of(read_metrics(folder / "m")).size() == 8);
  CHECK(read_metrics(folder / "m").evaluations.size() == 2);
  MetricsWriter(folder / "m", Step(5)).append(sample_records(6, 7));
  const Metrics metrics = read_metrics(folder / "m");
  CHECK(steps_of(metrics) == std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7});
  REQUIRE(metrics.evaluations.size() == 1);
  CHECK(metrics.evaluations[0].step == Step(5));
  CHECK(metrics.evaluations[0].predictions == 64);
}

TEST_CASE("cut short at any byte: whole lines stay, and the writer goes on behind them") {
  const ScratchFolder folder;
  MetricsWriter(folder / "whole", Step(0)).append(sample_records(1, 3));
  const std::string whole = bytes_of(folder / "whole");
  for (size_t length = 0; length <= whole.size(); ++length) {
    CAPTURE(length);
    replace_bytes(folder / "m", whole.substr(0, length));
    const auto lines = std::count(whole.begin(), whole.begin() + static_cast<long>(length), '\n');
    CHECK(read_metrics(folder / "m").steps.size() == static_cast<size_t>(lines));
    MetricsWriter(folder / "m", Step(2)).append(sample_records(3, 4));
    const std::vector<int64_t> steps = steps_of(read_metrics(folder / "m"));
    REQUIRE(steps.size() >= 2);
    CHECK(steps[steps.size() - 2] == 3);
  }
}

TEST_CASE("any line up to the step that a run goes on from: the file is put aside, the others stay") {
  const ScratchFolder folder;
  {
    MetricsWriter writer(folder / "m", Step(0));
    writer.append(sample_records(1, 3));
    writer.append(EvaluationRecord{Step(3), 0.5, 0.75, 64});
    writer.append(sample_records(4, 7));
  }
  const std::string whole = bytes_of(folder / "m");
  CHECK_FALSE(mend_metrics(folder / "m", Step(5)).has_value());
  CHECK_FALSE(mend_metrics(folder / "none", Step(5)).has_value());
  CHECK(bytes_of(folder / "m") == whole);
  for (size_t begin = 0, line = 0; begin < whole.size(); begin = whole.find('\n', begin) + 1, ++line) {
    CAPTURE(line);
    std::string bytes = whole;
    for (size_t i = begin; i < begin + 20; ++i) bytes[i] = '\0';
    replace_bytes(folder / "m", bytes);
    const std::optional<Damage> damage = mend_metrics(folder / "m", Step(5));
    CHECK(damage.has_value() == (line <= 6));  // steps 1, 2, 3, an evaluation, 4, 5 and possibly its evaluation
    if (damage) {
      CHECK(bytes_of(damage->kept_as) == bytes);
    }
    MetricsWriter(folder / "m", Step(5)).append(sample_records(6, 8));
    const Metrics metrics = read_metrics(folder / "m");
    std::vector<int64_t> steps = {1, 2, 3, 4, 5, 6, 7, 8};
    if (line < 3) steps.erase(steps.begin() + static_cast<long>(line));
    if (line == 4 || line == 5) steps.erase(steps.begin() + static_cast<long>(line) - 1);
    CHECK(steps_of(metrics) == steps);
    CHECK(metrics.evaluations.size() == (line == 3 ? 0 : 1));
  }
  CHECK(std::filesystem::exists(folder / "m.damaged-7"));
  CHECK_FALSE(std::filesystem::exists(folder / "m.damaged-8"));
}

TEST_CASE("a writer does not go on in a damaged file, and says what to do") {
  const ScratchFolder folder;
  MetricsWriter(folder / "m", Step(0)).append(sample_records(1, 6));
  std::string bytes = bytes_of(folder / "m");
  bytes[bytes.find("\"step\":3")] = '\0';
  replace_bytes(folder / "m", bytes);
  const Error error = error_of([&] { MetricsWriter(folder / "m", Step(6)); });
  CHECK(error.fault() == Fault::corrupt);
  CHECK(error.message() == folder / "m is damaged: a line before that of step 4 cannot be read");
  CHECK(error.advice().find("--resume") != std::string::npos);
  CHECK(bytes_of(folder / "m") == bytes);
  MetricsWriter(folder / "m", Step(1)).append(sample_records(2, 4));
  CHECK(steps_of(read_metrics(folder / "m")) == std::vector<int64_t>{1, 2, 3, 4});
}

TEST_CASE("only the tail of a long file is checked; what lies further back stays") {
  const ScratchFolder folder;
  StepRecord record = sample_record(1);
  record.est_losses.assign(1000, 0.1f);  // 17 kB a line
  {
    MetricsWriter writer(folder / "m", Step(0));
    for (int64_t step = 1; step <= 1500; ++step) {
      record.step = Step(step);
      writer.append({&record, 1});
    }
  }
  const auto damage_step = [&](int64_t step) {
    std::string bytes = bytes_of(folder / "m");
    bytes[bytes.find("{\"step\":" + std::to_string(step) + ",")] = '\0';
    replace_bytes(folder / "m", bytes);
    return mend_metrics(folder / "m", Step(1400)).has_value();
  };
  CHECK_FALSE(damage_step(100));
  CHECK(error_of([&] { (void)read_metrics(folder / "m"); }).message().starts_with(folder / "m:100: not valid JSON"));
  CHECK(damage_step(1000));
  CHECK(read_metrics(folder / "m").steps.size() == 1398);
}

TEST_CASE("lines in another form of the same JSON are read; others are named") {
  const ScratchFolder folder;
  const Json line = parse_json(to_line(sample_record(4)), "line");
  replace_bytes(folder / "m", "{ \"note\": 1, " + line.dump().substr(1) + "\n");
  const Metrics metrics = read_metrics(folder / "m");
  REQUIRE(metrics.steps.size() == 1);
  CHECK(bits_of(metrics.steps[0].est_losses) == bits_of(sample_record(4).est_losses));
  for (const char* text : {"nonsense\n", "{\"step\":1}\n", "{}\n", "[1]\n",
                           "{\"step\":2e27,\"eval\":{\"loss\":0,\"accuracy\":0,\"predictions\":1}}\n",
                           "{\"step\":1,\"eval\":{\"loss\":0,\"accuracy\":0,\"predictions\":99999999999999999999}}\n",
                           "{\"step\":1,\"epoch\":0,\"loss_bits\":\"xyz\",\"est_loss_bits\":[],\"lr\":0}\n"}) {
    CAPTURE(text);
    replace_bytes(folder / "m", to_line(sample_record(1)) + text);
    const Error error = error_of([&] { (void)read_metrics(folder / "m"); });
    CHECK(error.fault() == Fault::corrupt);
    CHECK(error.message().starts_with(folder / "m:2"));
  }
  CHECK(error_of([&] { (void)read_metrics(folder / "absent"); }).fault() == Fault::io);
}

}  // namespace
}  // namespace estrain::record
