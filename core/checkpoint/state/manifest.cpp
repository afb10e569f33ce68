#include "core/checkpoint/state/manifest.h"

#include <algorithm>

#include "core/base/json/json.h"

namespace estrain::checkpoint {

std::string Manifest::to_json() const {
  return Json{{"layout", parse_json(layout.to_json(), "state layout")},
              {"digest_names", digest_names},
              {"metric_names", metric_names},
              {"batches_per_epoch", batches_per_epoch},
              {"samples_per_rank", samples_per_rank},
              {"samples_per_epoch", samples_per_epoch},
              {"batch", batch},
              {"total_steps", total_steps},
              {"parameter_count", parameter_count},
              {"processor", processor},
              {"data", data}}
      .dump();
}

Manifest Manifest::from_json(std::string_view text) {
  const Json json = parse_json(text, "manifest of the job's shared memory");
  Manifest manifest;
  manifest.layout = StateLayout::from_json(json.at("layout").dump());
  manifest.digest_names = json.at("digest_names").get<std::vector<std::string>>();
  manifest.metric_names = json.at("metric_names").get<std::vector<std::string>>();
  manifest.batches_per_epoch = json.at("batches_per_epoch");
  manifest.samples_per_rank = json.at("samples_per_rank");
  manifest.samples_per_epoch = json.at("samples_per_epoch");
  manifest.batch = json.at("batch");
  manifest.total_steps = json.at("total_steps");
  manifest.parameter_count = json.at("parameter_count");
  manifest.processor = json.at("processor");
  manifest.data = json.at("data");
  return manifest;
}

int64_t Manifest::samples_at(Step step) const {
  return std::min(step.value % batches_per_epoch * batch, samples_per_rank);
}

}  // namespace estrain::checkpoint
