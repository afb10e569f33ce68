#include "core/state/checkpoint/checkpoint_file.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "core/formats/h5/file.h"
#include "core/formats/h5/image/image.h"
#include "core/state/checkpoint/state/structure.h"
#include "kernels/digest.h"
#include "tests/core/state/checkpoint/sample_state.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::checkpoint {
namespace {

TEST_CASE("state and metadata come back bit for bit") {
  const ScratchFolder folder;
  const State state = filled(small_layout());
  write_checkpoint(folder / "a.h5", state.layout, state.bytes(), sample_meta());
  const CheckpointFile file = CheckpointFile::open(folder / "a.h5");
  CHECK(file.meta() == sample_meta());
  file.verify();
  State read(state.layout);
  file.read_state(read.layout, read.bytes());
  CHECK(read.words == state.words);
  CHECK_FALSE(std::filesystem::exists(folder / ("a.h5" + std::string(temporary_suffix))));
}

TEST_CASE("the algorithms of GPUs come back, and are under the checksum") {
  const ScratchFolder folder;
  const State state = filled(small_layout());
  CheckpointMeta meta = sample_meta();
  meta.algorithms = std::string(200'000, 'x') + "\n{\"key\":\"product\"}\n";
  write_checkpoint(folder / "a.h5", state.layout, state.bytes(), meta);
  CHECK(CheckpointFile::open(folder / "a.h5").meta() == meta);
  // Otherwise an edit with a new seal would pass.
  h5::File file = h5::File::open_for_update(folder / "a.h5");
  h5::Group root = file.root();
  CHECK_NOTHROW(require_checksum(root, read_structure(root)));
  root.set_string("algorithms", "{}\n");
  const Structure edited = read_structure(root);
  CHECK(edited.meta.algorithms == "{}\n");
  CHECK(error_of([&] { require_checksum(root, edited); }).fault() == Fault::corrupt);
}

TEST_CASE("the identity of data files comes back, and is under the checksum") {
  const ScratchFolder folder;
  const State state = filled(small_layout());
  CheckpointMeta meta = sample_meta();
  meta.data = "[" + std::string(200'000, 'x') + "]";
  write_checkpoint(folder / "a.h5", state.layout, state.bytes(), meta);
  CHECK(CheckpointFile::open(folder / "a.h5").meta() == meta);
  h5::File file = h5::File::open_for_update(folder / "a.h5");
  h5::Group root = file.root(), data = root.group("data");
  CHECK_NOTHROW(require_checksum(root, read_structure(root)));
  data.set_string("files", "[]");
  const Structure edited = read_structure(root);
  CHECK(edited.meta.data == "[]");
  CHECK(error_of([&] { require_checksum(root, edited); }).fault() == Fault::corrupt);
}

TEST_CASE("a file of another format is refused, and says so") {
  h5::FileImage image = h5::FileImage::create({});
  h5::Group root = image.root();
  create_structure(root, small_layout(), sample_meta());
  for (const int64_t version : {int64_t{0}, format_version + 1}) {
    root.set_i64("format_version", version);
    const Error error = error_of([&] { read_structure(root); });
    CHECK(error.fault() == Fault::mismatch);
    CHECK(error.message().find(fmt::format("written in format {}", version)) != std::string::npos);
  }
}

TEST_CASE("every digest is that of the tensor, and tensors can be read alone, in the order of writing") {
  const ScratchFolder folder;
  const State state = filled(small_layout());
  write_checkpoint(folder / "a.h5", state.layout, state.bytes(), sample_meta());
  const CheckpointFile file = CheckpointFile::open(folder / "a.h5");
  REQUIRE(file.layout().tensors.size() == state.layout.tensors.size());
  for (size_t i = 0; i < state.layout.tensors.size(); ++i) {
    const StateTensor& tensor = state.layout.tensors[i];
    CHECK(file.layout().tensors[i].path() == tensor.path());
    CHECK(file.digest(i) == kernels::digest(state.bytes() + tensor.offset, tensor.bytes()));
    std::vector<uint64_t> elements(tensor.bytes() / 8 + 1);
    file.read(i, reinterpret_cast<std::byte*>(elements.data()));
    CHECK(std::memcmp(elements.data(), state.bytes() + tensor.offset, tensor.bytes()) == 0);
  }
  REQUIRE(file.layout().aliases.size() == 1);
  CHECK(file.layout().aliases[0].path() == "/model/head.weight");
  CHECK(file.layout().aliases[0].target_path() == "/model/embed.weight");
}

TEST_CASE("a layout in another order of tensors reads the same elements") {
  const ScratchFolder folder;
  const State state = filled(small_layout());
  write_checkpoint(folder / "a.h5", state.layout, state.bytes(), sample_meta());
  StateLayout reversed;
  for (auto tensor = state.layout.tensors.rbegin(); tensor != state.layout.tensors.rend(); ++tensor)
    reversed.append(tensor->role, tensor->name, tensor->slot, tensor->dtype, tensor->shape);
  reversed.aliases = state.layout.aliases;
  State read(reversed);
  CheckpointFile::open(folder / "a.h5").read_state(read.layout, read.bytes());
  const size_t count = reversed.tensors.size();
  for (size_t i = 0; i < count; ++i) {
    const StateTensor &from = state.layout.tensors[count - 1 - i], &to = reversed.tensors[i];
    CHECK(std::memcmp(read.bytes() + to.offset, state.bytes() + from.offset, from.bytes()) == 0);
  }
}

TEST_CASE("metadata of extreme values and sizes") {
  const ScratchFolder folder;
  const State state = filled(small_layout());
  CheckpointMeta meta = sample_meta(INT64_MAX);
  meta.lr = std::nextafter(0.1, 1.0);
  meta.changes = std::string(3 << 20, 'c');
  meta.stages = "";
  write_checkpoint(folder / "a.h5", state.layout, state.bytes(), meta);
  CHECK(CheckpointFile::open(folder / "a.h5").meta() == meta);
}

TEST_CASE("hundreds of tensors and ESTs") {
  const ScratchFolder folder;
  StateLayout layout;
  for (int i = 0; i < 500; ++i) layout.append(Role::parameter, "p" + std::to_string(i), "", DType::f32, {i % 7, 3});
  for (int i = 0; i < 300; ++i) layout.append(Role::est, std::to_string(i), "generator", DType::u8, {5056});
  const State state = filled(layout);
  write_checkpoint(folder / "a.h5", layout, state.bytes(), sample_meta());
  State read(layout);
  CheckpointFile::open(folder / "a.h5").read_state(layout, read.bytes());
  CHECK(read.words == state.words);
}

TEST_CASE("a state of many megabytes, in tensors of odd sizes") {
  const ScratchFolder folder;
  StateLayout layout;
  layout.append(Role::parameter, "a", "", DType::f32, {2500001});
  layout.append(Role::parameter, "b", "", DType::u8, {4194303});
  layout.append(Role::parameter, "c", "", DType::f64, {1024, 1025});
  layout.append(Role::parameter, "d", "", DType::u8, {3});
  layout.append(Role::parameter, "e", "", DType::f32, {1048576});
  const State state = filled(layout);
  write_checkpoint(folder / "a.h5", layout, state.bytes(), sample_meta());
  const CheckpointFile file = CheckpointFile::open(folder / "a.h5");
  file.verify();
  State read(layout);
  file.read_state(layout, read.bytes());
  CHECK(read.words == state.words);
  for (size_t i = 0; i < layout.tensors.size(); ++i)
    CHECK(file.digest(i) == kernels::digest(state.bytes() + layout.tensors[i].offset, layout.tensors[i].bytes()));
  std::vector<double> c(1024 * 1025);
  h5::File::open(folder / "a.h5").root().dataset("model/c").read(h5::Type::f64, c.data());
  CHECK(std::memcmp(c.data(), state.bytes() + layout.tensors[2].offset, c.size() * 8) == 0);
}

TEST_CASE("a file is read by plain HDF5: datasets, a hard link, attributes") {
  const ScratchFolder folder;
  const State state = filled(small_layout());
  write_checkpoint(folder / "a.h5", state.layout, state.bytes(), sample_meta());
  const h5::File file = h5::File::open(folder / "a.h5");
  const h5::Group root = file.root();
  std::vector<float> embed(30);
  root.dataset("model/head.weight").read(h5::Type::f32, embed.data());
  CHECK(std::memcmp(embed.data(), state.bytes(), 120) == 0);
  CHECK(root.get_i64("step") == 100);
  CHECK(root.group("data").get_i64("samples") == 320);
  CHECK(root.get_string("spec") == sample_meta().spec);
  CHECK(root.dataset("model/embed.weight").get_u64("digest") == kernels::digest(state.bytes(), 120));
}

TEST_CASE("two saves of one state are the same file, whenever they are made") {
  const ScratchFolder folder;
  const State state = filled(small_layout());
  write_checkpoint(folder / "a.h5", state.layout, state.bytes(), sample_meta());
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // HDF5's time stamps count seconds
  write_checkpoint(folder / "b.h5", state.layout, state.bytes(), sample_meta());
  CHECK((bytes_of(folder / "a.h5") == bytes_of(folder / "b.h5")));
}

TEST_CASE("a state that does not fit is refused with every name") {
  const ScratchFolder folder;
  const State state = filled(small_layout());
  write_checkpoint(folder / "a.h5", state.layout, state.bytes(), sample_meta());
  const CheckpointFile file = CheckpointFile::open(folder / "a.h5");
  StateLayout other = small_layout(7, 3);
  other.tensors[2].dtype = DType::i64;
  other.tensors[5].name = "renamed";
  State into(other);
  const Error error = error_of([&] { file.read_state(into.layout, into.bytes()); });
  CHECK(error.fault() == Fault::mismatch);
  CHECK(error.message() ==
        folder / "a.h5" +
            ": does not fit the model: /model/embed.weight is float32 [5, 6] in the file, float32 [5, 7] in the model, "
            "/model/layer1.0.bias is float32 [6] in the file, float32 [7] in the model, "
            "/model/scale is float64 [] in the file, int64 [] in the model, "
            "/buffers/bn.running_mean is float32 [6] in the file, float32 [7] in the model, "
            "/optimizer/embed.weight/momentum_buffer is float32 [5, 6] in the file, float32 [5, 7] in the model, "
            "/model/head.weight is float32 [5, 6] tied to /model/embed.weight in the file, "
            "float32 [5, 7] tied to /model/embed.weight in the model; "
            "missing: /buffers/renamed, /ests/2/generator, /ests/2/loss; superfluous: /buffers/nothing");
  CHECK_FALSE(error.advice().empty());
}

TEST_CASE("tied and untied weights are not mistaken for each other") {
  const ScratchFolder folder;
  const State tied = filled(small_layout());
  StateLayout untied_layout = small_layout();
  untied_layout.aliases.clear();
  untied_layout.append(Role::parameter, "head.weight", "", DType::f32, {5, 6});
  State untied = filled(untied_layout);
  write_checkpoint(folder / "tied.h5", tied.layout, tied.bytes(), sample_meta());
  write_checkpoint(folder / "untied.h5", untied.layout, untied.bytes(), sample_meta());
  State into(tied.layout);
  CHECK(error_of([&] { CheckpointFile::open(folder / "tied.h5").read_state(untied.layout, untied.bytes()); })
            .message()
            .find("/model/head.weight is float32 [5, 6] tied to /model/embed.weight in the file") != std::string::npos);
  CHECK_THROWS_AS(CheckpointFile::open(folder / "untied.h5").read_state(into.layout, into.bytes()), Error);
}

TEST_CASE("what is no checkpoint is told apart") {
  const ScratchFolder folder;
  CHECK(error_of([&] { (void)CheckpointFile::open(folder / "absent.h5"); }).fault() == Fault::io);
  replace_bytes(folder / "text.h5", std::string(5000, 'x'));
  CHECK(error_of([&] { (void)CheckpointFile::open(folder / "text.h5"); }).fault() == Fault::corrupt);
  h5::File::create(folder / "plain.h5").close();
  const Error plain = error_of([&] { (void)CheckpointFile::open(folder / "plain.h5"); });
  CHECK(plain.fault() == Fault::mismatch);
  CHECK(plain.message() == folder / "plain.h5" + ": an HDF5 file, but not an estrain checkpoint");
  CHECK_FALSE(is_checkpoint(folder / "plain.h5"));
}

TEST_CASE("an edit by another program is refused until the file is sealed again") {
  const ScratchFolder folder;
  State state = filled(small_layout());
  const std::string path = folder / "a.h5";
  write_checkpoint(path, state.layout, state.bytes(), sample_meta());
  std::vector<float> bias(6, 1.25f);
  h5::File editor = h5::File::open_for_update(path);
  editor.root().dataset("model/layer1.0.bias").write(h5::Type::f32, bias.data());
  editor.root().set_i64("step", 101);
  editor.close();
  CHECK(error_of([&] { CheckpointFile::open(path).verify(); }).fault() == Fault::corrupt);

  reseal(path);
  const CheckpointFile file = CheckpointFile::open(path);
  file.verify();
  CHECK(file.meta().step == Step(101));
  State read(state.layout);
  file.read_state(read.layout, read.bytes());
  std::memcpy(state.bytes() + state.layout.tensors[1].offset, bias.data(), 24);
  CHECK(read.words == state.words);
  CHECK(error_of([&] { reseal(folder / "absent.h5"); }).fault() == Fault::io);
}

TEST_CASE("a save that fails leaves no temporary file and the old file as it was") {
  const ScratchFolder folder;
  const State state = filled(small_layout());
  const Error error =
      error_of([&] { write_checkpoint(folder / "absent/a.h5", state.layout, state.bytes(), sample_meta()); });
  CHECK(error.fault() == Fault::io);
  std::filesystem::create_directories(folder / "b.h5/occupied");
  CHECK(error_of([&] { write_checkpoint(folder / "b.h5", state.layout, state.bytes(), sample_meta()); }).fault() ==
        Fault::io);
  CHECK_FALSE(std::filesystem::exists(folder / "b.h5.tmp"));
  CHECK(std::filesystem::exists(folder / "b.h5/occupied"));
}

}  // namespace
}  // namespace estrain::checkpoint
