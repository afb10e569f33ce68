#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "core/job/spec/data_formats.h"
#include "core/job/spec/defaults.h"
#include "core/job/spec/enum_names.h"
#include "core/job/spec/keys/closest.h"
#include "core/job/spec/keys/keys.h"
#include "core/job/spec/parsing/checks.h"

namespace estrain::spec {
namespace {

constexpr int64_t kMostElements = 1'000'000'000;  // in a sample

// The names beside a term's in the records of a step (core/state/record/FORMAT.md).
constexpr std::string_view kTensorboardsOwn[] = {"loss", "learning_rate", "epoch", "samples_per_second"};

// "a", "b" and "c": the formats of photos.
std::string photo_format_names() {
  std::vector<std::string> names =
      data_formats_with([](const DataFormatTraits& row) { return row.samples == Samples::photos; });
  const std::string last = names.back();
  names.pop_back();
  return fmt::format("{} and \"{}\"", quoted_list(names), last);
}

class Combinations {
 public:
  Combinations(const JobSpec& spec, const Document& document, Mistakes& mistakes)
      : spec_(spec), format_(traits_of(spec.data.format)), document_(document), mistakes_(mistakes) {}

  void job();
  void model();
  void files();
  void images();
  void sampler();
  void optimizer();
  void schedule();
  void table();
  void train();
  void elastic();
  void logging();

 private:
  using Keys = std::initializer_list<std::string_view>;

  bool given(std::string_view key) const { return document_.find(key) != nullptr; }
  // A resolved spec gives every key; a key at its default does not count as given.
  bool differs_from_default(std::string_view key) const {
    return find_key(key)->write(spec_) != find_key(key)->write(JobSpec{});
  }
  // Complains at the first given key of `keys`, unless `fine`.
  void require(bool fine, Keys keys, std::string what_is_wrong);

  bool takes(std::string_view key) const { return all_hold(find_key(key)->conditions, spec_); }
  bool is_gpt() const { return spec_.model.name == "gpt"; }
  // Whether the samples are sequences of tokens, for gpt.
  bool is_for_gpt() const { return format_.samples == Samples::tokens; }
  bool is_photos() const { return format_.samples == Samples::photos; }
  // [channels, height, width] of the images as stored; empty if only the files tell.
  std::vector<int64_t> stored_shape() const;
  void users_model();
  void classes();
  void terms();
  void loss();
  void users_metrics();
  void metrics();
  void known_metric(std::string_view key, const std::string& name, std::vector<std::string> known);
  void image_files();
  void code_files();
  void shape();
  void crop();
  void photos();
  void byte_changes();
  void mixing();
  void channels();

  const JobSpec& spec_;
  const DataFormatTraits& format_;
  const Document& document_;
  Mistakes& mistakes_;
};

std::vector<int64_t> Combinations::stored_shape() const {
  if (format_.is_made) return spec_.data.shape;
  if (format_.shape[0] == 0) return {};
  return {format_.shape.begin(), format_.shape.end()};
}

void Combinations::require(bool fine, Keys keys, std::string what_is_wrong) {
  const bool unsure = std::any_of(keys.begin(), keys.end(), [&](std::string_view key) { return mistakes_.about(key); });
  if (fine || unsure) return;
  const auto first = std::find_if(keys.begin(), keys.end(), [&](std::string_view key) { return given(key); });
  const std::string_view key = first == keys.end() ? *keys.begin() : *first;
  mistakes_.add(document_.place_of(key), key, std::move(what_is_wrong));
}

void Combinations::job() {
  const std::string& name = spec_.job.name;
  const bool plain = name.find('/') == std::string::npos && name.front() != '.' &&
                     std::none_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  require(plain, {"job.name"}, "names a folder: it must not contain '/' or control characters, nor start with '.'");
  require(name.size() <= 255, {"job.name"}, "names a folder: it must have at most 255 bytes");
  const bool torch_at_d2 = spec_.job.determinism == Determinism::d2 && spec_.job.kernels == Kernels::torch;
  require(!torch_at_d2 || !given("job.kernels"), {"job.kernels", "job.determinism"},
          "D2 needs the portable kernels: LibTorch's give other bits on another kind of device");
  const bool portable = spec_.job.determinism == Determinism::d2 || spec_.job.kernels == Kernels::portable;
  require(!portable || spec_.job.precision == Precision::fp32, {"job.precision", "job.kernels", "job.determinism"},
          fmt::format("{} is LibTorch's arithmetic; the portable kernels, which D2 needs, compute only in fp32: use "
                      "kernels = \"torch\" below D2, or precision = \"fp32\"",
                      to_string(spec_.job.precision)));
}

void Combinations::model() {
  const auto& model = spec_.model;
  require(!model.init.empty() || (model.init_match.empty() && model.init_prefix.empty()),
          {"model.init_match", "model.init_prefix", "model.init"}, "belongs to model.init, which names no file");
  require(!is_gpt() || is_for_gpt() || format_.is_code, {"model.name", "data.format"},
          "gpt learns text: it needs data.format = \"text\", \"tokens\" or \"python\"");
  if (model.is_users()) return users_model();
  require(is_gpt() || !is_for_gpt(), {"model.name", "data.format"},
          fmt::format("{} learns images: it cannot take data.format = \"{}\"; use gpt for text", model.name,
                      to_string(spec_.data.format)));
  require(!format_.is_for_users_models, {"model.name", "data.format"},
          fmt::format("{} learns one class for an image: data.format = \"{}\" needs model.name = \"program\" or "
                      "\"python\"",
                      model.name, format_.name));
  require(model.width % model.heads == 0, {"model.width", "model.heads"},
          fmt::format("width {} is not a multiple of the {} heads", model.width, model.heads));
  require(is_gpt() || model.name == "mlp" || !format_.is_made || spec_.data.shape.size() == 3,
          {"data.shape", "model.name", "data.format"},
          fmt::format("{} needs images: [channels, height, width]", model.name));
  classes();
}

void Combinations::users_model() {
  const auto& model = spec_.model;
  require(model.is_python() || !model.file.empty(), {"model.file", "model.name"},
          "model.name = \"program\" needs model.file, a program exported from PyTorch");
  require(!model.is_python() || !model.function().empty(), {"model.file", "model.name"},
          "model.name = \"python\" needs model.file = \"FILE.py:FUNCTION\", a function that returns the module");
  require(model.loss_target.empty() || model.loss != Loss::output, {"model.loss_target", "model.loss"},
          "loss = \"output\" has no target: set model.loss, or remove model.loss_target");
  const bool predicts = model.loss != Loss::output && model.loss != Loss::mse;
  require(predicts || spec_.schedule.name != ScheduleKind::plateau || spec_.schedule.metric != Metric::accuracy,
          {"schedule.metric", "model.loss"},
          fmt::format("with model.loss = \"{}\" there is no accuracy", to_string(model.loss)));
  require(predicts || spec_.early_stop.patience == 0 || spec_.early_stop.metric != "accuracy",
          {"early_stop.metric", "model.loss"},
          fmt::format("with model.loss = \"{}\" there is no accuracy", to_string(model.loss)));
  require(predicts || spec_.checkpoint.best != "accuracy", {"checkpoint.best", "model.loss"},
          fmt::format("with model.loss = \"{}\" there is no accuracy", to_string(model.loss)));
  const bool scores = model.loss == Loss::cross_entropy || model.loss == Loss::nll;
  require(scores || (spec_.train.top_k.empty() && !spec_.train.per_class),
          {"train.top_k", "train.per_class", "model.loss"},
          fmt::format("with model.loss = \"{}\" estrain knows no scores of classes: it is for \"cross_entropy\" and "
                      "\"nll\"",
                      to_string(model.loss)));
  require(spec_.train.label_smoothing == 0 || model.loss == Loss::cross_entropy,
          {"train.label_smoothing", "model.loss"}, "label smoothing is for loss = \"cross_entropy\"");
  classes();
}

void Combinations::classes() {
  const bool is_known = !is_for_gpt() || format_.classes > 0;
  require(is_known || spec_.model.classes, {"model.classes", "data.format"},
          "tokens need model.classes, the size of the vocabulary: 50257 for GPT-2's");
  if (!spec_.model.classes) return;
  const int64_t needed = std::max<int64_t>(format_.classes, 1);
  require(*spec_.model.classes >= needed, {"model.classes", "data.format"},
          fmt::format("must be at least the {} classes of {} data", needed, to_string(spec_.data.format)));
}

void Combinations::files() {
  if (takes("data.images")) {
    image_files();
  } else if (format_.is_code) {
    code_files();
  } else if (!format_.is_made) {
    require(!spec_.data.path.empty(), {"data.path", "data.format"},
            fmt::format("{} data needs data.path", to_string(spec_.data.format)));
  }
}

void Combinations::image_files() {
  const auto& data = spec_.data;
  const bool single =
      !data.images.empty() || !data.labels.empty() || !data.test_images.empty() || !data.test_labels.empty();
  require(data.path.empty() || !single,
          {"data.images", "data.labels", "data.test_images", "data.test_labels", "data.path"},
          "cannot be given together with data.path; give one of the two");
  if (!data.path.empty()) return;
  require(single, {"data.path", "data.format"}, "idx data needs data.path, or data.images and data.labels");
  require(!single || (!data.images.empty() && !data.labels.empty()), {"data.images", "data.labels"},
          "data.images and data.labels are needed together");
  require(data.test_images.empty() == data.test_labels.empty(), {"data.test_images", "data.test_labels"},
          "data.test_images and data.test_labels are needed together");
}

void Combinations::code_files() {
  require(!spec_.data.file.empty(), {"data.file", "data.format"},
          "data.format = \"python\" needs data.file = \"FILE.py:NAME\", a map-style Dataset");
  for (const std::string_view key : {"data.file", "data.test_file"}) {
    const std::string& place = key == "data.file" ? spec_.data.file : spec_.data.test_file;
    require(place.empty() || CodePlace(place).is_whole(), {key, "data.format"},
            "give a file and a name in the file: \"FILE.py:NAME\"");
  }
}

void Combinations::shape() {
  int64_t elements = 1;
  for (const int64_t length : spec_.data.shape)
    if (elements <= kMostElements) elements *= length;
  require(elements <= kMostElements, {"data.shape"}, fmt::format("a sample of more than {} numbers", kMostElements));
}

void Combinations::images() {
  if (is_for_gpt() || format_.is_code) return;
  if (format_.is_made) shape();
  const auto& data = spec_.data;
  const bool vectors = format_.is_made && data.shape.size() != 3;
  for (const std::string_view key :
       {"data.channels", "data.resize", "data.pad", "data.crop", "data.flip", "data.rand_augment", "data.jitter",
        "data.erase", "data.mixup", "data.cutmix", "data.mean", "data.std"}) {
    require(!vectors || !differs_from_default(key), {key, "data.shape", "data.format"},
            "needs images: data.shape = [channels, height, width]");
  }
  if (vectors) return;
  channels();
  require(
      is_photos() || spec_.data.resize.size() != 1, {"data.resize", "data.format"},
      fmt::format("one number, the shorter side, is for data.format {}; give [height, width]", photo_format_names()));
  crop();
  byte_changes();
  mixing();
  if (is_photos()) photos();
  require(!takes("data.test_list") || data.test_path.empty() || !data.test_list.empty(),
          {"data.test_list", "data.test_path"}, "data.test_path needs data.test_list, the list of its samples");
}

// Photos have various sizes: these keys must set the size that the model sees.
void Combinations::photos() {
  const auto& data = spec_.data;
  require(data.resize.size() == 2 || !data.crop.empty(), {"data.crop", "data.resize", "data.format"},
          "the images have different sizes: set data.crop = [height, width], the size that the model sees");
  require(data.scale.empty() || !data.crop.empty(), {"data.scale", "data.crop"},
          "needs data.crop, the size to which the cut-out area is scaled");
  require(data.scale.empty() || data.scale[0] <= data.scale[1], {"data.scale"}, "the least is more than the most");
  require(data.ratio[0] <= data.ratio[1], {"data.ratio"}, "the least is more than the most");
  require(data.ratio == DataSection{}.ratio || !data.scale.empty(), {"data.ratio", "data.scale"},
          "belongs to data.scale, which is not given");
}

// Changes of the pixels' bytes.
void Combinations::byte_changes() {
  const auto& data = spec_.data;
  require(data.jitter.empty() || data.jitter[3] <= 0.5, {"data.jitter"},
          "the last number, of the hue, must be at most 0.5: half a circle");
  require(data.rand_augment.empty() || (data.rand_augment[0] >= 1 && data.rand_augment[0] <= 16), {"data.rand_augment"},
          "the first number, of the operations, must be from 1 to 16; torchvision's RandAugment is [2, 9]");
  for (const std::string_view key : {"data.rand_augment", "data.jitter"}) {
    require(is_photos() || data.resize.empty() || !differs_from_default(key), {key, "data.resize", "data.format"},
            fmt::format("changes bytes, and data.resize makes other numbers of images that are not of data.format {}",
                        photo_format_names()));
  }
}

// Mixed labels are probabilities.
void Combinations::mixing() {
  const bool takes_probabilities = !spec_.model.is_users() || spec_.model.loss == Loss::cross_entropy;
  for (const std::string_view key : {"data.mixup", "data.cutmix"}) {
    require(takes_probabilities || !differs_from_default(key), {key, "model.loss", "model.name"},
            fmt::format("makes probabilities of labels, for model.loss = \"cross_entropy\"; here it is \"{}\"",
                        to_string(spec_.model.loss)));
  }
}

void Combinations::channels() {
  const auto& data = spec_.data;
  const std::vector<int64_t> stored = stored_shape();
  const bool convertible = stored.empty() || !data.channels || stored[0] == *data.channels || stored[0] == 1;
  require(
      convertible, {"data.channels", "data.shape", "data.format"},
      fmt::format("the images have {} channels; only a single one can be repeated", stored.empty() ? 0 : stored[0]));
  require(data.mean.size() == data.std.size(), {"data.mean", "data.std"},
          fmt::format("data.mean has {} channels, data.std {}; both are needed", data.mean.size(), data.std.size()));
  if (data.mean.empty() || !convertible || (stored.empty() && !data.channels)) return;
  const int64_t expected = data.channels ? *data.channels : stored[0];
  require(static_cast<int64_t>(data.mean.size()) == expected,
          {"data.mean", "data.std", "data.channels", "data.shape", "data.format"},
          fmt::format("{} numbers for {} channels", data.mean.size(), expected));
}

void Combinations::crop() {
  const auto& data = spec_.data;
  const std::vector<int64_t> stored = stored_shape();
  const bool known = !data.resize.empty() || !stored.empty();
  if (data.crop.empty() || !known) return;
  const int64_t height = (data.resize.empty() ? stored[1] : data.resize.front()) + 2 * data.pad;
  const int64_t width = (data.resize.empty() ? stored[2] : data.resize.back()) + 2 * data.pad;
  require(data.crop[0] <= height && data.crop[1] <= width,
          {"data.crop", "data.pad", "data.resize", "data.shape", "data.format"},
          fmt::format("a crop of {} x {} is larger than the image of {} x {}{}", data.crop[0], data.crop[1], height,
                      width, data.pad > 0 ? ", padding included" : ""));
}

void Combinations::sampler() {
  const auto& data = spec_.data;
  const bool is_known = format_.samples <= Samples::photos && !format_.is_for_users_models;
  require(is_known || (data.sampler != Sampler::balanced && data.sampler != Sampler::per_class),
          {"data.sampler", "data.format"},
          fmt::format("\"{}\" needs the class of each sample, which data.format = \"{}\" does not tell: "
                      "\"weighted\" takes a weight for each sample",
                      to_string(data.sampler), format_.name));
  require(data.sampler == Sampler::all || data.shuffle, {"data.shuffle", "data.sampler"},
          fmt::format("data.sampler = \"{}\" draws at random: it needs data.shuffle = true", to_string(data.sampler)));
  require(data.sampler != Sampler::weighted || !data.sample_weights.empty(), {"data.sampler", "data.sample_weights"},
          "\"weighted\" needs data.sample_weights, the file of the weights");
  require(data.bucket == 0 || data.shuffle, {"data.bucket", "data.shuffle"},
          "steps of sorted samples come in a random order: data.bucket needs data.shuffle = true");
  if (data.sampler != Sampler::per_class) return;
  require(data.per_class > 0, {"data.sampler", "data.per_class"},
          "\"per_class\" needs data.per_class, the number of samples of a class in a mini-batch");
  if (data.per_class < 1) return;
  require(data.batch % data.per_class == 0, {"data.per_class", "data.batch"},
          fmt::format("data.batch = {} is not a multiple of it", data.batch));
  for (const batches::BatchChange& change : spec_.elastic.changes)
    require(change.batch % data.per_class == 0, {"elastic.changes", "data.per_class"},
            fmt::format("a batch of {} is not a multiple of data.per_class = {}", change.batch, data.per_class));
}

void Combinations::optimizer() {
  const auto& optimizer = spec_.optimizer;
  const bool is_free = optimizer.name != OptimizerKind::sgd || !nesterov(optimizer);
  require(is_free || (momentum(optimizer) > 0 && optimizer.dampening == 0),
          {"optimizer.nesterov", "optimizer.momentum", "optimizer.dampening"},
          "Nesterov's momentum needs optimizer.momentum > 0 and optimizer.dampening = 0");
  require(optimizer.layers.empty() || optimizer.layer_decay != 1, {"optimizer.layers", "optimizer.layer_decay"},
          "belongs to optimizer.layer_decay, which is 1: every layer has the same rate");
}

void Combinations::schedule() {
  const auto& schedule = spec_.schedule;
  require(schedule.name != ScheduleKind::multistep || !schedule.milestones.empty(),
          {"schedule.milestones", "schedule.name"}, "multistep needs schedule.milestones, such as [30, 80]");
  require(schedule.name != ScheduleKind::exponential || given("schedule.gamma"), {"schedule.gamma", "schedule.name"},
          "exponential needs schedule.gamma, such as 0.95: the factor of every unit");
  if (schedule.name == ScheduleKind::table) table();
  require(schedule.name != ScheduleKind::plateau || spec_.train.eval_every >= 0, {"schedule.name", "train.eval_every"},
          "plateau depends on evaluations, but train.eval_every is \"never\"");
  if (schedule.name != ScheduleKind::onecycle) return;
  const double total = static_cast<double>(schedule.period), rise = schedule.pct_start * total - 1;
  const double fall = schedule.three_phase ? 2 * schedule.pct_start * total - 2 : rise;
  require(rise != 0 && fall != total - 1, {"schedule.pct_start", "schedule.period", "schedule.three_phase"},
          "a phase of the cycle would have length 0, and torch's OneCycleLR divides by it");
}

void Combinations::table() {
  const std::vector<int64_t>& points = spec_.schedule.points;
  require(!points.empty() && !spec_.schedule.factors.empty(), {"schedule.points", "schedule.factors", "schedule.name"},
          "table needs schedule.points and schedule.factors, such as [0, 1000, 5000] and [1.0, 0.1, 0.01]");
  if (points.empty() || spec_.schedule.factors.empty()) return;
  require(points.size() == spec_.schedule.factors.size(), {"schedule.factors", "schedule.points"},
          fmt::format("{} factors for {} points; each point needs one", spec_.schedule.factors.size(), points.size()));
  require(points.front() == 0, {"schedule.points"}, "the first must be 0, where the schedule begins");
  require(std::ranges::adjacent_find(points, std::ranges::greater_equal()) == points.end(), {"schedule.points"},
          "each must be more than the one before it");
}

void Combinations::train() {
  const auto& train = spec_.train;
  require(!train.steps || !train.epochs, {"train.steps", "train.epochs"},
          "cannot be given together with train.epochs; give one of the two");
  const bool evaluates = train.eval_every >= 0;
  require(evaluates || spec_.early_stop.patience == 0, {"early_stop.patience", "train.eval_every"},
          "goes by evaluations, and train.eval_every is \"never\"");
  require(evaluates || spec_.checkpoint.best == "none", {"checkpoint.best", "train.eval_every"},
          "goes by evaluations, and train.eval_every is \"never\"");
  require(train.steps || train.epochs, {"train.steps", "train.epochs"}, "missing; give train.steps or train.epochs");
  terms();
  loss();
  users_metrics();
  metrics();
}

void Combinations::terms() {
  const std::vector<std::string>& terms = spec_.train.terms;
  for (auto term = terms.begin(); term != terms.end(); ++term) {
    require(!term->empty(), {"train.terms"}, "a name is empty");
    require(std::ranges::find(kTensorboardsOwn, *term) == std::end(kTensorboardsOwn), {"train.terms"},
            fmt::format("\"{}\" has a meaning of its own: choose another name", *term));
    require(std::find(terms.begin(), term, *term) == term, {"train.terms"},
            fmt::format("\"{}\" is there twice", *term));
  }
}

void Combinations::users_metrics() {
  const auto& train = spec_.train;
  const bool has_file = !train.metrics_file.empty();
  require(!has_file || CodePlace(train.metrics_file).is_whole(), {"train.metrics_file"},
          "give a file and a function in the file: \"metrics.py:f\"");
  require(!has_file || !train.metrics_names.empty(), {"train.metrics_file", "train.metrics_names"},
          "needs train.metrics_names, the names of the numbers that the function returns: metrics_names = [\"f1\"]");
  require(has_file || train.metrics_names.empty(), {"train.metrics_names", "train.metrics_file"},
          "belongs to train.metrics_file, which names no function");
  require(has_file || train.metrics_python.empty(), {"train.metrics_python", "train.metrics_file"},
          "belongs to train.metrics_file, which names no function");
  require(!has_file || train.eval_every >= 0, {"train.metrics_file", "train.eval_every"},
          "goes by evaluations, and train.eval_every is \"never\"");
}

// The names of metrics are the keys of an object in metrics.jsonl.
void Combinations::metrics() {
  const auto& train = spec_.train;
  const std::vector<std::string> known = comparable_metrics(train);
  for (const std::string_view key : {"train.metrics", "train.metrics_names"}) {
    for (const std::string& name : key == "train.metrics" ? train.metrics : train.metrics_names) {
      require(!name.empty(), {key}, "a name is empty");
      const bool is_of_class = train.per_class && name.starts_with("class") && name.size() > 5 &&
                               std::ranges::all_of(name.substr(5), [](char c) { return c >= '0' && c <= '9'; });
      require(!is_of_class, {key, "train.per_class"}, fmt::format("\"{}\" is the accuracy of a class", name));
      require(std::ranges::count(known, name) <= 1 && name != "perplexity", {key},
              fmt::format("\"{0}\" is the name of another metric, too; use a name such as \"own_{0}\"", name));
    }
  }
  for (const std::string& name : train.falling) known_metric("train.falling", name, known);
  known_metric("early_stop.metric", spec_.early_stop.metric, known);
  if (spec_.checkpoint.best != "none") known_metric("checkpoint.best", spec_.checkpoint.best, known);
}

void Combinations::known_metric(std::string_view key, const std::string& name, std::vector<std::string> known) {
  if (std::ranges::find(known, name) != known.end()) return;
  const std::optional<std::string> meant = closest(name, known);
  require(false, {key, "train.metrics", "train.metrics_names"},
          fmt::format("\"{}\" is no metric of this job's evaluations: {}{}", name, quoted_list(known),
                      meant ? fmt::format("; did you mean \"{}\"?", *meant) : ""));
}

void Combinations::loss() {
  const auto& train = spec_.train;
  const bool is_users = spec_.model.is_users(), by_weight = train.weight == Weight::tokens;
  const Loss loss = is_users ? spec_.model.loss : Loss::cross_entropy;
  require(train.loss_weights.empty() || (loss != Loss::output && loss != Loss::mse),
          {"train.loss_weights", "model.loss"},
          fmt::format("with model.loss = \"{}\" estrain knows no classes: it is for \"cross_entropy\", \"nll\" and "
                      "\"bce_with_logits\"",
                      to_string(loss)));
  require(
      train.loss_weights.empty() || std::ranges::any_of(train.loss_weights, [](double weight) { return weight > 0; }),
      {"train.loss_weights"}, "all weights are 0");
  require(!by_weight || loss != Loss::output || std::ranges::find(train.terms, weight_term) != train.terms.end(),
          {"train.weight", "train.terms", "model.loss"},
          "a loss of the model's own is a mean over a number of targets that estrain does not know: let forward return "
          "that number behind the loss, and name it in train.terms = [\"tokens\"]; or set model.loss");
  require(!by_weight || spec_.elastic.batch == BatchMode::fixed, {"train.weight", "elastic.batch"},
          "the noise of gradients, by which elastic.batch = \"adaptive\" goes, is not measured with \"tokens\"");
}

}  // namespace

void Combinations::elastic() {
  const auto& changes = spec_.elastic.changes;
  require(
      std::ranges::adjacent_find(changes, std::ranges::greater_equal(), &batches::BatchChange::after) == changes.end(),
      {"elastic.changes"}, "each must be after a later step than the one before it");
  const auto& range = spec_.elastic.batch_range;
  require(range.empty() || range[0] <= range[1], {"elastic.batch_range"}, "the least is more than the most");
}

void Combinations::logging() {
  const std::vector<int64_t>& trace = spec_.logging.trace;
  require(trace.empty() || trace[0] <= trace[1], {"logging.trace"}, "the first step comes after the last one");
  require(trace.empty() || !spec_.train.steps || trace[0] <= *spec_.train.steps, {"logging.trace", "train.steps"},
          fmt::format("the job ends after step {}", spec_.train.steps.value_or(0)));
}

void check_combinations(const JobSpec& spec, const Document& document, Mistakes& mistakes) {
  Combinations combinations(spec, document, mistakes);
  combinations.job();
  combinations.model();
  combinations.files();
  combinations.images();
  combinations.sampler();
  combinations.optimizer();
  combinations.schedule();
  combinations.train();
  combinations.elastic();
  combinations.logging();
}

}  // namespace estrain::spec
