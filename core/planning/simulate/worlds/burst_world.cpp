#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>

#include "core/base/error.h"
#include "core/planning/plan/burst.h"
#include "core/planning/simulate/tables/csv_table.h"
#include "core/planning/simulate/tables/layer_table.h"
#include "core/planning/simulate/worlds/worlds.h"

namespace estrain::simulate {
namespace {

constexpr double kNoEnd = std::numeric_limits<double>::infinity();

// How a job runs on 1, 2, 4, 8 … devices.
struct Pace {
  double seconds = 0;        // of an iteration
  std::vector<double> gaps;  // of each device: the idle part of an iteration
};

struct Kind {
  std::string name;
  double submitted = 0, iterations = 1, slowed = 0;
  bool is_background = false;
  std::vector<Pace> paces;

  const Pace& on(int64_t devices) const {
    size_t exponent = 0;
    while (exponent + 1 < paces.size() && (int64_t{2} << exponent) <= devices) ++exponent;
    return paces[exponent];
  }
};

Pace pace_of(const plan::BurstPlan& plan, int64_t devices) {
  Pace pace{plan.seconds, std::vector<double>(static_cast<size_t>(devices), 1)};
  for (const plan::BurstStep& step : plan.steps) {
    for (int64_t i = 0; i < std::min(step.devices, devices); ++i)
      pace.gaps[static_cast<size_t>(i)] -= step.seconds() / plan.seconds;
  }
  for (double& gap : pace.gaps) gap = std::max(0.0, gap);
  return pace;
}

class BurstJob;

// The jobs on the cluster.
struct Floor {
  int64_t devices = 0;
  std::vector<BurstJob*> foreground, background;  // each in order of submission
};

class BurstJob : public SimulatedJob {
 public:
  BurstJob(const Kind& kind, Floor& floor, double charge)
      : kind_(kind), floor_(floor), charge_(charge), left_(kind.iterations), outlook_(*this) {
    facts.outlook = &outlook_;
  }

  void place(const scheduling::Placement& placement) override {
    facts.placement = placement;
    std::vector<BurstJob*>& side = kind_.is_background ? floor_.background : floor_.foreground;
    std::erase(side, this);
    if (placement.empty()) return;
    countdown_ = charge_;
    const auto order = [](const BurstJob* job) { return job->facts.order; };
    side.insert(std::ranges::upper_bound(side, facts.order, {}, order), this);
  }

  void run(double from, double seconds) override {
    if (facts.placement.empty()) return;
    facts.held += seconds;
    facts.attained += seconds * static_cast<double>(held());
    const double delay = std::min(countdown_, seconds);
    facts.lost += delay;
    countdown_ -= delay;
    const double speed = iterations_per_second();
    if (delay + left_ / speed <= seconds) {
      finished = from + delay + left_ / speed;
    } else {
      left_ -= (seconds - delay) * speed;
    }
  }
  double seconds_to_end() const override {
    return facts.placement.empty() ? kNoEnd : countdown_ + left_ / iterations_per_second();
  }
  double devices_in_use() const override {
    if (facts.placement.empty()) return 0;
    if (kind_.is_background) return part_of_device();
    double all = static_cast<double>(held());
    for (const double gap : kind_.on(held()).gaps) all -= gap;
    return all;
  }

 private:
  class KnownOutlook : public scheduling::Outlook {
   public:
    explicit KnownOutlook(const BurstJob& job) : job_(job) {}
    double seconds_left(const scheduling::Shape& shape) const override {
      return job_.left_ * step_seconds(shape.all_devices());
    }
    double step_seconds(int64_t devices) const override { return job_.kind_.on(devices).seconds; }
    double steps_left() const override { return job_.left_; }

   private:
    const BurstJob& job_;
  };

  int64_t held() const { return scheduling::devices_of(facts.placement); }

  double iterations_per_second() const {
    const double alone = 1 / kind_.on(held()).seconds;
    if (kind_.is_background) return alone * part_of_device();
    int64_t used = static_cast<int64_t>(floor_.background.size());
    for (const BurstJob* job : floor_.foreground) used += job->held();
    return used > floor_.devices ? alone / (1 + kind_.slowed) : alone;
  }

  // Returns the part of a device that a background job has.
  double part_of_device() const {
    std::vector<double> parts;
    int64_t taken = 0;
    for (const BurstJob* job : floor_.foreground) {
      const std::vector<double>& gaps = job->kind_.on(job->held()).gaps;
      parts.insert(parts.end(), gaps.begin(), gaps.end());
      parts.resize(parts.size() + static_cast<size_t>(job->held()) - gaps.size(), 1);
      taken += job->held();
    }
    parts.resize(parts.size() + static_cast<size_t>(std::max<int64_t>(0, floor_.devices - taken)), 1);
    std::ranges::sort(parts, std::greater<>());
    const auto at = std::ranges::find(floor_.background, this) - floor_.background.begin();
    return parts[static_cast<size_t>(at)];
  }

  const Kind& kind_;
  Floor& floor_;
  double charge_, left_, countdown_ = 0;
  KnownOutlook outlook_;
};

class BurstWorld : public World {
 public:
  explicit BurstWorld(const WorldFiles& files) : table_(files.folder + "/layer_profiles.csv") {
    if (!std::filesystem::exists(table_)) table_ += ".gz";
    if (files.cluster.empty()) {
      throw Error(Fault::usage, "the cluster of foreground and background jobs is unknown")
          .advise("--cluster HOSTSxDEVICES, for instance 1x8");
    }
    cluster_ = parse_cluster(files.cluster);
    read(CsvTable::read(files.trace));
  }

  std::vector<std::string> workloads() const override { return {"1"}; }

  Workload make(const std::string& name, scheduling::Knowledge, const Charge& charge, uint64_t) const override {
    Workload workload;
    workload.name = name;
    workload.cluster = &cluster_;
    workload.at_events = true;
    workload.charge = charge.kind == Charge::Kind::published ? 0 : charge.seconds;
    workload.begin = kinds_.front().submitted;
    workload.shared = std::make_shared<Floor>(Floor{cluster_.devices(), {}, {}});
    for (const Kind& kind : kinds_) {
      auto job = std::make_unique<BurstJob>(kind, *std::static_pointer_cast<Floor>(workload.shared), workload.charge);
      job->facts.name = kind.name;
      job->facts.order = static_cast<int64_t>(workload.jobs.size());
      job->facts.submitted = kind.submitted;
      job->facts.is_background = kind.is_background;
      job->facts.requested = job->facts.most = int64_t{1} << (kind.paces.size() - 1);
      workload.jobs.push_back(std::move(job));
    }
    return workload;
  }

 private:
  void read(const CsvTable& trace) {
    const auto or_else = [&](size_t row, const char* column, double other) {
      return trace.has(column) ? trace.number_from(row, trace.column(column), 0) : other;
    };
    for (size_t row = 0; row < trace.rows(); ++row) {
      Kind& kind = kinds_.emplace_back();
      kind.name = trace.text(row, trace.column("job"));
      kind.submitted = trace.number_from(row, trace.column("submit_s"), 0);
      kind.iterations = static_cast<double>(trace.whole(row, trace.column("iterations"), 1));
      const std::string_view which = trace.text(row, trace.column("kind"));
      kind.is_background = which == "background";
      if (!kind.is_background && which != "foreground") {
        throw Error::make(Fault::spec, "{}: \"{}\" is neither \"foreground\" nor \"background\"",
                          trace.place(row, trace.column("kind")), which);
      }
      kind.slowed = or_else(row, "slowed", 0.18);
      const double most = or_else(row, "devices", static_cast<double>(cluster_.devices()));
      kind.paces =
          paces(std::string(trace.text(row, trace.column("model"))), trace.whole(row, trace.column("batch"), 1),
                kind.is_background ? 1 : std::clamp<int64_t>(static_cast<int64_t>(most), 1, cluster_.devices()),
                or_else(row, "limit", 2));
    }
    if (kinds_.empty()) throw Error::make(Fault::spec, "{}: no jobs", trace.path());
    std::ranges::stable_sort(kinds_, {}, &Kind::submitted);
  }

  std::vector<Pace> paces(const std::string& model, int64_t batch, int64_t most, double limit) {
    std::vector<Pace>& known = known_[{model, batch, most, limit}];
    if (!known.empty()) return known;
    for (int64_t devices = 1; devices <= most; devices *= 2) {
      const size_t slash = std::min(model.find('/'), model.size());
      const std::string set = slash < model.size() ? model.substr(slash + 1) : "";
      const auto parts = read_layer_table(table_, {model.substr(0, slash), set, batch, devices});
      if (parts.front().branches.front().front().compute.size() < known.size() + 1) break;  // fewer samples
      const plan::BurstPlan plan =
          limit > 0 ? plan::best_burst_plan(parts, {}, limit) : plan::data_parallel_plan(parts, {}, devices);
      known.push_back(pace_of(plan, devices));
    }
    return known;
  }

  std::string table_;
  scheduling::Cluster cluster_;
  std::vector<Kind> kinds_;
  std::map<std::tuple<std::string, int64_t, int64_t, double>, std::vector<Pace>> known_;
};

}  // namespace

bool is_burst_trace(const std::string& path) {
  const CsvTable trace = CsvTable::read(path);
  return trace.has("kind") && trace.has("iterations");
}

std::unique_ptr<World> open_burst_world(const WorldFiles& files) { return std::make_unique<BurstWorld>(files); }

}  // namespace estrain::simulate
