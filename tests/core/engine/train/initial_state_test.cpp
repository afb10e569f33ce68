#include "core/engine/train/initial_state.h"

#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <new>

#include "core/engine/est/generator.h"
#include "core/job/spec/parsing/parse.h"
#include "core/state/checkpoint/state/est_streams.h"
#include "tests/scratch_folder.h"

namespace estrain::train {
namespace {

struct Made {
  spec::JobSpec spec = spec::parse_text(
      "[job]\nests = 3\nseed = 40\n[model]\nname = \"mlp\"\n[data]\nshape = [4]\nsamples = 16\n[train]\nsteps = 1\n",
      "test");
  data::DataPair data = data::open(spec.data, spec.model.context, 0, spec.model.classes);
};

// One copy of the state of a job.
class State {
 public:
  explicit State(const TrainingJob& job)
      : memory_(static_cast<std::byte*>(::operator new(job.places().bytes, kAlignment))) {
    std::memset(memory_.get(), 0xA5, job.places().bytes);
  }
  std::byte* get() const { return memory_.get(); }

 private:
  static constexpr std::align_val_t kAlignment{256};
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }
  };
  std::unique_ptr<std::byte, Free> memory_;
};

bool is_seeded(const TrainingJob& job, const State& state, int64_t rank, uint64_t offset = 0) {
  uint64_t words[2];
  std::memcpy(words, job.places().ests.cuda_generator(state.get(), VirtualRank(rank)), sizeof words);
  return words[0] == 40 + static_cast<uint64_t>(rank) && words[1] == offset;
}

TEST_CASE("a state has CUDA streams only where they were asked for, and then beside all that it has without") {
  const Made made;
  const TrainingJob without(made.spec, made.data, false), with(made.spec, made.data, false, true);
  CHECK_FALSE(without.places().ests.has_cuda_streams());
  CHECK(with.places().ests.has_cuda_streams());
  CHECK(with.layout().tensors.size() == without.layout().tensors.size() + 3);
  CHECK(with.manifest().digest_names == without.manifest().digest_names);
  for (const auto& tensor : with.layout().tensors) {
    CAPTURE(tensor.path());
    const bool of_model = tensor.role == checkpoint::Role::parameter || tensor.role == checkpoint::Role::buffer;
    CHECK(tensor.offset % (of_model ? 256 : 64) == 0);
  }
  const auto& last = with.layout().tensors.back();
  CHECK(last.path() == "/ests/2/cuda_generator");
  CHECK(last.bytes() == est::cuda_generator_state_bytes);
}

TEST_CASE("EST r's CUDA stream begins where its seed puts it, and comes back from a checkpoint where it was") {
  const Made made;
  const ScratchFolder folder;
  TrainingJob job(made.spec, made.data, true, true);
  const State begun(job), read(job);
  write_first_state(job, begun.get());
  for (int64_t rank : {0, 1, 2}) CHECK(is_seeded(job, begun, rank));
  const uint64_t offset = 12;
  std::memcpy(job.places().ests.cuda_generator(begun.get(), VirtualRank(1)) + 8, &offset, sizeof offset);
  checkpoint::write_checkpoint(folder / "a.h5", job.layout(), begun.get(), {});
  read_state(checkpoint::CheckpointFile::open(folder / "a.h5"), job, read.get());
  CHECK(is_seeded(job, read, 0));
  CHECK(is_seeded(job, read, 1, offset));
}

TEST_CASE("a checkpoint of a time without GPUs gives the streams that nothing was drawn from") {
  const Made made;
  const ScratchFolder folder;
  TrainingJob before(made.spec, made.data, true), now(made.spec, made.data, false, true);
  const State begun(before), read(now);
  write_first_state(before, begun.get());
  checkpoint::write_checkpoint(folder / "a.h5", before.layout(), begun.get(), {});
  read_state(checkpoint::CheckpointFile::open(folder / "a.h5"), now, read.get());
  for (int64_t rank : {0, 1, 2}) {
    CHECK(is_seeded(now, read, rank));
    CHECK(std::memcmp(now.places().ests.generator(read.get(), VirtualRank(rank)),
                      before.places().ests.generator(begun.get(), VirtualRank(rank)),
                      est::generator_state_bytes()) == 0);
  }
  const ModelPlaces& model = now.places().model;
  CHECK(std::memcmp(model.parameter(read.get(), 0), before.places().model.parameter(begun.get(), 0),
                    4 * model.elements(0)) == 0);
}

}  // namespace
}  // namespace estrain::train
