#include "core/operators/portable.h"

#include <optional>

#include "core/device/quiet_warnings.h"
#include "core/operators/registry.h"

namespace estrain::operators {

struct PortableOperators::Registrations {
  torch::Library cpu{torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__};
  torch::Library autograd{torch::Library::IMPL, "aten", c10::DispatchKey::AutogradCPU, __FILE__, __LINE__};
  std::set<std::string> names;
};

PortableOperators::PortableOperators() : registrations_(std::make_unique<Registrations>()) {
  const device::QuietWarnings quiet;
  Registry registry(registrations_->cpu, registrations_->autograd, registrations_->names);
  for (auto add : {register_attention, register_convolution, register_elementwise, register_embedding, register_loss,
                   register_matmul, register_normalization, register_pooling, register_random, register_reductions,
                   register_softmax, register_upsampling}) {
    add(registry);
  }
}

PortableOperators::~PortableOperators() = default;

const std::set<std::string>& PortableOperators::names() const { return registrations_->names; }

}  // namespace estrain::operators
