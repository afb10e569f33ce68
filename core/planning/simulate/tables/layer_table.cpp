#include "core/planning/simulate/tables/layer_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "core/base/error.h"
#include "core/base/json/json.h"
#include "core/planning/simulate/tables/csv_table.h"

namespace estrain::simulate {
namespace {

constexpr double kBytesOfNumber = 4;

struct LayerRows {
  std::string name;
  int64_t block = 0, branch = 0;
  double input_elements = 0, parameters = 0;  // per sample; in total
  std::map<double, double> seconds;           // by samples
};

double product_of_dimensions(const CsvTable& table, size_t row, size_t column) {
  double product = 1;
  std::string_view rest = table.text(row, column);
  while (true) {
    const std::string_view part = rest.substr(0, rest.find('x'));
    double dimension = 0;
    const auto [end, wrong] = std::from_chars(part.data(), part.data() + part.size(), dimension);
    if (wrong != std::errc() || end != part.data() + part.size() || dimension <= 0) {
      throw Error::make(Fault::spec, "{}: \"{}\" is not of the form CxHxW", table.place(row, column),
                        table.text(row, column));
    }
    product *= dimension;
    if (part.size() == rest.size()) return product;
    rest.remove_prefix(part.size() + 1);
  }
}

// Returns the parameters of a convolution or a linear layer; 0 for other layers.
double count_parameters(const CsvTable& table, size_t row, size_t params, std::string_view layer) {
  const bool convolves = layer == "conv2d";
  if (!convolves && layer != "linear") return 0;
  std::string text(table.text(row, params));
  std::ranges::replace(text, ';', ',');
  const Json json = parse_json_if_sound(text);
  const char *in = convolves ? "in_channels" : "in_features", *out = convolves ? "out_channels" : "out_features";
  const auto has_number = [&](const char* key) { return json.contains(key) && json.at(key).is_number(); };
  if (!json.is_object() || !has_number(in) || !has_number(out) || (convolves && !json.contains("kernel_size"))) {
    throw Error::make(Fault::spec, "{}: \"{}\" lacks the size of a {} layer", table.place(row, params),
                      table.text(row, params), layer);
  }
  const double inputs = json.at(in).get<double>(), outputs = json.at(out).get<double>();
  if (!convolves) return outputs * (inputs + 1);
  const Json& kernel = json.at("kernel_size");  // a number, or a number for each side
  double window = 1;
  if (kernel.is_array()) {
    for (const Json& side : kernel) window *= side.is_number() ? side.get<double>() : 1;
  } else if (kernel.is_number()) {
    window = kernel.get<double>() * kernel.get<double>();
  }
  return outputs * inputs * window + (json.value("bias", false) ? outputs : 0);
}

double seconds_of_samples(const std::map<double, double>& seconds, double samples) {
  const auto above = seconds.lower_bound(samples);
  if (above == seconds.end()) return seconds.rbegin()->second * samples / seconds.rbegin()->first;
  if (above->first == samples || above == seconds.begin()) return above->second;
  const auto below = std::prev(above);
  return std::lerp(below->second, above->second, (samples - below->first) / (above->first - below->first));
}

std::vector<LayerRows> read_rows(const CsvTable& table, const LayerTableOptions& options) {
  const size_t model = table.column("model"), set = table.column("set"), order = table.column("order"),
               layer = table.column("layer"), params = table.column("params"), batch = table.column("batch_per_gpu"),
               dims = table.column("input_dims"), total = table.column("total_ms");
  std::string chosen_model = options.model, chosen_set = options.set;
  std::set<std::string> models, sets;
  for (size_t row = 0; row < table.rows(); ++row) models.insert(std::string(table.text(row, model)));
  std::string known;
  for (const std::string& name : models) known += (known.empty() ? "" : ", ") + name;
  if (chosen_model.empty() && models.size() == 1) chosen_model = *models.begin();
  if (!models.contains(chosen_model)) {
    throw Error::make(Fault::usage, "{} has no model \"{}\"", table.path(), chosen_model)
        .advise("--model NAME or NAME/SET; it has " + known);
  }
  // Rows of a batch size are in the order of execution; the k-th row of each batch is layer k.
  std::map<int64_t, std::map<int64_t, size_t>> rows_of_batch;
  for (size_t row = 0; row < table.rows(); ++row) {
    if (table.text(row, model) != chosen_model) continue;
    if (chosen_set.empty()) chosen_set = table.text(row, set);
    if (table.text(row, set) != chosen_set) continue;
    rows_of_batch[table.whole(row, batch, 1)].emplace(table.whole(row, order, 0), row);
  }
  if (rows_of_batch.empty()) {
    throw Error::make(Fault::usage, "{} has no set \"{}\" of model {}", table.path(), chosen_set, chosen_model);
  }
  std::vector<LayerRows> layers;
  for (const auto& [samples, rows] : rows_of_batch) {
    if (layers.empty()) layers.resize(rows.size());
    if (layers.size() != rows.size()) {
      throw Error::make(Fault::spec, "{}: model {} has {} layers at one batch and {} at batch {}", table.path(),
                        chosen_model, layers.size(), rows.size(), samples);
    }
    size_t index = 0;
    for (const auto& [place, row] : rows) {
      LayerRows& of_layer = layers[index++];
      of_layer.seconds[static_cast<double>(samples)] = 1e-3 * table.number_from(row, total, 0);
      of_layer.name = table.text(row, layer);
      of_layer.input_elements = product_of_dimensions(table, row, dims);
      of_layer.parameters = count_parameters(table, row, params, of_layer.name);
      if (table.has("block")) of_layer.block = table.whole(row, table.column("block"), 0);
      if (table.has("branch")) of_layer.branch = table.whole(row, table.column("branch"), 0);
    }
  }
  return layers;
}

}  // namespace

std::vector<plan::BurstPart> read_layer_table(const std::string& path, const LayerTableOptions& options) {
  const std::vector<LayerRows> rows = read_rows(CsvTable::read(path), options);
  std::vector<plan::BurstPart> parts;
  const LayerRows* before = nullptr;
  size_t index = 0;
  for (const LayerRows& row : rows) {
    plan::BurstLayer layer;
    layer.name = fmt::format("{} {}", index++, row.name);
    layer.input_bytes = kBytesOfNumber * row.input_elements * static_cast<double>(options.batch);
    layer.parameter_bytes = kBytesOfNumber * row.parameters;
    for (int64_t devices = 1; devices <= std::min(options.most_devices, options.batch); devices *= 2) {
      const double samples = static_cast<double>(options.batch) / static_cast<double>(devices);
      layer.compute.push_back(seconds_of_samples(row.seconds, samples));
    }
    const bool same_block = before && row.block > 0 && row.block == before->block;
    if (!same_block) parts.push_back({{{}}});
    if (same_block && row.branch != before->branch) parts.back().branches.emplace_back();
    parts.back().branches.back().push_back(std::move(layer));
    before = &row;
  }
  return parts;
}

}  // namespace estrain::simulate
