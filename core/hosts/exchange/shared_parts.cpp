#include "core/hosts/exchange/shared_parts.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "core/state/comm/records/step_record.h"

namespace estrain::hosts {
namespace {

using checkpoint::Role;
using checkpoint::StateTensor;

template <typename T>
std::span<std::byte> bytes_at(T* first, size_t count) {
  return {reinterpret_cast<std::byte*>(first), count * sizeof(T)};
}

int64_t rank_of(const StateTensor& tensor) {
  int64_t rank = -1;
  std::from_chars(tensor.name.data(), tensor.name.data() + tensor.name.size(), rank);
  return rank;
}

}  // namespace

size_t bytes_of(const Places& places) {
  size_t bytes = 0;
  for (const std::span<std::byte>& place : places) bytes += place.size();
  return bytes;
}

std::vector<std::byte> gather(const Places& places) {
  std::vector<std::byte> bytes;
  bytes.reserve(bytes_of(places));
  for (const std::span<std::byte>& place : places) bytes.insert(bytes.end(), place.begin(), place.end());
  return bytes;
}

void scatter(std::span<const std::byte> bytes, const Places& places) {
  for (const std::span<std::byte>& place : places) {
    std::memcpy(place.data(), bytes.data(), place.size());
    bytes = bytes.subspan(place.size());
  }
}

SharedParts::SharedParts(comm::JobMemory& memory, const HostPlan& plan)
    : memory_(memory), plan_(plan), manifest_(checkpoint::Manifest::from_json(memory.manifest())) {
  for (const StateTensor& tensor : manifest_.layout.tensors) {
    if (tensor.role == Role::buffer) ++buffers_;
    if (tensor.role != Role::parameter) continue;
    const size_t begin = tensor.offset / sizeof(float);
    parameters_.push_back({begin, begin + tensor.elements()});
    floats_ = parameters_.back().end;
  }
}

Places SharedParts::context(size_t host, int64_t step) const {
  const EstRange ests = plan_.hosts[host].ests();
  std::byte* state = memory_.state_of(Step(step + 1));
  const comm::RecordView record = memory_.ring().pending();
  const size_t first = static_cast<size_t>(ests.begin.value), count = static_cast<size_t>(ests.size());
  const size_t parameters = parameters_.size(), buffers = static_cast<size_t>(buffers_);
  Places places = {bytes_at(record.est_losses + first, count),
                   bytes_at(record.digests + parameters + buffers + first, count)};
  if (const size_t words = manifest_.words_of_est(); words > 0)
    places.push_back(bytes_at(record.digests + manifest_.word_of_est(ests.begin), count * words));
  const bool has_buffers = ests.contains(VirtualRank(0));  // all hosts use virtual rank 0's buffers
  if (has_buffers) places.push_back(bytes_at(record.digests + parameters, buffers));
  for (const StateTensor& tensor : manifest_.layout.tensors) {
    const bool of_est = tensor.role == Role::est && ests.contains(VirtualRank(rank_of(tensor)));
    if (of_est || (has_buffers && tensor.role == Role::buffer))
      places.push_back({state + tensor.offset, tensor.bytes()});
  }
  return places;
}

Places SharedParts::evaluation(size_t host) const {
  const int64_t first = plan_.workers_before(host), last = plan_.workers_before(host + 1);
  const int64_t workers = plan_.workers_before(plan_.hosts.size());
  const comm::EvaluationResults results = memory_.evaluation();
  const int64_t samples = results.samples, batch = plan_.evaluation_batch;
  Places places;
  for (int64_t number = 0; number * batch < samples; ++number) {
    if (number % workers < first || number % workers >= last) continue;
    const auto count = static_cast<size_t>(std::min(batch, samples - number * batch));
    const int64_t at = number * batch;
    places.push_back(bytes_at(results.losses + at, count));
    places.push_back(bytes_at(results.correct + at, count));
    places.push_back(bytes_at(results.counted + at, count));
    for (int64_t column = 0; column < results.num_columns; ++column)
      places.push_back(bytes_at(results.column(column) + at, count));
  }
  return places;
}

Places SharedParts::state(int64_t step) const { return {{memory_.state_of(Step(step)), manifest_.layout.bytes}}; }

}  // namespace estrain::hosts
