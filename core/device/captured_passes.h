#pragma once
// A pass over a mini-batch recorded once, and launched again as a whole instead of operator by operator (CUDA graphs,
// cuda/graph_capture.h). What is recorded are the device's kernels with the addresses that they read and write, so a
// pass qualifies that is the same function of its inputs, of memory that stays where it is (parameters, buffers) and of
// the device's generator at every call, and that asks the host nothing on the way.
//
// One mini-batch after another, for each shape of the inputs by itself: the first ones run as ever, so that libraries
// are loaded and have chosen their algorithms; then the pass is captured; from there on its inputs are copied into the
// captured ones and the capture is replayed. Where a pass cannot be captured, none is from then on: the caller runs it
// as ever, to the same bits.

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
  virtual void replay() = 0;  // on the stream of CaptureBackend::beside
};

// How a device records.
class CaptureBackend {
 public:
  virtual ~CaptureBackend() = default;
  // Runs `work` on a stream for captures: behind all that was asked for before, and before all that comes after.
  virtual void beside(const std::function<void()>& work) = 0;
  // Records what `work` launches, without computing it. From inside of beside(). Throws what `work` throws, and where
  // it cannot be recorded; then nothing has been computed, and generators stand where they stood. A backend may call
  // `work` when it replays: what it refers to lasts as long as the capture.
  virtual std::unique_ptr<Capture> capture(const std::function<void()>& work) = 0;
};

class CapturedPasses {
 public:
  explicit CapturedPasses(std::unique_ptr<CaptureBackend> backend) : backend_(std::move(backend)) {}

  static constexpr int64_t warm_runs = 3;     // of a shape, before it is captured
  static constexpr size_t most_captures = 4;  // further shapes run as ever

  using Tensors = std::vector<at::Tensor>;
  using Pass = std::function<Tensors(const Tensors& inputs)>;

  // The outputs of `pass` for `inputs`, in memory of their own; an output may be undefined if it always is. `pass` must
  // be the same at every call with the same `variant`, and is kept. Nothing: run it yourself; it has left no trace.
  // Throws what a pass that runs throws.
  std::optional<Tensors> run(const Tensors& inputs, int64_t variant, const Pass& pass);

  // The memory that passes use has changed its place: they are captured anew.
  void forget() { recorded_.clear(); }

 private:
  using Key = std::vector<int64_t>;  // the variant; of all inputs: type, number of dimensions, sizes
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
