#include "core/state/record/logs/metrics_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "core/base/json/json.h"
#include "core/base/json/json_text.h"

namespace estrain::record {
namespace {

// Reads a whole number. A number outside int64 counts as damage, since converting it would be undefined.
int64_t whole_number(const Json& json) {
  if (!json.is_number_integer()) throw Error(Fault::corrupt, "a whole number is expected");
  return json.get<int64_t>();
}

// Returns the shortest text that reads back as the same number. JSON has no NaN and infinity: these are null, and their
// bits are given separately.
template <typename Float>
std::string number(Float value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

std::string bits(float value) { return fmt::format("\"{:08x}\"", std::bit_cast<uint32_t>(value)); }

template <typename Format>
std::string list(const std::vector<float>& values, Format&& format) {
  std::vector<std::string> texts;
  for (const float value : values) texts.push_back(format(value));
  return fmt::format("[{}]", fmt::join(texts, ","));
}

template <typename Float>
std::string object(const std::vector<std::pair<std::string, Float>>& values) {
  std::vector<std::string> texts;
  for (const auto& [name, value] : values) texts.push_back(fmt::format("{}:{}", json_text(name), number(value)));
  return fmt::format("{{{}}}", fmt::join(texts, ","));
}

// Reads the output of to_line from left to right; `ok` becomes false at the first deviation.
class QuickReader {
 public:
  explicit QuickReader(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  bool ok() const { return ok_; }
  bool at_end() const { return at_ == end_; }

  bool next_is(std::string_view word) {
    if (static_cast<size_t>(end_ - at_) < word.size() || std::string_view(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  void expect(std::string_view word) { ok_ = ok_ && next_is(word); }

  template <typename Number, typename... Base>
  Number read_number(Base... base) {
    Number value{};
    const auto [stop, failure] = std::from_chars(at_, end_, value, base...);
    ok_ = ok_ && failure == std::errc{};
    at_ = stop;
    return value;
  }
  double read_double() { return next_is("null") ? std::numeric_limits<double>::quiet_NaN() : read_number<double>(); }
  float read_bits() {
    expect("\"");
    const char* begin = at_;
    const auto value = read_number<uint32_t>(16);
    ok_ = ok_ && at_ - begin == 8;
    expect("\"");
    return std::bit_cast<float>(value);
  }
  template <typename Item>
  void read_list(Item&& item) {
    expect("[");
    if (next_is("]")) return;
    do item();
    while (ok_ && next_is(","));
    expect("]");
  }

  // Reads the members of an object behind its brace, at least one.
  void read_members(std::vector<std::pair<std::string, float>>& members) {
    do {
      expect("\"");
      const char* const begin = at_;
      at_ = std::find_if(at_, end_, [](char c) { return c == '"' || c == '\\'; });
      const std::string name(begin, at_);
      expect("\":");
      members.emplace_back(name, static_cast<float>(read_double()));
    } while (ok_ && next_is(","));
    expect("}");
  }

 private:
  const char *at_, *end_;
  bool ok_ = true;
};

std::optional<StepRecord> read_quickly(std::string_view text) {
  QuickReader reader(text);
  StepRecord record;
  reader.expect("{\"step\":");
  record.step = Step(reader.read_number<int64_t>());
  reader.expect(",\"epoch\":");
  record.epoch = Epoch(reader.read_number<int64_t>());
  reader.expect(",\"loss\":");
  reader.read_double();
  reader.expect(",\"loss_bits\":");
  record.loss = reader.read_bits();
  reader.expect(",\"est_losses\":");
  reader.read_list([&] { reader.read_double(); });
  reader.expect(",\"est_loss_bits\":");
  reader.read_list([&] { record.est_losses.push_back(reader.read_bits()); });
  reader.expect(",\"lr\":");
  record.lr = reader.read_double();
  reader.expect(",\"samples_per_s\":");
  record.samples_per_second = reader.read_double();
  if (reader.next_is(",\"terms\":{")) reader.read_members(record.terms);
  record.left_out = reader.next_is(",\"left_out\":true");
  reader.expect("}");
  if (!reader.ok() || !reader.at_end()) return std::nullopt;
  return record;
}

float float_from_bits(const std::string& text) {
  uint32_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (failure != std::errc{} || end != text.data() + text.size() || text.size() != 8)
    throw Error::make(Fault::corrupt, "\"{}\" are not the bits of a loss", text);
  return std::bit_cast<float>(value);
}

double number_or_nan(const Json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

Line read_json(const Json& json) {
  const Step step(whole_number(json.at("step")));
  if (json.contains("eval")) {
    const Json& eval = json.at("eval");
    const int64_t predictions = whole_number(eval.at("predictions"));
    const double accuracy = predictions == 0 ? 0 : number_or_nan(eval.at("accuracy"));
    EvaluationRecord evaluation{step, number_or_nan(eval.at("loss")), accuracy, predictions};
    if (eval.contains("metrics"))
      for (const auto& [name, value] : eval.at("metrics").items())
        evaluation.metrics.emplace_back(name, number_or_nan(value));
    return evaluation;
  }
  StepRecord record;
  record.step = step;
  record.epoch = Epoch(whole_number(json.at("epoch")));
  record.loss = float_from_bits(json.at("loss_bits"));
  for (const Json& loss : json.at("est_loss_bits")) record.est_losses.push_back(float_from_bits(loss));
  record.lr = number_or_nan(json.at("lr"));
  record.samples_per_second = number_or_nan(json.at("samples_per_s"));
  if (json.contains("terms"))
    for (const auto& [name, value] : json.at("terms").items())
      record.terms.emplace_back(name, static_cast<float>(number_or_nan(value)));
  record.left_out = json.value("left_out", false);
  return record;
}

}  // namespace

std::string to_line(const StepRecord& record) {
  return fmt::format(
      "{{\"step\":{},\"epoch\":{},\"loss\":{},\"loss_bits\":{},\"est_losses\":{},\"est_loss_bits\":{},\"lr\":{},"
      "\"samples_per_s\":{}{}{}}}\n",
      record.step, record.epoch, number(record.loss), bits(record.loss), list(record.est_losses, number<float>),
      list(record.est_losses, bits), number(record.lr), number(std::round(record.samples_per_second * 100) / 100),
      record.terms.empty() ? "" : fmt::format(",\"terms\":{}", object(record.terms)),
      record.left_out ? ",\"left_out\":true" : "");
}

std::string to_line(const EvaluationRecord& evaluation) {
  return fmt::format("{{\"step\":{},\"eval\":{{\"loss\":{},\"accuracy\":{},\"predictions\":{}{}}}}}\n", evaluation.step,
                     number(evaluation.loss), evaluation.predictions == 0 ? "null" : number(evaluation.accuracy),
                     evaluation.predictions,
                     evaluation.metrics.empty() ? "" : fmt::format(",\"metrics\":{}", object(evaluation.metrics)));
}

Line parse_line(std::string_view text, std::string_view source) {
  if (std::optional<StepRecord> record = read_quickly(text)) return *std::move(record);
  const Json json = parse_json(text, source);
  try {
    return read_json(json);
  } catch (const nlohmann::json::exception& error) {
    throw Error::make(Fault::corrupt, "{}: {}", source, error.what());
  } catch (const Error& error) {
    throw error.within(source);
  }
}

}  // namespace estrain::record
