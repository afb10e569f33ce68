#include "core/train/resident/exchanged_update.h"

#include <algorithm>

#include "core/base/clock.h"

namespace estrain::train {
namespace {

uint32_t worker_of_est_0(const StageOrder& order) {
  const auto holds = [](const EstRange& range) { return range.contains(VirtualRank(0)); };
  return static_cast<uint32_t>(std::ranges::find_if(order.ranges, holds) - order.ranges.begin());
}

}  // namespace

ExchangedUpdate::ExchangedUpdate(Workplace& place, const StageOrder& order)
    : ResidentCarrier(place, order),
      worker_(static_cast<uint32_t>(order.worker.value)),
      workers_(order.workers()),
      own_(order.own()),
      keeper_(worker_of_est_0(order)),
      tree_(job_.gradient_sum().finish(order.ranges)),
      shares_(job_.places().model.parameters_bytes() / sizeof(float), workers_),
      pulse_(place.memory.pulse(order.rank())),
      gathered_(place.memory.meetings().gathered(), place.memory, order) {
  lay_out_sources(order);
  cut_pieces();
  if (clips_) whole_ = new_floats(job_.places().model.parameters_bytes() / sizeof(float), place.device);
}

void ExchangedUpdate::lay_out_sources(const StageOrder& order) {
  std::vector<int64_t> first_slot;
  int64_t slots = 0;
  for (const EstRange& range : order.ranges) {
    first_slot.push_back(slots);
    slots += job_.gradient_sum().fold(range).passed_on;
  }
  size_t owned = 0;
  for (size_t b = 0; b < shares_.buckets(); ++b) owned += own_share(b).size();
  for (const comm::FinishPlan::Source& source : tree_.sources) {
    const auto worker = static_cast<uint32_t>(source.worker.value);
    const int64_t slot = first_slot[worker] + source.slot;
    if (worker == worker_) {
      sources_.push_back({worker, slot, sums_.values(source.slot)});
      continue;
    }
    received_.push_back(new_floats(owned, place_.device));
    sources_.push_back({worker, slot, received_.back().mutable_data_ptr<float>()});
  }
}

void ExchangedUpdate::cut_pieces() {
  pieces_.resize(shares_.buckets());
  parameters_in_.resize(shares_.buckets());
  buckets_of_.resize(job_.places().model.num_parameters());
  for (size_t b = 0; b < shares_.buckets(); ++b) {
    const FloatRange bucket = shares_.bucket(b), own = own_share(b);
    received_at_.push_back(b == 0 ? 0 : received_at_[b - 1] + own_share(b - 1).size());
    for (size_t i = 0; i < job_.places().model.num_parameters(); ++i) {
      const size_t first = job_.places().model.gradient_offset(i), last = first + job_.places().model.elements(i);
      if (std::max(first, bucket.begin) < std::min(last, bucket.end)) {
        buckets_of_[i].push_back(b);
        ++parameters_in_[b];
      }
      const size_t begin = std::max(first, own.begin), end = std::min(last, own.end);
      if (begin < end) pieces_[b].push_back({i, begin - first, end - begin});
    }
  }
}

bool ExchangedUpdate::begin_step(Step step) {
  awaited_ = parameters_in_;
  next_bucket_ = 0;
  return ResidentCarrier::begin_step(step);
}

void ExchangedUpdate::fold(size_t arrival, size_t parameter, const torch::Tensor& gradient) {
  sums_.fold(arrival, parameter, gradient);
  if (arrival + 1 < sums_.ests()) return;
  show_presence(parameter);
  for (const size_t bucket : buckets_of_[parameter]) --awaited_[bucket];
  // In one order on all workers, whatever that of their gradients.
  if (next_bucket_ < awaited_.size() && awaited_[next_bucket_] == 0) sums_.flush();
  while (next_bucket_ < awaited_.size() && awaited_[next_bucket_] == 0) send_sums(next_bucket_++);
}

// To the other workers, which have met before they look. What is absent is sent as the zero that it counts as.
void ExchangedUpdate::show_presence(size_t parameter) {
  int own_slot = 0;
  for (const Source& source : sources_) {
    if (source.worker != worker_) continue;
    const bool present = sums_.present(own_slot, parameter);
    place_.memory.gradient_slot(source.slot).presence[parameter] = present ? 1 : 0;
    if (!present) sums_.clear(own_slot, parameter);
    ++own_slot;
  }
}

bool ExchangedUpdate::reached(size_t parameter) const {
  return std::ranges::any_of(sources_, [&](const Source& source) {
    return place_.memory.gradient_slot(source.slot).presence[parameter] != 0;
  });
}

// Where this worker's share of a bucket begins.
float* ExchangedUpdate::own_part(const Source& source, size_t bucket) const {
  return source.values + (source.worker == worker_ ? own_share(bucket).begin : received_at_[bucket]);
}

void ExchangedUpdate::send_sums(size_t bucket) {
  sends_.clear();
  receives_.clear();
  const size_t own_bytes = own_share(bucket).size() * sizeof(float);
  for (const Source& source : sources_) {
    if (source.worker != worker_) {
      if (own_bytes > 0) receives_.push_back({source.worker, own_part(source, bucket), own_bytes});
      continue;
    }
    for (uint32_t peer = 0; peer < workers_; ++peer) {
      const FloatRange theirs = shares_.share(bucket, peer);
      if (peer != worker_ && theirs.size() > 0)
        sends_.push_back({peer, source.values + theirs.begin, theirs.size() * sizeof(float)});
    }
  }
  place_.exchange->transfer(sends_, receives_);
}

// The tree over all workers' partial sums of this worker's share. Its left operands make room for sums; the last one
// goes where all gradients are kept whole, if they are.
void ExchangedUpdate::finish_sums(size_t bucket) {
  const FloatRange own = own_share(bucket);
  if (own.size() == 0) return;
  const kernels::DeviceQueue& queue = *place_.device.queue();
  std::vector<float*> stack;
  for (size_t at = 0; at < tree_.program.size(); ++at) {
    const int instruction = tree_.program[at];
    if (instruction >= 0) {
      stack.push_back(own_part(sources_[static_cast<size_t>(instruction)], bucket));
      continue;
    }
    const float* const right = stack.back();
    stack.pop_back();
    const float* const left = stack.back();
    if (clips_ && at + 1 == tree_.program.size()) stack.back() = whole_.mutable_data_ptr<float>() + own.begin;
    queue.updates->add(stack.back(), left, right, own.size(), queue);
  }
}

// The sum of the tree, where finish_sums() has left it.
const float* ExchangedUpdate::gradient_of(const ParameterPiece& piece, size_t bucket) const {
  const size_t offset = job_.places().model.gradient_offset(piece.parameter) + piece.begin;
  if (clips_) return whole_.const_data_ptr<float>() + offset;
  return own_part(sources_[0], bucket) + (offset - own_share(bucket).begin);
}

const float* ExchangedUpdate::clip_factor() {
  for (size_t b = 0; b < shares_.buckets(); ++b) share_out(b, whole_.mutable_data_ptr<float>());
  place_.exchange->join();
  std::vector<const float*> gradients;
  for (size_t i = 0; i < job_.places().model.num_parameters(); ++i)
    gradients.push_back(reached(i) ? whole_.const_data_ptr<float>() + job_.places().model.gradient_offset(i) : nullptr);
  return optimizer_.clip_factor(gradients);
}

void ExchangedUpdate::share_out(size_t bucket, float* values) {
  sends_.clear();
  receives_.clear();
  const FloatRange own = own_share(bucket);
  for (uint32_t peer = 0; peer < workers_; ++peer) {
    if (peer == worker_) continue;
    const FloatRange theirs = shares_.share(bucket, peer);
    if (own.size() > 0) sends_.push_back({peer, values + own.begin, own.size() * sizeof(float)});
    if (theirs.size() > 0) receives_.push_back({peer, values + theirs.begin, theirs.size() * sizeof(float)});
  }
  place_.exchange->transfer(sends_, receives_);
}

void ExchangedUpdate::share_buffers() {
  const size_t bytes = job_.places().model.buffers_bytes();
  if (bytes == 0) return;
  sends_.clear();
  receives_.clear();
  std::byte* const buffers = job_.places().model.buffers(place_.resident->copy(step_.next()));
  if (worker_ != keeper_) receives_.push_back({keeper_, buffers, bytes});
  for (uint32_t peer = 0; peer < workers_ && worker_ == keeper_; ++peer) {
    if (peer != worker_) sends_.push_back({peer, buffers, bytes});
  }
  place_.exchange->transfer(sends_, receives_);
}

SavedPart ExchangedUpdate::saved_part() const {
  SavedPart part{.ests = own_, .counts = worker_ == keeper_, .of_workers = workers_};
  std::byte* const base = place_.resident->copy(Step(0));
  const auto add = [&](const float* begin, size_t floats) {
    const auto offset = static_cast<size_t>(reinterpret_cast<const std::byte*>(begin) - base);
    part.regions.push_back({offset, floats * sizeof(float)});
  };
  for (size_t b = 0; b < shares_.buckets(); ++b) {
    const FloatRange own = own_share(b);
    if (own.size() > 0) add(job_.places().model.parameters(base) + own.begin, own.size());
    for (const ParameterPiece& piece : pieces_[b]) {
      for (size_t k = 0; k < job_.places().optimizer.num_slots(piece.parameter); ++k)
        add(job_.places().optimizer.slot(base, piece.parameter, k) + piece.begin, piece.size);
    }
  }
  if (worker_ == keeper_ && job_.places().model.buffers_bytes() > 0)
    part.regions.push_back({job_.places().model.buffers_offset(), job_.places().model.buffers_bytes()});
  part.regions = joined(std::move(part.regions));
  return part;
}

int64_t ExchangedUpdate::pass() {
  const int64_t done = monotonic_ns();
  aborted_ = !gathered_.meet();
  const int64_t waited = monotonic_ns() - done;
  if (aborted_) return waited;
  place_.exchange->join();
  for (size_t b = 0; b < shares_.buckets(); ++b) finish_sums(b);
  const float* const factor = clips_ ? clip_factor() : nullptr;
  for (size_t i = 0; i < job_.places().model.num_parameters(); ++i) optimizer_.count(i, reached(i));
  float* const parameters = job_.places().model.parameters(place_.resident->copy(step_.next()));
  for (size_t b = 0; b < shares_.buckets(); ++b) {
    for (const ParameterPiece& piece : pieces_[b])
      optimizer_.update(piece, reached(piece.parameter) ? gradient_of(piece, b) : nullptr);
    optimizer_.flush(factor);
    share_out(b, parameters);
  }
  share_buffers();
  place_.exchange->join();
  place_.device.finish_reads();
  optimizer_.read_results();
  return waited;
}

bool ExchangedUpdate::finish() {
  if (aborted_) return false;
  return waiting(pulse_, comm::Activity::meeting, [this] {
    place_.device.finish_reads();
    place_.exchange->check();
    return !place_.memory.gate().aborted();
  });
}

}  // namespace estrain::train
