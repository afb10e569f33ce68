#include "core/planning/profile/work.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "core/base/error.h"
#include "core/job/spec/data_formats.h"
#include "core/job/spec/defaults.h"
#include "core/job/spec/enum_names.h"
#include "core/job/spec/keys/keys.h"

namespace estrain::profile {
namespace {

using spec::JobSpec;

// Keys outside of [model] whose values are fields.
constexpr std::array<std::string_view, 11> kDataKeys = {"data.format", "data.shape",   "data.channels", "data.resize",
                                                        "data.pad",    "data.crop",    "data.scale",    "data.flip",
                                                        "data.batch",  "data.readers", "optimizer.name"};

std::string without_quotes(std::string text) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') return text.substr(1, text.size() - 2);
  return text;
}

std::string yes_or_no(bool yes) { return yes ? "yes" : "no"; }

bool defines_work(const spec::SpecKey<JobSpec>& key) {
  if (spec::table_of(key.name) == "model") return !key.rule.path || key.name == "model.file";
  return std::ranges::find(kDataKeys, key.name) != kDataKeys.end();
}

// Returns the data files, if only the files determine the shape of a sample.
std::optional<std::string> files_that_tell_the_shape(const spec::DataSection& data) {
  const bool in_files = spec::traits_of(data.format).has_shape_in_files();
  if (!in_files || !data.resize.empty() || !data.crop.empty()) return std::nullopt;
  return data.images.empty() ? data.path : data.images;
}

}  // namespace

std::string MachineFacts::model_of(std::string_view kind) const {
  constexpr std::string_view gpu = "cuda:";
  size_t number = gpus.size();
  if (kind.starts_with(gpu)) std::from_chars(kind.data() + gpu.size(), kind.data() + kind.size(), number);
  return number < gpus.size() ? gpus[number] : std::string(kind);
}

Json Work::to_json() const {
  Json object = Json::object();
  for (const auto& [name, value] : fields) object[name] = value;
  return object;
}

Work describe_work(const JobSpec& given, std::string_view kind, const MachineFacts& host) {
  if (given.job.determinism == spec::Determinism::automatic)
    throw Error(Fault::bug, "the speed of a job was requested before its determinism was decided");
  JobSpec spec = spec::with_defaults(given);
  if (!spec.elastic.changes.empty()) spec.data.batch = spec.elastic.changes.back().batch;
  Work work;
  const auto add = [&](std::string name, std::string value) {
    work.fields.emplace_back(std::move(name), std::move(value));
  };
  for (const auto& key : spec::job_keys()) {
    if (!defines_work(key) || !spec::all_hold(key.conditions, spec)) continue;
    if (const auto value = key.write(spec)) add(key.name, without_quotes(*value));
  }
  if (const auto files = files_that_tell_the_shape(spec.data)) add("data.files", *files);
  add("data.normalised", yes_or_no(!spec.data.mean.empty() || !spec.data.std.empty()));
  add("optimizer.momentum", yes_or_no(*spec.optimizer.momentum > 0));
  add("clipping", yes_or_no(spec.train.clip_grad_norm > 0));
  const bool portable = spec.job.determinism == spec::Determinism::d2 || spec.job.kernels == spec::Kernels::portable;
  add("determinism", std::string(to_string(spec.job.determinism)));
  add("kernels", std::string(to_string(portable ? spec::Kernels::portable : spec::Kernels::torch)));
  add("precision", std::string(to_string(spec.job.precision)));
  const bool libtorchs = kind.starts_with("cuda") && spec.job.algorithms == spec::Algorithms::torch;
  if (libtorchs) add("algorithms", "torch");
  const bool graphs = kind.starts_with("cuda") && spec.job.cuda_graphs == spec::CudaGraphs::automatic;
  if (graphs) add("cuda_graphs", "yes");
  add("threads", std::to_string(spec.job.threads));
  add("device", host.model_of(kind));
  add("cpu", host.cpu);
  add("cores", std::to_string(host.cores));
  add("build", host.build);
  return work;
}

bool updates_within_mini_batch(const JobSpec& spec, int64_t workers) {
  return workers == 1 && spec.train.clip_grad_norm == 0;
}

}  // namespace estrain::profile
