// model.init takes a part of a file, under other names, from a file in parts, and tells what it took.

#include "core/state/checkpoint/models/weights_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/base/files/files.h"
#include "core/base/process/memory_use.h"
#include "core/formats/h5/file.h"
#include "core/state/checkpoint/checkpoint_file.h"
#include "core/state/checkpoint/models/model_file.h"
#include "core/state/checkpoint/models/safetensors.h"
#include "tests/core/state/checkpoint/sample_state.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::checkpoint {
namespace {

using Strings = std::vector<std::string>;

// An array of one dimension, every element of one value.
struct Array {
  std::string name;
  int64_t length;
  float value;
};

std::string file_of(const std::vector<Array>& arrays) {
  std::vector<SafetensorForm> forms;
  std::string elements;
  for (const Array& array : arrays) {
    forms.push_back({array.name, DType::f32, {array.length}});
    for (int64_t i = 0; i < array.length; ++i)
      elements.append(reinterpret_cast<const char*>(&array.value), sizeof array.value);
  }
  return safetensors_header(forms, {}) + elements;
}

// A network of two layers and a head; every value is -1.
struct Network {
  State state;

  Network() : state(layout()) {
    for (const StateTensor& tensor : state.layout.tensors) fill(tensor, -1);
  }
  static StateLayout layout() {
    StateLayout all;
    for (const char* name : {"body.0.weight", "body.1.weight", "head.weight"})
      all.append(Role::parameter, name, "", DType::f32, {3});
    all.append(Role::buffer, "body.1.mean", "", DType::f32, {2});
    return all;
  }
  void fill(const StateTensor& tensor, float value) {
    for (uint64_t i = 0; i < tensor.elements(); ++i)
      std::memcpy(state.bytes() + tensor.offset + 4 * i, &value, sizeof value);
  }
  TakenWeights read(const FirstWeights& from) { return read_model(from, state.layout, state.bytes()); }
  // The first values of its tensors.
  std::vector<float> values() const {
    std::vector<float> all;
    for (const StateTensor& tensor : state.layout.tensors) {
      float value = 0;
      std::memcpy(&value, state.bytes() + tensor.offset, sizeof value);
      all.push_back(value);
    }
    return all;
  }
};

const std::vector<Array> kPublished = {
    {"body.0.weight", 3, 1}, {"body.1.weight", 3, 2}, {"body.1.mean", 2, 4}, {"head.weight", 1000, 3}, {"extra", 1, 5}};

TEST_CASE("all but another head: the head keeps its values, and what was left is named") {
  const ScratchFolder folder;
  const std::string file = folder.write("a.safetensors", file_of(kPublished));
  for (const Strings& match : {Strings{"*", "!head.*"}, Strings{"!head.*"}, Strings{"body.*"}}) {
    Network network;
    const TakenWeights taken = network.read({file, match});
    CHECK(network.values() == std::vector<float>{1, 2, -1, 4});
    CHECK(taken.tensors == 3);
    CHECK(taken.kept == Strings{"head.weight"});
    CHECK(taken.left == Strings{"head.weight", "extra"});
    CHECK(taken.words() ==
          "3 of 4 tensors come from the file; from the seed: head.weight; left in the file: "
          "head.weight, extra");
  }
  Network whole;
  const Error error = error_of([&] { whole.read({file}); });
  CHECK(error.message() == file +
                               ": does not fit the model: head.weight is float32 [1000] in the file, float32 [3] in "
                               "the model; superfluous: extra");
  CHECK(error.advice().find(R"(["*", "!head.*"])") != std::string::npos);
}

TEST_CASE("what a pattern takes must be in the file, and a pattern must take something") {
  const ScratchFolder folder;
  const std::string file = folder.write("a.safetensors", file_of({kPublished[0], kPublished[3]}));
  Network network;
  const Error missing = error_of([&] { network.read({file, {"body.*"}}); });
  CHECK(missing.fault() == Fault::mismatch);
  CHECK(missing.message().ends_with("missing: body.1.weight, body.1.mean"));
  const Error other = error_of([&] { network.read({file, {"body.0.*", "head.*"}}); });
  CHECK(other.message().find("head.weight is float32 [1000] in the file, float32 [3] in the model") !=
        std::string::npos);
  CHECK(network.values() == std::vector<float>{-1, -1, -1, -1});
  for (const char* pattern : {"boddy.*", "!boddy.*"}) {
    const Error unused = error_of([&] { network.read({file, {"body.0.*", pattern}}); });
    CHECK(unused.fault() == Fault::spec);
    CHECK(unused.message().find(pattern) != std::string::npos);
    CHECK(unused.advice().find("body.0.weight") != std::string::npos);
  }
}

TEST_CASE("names begin otherwise in the file: removed, exchanged, added; the advice tells what would fit") {
  const ScratchFolder folder;
  const auto written = [&](const Strings& names) {
    return folder.write("a.safetensors",
                        file_of({{names[0], 3, 1}, {names[1], 3, 2}, {names[2], 3, 3}, {names[3], 2, 4}}));
  };
  const auto reads = [](const std::string& file, const Strings& prefix) {
    Network network;
    network.read({.path = file, .prefix = prefix});
    CHECK(network.values() == std::vector<float>{1, 2, 3, 4});
  };
  const auto advised = [](const std::string& file, const Strings& match = {}) {
    Network network;
    return error_of([&] { network.read({file, match}); }).advice();
  };
  std::string file =
      written({"module.body.0.weight", "module.body.1.weight", "module.head.weight", "module.body.1.mean"});
  CHECK(advised(file).ends_with("try model.init_prefix = [\"module.\"]"));
  CHECK(advised(file, {"*", "!head.*"}).ends_with("try model.init_prefix = [\"module.\"]"));
  reads(file, {"module."});
  reads(file, {"module.="});
  file = written({"0.weight", "1.weight", "2.weight", "1.mean"});
  CHECK(advised(file).ends_with("try model.init_prefix = [\"=body.\"]"));
  reads(file, {"2.=head.", "=body."});
  file = written({"enc.0.weight", "enc.1.weight", "cls.weight", "enc.1.mean"});
  reads(file, {"enc.=body.", "cls=head"});
  Network network;
  const Error same = error_of([&] { network.read({.path = file, .prefix = {"enc.0=x", "enc.1=x", "cls=x"}}); });
  CHECK(same.fault() == Fault::mismatch);
  CHECK(same.message().find("both become x.weight") != std::string::npos);
  const Error strange = error_of([&] { network.read({.path = file, .match = {"body.*"}, .prefix = {"enk.=body."}}); });
  CHECK(strange.advice().find("the file has enc.0.weight and 3 more") != std::string::npos);
  file = written({"body.0.weight", "body.1.weight", "x.weight", "body.1.mean"});
  CHECK(advised(file, {"head.*"}).find("no name of the file") == std::string::npos);
  std::filesystem::create_symlink("loop", folder / "loop");
  CHECK(error_of([&] { network.read({.path = folder / "loop"}); }).fault() == Fault::io);
  const Error is_folder = error_of([&] { network.read({.path = folder.path()}); });
  CHECK(is_folder.message().find("a folder, not a file of weights") != std::string::npos);
}

TEST_CASE("a file in parts is read by its index, which must tell the truth") {
  const ScratchFolder folder;
  folder.write("a-1.safetensors", file_of({kPublished[0], kPublished[1]}));
  folder.write("a-2.safetensors", file_of({{"head.weight", 3, 3}, kPublished[2]}));
  const auto index = [&](const std::string& map) {
    return folder.write("model.safetensors.index.json", R"({"metadata":{"total_size":44},"weight_map":{)" + map + "}}");
  };
  const std::string first = R"("body.0.weight":"a-1.safetensors","body.1.weight":"a-1.safetensors",)";
  Network network;
  CHECK(network.read({index(first + R"("head.weight":"a-2.safetensors","body.1.mean":"a-2.safetensors")")}).words() ==
        "all 4 tensors come from the file");
  CHECK(network.values() == std::vector<float>{1, 2, 3, 4});
  const std::pair<std::string, const char*> wrong[] = {
      {first + R"("head.weight":"a-2.safetensors")", "a-2.safetensors has body.1.mean, which the index does not say"},
      {first + R"("head.weight":"a-2.safetensors","body.1.mean":"a-2.safetensors","x":"a-1.safetensors")",
       "the index names x, which a-1.safetensors does not have"},
      {first + R"("head.weight":"a-1.safetensors","body.1.mean":"a-2.safetensors")", "head.weight"},
      {R"("head.weight":"../a-2.safetensors")", "head.weight lies in no file beside the index"},
      {R"("head.weight":"/a-2.safetensors")", "head.weight lies in no file beside the index"},
      {R"("head.weight":3)", "head.weight lies in no file beside the index"},
      {R"("head.weight":"c.bin")", "its part c.bin is a file of torch.save"},
      {R"("head.weight":"b.safetensors")", "b.safetensors"}};
  folder.write("c.bin", "PK\x03\x04 and more");
  for (const auto& [map, says] : wrong) {
    CAPTURE(map);
    CHECK(error_of([&] { network.read({index(map)}); }).message().find(says) != std::string::npos);
  }
  folder.write("model.safetensors.index.json", "[]");
  CHECK(error_of([&] { network.read({folder / "model.safetensors.index.json"}); }).fault() == Fault::corrupt);
}

// The largest resident set of this process since the last call of begin_peak().
void begin_peak() {
  const UniqueFd file = open_file("/proc/self/clear_refs", O_WRONLY);
  REQUIRE(::write(file.get(), "5", 1) == 1);
}

// A file of zeros, with one array of `floats` elements of the type.
void write_zeros(const std::string& path, DType type, int64_t floats, const std::string& dtype = "") {
  std::string header = safetensors_header({{"w", type, {floats}}}, {});
  if (!dtype.empty()) {  // a type of half the size that no state has
    header =
        fmt::format(R"({{"w": {{"dtype": "{}", "shape": [{}], "data_offsets": [0, {}]}}}})", dtype, floats, 2 * floats);
    const uint64_t length = header.size();
    header.insert(0, reinterpret_cast<const char*>(&length), sizeof length);
  }
  std::ofstream(path, std::ios::binary) << header;
  const uint64_t element = dtype.empty() ? element_size(type) : 2;
  std::filesystem::resize_file(path, header.size() + static_cast<uint64_t>(floats) * element);
}

TEST_CASE("reading weights needs memory for the weights alone, whatever the types") {
  constexpr int64_t kFloats = 8 << 20;
  const ScratchFolder folder;
  StateLayout layout;
  layout.append(Role::parameter, "w", "", DType::f32, {kFloats});
  write_zeros(folder / "same.safetensors", DType::f32, kFloats);
  write_zeros(folder / "wide.safetensors", DType::f64, kFloats);
  write_zeros(folder / "half.safetensors", DType::f32, kFloats, "BF16");
  (void)folder.write("model.safetensors.index.json", R"({"weight_map": {"w": "half.safetensors"}})");
  {
    h5::File file = h5::File::create(folder / "wide.h5");
    file.root().create_dataset("w", h5::Type::f64, {kFloats / 64, 64});
    file.close();
  }
  write_checkpoint(folder / "a.h5", layout, State(layout).bytes(), sample_meta());
  State state(layout);
  std::ranges::fill(state.words, 1);
  for (const char* name : {"same.safetensors", "wide.safetensors", "half.safetensors", "model.safetensors.index.json",
                           "wide.h5", "a.h5"}) {
    CAPTURE(name);
    StateLayout as = layout;
    if (name == std::string("wide.h5")) as.tensors[0].shape = {kFloats / 64, 64};
    begin_peak();
    const uint64_t before = own_memory_use().peak;
    read_model({folder / name, {}, {}}, as, state.bytes());
    CHECK(own_memory_use().peak - before < state.layout.bytes / 10);  // the state itself is there
    CHECK(state.words[layout.bytes / 16] == 0);
    state.words[layout.bytes / 16] = 1;
  }
}

TEST_CASE("a part of a checkpoint, with its ties") {
  const ScratchFolder folder;
  const State state = filled(small_layout());
  write_checkpoint(folder / "a.h5", state.layout, state.bytes(), sample_meta());
  State read(small_layout());
  const TakenWeights taken = read_model({folder / "a.h5", {"head.*", "bn.*"}}, read.layout, read.bytes());
  CHECK(taken.kept == Strings{"layer1.0.bias", "scale", "nothing"});
  CHECK(taken.left == Strings{"layer1.0.bias", "nothing", "scale"});
  for (const size_t tensor : {0, 3, 4}) {
    const StateTensor& at = state.layout.tensors[tensor];
    CHECK(std::memcmp(read.bytes() + at.offset, state.bytes() + at.offset, at.bytes()) == 0);
  }
  CHECK(read.words[state.layout.tensors[1].offset / 8] == 0);
}

}  // namespace
}  // namespace estrain::checkpoint
