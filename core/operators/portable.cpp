#include "core/operators/portable.h"

#include <c10/util/Exception.h>

#include <optional>

#include "core/operators/registry.h"

namespace estrain::operators {
namespace {

// LibTorch warns of every kernel that takes another's place, which is the purpose here.
class Quiet : public c10::WarningHandler {
 public:
  Quiet() : before_(c10::WarningUtils::get_warning_handler()) { c10::WarningUtils::set_warning_handler(this); }
  ~Quiet() override { c10::WarningUtils::set_warning_handler(before_); }
  void process(const c10::Warning&) override {}

 private:
  c10::WarningHandler* before_;
};

}  // namespace

struct PortableOperators::Registrations {
  torch::Library cpu{torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__};
  torch::Library autograd{torch::Library::IMPL, "aten", c10::DispatchKey::AutogradCPU, __FILE__, __LINE__};
  std::set<std::string> names;
};

PortableOperators::PortableOperators() : registrations_(std::make_unique<Registrations>()) {
  const Quiet quiet;
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
