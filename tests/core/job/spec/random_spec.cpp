#include "tests/core/job/spec/random_spec.h"

#include "core/job/spec/enum_names.h"

namespace estrain::spec {
namespace {

class Draw {
 public:
  explicit Draw(std::mt19937_64& random) : random_(random) {}

  JobSpec spec() {
    JobSpec spec;
    job(spec.job);
    spec.model.name = std::string(model_names[below(model_names.size())]);
    const bool gpt = spec.model.name == "gpt", users = spec.model.is_users();
    spec.data.format = gpt ? (coin() ? DataFormat::text : DataFormat::tokens) : image_format(users);
    model(spec.model, spec.data.format == DataFormat::tokens);
    data(spec.data);
    optimizer(spec.optimizer);
    schedule(spec.schedule);
    if (users && spec.schedule.name == ScheduleKind::plateau) spec.schedule.metric = Metric::loss;
    (coin() ? spec.train.steps : spec.train.epochs) = integer(1, 1'000'000);
    spec.train.eval_every = integer(spec.schedule.name == ScheduleKind::plateau ? 0 : -1, 5);
    spec.train.eval_batch = integer(1, 1000);
    spec.train.clip_grad_norm = real(0, 9);
    if (!users || spec.model.loss == Loss::cross_entropy) spec.train.label_smoothing = real(0, 0.99);
    const bool own = users && (spec.model.loss == Loss::output || spec.model.loss == Loss::mse);
    if (!own && coin()) spec.train.loss_weights = {real(0.01, 9), 0, real(0, 9)};
    if (users && coin()) spec.train.terms = {text() + "1", "tokens", text() + "2"};
    const bool can_weigh = !users || spec.model.loss != Loss::output || !spec.train.terms.empty();
    if (can_weigh && coin()) spec.train.weight = Weight::tokens;
    spec.checkpoint = {integer(0, 9), integer(1, 9), "none"};
    spec.ema = {real(0, 0.99), coin()};
    if (users) spec.train.metrics = {text() + "m"};
    spec.early_stop = {0, coin() ? "loss" : "accuracy", real(0, 1)};
    spec.resources.devices = coin() ? text() : std::to_string(integer(1, 9));
    spec.train.nonfinite = word<NonfinitePolicy>();
    spec.elastic.mode = word<ElasticMode>();
    if (spec.train.weight == Weight::ests) spec.elastic.batch = word<BatchMode>();
    if (spec.elastic.batch == BatchMode::adaptive) {
      if (coin()) spec.elastic.batch_range = {integer(1, 9), integer(9, 99)};
      for (int64_t after = integer(0, 9); coin(); after += integer(1, 9))
        spec.elastic.changes.push_back({after, integer(1, 9), real(0.01, 9)});
    }
    spec.recovery = {integer(0, 9), real(0, 99), coin() ? path() : ""};
    spec.logging = {real(0.1, 9), coin(), coin() ? std::vector<int64_t>{1, integer(1, 9)} : std::vector<int64_t>{}};
    return spec;
  }

 private:
  size_t below(size_t n) { return random_() % n; }
  bool coin() { return below(2) == 0; }
  int64_t integer(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(below(static_cast<size_t>(high - low + 1)));
  }
  double real(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random_); }
  std::optional<double> maybe(double high) { return coin() ? std::make_optional(real(0, high)) : std::nullopt; }
  std::string text() {
    static const char* pieces[] = {"a", "Z", " ", "\"", "\\", "\n", "\t", "é", "☃", "#", "=", "\x01", "'", "[*]"};
    std::string all = "x";
    for (size_t i = below(8); i > 0; --i) all += pieces[below(std::size(pieces))];
    return all;
  }
  std::string path() { return "/" + text(); }
  std::vector<int64_t> integers(size_t count) {
    std::vector<int64_t> all(count);
    for (int64_t& one : all) one = integer(1, 40);
    return all;
  }
  template <typename E>
  E word() {
    const auto names = enum_names<E>();
    return names[below(names.size())].value;
  }
  static bool is_for_gpt(DataFormat format) { return format == DataFormat::text || format == DataFormat::tokens; }
  static bool is_photos(DataFormat format) {
    return format == DataFormat::images || format == DataFormat::webdataset || format == DataFormat::voc;
  }
  DataFormat image_format(bool for_program) {
    const DataFormat format = word<DataFormat>();
    const bool fits = !is_for_gpt(format) && (format != DataFormat::voc || for_program);
    return fits ? format : DataFormat::synthetic;
  }

  void job(JobSection& job) {
    job.name = coin() ? "run é" : "x y#\"\\";
    job.seed = integer(0, int64_t{1} << 62);
    job.ests = integer(1, 65536);
    job.determinism = word<Determinism>();
    job.kernels = job.determinism == Determinism::d2 ? Kernels::portable : word<Kernels>();
    if (job.kernels == Kernels::torch) job.precision = word<Precision>();
    job.algorithms = word<Algorithms>();
    job.cuda_graphs = word<CudaGraphs>();
    job.exchange = word<Exchange>();
    job.state = word<StateMemory>();
    job.threads = integer(1, 8);
  }

  void model(ModelSection& model, bool tokens) {
    if (coin()) model.init = path();
    if (!model.init.empty() && coin()) model.init_match = {"*", "!fc.*"};
    if (!model.init.empty() && coin()) model.init_prefix = {"module.=x \"\\"};
    if (coin() || tokens) model.classes = integer(256, 1000);
    if (model.name == "mlp") model.hidden = integers(below(4));
    if (model.name == "mlp" || model.name == "gpt" || model.name == "vgg11" || model.name == "vgg19") {
      model.dropout = maybe(0.99);
    }
    if (model.is_users()) {
      model.file = path() + (model.is_python() ? ":build" : "");
      if (model.is_python() && coin()) model.python = path();
      if (!model.is_python() && coin()) model.eval_file = path();
      model.loss = word<Loss>();
      if (model.loss != Loss::output && coin()) model.loss_target = "labels";
      model.context = integer(1, 999);
    }
    if (model.name != "gpt") return;
    model.layers = integer(1, 9);
    model.heads = integer(1, 9);
    model.width = model.heads * integer(1, 9);
    model.context = integer(1, 999);
    model.tied = coin();
  }

  void data(DataSection& data) {
    data.batch = integer(1, 999);
    data.shuffle = coin();
    data.drop_last = coin();
    data.readers = integer(1, 9);
    data.prefetch = integer(0, 9);
    files(data);
    sampler(data);
    if (!is_for_gpt(data.format) && data.format != DataFormat::python) images(data);
  }

  void files(DataSection& data) {
    if (data.format == DataFormat::synthetic) {
      data.shape = {3, integer(1, 40), integer(1, 40)};
      data.samples = integer(1, 9999);
    } else if (data.format == DataFormat::idx && coin()) {
      data.images = path(), data.labels = path();
      if (coin()) data.test_images = path(), data.test_labels = path();
    } else if (data.format == DataFormat::python) {
      data.file = path() + ":train";
      if (coin()) data.test_file = path() + ":test";
      if (coin()) data.python = path();
      data.hang_seconds = real(0, 99);
    } else {
      data.path = path();
    }
    const bool own_test = data.format == DataFormat::hdf5 || is_for_gpt(data.format) || is_photos(data.format);
    if (own_test && coin()) data.test_path = path();
    if (data.format == DataFormat::voc) {
      data.list = text();
      data.test_list = text();
      data.boxes = integer(1, 99);
      data.names = {text(), text()};
      data.difficult = coin();
    }
    const bool may_hold_out = data.format == DataFormat::hdf5 || data.format == DataFormat::python ||
                              data.format == DataFormat::images || data.format == DataFormat::webdataset ||
                              is_for_gpt(data.format);
    if (may_hold_out && data.test_path.empty() && data.test_file.empty()) data.holdout = maybe(0.99);
    if (data.format == DataFormat::hdf5) data.pad_values = {text() + "=-1"}, data.pad_multiple = integer(1, 99);
    if (data.format == DataFormat::tokens) data.token_type = word<TokenType>();
  }

  void sampler(DataSection& data) {
    if (is_photos(data.format) || data.format == DataFormat::python) data.skip_bad = integer(0, 99);
    const bool has_labels = !is_for_gpt(data.format) && data.format != DataFormat::python;
    data.sampler = coin() ? Sampler::all : has_labels && coin() ? Sampler::balanced : Sampler::weighted;
    if (data.format == DataFormat::voc && data.sampler == Sampler::balanced) data.sampler = Sampler::all;
    if (data.sampler == Sampler::weighted) data.sample_weights = path();
    if (data.format == DataFormat::hdf5) data.bucket = integer(0, 99);
    if (data.sampler != Sampler::all || data.bucket != 0) data.shuffle = true;
  }

  void images(DataSection& data) {
    if (coin()) data.channels = 3;
    if (coin()) data.resize = integers(2);
    if (!is_photos(data.format)) data.pad = integer(0, 9);
    if (is_photos(data.format) || coin()) data.crop = {1, 1};
    if (is_photos(data.format) && coin()) data.resize = integers(1);
    if (is_photos(data.format) && coin()) data.scale = {real(0.1, 0.5), real(0.5, 1)}, data.ratio = {real(0.1, 1), 1.5};
    data.flip = coin();
    const bool keeps_bytes = is_photos(data.format) || data.resize.empty();
    if (data.format != DataFormat::voc && keeps_bytes && coin()) data.rand_augment = {integer(1, 16), integer(0, 30)};
    if (coin()) data.mean = {real(-1, 1), real(-1, 1), real(-1, 1)}, data.std = {real(0.1, 1), real(0.1, 1), 1e-300};
  }

  void optimizer(OptimizerSection& optimizer) {
    optimizer.name = word<OptimizerKind>();
    optimizer.lr = maybe(1);
    optimizer.weight_decay = maybe(1);
    const bool sgd = optimizer.name == OptimizerKind::sgd, rmsprop = optimizer.name == OptimizerKind::rmsprop;
    const bool muon = optimizer.name == OptimizerKind::muon, adafactor = optimizer.name == OptimizerKind::adafactor;
    const bool with_momentum = sgd || rmsprop || muon;
    if (with_momentum) optimizer.momentum = real(0.1, 1);
    const bool lion = optimizer.name == OptimizerKind::lion;
    if (!sgd && !lion) optimizer.eps = maybe(1e-6);
    if (sgd) {
      optimizer.nesterov = coin();
      optimizer.dampening = *optimizer.nesterov ? 0 : real(-1, 1);
    } else if (muon) {
      if (coin()) optimizer.nesterov = coin();
      optimizer.ns_coefficients = {real(-9, 9), real(-9, 9), real(-9, 9)};
      optimizer.ns_steps = integer(1, 99);
      optimizer.adjust_lr_fn = word<AdjustLr>();
    } else if (adafactor) {
      optimizer.beta2_decay = real(-2, 0), optimizer.eps2 = real(0, 1), optimizer.d = real(1, 9);
    } else if (rmsprop) {
      optimizer.alpha = real(0, 1);
      optimizer.centered = coin();
    } else if (optimizer.name == OptimizerKind::adagrad) {
      optimizer.lr_decay = real(0, 1);
      optimizer.initial_accumulator_value = real(0, 1);
    } else {
      averaging(optimizer);
    }
    if (coin()) optimizer.layer_decay = real(0.1, 0.99), optimizer.layers = {text(), text()};
    for (size_t i = below(3); i > 0; --i) {
      OptimizerGroup group{{text(), text()}, maybe(1), maybe(1), with_momentum ? maybe(1) : std::nullopt, {}, {}};
      if (optimizer.betas) group.betas = {{real(0, 0.99), real(0, 0.99)}};
      if (optimizer.eps) group.eps = maybe(1e-6);
      if (coin()) group = {{text(), text()}, maybe(1), maybe(1), {}, {}, {}, word<OptimizerKind>()};
      optimizer.groups.push_back(group);
    }
  }

  // The settings of optimizers with betas.
  void averaging(OptimizerSection& optimizer) {
    const OptimizerKind name = optimizer.name;
    if (coin()) optimizer.betas = {{real(0, 0.99), real(0, 0.99)}};
    if (name == OptimizerKind::adam || name == OptimizerKind::adamw) optimizer.amsgrad = coin();
    if (name == OptimizerKind::nadam) optimizer.momentum_decay = real(0, 1);
    if (name == OptimizerKind::lamb) optimizer.trust_clip = coin(), optimizer.always_adapt = coin();
    if (name == OptimizerKind::nadam || name == OptimizerKind::radam) optimizer.decoupled_weight_decay = coin();
  }

  void schedule(ScheduleSection& schedule) {
    schedule.name = word<ScheduleKind>();
    const bool plateau = schedule.name == ScheduleKind::plateau, one = schedule.name == ScheduleKind::onecycle;
    const bool multistep = schedule.name == ScheduleKind::multistep;
    if (!plateau) schedule.unit = word<ScheduleUnit>();
    if (!plateau && !one) schedule.warmup = integer(0, 9), schedule.warmup_start = real(0.01, 1);
    if (plateau) {
      schedule.metric = word<Metric>();
      schedule.factor = real(0.01, 0.99);
      schedule.patience = integer(0, 9), schedule.cooldown = integer(0, 9);
      schedule.threshold = real(0, 1), schedule.threshold_mode = word<ThresholdMode>();
      schedule.min_lr = real(0, 1);
    } else if (!multistep && schedule.name != ScheduleKind::constant && !newer(schedule)) {
      schedule.period = integer(10, 999);
    }
    if (multistep) schedule.milestones = integers(1 + below(4));
    if (multistep || schedule.name == ScheduleKind::step) schedule.gamma = real(0.01, 2);
    if (schedule.name == ScheduleKind::polynomial) schedule.power = real(0, 3);
    if (one) {
      schedule.pct_start = real(0.2, 0.4), schedule.anneal_strategy = word<Anneal>();
      schedule.div_factor = real(1, 99), schedule.final_div_factor = real(1, 99), schedule.three_phase = coin();
    }
    if (schedule.name == ScheduleKind::cosine) schedule.eta_min = real(0, 1);
    if (schedule.name == ScheduleKind::linear) schedule.start_factor = real(0.01, 1), schedule.end_factor = real(0, 1);
  }

  // Draws the settings of a schedule that is none of the rest. Returns whether it is one.
  bool newer(ScheduleSection& schedule) {
    switch (schedule.name) {
      case ScheduleKind::exponential:
        schedule.gamma = real(0.01, 2);
        return true;
      case ScheduleKind::restarts:
        schedule.period = integer(1, 99), schedule.period_factor = integer(1, 9), schedule.eta_min = real(0, 1);
        return true;
      case ScheduleKind::inverse_sqrt:
        schedule.period = integer(1, 99);
        return true;
      case ScheduleKind::wsd:
        schedule.period = integer(1, 99), schedule.decay = integer(1, 99);
        schedule.decay_shape = word<Decay>(), schedule.min_factor = real(0, 1);
        return true;
      case ScheduleKind::table:
        schedule.points = {0, integer(1, 9), integer(10, 99)}, schedule.factors = {real(0, 1), real(0, 1), real(0, 1)};
        schedule.between = word<Between>();
        return true;
      default:
        return false;
    }
  }

  std::mt19937_64& random_;
};

}  // namespace

JobSpec random_spec(std::mt19937_64& random) { return Draw(random).spec(); }

}  // namespace estrain::spec
