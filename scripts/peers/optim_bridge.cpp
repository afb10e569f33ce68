// core/engine/optim behind C functions, for optimizer_bits.py and schedule_bits.py to call from Python. Optimizers and
// schedules are given as the TOML of a job's [optimizer] and [schedule]: what the spec's table of keys knows can be
// compared, without a line here.

#include <ATen/ops/from_blob.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "core/base/error.h"
#include "core/engine/optim/optimizer.h"
#include "core/engine/optim/schedule.h"
#include "core/engine/train/shared/whole_update.h"
#include "core/job/spec/enum_names.h"
#include "core/job/spec/keys/keys.h"
#include "core/job/spec/parsing/parse.h"
#include "kernels/digest.h"

using namespace estrain;

namespace {

// MKL's, from the process's own LibTorch, in the mode in which ATen calls it.
void (*vms_sqrt)(int n, const float* from, float* to, int64_t mode) = nullptr;

void aten_square_roots(float* roots, const float* values, size_t n) {
  constexpr int64_t high_accuracy = 0x2, keep_denormals = 0x140000, ignore_errors = 0x100;
  vms_sqrt(static_cast<int>(n), values, roots, high_accuracy | keep_denormals | ignore_errors);
}

std::string answer;

spec::JobSpec parsed(const char* toml) {
  return spec::parse_text("[model]\nname = \"mlp\"\n[train]\nsteps = 1\n" + std::string(toml), "peers");
}

// Null, with the message as answer, where the spec is refused.
template <typename Make>
auto made(Make&& make) -> decltype(make()) {
  try {
    return make();
  } catch (const Error& error) {
    answer = error.message();
    return nullptr;
  }
}

}  // namespace

extern "C" {

void set_vms_sqrt(void (*function)(int, const float*, float*, int64_t)) { vms_sqrt = function; }

// The text of the last call that failed, or that answers with text.
const char* last_answer() { return answer.c_str(); }

// Names of the optimizers, or of the schedules.
const char* names(const char* table) {
  std::vector<std::string_view> all;
  if (std::strcmp(table, "optimizer") == 0)
    for (const auto& row : spec::optimizers) all.push_back(row.name);
  else
    for (const auto& row : spec::schedules) all.push_back(row.name);
  answer = fmt::format("{}", fmt::join(all, " "));
  return answer.c_str();
}

// The keys that belong to an optimizer or a schedule: "key|type|its range or words" lines.
const char* keys_of(const char* table, const char* name) {
  spec::JobSpec job;
  if (std::strcmp(table, "optimizer") == 0)
    job.optimizer.name = *spec::from_string<spec::OptimizerKind>(name);
  else
    job.schedule.name = *spec::from_string<spec::ScheduleKind>(name);
  answer.clear();
  for (const auto& key : spec::job_keys()) {
    if (spec::table_of(key.name) == table && spec::all_hold(key.conditions, job))
      answer +=
          fmt::format("{}|{}|{}\n", spec::leaf_of(key.name), key.type(key.rule),
                      key.rule.choices.empty() ? key.rule.text() : fmt::format("{}", fmt::join(key.rule.choices, " ")));
  }
  return answer.c_str();
}

optim::Optimizer* make_optimizer(const char* toml, int64_t isa) {
  return made([&] {
    const spec::OptimizerSection section = parsed(toml).optimizer;
    return new optim::Optimizer(section, optim::resolve_groups(section, {"x"}),
                                {static_cast<kernels::Isa>(isa), aten_square_roots});
  });
}
void free_optimizer(optim::Optimizer* optimizer) { delete optimizer; }

// "name|sizes" lines, for a parameter of these sizes.
const char* slots_of(const optim::Optimizer* optimizer, const int64_t* sizes, size_t dims) {
  answer.clear();
  for (const optim::SlotShape& slot : optimizer->slots(0, {sizes, sizes + dims}))
    answer += fmt::format("{}|{}\n", slot.name, fmt::join(slot.sizes, " "));
  return answer.c_str();
}

bool updates_whole(const optim::Optimizer* optimizer) { return optimizer->updates_whole(0); }

// Updates a whole parameter in place.
void optimizer_update_whole(const optim::Optimizer* optimizer, int64_t updates_before, double lr, const int64_t* sizes,
                            size_t dims, float* gradient, float* parameter, float* const* slots) {
  const std::vector<int64_t> shape(sizes, sizes + dims);
  std::vector<at::Tensor> tensors;
  for (const optim::SlotShape& slot : optimizer->slots(0, shape))
    tensors.push_back(at::from_blob(slots[tensors.size()], slot.sizes, at::kFloat));
  train::update_whole(optimizer->whole_settings(0, updates_before, lr), at::from_blob(parameter, shape, at::kFloat),
                      at::from_blob(gradient, shape, at::kFloat), tensors);
}

// Updates n elements in place; returns the digest of what was written.
uint64_t optimizer_update(const optim::Optimizer* optimizer, int64_t updates_before, double lr, float factor, size_t n,
                          const float* gradient, float* parameter, float* const* slots) {
  kernels::OptimizerPiece piece;
  piece.n = n;
  piece.gradient = gradient;
  piece.gradient_factor = factor;
  piece.parameter = piece.new_parameter = parameter;
  for (size_t s = 0; s < optimizer->slots(0, {}).size(); ++s) piece.slots[s] = piece.new_slots[s] = slots[s];
  return optimizer->update(0, updates_before, lr, piece).combined();
}

// The lr before the first call of scheduler.step() and after each of count - 1 calls. Returns false if the schedule is
// refused.
bool schedule_lrs(const char* toml, double base_lr, size_t count, double* lrs) {
  return made([&]() -> void* {
           optim::Schedule schedule(parsed(toml).schedule, base_lr);
           for (size_t i = 0; i < count; ++i) {
             lrs[i] = schedule.lr();
             if (i + 1 < count) schedule.advance();
           }
           return lrs;
         }) != nullptr;
}

// The lr after each of `count` evaluations.
bool plateau_lrs(const char* toml, double base_lr, size_t count, const double* metrics, double* lrs) {
  return made([&]() -> void* {
           const spec::ScheduleSection section = parsed(toml).schedule;
           optim::PlateauState state = optim::plateau_start(section);
           std::vector<double> rates = {base_lr};
           for (size_t i = 0; i < count; ++i) {
             optim::plateau_step(section, metrics[i], state, rates);
             lrs[i] = rates[0];
           }
           return lrs;
         }) != nullptr;
}

uint64_t digest(const void* data, size_t bytes, int64_t isa) {
  return kernels::digest(data, bytes, 0, static_cast<kernels::Isa>(isa));
}

int64_t best_isa() { return static_cast<int64_t>(kernels::best_isa()); }
}
