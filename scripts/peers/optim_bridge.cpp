// core/optim behind C functions, for optimizer_bits.py and schedule_bits.py to call from Python.

#include "core/optim/optimizer.h"
#include "core/optim/schedule.h"
#include "kernels/digest.h"

using namespace estrain;

namespace {

// MKL's, from the process's own LibTorch, in the mode in which ATen calls it.
void (*vms_sqrt)(int n, const float* from, float* to, int64_t mode) = nullptr;

void aten_square_roots(float* roots, const float* values, size_t n) {
  constexpr int64_t high_accuracy = 0x2, keep_denormals = 0x140000, ignore_errors = 0x100;
  vms_sqrt(static_cast<int>(n), values, roots, high_accuracy | keep_denormals | ignore_errors);
}

}  // namespace

extern "C" {

void set_vms_sqrt(void (*function)(int, const float*, float*, int64_t)) { vms_sqrt = function; }

struct OptimizerArguments {
  int64_t kind;  // spec::OptimizerKind
  double lr, momentum, dampening, weight_decay;
  int64_t nesterov;
  double beta1, beta2, eps;
  int64_t isa;  // kernels::Isa
};

// Updates n elements in place; returns the digest of what was written.
uint64_t optimizer_update(const OptimizerArguments* a, int64_t updates_before, double lr, float factor, size_t n,
                          const float* gradient, float* parameter, float* slot0, float* slot1) {
  spec::OptimizerSection section;
  section.name = static_cast<spec::OptimizerKind>(a->kind);
  section.lr = a->lr;
  section.momentum = a->momentum;
  section.dampening = a->dampening;
  section.weight_decay = a->weight_decay;
  section.nesterov = a->nesterov != 0;
  section.betas = {a->beta1, a->beta2};
  section.eps = a->eps;
  const optim::Optimizer optimizer(section, optim::resolve_groups(section, {"x"}),
                                   {static_cast<kernels::Isa>(a->isa), aten_square_roots});
  kernels::OptimizerPiece piece;
  piece.n = n;
  piece.gradient = gradient;
  piece.gradient_factor = factor;
  piece.parameter = piece.new_parameter = parameter;
  piece.slots[0] = piece.new_slots[0] = slot0;
  piece.slots[1] = piece.new_slots[1] = slot1;
  return optimizer.update(0, updates_before, lr, piece).combined();
}

struct ScheduleArguments {
  int64_t kind;  // spec::ScheduleKind
  int64_t period, warmup;
  double gamma, eta_min, start_factor, end_factor, warmup_start;
};

// The lr before the first call of scheduler.step() and after each of count - 1 calls.
void schedule_lrs(const ScheduleArguments* a, double base_lr, size_t count, double* lrs) {
  spec::ScheduleSection section;
  section.name = static_cast<spec::ScheduleKind>(a->kind);
  section.period = a->period;
  section.warmup = a->warmup;
  section.gamma = a->gamma;
  section.eta_min = a->eta_min;
  section.start_factor = a->start_factor;
  section.end_factor = a->end_factor;
  section.warmup_start = a->warmup_start;
  optim::Schedule schedule(section, base_lr);
  for (size_t i = 0; i < count; ++i, schedule.advance()) lrs[i] = schedule.lr();
}

uint64_t digest(const void* data, size_t bytes, int64_t isa) {
  return kernels::digest(data, bytes, 0, static_cast<kernels::Isa>(isa));
}

int64_t best_isa() { return static_cast<int64_t>(kernels::best_isa()); }
}
