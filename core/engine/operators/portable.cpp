#include "core/engine/operators/portable.h"

#include <ATen/Context.h>

#include <optional>

#include "core/engine/device/quiet_warnings.h"
#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/registry.h"

namespace estrain::operators {

struct PortableOperators::Registrations {
  OperatorRegistry::DispatchPlace cpu{c10::DispatchKey::CPU};
  std::optional<OperatorRegistry::DispatchPlace> device;
  std::set<std::string> names;
  bool cudnn = at::globalContext().userEnabledCuDNN();
  bool mkldnn = at::globalContext().userEnabledMkldnn();
};

PortableOperators::PortableOperators(device::ComputeDevice& device)
    : registrations_(std::make_unique<Registrations>()) {
  const device::QuietWarnings quiet;
  const c10::Device where = device.torch_device();
  if (!where.is_cpu()) {
    registrations_->device.emplace(c10::computeDispatchKey(at::kFloat, at::kStrided, where));
    // LibTorch checks this flag when LibTorch chooses between operators: with cuDNN enabled, batch normalisation would
    // be cuDNN's.
    at::globalContext().setUserEnabledCuDNN(false);
  }
  // With this flag, an LSTM refused by recurrent.cpp would be one operator of oneDNN.
  at::globalContext().setUserEnabledMkldnn(false);
  OperatorRegistry registry(&registrations_->cpu, registrations_->device ? &*registrations_->device : nullptr,
                            registrations_->names);
#define ESTRAIN_REGISTERED(file) register_##file(registry);
  ESTRAIN_OPERATOR_FILES(ESTRAIN_REGISTERED)
#undef ESTRAIN_REGISTERED
  set_device(&device);
}

PortableOperators::~PortableOperators() {
  at::globalContext().setUserEnabledCuDNN(registrations_->cudnn);
  at::globalContext().setUserEnabledMkldnn(registrations_->mkldnn);
  set_device(nullptr);
}

const std::set<std::string>& PortableOperators::names() const { return registrations_->names; }

}  // namespace estrain::operators
