// Ends that are learnt. A job with an early stop ends when its evaluations no longer get better, most often long before
// its last step. As in ONES (Z. Bian et al., SC'21, section 3.2.1), the evaluations of jobs that are done tell how far
// such a job is (core/planning/scheduling/progress_model.h). ONES has a single model of all jobs, a pool has a model
// of each program: the jobs of a sweep end alike. An epoch of the model is what lies between two evaluations.
//
// A job of a program of which no job is done is expected to make as large a part of its steps as the jobs of other
// programs did. The rule of the early stop itself gives the least number of evaluations to come. A promise is no place
// for a guess: a job with a deadline is expected to make all of its steps.

#include <algorithm>
#include <limits>

#include "core/planning/dispatch/turn.h"
#include "core/planning/scheduling/progress_model.h"

namespace estrain::dispatch {
namespace {

using scheduling::ProgressModel;

constexpr size_t kKept = 64;       // evaluations of a job
constexpr size_t kThatTell = 8;    // of these, for the model
constexpr double kBeyond = 1.5;    // times the range of the ends of jobs like it: no job is expected to end beyond
constexpr size_t kNewestDone = 8;  // of a program: the newest
constexpr int64_t kUnknownSteps = 1000;  // to come, of a job whose steps are not known

// In steps with the owner's batch.
double interval_of(const Job& job) {
  return job.in_owners_steps(job.evaluations.last.step) / static_cast<double>(job.evaluations.count);
}

ProgressModel::Signs signs_of(const Job& job, const Evaluation& at) {
  constexpr double kMostLoss = 1e6, kLeastImprovement = -10;  // a job may diverge
  const double first = std::min(kMostLoss, job.evaluations.kept.front().loss);
  const double samples = job.request.early_stop->samples;
  return {.epoch_size = interval_of(job) * samples,
          .initial_loss = first,
          .processed = job.in_owners_steps(at.step) * samples,
          .loss_improvement = first > 0 ? std::max(kLeastImprovement, 1 - at.loss / first) : 0,
          .accuracy = at.accuracy};
}

bool tells(const Job& job) { return job.phase == Phase::done && job.request.early_stop && job.step > 0; }

void add_logs(const Job& job, std::vector<ProgressModel::Logged>& logs) {
  const std::vector<Evaluation>& kept = job.evaluations.kept;
  const size_t stride = (kept.size() + kThatTell - 1) / kThatTell;
  for (size_t i = 0; i < kept.size(); i += stride) {
    const Evaluation& one = kept[i];
    const double progress = job.in_owners_steps(one.step) / job.in_owners_steps(job.step);
    if (progress > 0 && progress < 1) logs.push_back({job.id, signs_of(job, one), progress});
  }
}

// Returns the evaluations to come as the jobs of the program tell. A linear function of few jobs may be far off.
double by_like(const LearntEnds::OfProgram& like, const ProgressModel::Signs& signs) {
  const double end = signs.processed + like.model.epochs_to_come(signs) * signs.epoch_size;
  const double near = std::clamp(end, like.least_samples / kBeyond, like.most_samples * kBeyond);
  return (near - signs.processed) / signs.epoch_size;
}

// Returns the evaluations to come of a job that has been evaluated, as the early stop allows. `most_steps`: with the
// owner's batch.
double evaluations_to_come(const LearntEnds& learnt, const Job& job, double most_steps) {
  const EvaluationsOfJob& seen = job.evaluations;
  const double done = job.in_owners_steps(seen.last.step), interval = interval_of(job);
  const double most = (most_steps - done) / interval;
  const double least = static_cast<double>(job.request.early_stop->patience - seen.worse);
  const auto like = learnt.programs.find(job.memory.program);
  const double expected = like != learnt.programs.end() ? by_like(like->second, signs_of(job, seen.last))
                                                        : (learnt.part * most_steps - done) / interval;
  return std::max(0.0, std::min(most, std::max(least, expected)));
}

// `before`: what was learnt, perhaps from the same jobs.
LearntEnds::OfProgram learn_program(const std::vector<const Job*>& like, const LearntEnds::OfProgram& before) {
  LearntEnds::OfProgram learnt;
  for (const Job* job : like) learnt.jobs.push_back(job->id);
  if (learnt.jobs == before.jobs) return before;
  std::vector<ProgressModel::Logged> logs;
  learnt.least_samples = std::numeric_limits<double>::infinity();
  for (const Job* job : like) {
    add_logs(*job, logs);
    const double samples = job->in_owners_steps(job->step) * job->request.early_stop->samples;
    learnt.samples += samples / static_cast<double>(like.size());
    learnt.least_samples = std::min(learnt.least_samples, samples);
    learnt.most_samples = std::max(learnt.most_samples, samples);
  }
  learnt.model = ProgressModel::fit(logs);
  return learnt;
}

}  // namespace

void on(DispatchTurn& turn, const JobEvaluated& event) {
  Job& job = job_of(turn.state, event.job);
  const Evaluation& result = event.result;
  EvaluationsOfJob& seen = job.evaluations;
  if (!job.request.early_stop || result.step <= seen.last.step) return;  // a job that was lost repeats evaluations
  const EarlyStop& rule = *job.request.early_stop;
  constexpr double kWorst = std::numeric_limits<double>::max();  // also of a result that is not finite
  if (seen.count == 0) seen.best = rule.falls ? kWorst : -kWorst;
  const bool is_better =
      rule.falls ? result.metric < seen.best - rule.min_delta : result.metric > seen.best + rule.min_delta;
  if (is_better) {
    seen.best = result.metric;
    seen.worse = 0;
  } else {
    ++seen.worse;
  }
  if (seen.count++ % seen.stride == 0) seen.kept.push_back(result);
  seen.last = result;
  if (seen.kept.size() <= kKept) return;
  std::vector<Evaluation> half;
  for (size_t i = 0; i < seen.kept.size(); i += 2) half.push_back(seen.kept[i]);
  seen.kept = std::move(half);
  seen.stride *= 2;
}

void learn_ends(State& state) {
  if (!std::exchange(state.underway.ends_are_stale, false)) return;
  LearntEnds learnt;
  std::map<std::string, std::vector<const Job*>> programs;  // the newest first
  double parts = 0, jobs = 0;
  for (auto at = state.jobs.rbegin(); at != state.jobs.rend(); ++at) {
    const Job& job = at->second;
    if (!tells(job)) continue;
    if (job.request.total_steps > 0 && jobs < kNewestDone) {
      parts += job.in_owners_steps(job.step) / job.in_owners_steps(job.request.total_steps);
      ++jobs;
    }
    std::vector<const Job*>& like = programs[job.memory.program];
    if (!job.memory.program.empty() && like.size() < kNewestDone) like.push_back(&job);
  }
  for (const auto& [program, like] : programs)
    if (!like.empty()) learnt.programs[program] = learn_program(like, state.underway.ends.programs[program]);
  if (jobs > 0) learnt.part = parts / jobs;
  state.underway.ends = std::move(learnt);
}

ForeseenEnd foreseen_end(const State& state, const Job& job) {
  const int64_t last = job.request.total_steps > 0 ? job.request.total_steps : job.step + kUnknownSteps;
  if (!job.request.early_stop || job.request.deadline)
    return {.steps = std::max(1.0, static_cast<double>(last - job.step))};
  const double step = job.in_owners_steps(job.step), most = job.in_owners_steps(last);
  const auto until = [&](double end) { return std::max(1.0, (end - step) / job.owners_steps()); };
  const LearntEnds& learnt = state.underway.ends;
  const EvaluationsOfJob& seen = job.evaluations;
  const auto like = learnt.programs.find(job.memory.program);
  const bool is_known = like != learnt.programs.end();
  if (seen.count == 0) {
    const double end = is_known ? like->second.samples / job.request.early_stop->samples : learnt.part * most;
    return {.steps = until(std::min(end, most))};
  }
  const double to_come = evaluations_to_come(learnt, job, most);
  return {.steps = until(job.in_owners_steps(seen.last.step) + to_come * interval_of(job)),
          .evaluations = {.done = static_cast<double>(seen.count),
                          .to_come = to_come,
                          .confidence = is_known ? like->second.model.confidence() : 1,
                          .is_learnt = true}};
}

}  // namespace estrain::dispatch
