// A library for LD_PRELOAD that makes workers wrong: it flips a bit of gradients, as a processor with a fault would. It
// replaces device::CpuDevice::read, which passes gradients on; the program itself has no such option.
//
// ESTRAIN_TEST_WRONG names a folder. The worker with process id P is wrong from when the file P is there: "PROBABILITY
// ELEMENTS". In each mini-batch, with this probability, one gradient has a wrong bit; if ELEMENTS is not 0, one of so
// many elements. The file P.wrong has a byte for each wrong mini-batch.

#include <c10/core/TensorImpl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <utility>
#include <vector>

using Reader = std::function<void(const float*)>;

// An at::Tensor is one pointer. All members used here are inline: LibTorch is not linked.
extern "C" void read_wrongly(void* device, c10::TensorImpl* const& values,
                             Reader reader) asm("_ZN7estrain6device9CpuDevice4readERKN2at6TensorESt8functionIFvPKfEE");

namespace {

struct Fault {
  double probability = 0;  // of a wrong mini-batch; 0: this process is right
  size_t elements = 0;     // of the gradient; 0: the first one of the mini-batch
};

const Fault& fault_of_this_process() {
  static const char* const folder = std::getenv("ESTRAIN_TEST_WRONG");
  static Fault fault;
  if (fault.probability > 0 || folder == nullptr) return fault;
  char path[512];
  std::snprintf(path, sizeof path, "%s/%d", folder, static_cast<int>(::getpid()));
  if (std::FILE* file = std::fopen(path, "r")) {
    if (std::fscanf(file, "%lf %zu", &fault.probability, &fault.elements) != 2) fault = {};
    std::fclose(file);
  }
  return fault;
}

void count_wrong() {
  char path[512];
  std::snprintf(path, sizeof path, "%s/%d.wrong", std::getenv("ESTRAIN_TEST_WRONG"), static_cast<int>(::getpid()));
  if (std::FILE* file = std::fopen(path, "a")) {
    std::fputc('x', file);
    std::fclose(file);
  }
}

// Gradients of a mini-batch come one after another, then its loss: one element, read at least once.
bool is_wrong_now(size_t elements) {
  static std::mt19937_64 dice(static_cast<uint64_t>(::getpid()));
  static bool is_new = true, is_planned = false;
  if (elements == 1) {
    is_new = true;
    return false;
  }
  const Fault& fault = fault_of_this_process();
  if (std::exchange(is_new, false)) is_planned = std::uniform_real_distribution<>(0, 1)(dice) < fault.probability;
  if (!is_planned || (fault.elements != 0 && fault.elements != elements)) return false;
  is_planned = false;
  count_wrong();
  return true;
}

}  // namespace

void read_wrongly(void*, c10::TensorImpl* const& values, Reader reader) {
  const auto* floats = static_cast<const float*>(values->data());
  const auto elements = static_cast<size_t>(values->numel());
  if (!is_wrong_now(elements)) return reader(floats);
  std::vector<float> wrong(floats, floats + elements);
  unsigned bits = 0;
  std::memcpy(&bits, &wrong[elements / 2], sizeof bits);
  bits ^= 1u << 10;
  std::memcpy(&wrong[elements / 2], &bits, sizeof bits);
  reader(wrong.data());
}
