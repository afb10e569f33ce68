// What the worker library finds in place of libestrain_cuda.so: GPUs that the CPU plays (backend.h), behind the same
// interface (core/device/device.h), its readers called on another thread after the work that follows has been asked
// for, its uploads as late as may be.

#include <ATen/ops/empty.h>
#include <ATen/ops/special_i0.h>
#include <ATen/ops/zeros.h>

#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "core/base/error.h"
#include "core/device/arrivals.h"
#include "core/device/cpu.h"
#include "core/device/device.h"
#include "tests/emulated_gpu/backend.h"
#include "tests/emulated_gpu/emulated_exchange.h"

namespace estrain::testing {
namespace {

using device::Arrivals;
using Bytes = std::vector<std::byte>;

std::shared_ptr<Bytes> copied(const void* from, size_t bytes) {
  auto copy = std::make_shared<Bytes>(bytes);
  if (bytes > 0) std::memcpy(copy->data(), from, bytes);
  return copy;
}

class EmulatedMirror : public device::Mirror {
 public:
  EmulatedMirror(size_t bytes, Arrivals& arrivals)
      : bytes_(bytes),
        arrivals_(arrivals),
        storage_(
            at::empty({static_cast<int64_t>(bytes)}, at::TensorOptions(at::kByte).device(backend_device())).storage()) {
  }

  const c10::Storage& storage() const override { return storage_; }
  void load(std::byte* host) override {
    if (bytes_ > 0) std::memcpy(storage_.mutable_data(), host, bytes_);
  }
  void store(std::byte* host, std::function<void()> then) override {
    arrivals_.push({{},
                    [host, values = copied(storage_.data(), bytes_), then = std::move(then)] {
                      if (!values->empty()) std::memcpy(host, values->data(), values->size());
                      then();
                    },
                    bytes_});
  }

 private:
  size_t bytes_;
  Arrivals& arrivals_;
  c10::Storage storage_;
};

// A capture computes nothing, a replay runs what was captured.
class Recorder : public device::CaptureBackend {
 public:
  void beside(const std::function<void()>& work) override { work(); }
  std::unique_ptr<device::Capture> capture(const std::function<void()>& work) override {
    return std::make_unique<Replay>(work);
  }

 private:
  struct Replay : device::Capture {
    explicit Replay(std::function<void()> captured) : work(std::move(captured)) {}
    void replay() override { work(); }
    std::function<void()> work;
  };
};

class EmulatedDevice : public device::Device {
 public:
  explicit EmulatedDevice(const device::DeviceOptions& options) : arrivals_([] {}) {
    register_backend();
    if (options.graphs) captured_passes_.emplace(std::make_unique<Recorder>());
  }

  device::CapturedPasses* captured_passes() override { return captured_passes_ ? &*captured_passes_ : nullptr; }

  c10::Device torch_device() const override { return backend_device(); }
  std::string describe() const override { return "emulated GPU; " + device::describe_processor(); }
  const kernels::DeviceQueue* queue() override { return backend_queue(); }
  const device::LibraryKernels& library_kernels() const override { return backend_library_kernels; }
  std::optional<at::Generator> generator() const override { return std::nullopt; }
  void expect_copies(std::byte*, size_t) override {}
  std::unique_ptr<device::Mirror> mirror(size_t bytes, device::MirrorUse) override {
    return std::make_unique<EmulatedMirror>(bytes, arrivals_);
  }
  at::Tensor upload(const at::Tensor& host) override {
    if (uploads_.size() == 2) carry_out_first();
    at::special_i0(at::zeros({1}));  // as a device's own code may: no operator of the model's
    const at::Tensor out = at::empty(host.sizes(), host.options().device(torch_device()));
    std::memset(out.mutable_data_ptr(), 0xff, out.nbytes());
    uploads_.push_back({host, out});
    return out;
  }
  void await_uploads() override {
    while (!uploads_.empty()) carry_out_first();
  }
  void read(const at::Tensor& values, Reader reader) override {
    auto copy = copied(values.const_data_ptr(), values.nbytes());
    const size_t bytes = copy->size();
    arrivals_.push(
        {{},
         [copy = std::move(copy), reader = std::move(reader)] { reader(reinterpret_cast<const float*>(copy->data())); },
         bytes});
  }
  void download(const at::Tensor& values, std::byte* host, std::function<void()> then) override {
    auto copy = copied(values.const_data_ptr(), values.nbytes());
    arrivals_.push({{}, [copy = std::move(copy), host, then = std::move(then)] {
                      std::memcpy(host, copy->data(), copy->size());
                      then();
                    }});
  }
  void defer(std::function<void()> action) override { arrivals_.push({{}, std::move(action)}); }
  device::ExchangeId new_exchange() override { return new_exchange_id(); }
  std::unique_ptr<device::Exchange> open_exchange(const device::ExchangeId& id,
                                                  const device::ExchangeParty& party) override {
    if (!has_computed()) throw Error(Fault::bug, "a GPU would load its first kernels while others wait for it");
    return open_emulated_exchange(id, party);
  }
  void finish_reads() override { arrivals_.finish(); }
  void finish() override {
    await_uploads();
    arrivals_.finish();
  }

 private:
  struct Upload {
    at::Tensor from, to;
  };
  void carry_out_first() {
    const Upload& first = uploads_.front();
    std::memcpy(first.to.mutable_data_ptr(), first.from.const_data_ptr(), first.from.nbytes());
    uploads_.pop_front();
  }

  std::deque<Upload> uploads_;
  std::optional<device::CapturedPasses> captured_passes_;
  Arrivals arrivals_;
};

}  // namespace
}  // namespace estrain::testing

extern "C" estrain::device::Device* estrain_open_cuda_device(int, const estrain::device::DeviceOptions& options) {
  static bool opened = false;
  if (opened) return nullptr;
  opened = true;
  return new estrain::testing::EmulatedDevice(options);
}
