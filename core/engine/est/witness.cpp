#include "core/engine/est/witness.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/engine/est/generator.h"
#include "kernels/digest.h"

namespace estrain::est {
namespace {

// The digests of an absent and of a non-finite tensor. Both differ from the digest of zeros.
constexpr uint64_t kAbsent = 0x9E3779B97F4A7C15;
constexpr uint64_t kNotFinite = 0xC2B2AE3D27D4EB4F;

uint64_t digest_of(const float* values, size_t elements) {
  if (!std::all_of(values, values + elements, [](float value) { return std::isfinite(value); })) return kNotFinite;
  return kernels::digest(values, elements * sizeof(float));
}

// A buffer may be of any type. Its size is a multiple of 4 bytes, or the digest pads the buffer.
uint64_t digest_of(const torch::Tensor& buffer) {
  const torch::Tensor host = buffer.contiguous().cpu();
  if (host.scalar_type() == torch::kFloat)
    return digest_of(host.const_data_ptr<float>(), static_cast<size_t>(host.numel()));
  return kernels::digest(host.const_data_ptr(), host.nbytes());
}

uint64_t digest_of_random_stream() {
  std::vector<std::byte> stream(generator_state_bytes());
  switch_generator_out(stream.data());
  return kernels::digest(stream.data(), stream.size());
}

}  // namespace

void Witness::note(size_t parameter, const float* gradient) const {
  const auto elements = static_cast<size_t>(model_.parameters[parameter].numel());
  row_[parameter] = gradient == nullptr ? kAbsent : digest_of(gradient, elements);
}

void Witness::begin() {
  model_.hooks.show_to([self = *this](size_t parameter, const float* gradient) { self.note(parameter, gradient); });
}

void Witness::take(const std::vector<torch::Tensor>& gradients) { model_.hooks.show(gradients); }

void Witness::end(const torch::Tensor& loss) {
  model_.hooks.show_to(nullptr);
  uint64_t* at = std::transform(model_.buffers.begin(), model_.buffers.end(), row_ + model_.parameters.size(),
                                [](const torch::Tensor& buffer) { return digest_of(buffer); });
  model_.device.read(loss.detach(), [at](const float* value) { *at = digest_of(value, 1); });
  at[1] = digest_of_random_stream();
}

}  // namespace estrain::est
