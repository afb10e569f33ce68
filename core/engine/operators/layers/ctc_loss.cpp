// Connectionist temporal classification (A. Graves et al., ICML 2006), from the other portable operators.
//
// The labels of a sample, with blanks around each, are S = 2 * (most labels) + 1 states. alpha[t, s] is the logarithm
// of the probability of all ways to state s at time t (equation 6); beta[t, s] is the logarithm for all ways on from
// state s at time t (equation 10). Both are computed for all samples and states at once, one time after another; states
// and times beyond a sample's own are -infinity.

#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/le.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/registry.h"

namespace estrain::operators {
namespace {

using at::IntArrayRef;
using at::Tensor;

constexpr double kNever = -std::numeric_limits<double>::infinity();

Tensor never(const Tensor& like) { return at::full({}, kNever, like.options()); }

class States {
 public:
  // targets: [samples, most labels], or all labels in one row.
  States(const Tensor& log_probs, const Tensor& targets, IntArrayRef times, IntArrayRef lengths, int64_t blank)
      : samples_(log_probs.size(1)) {
    TORCH_CHECK(static_cast<int64_t>(times.size()) == samples_ && static_cast<int64_t>(lengths.size()) == samples_,
                "ctc_loss: a batch of ", samples_, " samples has ", times.size(), " input lengths and ", lengths.size(),
                " target lengths");
    const auto longs = at::TensorOptions().dtype(at::kLong);
    const c10::Device device = log_probs.device();
    times_ = at::tensor(times, longs).to(device);
    const int64_t most = lengths.empty() ? 0 : *std::ranges::max_element(lengths);
    const Tensor labels = rows_of(targets.to(at::kLong).to(at::kCPU).contiguous(), lengths, most, blank).to(device);
    count_ = 2 * most + 1;
    labels_ = at::full({samples_, most, 2}, blank, labels.options());
    labels_.select(2, 1).copy_(labels);
    labels_ = at::cat({labels_.flatten(1), at::full({samples_, 1}, blank, labels.options())}, 1);
    last_ = at::mul(at::tensor(lengths, longs).to(device), 2);
    const Tensor place = at::arange(count_, labels_.options());
    exists_ = at::le(place, last_.unsqueeze(1));
    skips_ = at::zeros({samples_, count_}, labels_.options().dtype(at::kBool));
    if (count_ > 2) {
      const Tensor label = labels_.slice(1, 2);
      skips_.slice(1, 2).copy_(at::logical_and(at::ne(label, blank), at::ne(label, labels_.slice(1, 0, count_ - 2))));
    }
  }

  int64_t count() const { return count_; }
  const Tensor& labels() const { return labels_; }

  // Returns [times, samples, states]: the logarithm of the probability of each state's label.
  Tensor of_labels(const Tensor& log_probs) const {
    return at::gather(log_probs, 2, labels_.unsqueeze(0).expand({log_probs.size(0), samples_, count_}));
  }

  Tensor alpha(const Tensor& emitted) const {
    const Tensor first = at::lt(at::arange(count_, labels_.options()), 2);
    std::vector<Tensor> rows = {kept(emitted.select(0, 0), at::logical_and(exists_, first), 0)};
    for (int64_t t = 1; t < emitted.size(0); ++t) {
      const Tensor& before = rows.back();
      const Tensor skipped = at::where(skips_, shifted(before, 2), never(before));
      const Tensor ways = at::logsumexp(at::stack({before, shifted(before, 1), skipped}), 0);
      rows.push_back(kept(at::add(ways, emitted.select(0, t)), exists_, t));
    }
    return at::stack(rows, 1);  // [samples, times, states], as in LibTorch
  }

  // Returns the ways on from each state at each time, with the probability of the state's label.
  Tensor beta(const Tensor& emitted) const {
    const Tensor place = at::arange(count_, labels_.options()), last = last_.unsqueeze(1);
    const Tensor final = at::logical_and(at::le(place, last), at::ge(place, at::sub(last, 1)));
    const Tensor skips_on = at::cat({skips_, at::zeros({samples_, 2}, skips_.options())}, 1).slice(1, 2);
    std::vector<Tensor> rows;
    Tensor after;
    for (int64_t t = emitted.size(0) - 1; t >= 0; --t) {
      const Tensor is_end = at::eq(times_, t + 1).unsqueeze(1);
      Tensor row = at::where(at::logical_and(is_end, final), emitted.select(0, t), never(emitted));
      if (after.defined()) {
        const Tensor skipped = at::where(skips_on, shifted(after, -2), never(after));
        const Tensor ways = at::logsumexp(at::stack({after, shifted(after, -1), skipped}), 0);
        row = at::where(is_end, row, kept(at::add(ways, emitted.select(0, t)), exists_, t));
      }
      rows.push_back(row);
      after = row;
    }
    std::ranges::reverse(rows);
    return at::stack(rows, 1);
  }

  // Returns minus the logarithm of the probability of each sample's labels.
  Tensor loss(const Tensor& alpha) const {
    const Tensor end = at::sub(times_, 1).clamp_min(0).view({-1, 1, 1}).expand({samples_, 1, count_});
    const Tensor at_end = at::gather(alpha, 1, end).squeeze(1);
    const Tensor blank_end = at::gather(at_end, 1, last_.unsqueeze(1)).squeeze(1);
    const Tensor before = at::gather(at_end, 1, at::sub(last_, 1).clamp_min(0).unsqueeze(1)).squeeze(1);
    const Tensor label_end = at::where(at::eq(last_, 0), never(alpha), before);
    const Tensor total =
        at::logsumexp(at::stack({blank_end, label_end, at::full({samples_}, kNever, alpha.options())}), 0);
    // A sample without time and without labels is certain; a sample without time and with labels is impossible.
    const Tensor timeless = at::where(at::eq(last_, 0), at::zeros({}, alpha.options()), never(alpha));
    return at::neg(at::where(at::eq(times_, 0), timeless, total));
  }

  Tensor has_time(int64_t times) const {
    return at::lt(at::arange(times, times_.options()).unsqueeze(1), times_.unsqueeze(0));  // [times, samples]
  }

 private:
  static Tensor rows_of(const Tensor& targets, IntArrayRef lengths, int64_t most, int64_t blank) {
    const auto samples = static_cast<int64_t>(lengths.size());
    Tensor rows = at::full({samples, most}, blank, targets.options());
    int64_t begin = 0;
    for (int64_t n = 0; n < samples; ++n) {
      const int64_t length = lengths[static_cast<size_t>(n)];
      const Tensor row =
          targets.dim() == 1 ? targets.narrow(0, begin, length) : targets.select(0, n).narrow(0, 0, length);
      rows.select(0, n).narrow(0, 0, length).copy_(row);
      begin += length;
    }
    return rows;
  }

  // Gives each state the value of the state `by` before it; -infinity where the row has no such state.
  Tensor shifted(const Tensor& row, int64_t by) const {
    const int64_t size = std::abs(by);
    if (size >= count_) return at::full(row.sizes(), kNever, row.options());
    const Tensor none = at::full({samples_, size}, kNever, row.options());
    return by > 0 ? at::cat({none, row.slice(1, 0, count_ - size)}, 1) : at::cat({row.slice(1, size), none}, 1);
  }

  // Sets -infinity for states missing in `states`, and for samples that have ended by time t.
  Tensor kept(const Tensor& row, const Tensor& states, int64_t t) const {
    return at::where(at::logical_and(states, at::gt(times_, t).unsqueeze(1)), row, never(row));
  }

  int64_t samples_, count_ = 0;
  Tensor times_, last_;  // [samples]: times, and the number of the last state
  Tensor labels_, exists_,
      skips_;  // [samples, states]: the label; the sample has the state; the state may follow from two before
};

std::tuple<Tensor, Tensor> ctc_loss(const Tensor& log_probs, const Tensor& targets, IntArrayRef times,
                                    IntArrayRef lengths, int64_t blank, bool) {
  const Tensor x = floats("ctc_loss", log_probs);
  const States states(x, targets, times, lengths, blank);
  const Tensor alpha = states.alpha(states.of_labels(x));
  return {states.loss(alpha), alpha};
}

// torch.ctc_loss' gradient assumes that the logarithms come from log_softmax. The backward pass of log_softmax leaves
// the gradient unchanged.
Tensor ctc_loss_backward(const Tensor& gradient, const Tensor& log_probs, const Tensor& targets, IntArrayRef times,
                         IntArrayRef lengths, const Tensor& loss, const Tensor& alpha, int64_t blank,
                         bool zero_infinity) {
  const Tensor x = floats("ctc_loss_backward", log_probs), g = floats("ctc_loss_backward", gradient);
  const States states(x, targets, times, lengths, blank);
  const Tensor emitted = states.of_labels(x), ways = at::add(alpha, states.beta(emitted)).transpose(0, 1);
  const Tensor of_samples = loss.unsqueeze(1), zero = at::zeros({}, x.options());
  const Tensor impossible = at::logical_and(at::eq(ways, kNever), at::lt(of_samples, -kNever));
  const Tensor share = at::where(impossible, zero, at::exp(at::sub(at::add(ways, of_samples), emitted)));
  const Tensor labels = states.labels().unsqueeze(0).expand(share.sizes());
  const Tensor shares = at::zeros(x.sizes(), x.options()).scatter_add(2, labels, share);
  const Tensor slope = at::mul(at::sub(at::exp(x), shares), g.view({1, -1, 1}));
  Tensor counts = states.has_time(x.size(0));
  if (zero_infinity) counts = at::logical_and(counts, at::ne(loss, -kNever));
  // As in LibTorch, impossible labels make every gradient of the sample NaN.
  const Tensor is_lost = at::eq(loss, -kNever).view({1, -1, 1});
  const Tensor nan = at::full({}, std::numeric_limits<double>::quiet_NaN(), x.options());
  return at::where(counts.unsqueeze(2), at::where(is_lost, nan, slope), zero);
}

std::vector<int64_t> numbers(const Tensor& lengths) {
  const Tensor values = lengths.to(at::kCPU, at::kLong).contiguous();
  return {values.const_data_ptr<int64_t>(), values.const_data_ptr<int64_t>() + values.numel()};
}
std::tuple<Tensor, Tensor> ctc_loss_of_tensors(const Tensor& log_probs, const Tensor& targets, const Tensor& times,
                                               const Tensor& lengths, int64_t blank, bool zero_infinity) {
  return operators::ctc_loss(log_probs, targets, numbers(times), numbers(lengths), blank, zero_infinity);
}
Tensor ctc_loss_backward_of_tensors(const Tensor& gradient, const Tensor& log_probs, const Tensor& targets,
                                    const Tensor& times, const Tensor& lengths, const Tensor& loss, const Tensor& alpha,
                                    int64_t blank, bool zero_infinity) {
  return ctc_loss_backward(gradient, log_probs, targets, numbers(times), numbers(lengths), loss, alpha, blank,
                           zero_infinity);
}

}  // namespace

void register_ctc_loss(OperatorRegistry& registry) {
  registry.replace("_ctc_loss", operators::ctc_loss);
  registry.replace("_ctc_loss.Tensor", ctc_loss_of_tensors);
  registry.replace("_ctc_loss_backward", ctc_loss_backward);
  registry.replace("_ctc_loss_backward.Tensor", ctc_loss_backward_of_tensors);
}

}  // namespace estrain::operators
