#pragma once
// A pass over a mini-batch is recorded once and then launched as a whole instead of operator by operator (CUDA graphs,
// engine/cuda/graph_capture.h). A recording consists of the device's kernels with the addresses of their operands. So a
// pass qualifies if, at every call, the pass is the same function of its inputs, of memory at fixed addresses
// (parameters, buffers) and of the device's generator, and if the pass never waits for the device.
//
// For each shape of the inputs, the first mini-batches run normally, so that libraries are loaded and have chosen their
// algorithms. Then the pass is captured. From then on the inputs are copied to the captured inputs, and the capture is
// replayed. If capturing a pass fails, no pass is captured any more, and the caller runs passes normally, with the same
// bits.

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace estrain::device {

class Capture {
 public:
  virtual ~Capture() = default;
  virtual void replay() = 0;  // runs on the stream of CaptureBackend::beside
};

// A CaptureBackend is a device's way of recording.
class CaptureBackend {
 public:
  virtual ~CaptureBackend() = default;
  // Runs `work` on a stream for captures: after all earlier work and before all later work.
  virtual void beside(const std::function<void()>& work) = 0;
  // Records the kernels launched by `work`, without running them. Call this function within beside(). Throws the error
  // of `work`, or an error if recording fails; then nothing was computed, and generators are unchanged. A backend may
  // call `work` for a replay, so the references of `work` must live as long as the capture.
  virtual std::unique_ptr<Capture> capture(const std::function<void()>& work) = 0;
};

class CapturedPasses {
 public:
  explicit CapturedPasses(std::unique_ptr<CaptureBackend> backend) : backend_(std::move(backend)) {}

  static constexpr int64_t warm_runs = 3;     // for each shape, before its capture
  static constexpr size_t most_captures = 4;  // inputs of further shapes run normally

  using Tensors = std::vector<at::Tensor>;
  using Pass = std::function<Tensors(const Tensors& inputs)>;

  // Returns the outputs of `pass` for `inputs`, in separate memory; an output may be undefined if it always is. `pass`
  // must be the same at every call, and is stored. Returns nothing if the caller must run the pass; then the call had
  // no side effects. Throws the errors of a running pass.
  std::optional<Tensors> run(const Tensors& inputs, const Pass& pass);

 private:
  using Key = std::vector<int64_t>;  // for each input: type, number of dimensions, sizes
  struct Recorded {
    int64_t runs = 0;
    Tensors inputs, outputs;  // at the captured addresses
    std::unique_ptr<Capture> capture;
  };

  bool record(Recorded& recorded, const Tensors& inputs, const Pass& pass);
  bool give_up(const char* why);  // returns false

  std::unique_ptr<CaptureBackend> backend_;
  bool given_up_ = false;
  std::map<Key, Recorded> recorded_;
};

}  // namespace estrain::device
