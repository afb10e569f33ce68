#include "core/engine/train/shared/updater.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/engine/train/carrier/est_results.h"
#include "core/engine/train/evaluation/learning_rates.h"
#include "core/engine/train/shared/whole_update.h"
#include "kernels/average.h"
#include "kernels/digest.h"
#include "kernels/portable/reduction.h"
#include "kernels/sum.h"

namespace estrain::train {
namespace {

constexpr size_t kChunk = 2048;  // floats; a chunk of gradient, parameter and slots stays in the first-level cache
constexpr size_t kPiece = 64 * kChunk;  // floats claimed at once

// Bytes of one copy of the state. Updates of larger states write new values past the caches.
constexpr uint64_t kLargeState = 24 << 20;

// Returns the tensor with these strides; without strides, the tensor itself.
at::Tensor with_strides(const at::Tensor& tensor, at::IntArrayRef strides) {
  return strides.empty() ? tensor : at::empty_strided(tensor.sizes(), strides, torch::kFloat).copy_(tensor);
}

bool are_finite(const float* values, size_t n) {
  return std::all_of(values, values + n, [](float value) { return std::isfinite(value); });
}

}  // namespace

Updater::Updater(TrainingJob& job, comm::JobMemory& memory, const GradientStore& gradients, GradientSquares& squares,
                 RowMarks& marks, const StageOrder& order)
    : job_(job),
      places_(job.places()),
      memory_(memory),
      gradients_(gradients),
      squares_(squares),
      marks_(marks),
      clips_(job.spec().train.clip_grad_norm > 0),
      in_hooks_(order.workers() == 1 && !clips_ && !order.beyond),
      scratch_(gradients.scratch_floats(kChunk) + kChunk),
      mean_(job.manifest().weighs ? kChunk : 0) {
  cut_pieces();
}

// Tables are cut between rows.
size_t Updater::piece_of(size_t parameter) const {
  const size_t rows = places_.model.table(parameter).rows;
  if (rows == 0) return kPiece;
  const size_t width = places_.model.elements(parameter) / rows;
  return std::max<size_t>(1, kPiece / width) * width;
}

// Cuts from the end of the parameters, in the order in which the backward pass writes the partial sums. Sums over hosts
// come in this order.
void Updater::cut_pieces() {
  for (size_t i = places_.model.num_parameters(); i-- > 0;) {
    const size_t elements = places_.model.elements(i);
    if (job_.optimizer().updates_whole(i)) {
      pieces_.push_back({i, 0, elements});
      continue;
    }
    const size_t size = piece_of(i);
    for (size_t k = std::max<size_t>(1, (elements + size - 1) / size); k-- > 0;) {
      pieces_.push_back({i, k * size, std::min(size, elements - k * size)});
    }
  }
}

void Updater::begin_step(Step step) {
  old_state_ = memory_.state_of(step);
  new_state_ = memory_.state_of(step.next());
  rates_ = learning_rates(job_, memory_, step, old_state_);
  record_ = memory_.ring().pending();
  record_before_ = memory_.ring().find(step);
  factor_ = 1;
  factor_of_sum_.reset();
  is_first_ = true;
  for (size_t i = 0; i < places_.model.num_parameters(); ++i)
    is_first_ &= *places_.optimizer.updates(old_state_, i) == 0;
}

// Averages a chunk of written new values. The first call copies the values, as AveragedModel does.
uint64_t Updater::average_chunk(size_t parameter, size_t begin, size_t n) {
  if (!places_.averages.are_kept()) return 0;
  const float* values = places_.model.parameter(new_state_, parameter) + begin;
  float* average = places_.averages.average(new_state_, parameter) + begin;
  if (is_first_) {
    std::memcpy(average, values, n * sizeof(float));
  } else {
    kernels::average(average, places_.averages.average(old_state_, parameter) + begin, values, n,
                     job_.optimizer().averaging(job_.spec().ema.decay));
  }
  return kernels::with_average(0, kernels::digest(average, n * sizeof(float), begin));
}

// Copies a chunk of a parameter reached by no EST: the values and the state of the parameter stay.
kernels::OptimizerDigest Updater::keep_chunk(size_t parameter, size_t begin, size_t n) {
  const auto keep = [&](float* from, float* to) {
    std::memcpy(to + begin, from + begin, n * sizeof(float));
    return kernels::digest(to + begin, n * sizeof(float), begin);
  };
  kernels::OptimizerDigest digest;
  digest.parameter =
      keep(places_.model.parameter(old_state_, parameter), places_.model.parameter(new_state_, parameter));
  for (size_t k = 0; k < places_.optimizer.num_slots(parameter); ++k) {
    digest.slots[k] =
        keep(places_.optimizer.slot(old_state_, parameter, k), places_.optimizer.slot(new_state_, parameter, k));
  }
  return digest;
}

void Updater::copy_old(size_t parameter) {
  std::memcpy(places_.model.parameter(new_state_, parameter), places_.model.parameter(old_state_, parameter),
              places_.model.elements(parameter) * sizeof(float));
  for (size_t k = 0; k < places_.optimizer.num_slots(parameter); ++k)
    std::memcpy(places_.optimizer.slot(new_state_, parameter, k), places_.optimizer.slot(old_state_, parameter, k),
                places_.optimizer.slot_elements(parameter, k) * sizeof(float));
}

void Updater::copy_old(const ParameterPiece& piece) {
  const auto copy = [&](const float* from, float* to) {
    std::memcpy(to + piece.begin, from + piece.begin, piece.size * sizeof(float));
  };
  const size_t i = piece.parameter;
  copy(places_.model.parameter(old_state_, i), places_.model.parameter(new_state_, i));
  for (size_t k = 0; k < places_.optimizer.num_slots(i); ++k)
    copy(places_.optimizer.slot(old_state_, i, k), places_.optimizer.slot(new_state_, i, k));
}

kernels::OptimizerDigest Updater::digest_of_old(const ParameterPiece& piece) const {
  const auto digest = [&](const float* values) {
    return kernels::digest(values + piece.begin, piece.size * sizeof(float), piece.begin);
  };
  kernels::OptimizerDigest digests;
  digests.parameter = digest(places_.model.parameter(old_state_, piece.parameter));
  for (size_t k = 0; k < places_.optimizer.num_slots(piece.parameter); ++k)
    digests.slots[k] = digest(places_.optimizer.slot(old_state_, piece.parameter, k));
  return digests;
}

template <typename GradientOf>
at::Tensor Updater::whole_gradient(size_t parameter, GradientOf&& gradient_of) {
  const size_t elements = places_.model.elements(parameter);
  const at::IntArrayRef sizes = job_.network().parameters()[parameter].sizes();
  at::Tensor whole;
  for (size_t begin = 0; begin < elements; begin += kChunk) {
    const size_t n = std::min(kChunk, elements - begin);
    const float* sum = gradient_of(begin, n);
    if (sum == nullptr) return {};
    if (squares_.measures()) squares_.add_mean(sum, n);
    if (!whole.defined()) whole = at::empty(sizes, torch::kFloat);
    kernels::scale(whole.mutable_data_ptr<float>() + begin, sum, factor_, n);
  }
  return whole.defined() ? with_strides(whole, job_.network().gradient_strides()[parameter]) : whole;
}

bool Updater::update_in_place(size_t parameter, const at::Tensor& gradient) {
  const optim::WholeSettings settings =
      job_.optimizer().whole_settings(parameter, *places_.optimizer.updates(old_state_, parameter),
                                      rates_[job_.optimizer().groups().group_of[parameter]]);
  float* const values = places_.model.parameter(new_state_, parameter);
  std::vector<at::Tensor> slots;
  for (size_t k = 0; k < places_.optimizer.num_slots(parameter); ++k)
    slots.push_back(at::from_blob(places_.optimizer.slot(new_state_, parameter, k),
                                  places_.optimizer.slot_sizes(parameter, k), torch::kFloat));
  train::update_whole(settings, at::from_blob(values, gradient.sizes(), torch::kFloat), gradient, slots);
  bool finite = are_finite(values, places_.model.elements(parameter));
  for (size_t k = 0; k < slots.size(); ++k)
    finite &=
        are_finite(places_.optimizer.slot(new_state_, parameter, k), places_.optimizer.slot_elements(parameter, k));
  return finite;
}

template <typename GradientOf>
void Updater::update_whole(size_t i, GradientOf&& gradient_of) {
  const at::Tensor gradient = whole_gradient(i, gradient_of);
  copy_old(i);
  if (gradient.defined() && !update_in_place(i, gradient))
    comm::mark_suspect(*record_.head, comm::Nonfinite::Where::update);
  places_.optimizer.count_update(old_state_, new_state_, i, gradient.defined());
  uint64_t digest = places_.digest_of_parameter(new_state_, i);
  for (size_t begin = 0; begin < places_.model.elements(i); begin += kChunk)
    digest += average_chunk(i, begin, std::min(kChunk, places_.model.elements(i) - begin));
  record_.digests[i].fetch_add(digest, std::memory_order_relaxed);
}

template <typename GradientOf>
void Updater::update(const ParameterPiece& piece, GradientOf&& gradient_of) {
  const size_t i = piece.parameter;
  if (job_.optimizer().updates_whole(i)) return update_whole(i, gradient_of);
  const bool rests = rests_on_zeros(i);
  if (!rests) marks_.mark_all(i);
  const bool by_rows = rests && marks_.are_few(i) && record_before_;
  const Written written = by_rows ? update_rows(piece, gradient_of) : update_elements(piece, gradient_of);
  if (!written.finite) comm::mark_suspect(*record_.head, comm::Nonfinite::Where::update);
  if (piece.begin == 0) places_.optimizer.count_update(old_state_, new_state_, i, written.reached);
  record_.digests[i].fetch_add(written.digest, std::memory_order_relaxed);
}

template <typename GradientOf>
Updater::Written Updater::update_elements(const ParameterPiece& piece, GradientOf&& gradient_of) {
  const size_t i = piece.parameter;
  const int64_t updates_before = *places_.optimizer.updates(old_state_, i);
  const double lr = rates_[job_.optimizer().groups().group_of[i]];
  Written written;
  for (size_t begin = piece.begin; begin < piece.begin + piece.size; begin += kChunk) {
    const size_t n = std::min(kChunk, piece.begin + piece.size - begin);
    kernels::OptimizerPiece chunk;
    chunk.n = n;
    chunk.first_word = begin;
    chunk.gradient = gradient_of(begin, n);
    written.reached = chunk.gradient != nullptr;
    if (!written.reached) {
      written.digest += keep_chunk(i, begin, n).combined() + average_chunk(i, begin, n);
      continue;
    }
    if (squares_.measures()) squares_.add_mean(chunk.gradient, n);
    chunk.gradient_factor = factor_;
    chunk.stream = places_.bytes > kLargeState;
    chunk.parameter = places_.model.parameter(old_state_, i) + begin;
    chunk.new_parameter = places_.model.parameter(new_state_, i) + begin;
    for (size_t k = 0; k < places_.optimizer.num_slots(i); ++k) {
      chunk.slots[k] = places_.optimizer.slot(old_state_, i, k) + begin;
      chunk.new_slots[k] = places_.optimizer.slot(new_state_, i, k) + begin;
    }
    const kernels::OptimizerDigest digest = job_.optimizer().update(i, updates_before, lr, chunk);
    written.digest += digest.combined() + average_chunk(i, begin, n);
    written.finite &= digest.finite;
  }
  return written;
}

bool Updater::rests_on_zeros(size_t parameter) const {
  return places_.model.table(parameter).rows > 0 && !clips_ && !squares_.measures() && !places_.averages.are_kept() &&
         job_.optimizer().rests_on_zeros(parameter, *places_.optimizer.updates(old_state_, parameter),
                                         rates_[job_.optimizer().groups().group_of[parameter]]);
}

// The digest is the old state's, without the old rows and with the new rows.
template <typename GradientOf>
Updater::Written Updater::update_rows(const ParameterPiece& piece, GradientOf&& gradient_of) {
  const size_t i = piece.parameter;
  const size_t width = places_.model.elements(i) / places_.model.table(i).rows;
  const size_t first = piece.begin / width, end = first + piece.size / width;
  Written written;
  if (piece.begin == 0) written.digest = record_before_->digests[i].load(std::memory_order_relaxed);
  written.reached = gradient_of(piece.begin, 1) != nullptr;
  marks_.for_each_run(i, first, end, [&](size_t from, size_t to) {
    const ParameterPiece rows{i, from * width, (to - from) * width};
    const Written of_rows = update_elements(rows, gradient_of);
    written.digest += of_rows.digest - digest_of_old(rows).combined();
    written.finite &= of_rows.finite;
  });
  marks_.for_each_run_before(i, first, end, [&](size_t from, size_t to) {
    copy_old({i, from * width, (to - from) * width});
  });
  return written;
}

void Updater::update_in_hook(size_t parameter, const float* last_gradient) {
  if (last_gradient != nullptr) marks_.mark_all(parameter);
  update({parameter, 0, places_.model.elements(parameter)}, [&](size_t begin, size_t n) {
    return mean_of(gradients_.sum_with_last(parameter, last_gradient, begin, n, scratch_.data()), n);
  });
}

void Updater::update_folded(size_t parameter) {
  update({parameter, 0, places_.model.elements(parameter)},
         [&](size_t begin, size_t n) { return mean_of(gradients_.sum(parameter, begin, n, scratch_.data()), n); });
}

// A step without any weight has no mean: the step is not finite, and the sums, which are zeros, stay.
float Updater::factor_of_sum() {
  if (factor_of_sum_) return *factor_of_sum_;
  factor_of_sum_ = EstResults(job_.manifest(), record_).factor_of_sum();
  if (*factor_of_sum_ == 0) comm::mark_suspect(*record_.head, comm::Nonfinite::Where::weight);
  return *factor_of_sum_;
}

const float* Updater::mean_of(const float* sum, size_t n) {
  if (mean_.empty() || sum == nullptr) return sum;
  kernels::scale(mean_.data(), sum, factor_of_sum(), n);
  return mean_.data();
}

// Sums a whole gradient in place of the gradient's first source and takes the norm, as torch does. By weight the norm
// is of the mean. The sum stays in its place: couriers may still send the sum to other hosts.
void Updater::sum_whole(size_t parameter) {
  float* target = gradients_.sum_target(parameter);
  const size_t elements = places_.model.elements(parameter);
  gradients_.begin_whole_sum(parameter);
  bool reached = false;
  for (size_t begin = 0; begin < elements; begin += kChunk) {
    const size_t n = std::min(kChunk, elements - begin);
    const float* sum = gradients_.sum(parameter, begin, n, scratch_.data());
    reached = sum != nullptr;
    if (reached && sum != target + begin) std::memcpy(target + begin, sum, n * sizeof(float));
  }
  memory_.gradients().norms()[parameter] = -1;
  if (!reached) return;
  at::Tensor mean;
  if (!mean_.empty()) {
    mean = at::empty({static_cast<int64_t>(elements)}, torch::kFloat);
    kernels::scale(mean.mutable_data_ptr<float>(), target, factor_of_sum(), elements);
  }
  memory_.gradients().norms()[parameter] =
      l2_norm(mean.defined() ? mean.mutable_data_ptr<float>() : target, job_.network().parameters()[parameter].sizes(),
              job_.network().gradient_strides()[parameter]);
}

// torch.nn.utils.clip_grad_norm_, operation by operation.
float Updater::total_norm() const {
  std::vector<float> norms;
  std::copy_if(memory_.gradients().norms(), memory_.gradients().norms() + places_.model.num_parameters(),
               std::back_inserter(norms), [](float norm) { return norm >= 0 || norm != norm; });
  return norms.empty() ? 0 : l2_norm(norms.data(), {static_cast<int64_t>(norms.size())}, {});
}

// On a run with GPUs, sums in the order common to CPU and GPU.
float Updater::l2_norm(float* values, at::IntArrayRef sizes, at::IntArrayRef strides) const {
  if (!places_.ests.has_cuda_streams()) {
    return at::linalg_vector_norm(with_strides(at::from_blob(values, sizes, torch::kFloat), strides), 2).item<float>();
  }
  float norm = 0;
  kernels::portable::l2_norm(&norm, values, {1, c10::multiply_integers(sizes), 1}, {});
  return norm;
}

float Updater::clip_factor(float norm) const {
  const torch::Tensor factor = (torch::scalar_tensor(norm) + 1e-6).reciprocal() * job_.spec().train.clip_grad_norm;
  return factor.clamp_max(1.0).item<float>();
}

bool Updater::update_all(const Waits& waits) {
  if (clips_) {
    if (!waits.for_sums(0)) return false;
    const uint32_t parameters = static_cast<uint32_t>(places_.model.num_parameters());
    for (uint32_t next; (next = memory_.meetings().claim_sum()) < parameters;) sum_whole(parameters - 1 - next);
    if (!waits.meet_when_summed()) return false;
    const float norm = total_norm();
    if (!std::isfinite(norm)) {
      comm::mark_suspect(*record_.head, comm::Nonfinite::Where::norm);
      return true;  // as every worker does: the update has no factor
    }
    factor_ = clip_factor(norm);
  }
  for (uint32_t next; (next = memory_.meetings().claim_update()) < pieces_.size();) {
    const ParameterPiece& piece = pieces_[next];
    if (!waits.for_sums(places_.model.gradient_offset(piece.parameter) + piece.begin)) return false;
    update(piece, [&](size_t begin, size_t n) -> const float* {
      if (!clips_) return mean_of(gradients_.sum(piece.parameter, begin, n, scratch_.data()), n);
      const float norm = memory_.gradients().norms()[piece.parameter];
      return norm == -1 ? nullptr : mean_of(gradients_.sum_target(piece.parameter) + begin, n);
    });
  }
  return true;
}

comm::Nonfinite Updater::first_nonfinite_result() const {
  comm::Nonfinite found;
  const auto look = [&](size_t parameter, const float* values, size_t elements) {
    const float* end = values + elements;
    const float* at = std::find_if_not(values, end, [](float value) { return std::isfinite(value); });
    if (at == end) return false;
    found = {.where = comm::Nonfinite::Where::update, .value = *at, .tensor = static_cast<int64_t>(parameter)};
    return true;
  };
  for (size_t i = 0; i < places_.model.num_parameters(); ++i) {
    if (look(i, places_.model.parameter(new_state_, i), places_.model.elements(i))) return found;
    for (size_t k = 0; k < places_.optimizer.num_slots(i); ++k) {
      if (look(i, places_.optimizer.slot(new_state_, i, k), places_.optimizer.slot_elements(i, k))) return found;
    }
  }
  return found;
}

void Updater::leave_out() {
  for (size_t i = 0; i < places_.model.num_parameters(); ++i) {
    copy_old(i);
    uint64_t digest = places_.digest_of_parameter(new_state_, i);
    if (places_.averages.are_kept()) {
      const size_t bytes = places_.model.elements(i) * sizeof(float);
      std::memcpy(places_.averages.average(new_state_, i), places_.averages.average(old_state_, i), bytes);
      digest = kernels::with_average(digest, kernels::digest(places_.averages.average(new_state_, i), bytes));
    }
    record_.digests[i].store(digest);
    *places_.optimizer.updates(new_state_, i) = *places_.optimizer.updates(old_state_, i);
  }
}

}  // namespace estrain::train
