// Writes and reads a checkpoint of a given size with core/state/checkpoint, for comparison with dd.
//
// usage: checkpoint_io MEGABYTES FILE
// Prints a line when it is ready. Each line "write" or "read" on stdin does so and prints the seconds; reading includes
// the check of every byte. Ends with stdin.

#include <cstdlib>
#include <iostream>
#include <memory>

#include "core/base/clock.h"
#include "core/state/checkpoint/checkpoint_file.h"

namespace estrain::checkpoint {
namespace {

constexpr int64_t kTensors = 16;
constexpr size_t kAlignment = 4096;

StateLayout layout_of(int64_t megabytes) {
  StateLayout layout;
  const int64_t elements = megabytes * 1'000'000 / 4 / (2 * kTensors);
  for (int64_t i = 0; i < kTensors; ++i) {
    const std::string name = "layers." + std::to_string(i) + ".weight";
    layout.append(Role::parameter, name, "", DType::f32, {elements});
    layout.append(Role::optimizer, name, "momentum_buffer", DType::f32, {elements});
  }
  return layout;
}

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Copy = std::unique_ptr<std::byte, FreeMemory>;

Copy copy_for(const StateLayout& layout) {
  const size_t bytes = (layout.bytes + kAlignment - 1) / kAlignment * kAlignment;
  return Copy(static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes)));
}

// Bits without a pattern, so that no file system can make them small.
void fill(std::byte* copy, uint64_t bytes) {
  uint64_t word = 0x9e3779b97f4a7c15;
  for (uint64_t i = 0; i + sizeof word <= bytes; i += sizeof word) {
    word ^= word << 13;
    word ^= word >> 7;
    word ^= word << 17;
    *reinterpret_cast<uint64_t*>(copy + i) = word;
  }
}

int serve(int64_t megabytes, const std::string& path) {
  const StateLayout layout = layout_of(megabytes);
  const Copy written = copy_for(layout), read = copy_for(layout);
  if (!written || !read) return 1;
  fill(written.get(), layout.bytes);
  fill(read.get(), layout.bytes);
  std::cout << "ready" << std::endl;
  for (std::string verb; std::cin >> verb;) {
    const int64_t begin = monotonic_ns();
    if (verb == "write") write_checkpoint(path, layout, written.get(), {});
    if (verb == "read") CheckpointFile::open(path).read_state(layout, read.get());
    std::cout << seconds(monotonic_ns() - begin) << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace estrain::checkpoint

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: checkpoint_io MEGABYTES FILE\n";
    return 2;
  }
  return estrain::checkpoint::serve(std::atoll(argv[1]), argv[2]);
}
