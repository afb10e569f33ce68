#include "core/record/metrics.h"

#include <unistd.h>

#include <bit>
#include <cerrno>
#include <charconv>
#include <cmath>

#include "core/base/files.h"
#include "core/base/json.h"

namespace estrain::record {
namespace {

// JSON has no NaN and no infinity: those stand as null, their bits beside them.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json to_json(const StepRecord& record) {
  Json losses = Json::array(), bits = Json::array();
  for (float loss : record.est_losses) {
    losses.push_back(number(static_cast<double>(loss)));
    bits.push_back(fmt::format("{:08x}", std::bit_cast<uint32_t>(loss)));
  }
  return {{"step", record.step.value},
          {"epoch", record.epoch.value},
          {"loss", number(static_cast<double>(record.loss))},
          {"loss_bits", fmt::format("{:08x}", std::bit_cast<uint32_t>(record.loss))},
          {"est_losses", losses},
          {"est_loss_bits", bits},
          {"lr", record.lr},
          {"samples_per_s", std::round(record.samples_per_second * 100) / 100}};
}

Json to_json(const EvaluationRecord& evaluation) {
  return {{"step", evaluation.step.value},
          {"eval",
           {{"loss", number(evaluation.loss)},
            {"accuracy", evaluation.accuracy},
            {"predictions", evaluation.predictions}}}};
}

float float_from_bits(const std::string& text) {
  uint32_t bits = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), bits, 16);
  if (failure != std::errc{} || end != text.data() + text.size())
    throw Error::make(Fault::corrupt, "\"{}\" are not the bits of a loss", text);
  return std::bit_cast<float>(bits);
}

void read_line(const Json& line, Metrics& metrics) {
  if (line.contains("eval")) {
    const Json& eval = line.at("eval");
    const double loss = eval.at("loss").is_null() ? std::nan("") : eval.at("loss").get<double>();
    metrics.evaluations.push_back(
        {Step(line.at("step").get<int64_t>()), loss, eval.at("accuracy"), eval.at("predictions")});
    return;
  }
  StepRecord record;
  record.step = Step(line.at("step").get<int64_t>());
  record.epoch = Epoch(line.at("epoch").get<int64_t>());
  record.lr = line.at("lr");
  record.loss = float_from_bits(line.at("loss_bits"));
  record.samples_per_second = line.at("samples_per_s");
  for (const Json& bits : line.at("est_loss_bits")) record.est_losses.push_back(float_from_bits(bits));
  metrics.steps.push_back(std::move(record));
}

// Calls `visit(line, end offset)` for every whole line until it returns false.
template <typename Visit>
void for_each_line(const std::string& path, std::string_view text, Visit&& visit) {
  size_t begin = 0, number = 1;
  for (size_t end; (end = text.find('\n', begin)) != text.npos; begin = end + 1, ++number) {
    const std::string source = fmt::format("{}:{}", path, number);
    try {
      if (!visit(parse_json(text.substr(begin, end - begin), source), end + 1)) return;
    } catch (const nlohmann::json::exception& error) {
      throw Error::make(Fault::corrupt, "{}: {}", source, error.what());
    }
  }
}

}  // namespace

MetricsWriter::MetricsWriter(std::string path, Step last) : path_(std::move(path)) {
  const auto text = read_file_if_present(path_);
  if (!text) return;
  size_t keep = 0;
  for_each_line(path_, *text, [&](const Json& line, size_t end) {
    if (line.at("step").get<int64_t>() > last.value) return false;
    keep = end;
    return true;
  });
  if (::truncate(path_.c_str(), static_cast<off_t>(keep)) != 0) throw system_error("cannot shorten " + path_, errno);
}

void MetricsWriter::append(std::span<const StepRecord> records) {
  std::string text;
  for (const StepRecord& record : records) text += to_json(record).dump() + "\n";
  if (!text.empty()) append_to_file(path_, text);
}

void MetricsWriter::append(const EvaluationRecord& evaluation) {
  append_to_file(path_, to_json(evaluation).dump() + "\n");
}

Metrics read_metrics(const std::string& path) {
  Metrics metrics;
  for_each_line(path, read_file(path), [&](const Json& line, size_t) {
    read_line(line, metrics);
    return true;
  });
  return metrics;
}

}  // namespace estrain::record
