#include "core/operators/portable.h"

#include <ATen/Context.h>

#include <optional>

#include "core/device/quiet_warnings.h"
#include "core/operators/float_tensor.h"
#include "core/operators/registry.h"

namespace estrain::operators {

struct PortableOperators::Registrations {
  Registry::Place cpu{c10::DispatchKey::CPU};
  std::optional<Registry::Place> device;
  std::set<std::string> names;
  bool cudnn = at::globalContext().userEnabledCuDNN();
};

PortableOperators::PortableOperators(device::Device& device) : registrations_(std::make_unique<Registrations>()) {
  const device::QuietWarnings quiet;
  const c10::Device where = device.torch_device();
  if (!where.is_cpu()) {
    registrations_->device.emplace(c10::computeDispatchKey(at::kFloat, at::kStrided, where));
    // LibTorch checks this flag when it chooses between operators: with cuDNN enabled, batch normalisation would be
    // cuDNN's.
    at::globalContext().setUserEnabledCuDNN(false);
  }
  Registry registry(registrations_->cpu, registrations_->device ? &*registrations_->device : nullptr,
                    registrations_->names);
  for (auto add : {register_attention, register_convolution, register_elementwise, register_embedding, register_loss,
                   register_matmul, register_normalization, register_pooling, register_random, register_reductions,
                   register_softmax, register_upsampling}) {
    add(registry);
  }
  set_device(&device);
}

PortableOperators::~PortableOperators() {
  at::globalContext().setUserEnabledCuDNN(registrations_->cudnn);
  set_device(nullptr);
}

const std::set<std::string>& PortableOperators::names() const { return registrations_->names; }

}  // namespace estrain::operators
