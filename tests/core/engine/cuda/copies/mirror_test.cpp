#include "core/engine/cuda/copies/mirror.h"

#include <ATen/ops/equal.h>

#include "tests/core/engine/cuda/simulated.h"

namespace estrain::cuda {
namespace {

constexpr int64_t kFloats = 500;

struct MirroredFloats {
  device::Arrivals arrivals{[] { c10::cuda::set_device(0); }};
  CudaMirror mirror{kFloats * sizeof(float), copying_stream(), arrivals};
  at::Tensor there = at::empty({0}, at::TensorOptions(at::kFloat).device(gpu())).set_(mirror.storage(), 0, {kFloats});

  static std::byte* bytes(const at::Tensor& host) { return static_cast<std::byte*>(host.mutable_data_ptr()); }
};

TEST_CASE("a mirror has what was loaded, and stores what has been computed of it") {
  MirroredFloats mirrored;
  const at::Tensor from = page_locked(kFloats, 4), to = page_locked(kFloats, -1);
  int stored = 0;
  mirrored.mirror.load(MirroredFloats::bytes(from));
  mirrored.there.add_(1);
  mirrored.mirror.store(MirroredFloats::bytes(to), [&] {
    CHECK(at::equal(to, at::full({kFloats}, 5.0f)));
    ++stored;
  });
  mirrored.arrivals.finish();
  CHECK(stored == 1);
}

TEST_CASE("what is computed or loaded after a store does not change what is stored") {
  MirroredFloats mirrored;
  const at::Tensor first = page_locked(kFloats, 1), second = page_locked(kFloats, 2), to = page_locked(kFloats, -1);
  mirrored.mirror.load(MirroredFloats::bytes(first));
  mirrored.mirror.store(MirroredFloats::bytes(to), [] {});
  mirrored.mirror.load(MirroredFloats::bytes(second));
  mirrored.there.add_(10);
  c10::cuda::getCurrentCUDAStream().synchronize();
  mirrored.arrivals.finish();
  CHECK(at::equal(to, at::full({kFloats}, 1.0f)));
  CHECK(at::equal(mirrored.there.cpu(), at::full({kFloats}, 12.0f)));
}

TEST_CASE("a mirror of nothing stores at once") {
  device::Arrivals arrivals([] { c10::cuda::set_device(0); });
  CudaMirror mirror(0, copying_stream(), arrivals);
  bool stored = false;
  mirror.load(nullptr);
  mirror.store(nullptr, [&] { stored = true; });
  arrivals.finish();
  CHECK(stored);
}

TEST_CASE("a copy to the host has what was computed before it, once its event has come") {
  const at::Tensor there = full_on_gpu(1000, 3), here = page_locked(1000, -1);
  there.mul_(2);
  const Copied copied = copy_to_host(here.mutable_data_ptr(), there.const_data_ptr(), here.nbytes(), copying_stream());
  CHECK(!copied->query());
  CHECK(here[999].item<float>() == -1);
  copied->synchronize();
  CHECK(at::equal(here, at::full({1000}, 6.0f)));
}

}  // namespace

}  // namespace estrain::cuda
