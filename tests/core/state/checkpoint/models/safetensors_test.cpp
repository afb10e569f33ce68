#include "core/state/checkpoint/models/safetensors.h"

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "core/state/checkpoint/models/export_model.h"
#include "core/state/checkpoint/models/model_file.h"
#include "tests/core/state/checkpoint/sample_state.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::checkpoint {
namespace {

std::string with_length(const std::string& header, const std::string& elements) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + elements;
}

// A file of these bytes.
std::string written(const ScratchFolder& folder, const std::string& bytes) {
  const std::string path = folder / "some.safetensors";
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string complaint_about(const ScratchFolder& folder, const std::string& bytes) {
  const std::string path = written(folder, bytes);
  const Error error = error_of([&] { SafetensorsFile::open(path); });
  CHECK(error.fault() == Fault::corrupt);
  REQUIRE(error.message().starts_with(path + ": "));
  return error.message().substr(path.size() + 2);
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool is_of_model(const StateTensor& tensor) { return tensor.role == Role::parameter || tensor.role == Role::buffer; }

// The same state with only the model's part kept.
State model_part(const State& state) {
  State model(state.layout);
  for (const StateTensor& tensor : state.layout.tensors)
    if (is_of_model(tensor)) std::memcpy(model.bytes() + tensor.offset, state.bytes() + tensor.offset, tensor.bytes());
  return model;
}

// The state's checkpoint, exported.
std::string exported(const ScratchFolder& folder, const State& state, ModelFormat format) {
  write_checkpoint(folder / "a.h5", state.layout, state.bytes(), sample_meta());
  const std::string path = folder / (format == ModelFormat::hdf5 ? "model.h5" : "model.safetensors");
  export_model(CheckpointFile::open(folder / "a.h5"), path, {format});
  return path;
}

constexpr const char* kTwo = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"I64","shape":[],"data_offsets":[8,16]}} )";

}  // namespace

TEST_CASE("a file is read by name, type, shape and offset") {
  const ScratchFolder folder;
  const SafetensorsFile file = SafetensorsFile::open(written(folder, with_length(kTwo, "0123456789abcdef")));
  REQUIRE(file.tensors().size() == 2);
  const Safetensor& a = file.tensors()[0];
  CHECK((a.name == "a" && a.dtype == "float32" && a.shape == std::vector<int64_t>{2} && a.bytes == 8));
  const Safetensor& b = file.tensors()[1];
  CHECK((b.name == "b" && b.dtype == "int64" && b.shape.empty() && b.bytes == 8));
  char read[8];
  file.read(1, reinterpret_cast<std::byte*>(read));
  CHECK(std::string(read, 8) == "89abcdef");
}

TEST_CASE("an exported model is taken by model.init with the same bits, in both formats") {
  for (const ModelFormat format : {ModelFormat::safetensors, ModelFormat::hdf5}) {
    const ScratchFolder folder;
    const State state = filled(small_layout());
    const std::string path = exported(folder, state, format);
    State read(small_layout(6, 5));
    read_model({path}, read.layout, read.bytes());
    State expected(small_layout(6, 5));
    std::memcpy(expected.bytes(), model_part(state).bytes(), state.layout.tensors[6].offset);
    CHECK(read.words == expected.words);
  }
}

TEST_CASE("the exported file has every state_dict name, and each tensor on a multiple of its elements' size") {
  const ScratchFolder folder;
  const State state = filled(small_layout());
  const SafetensorsFile file = SafetensorsFile::open(exported(folder, state, ModelFormat::safetensors));
  std::vector<std::string> names;
  for (const Safetensor& tensor : file.tensors()) {
    names.push_back(tensor.name);
    const uint64_t element = tensor.dtype == "float32" ? 4 : 8;
    CHECK(tensor.offset % element == 0);
  }
  const std::vector<std::string> expected = {
      "scale", "bn.num_batches_tracked", "embed.weight", "layer1.0.bias", "bn.running_mean", "nothing", "head.weight"};
  CHECK((names == expected));
}

TEST_CASE("a tied weight may stand in the file under one of its names, whichever") {
  for (const char* kept : {"embed.weight", "head.weight"}) {
    CAPTURE(kept);
    const ScratchFolder folder;
    const State state = filled(small_layout());
    std::vector<SafetensorForm> forms;
    std::string elements;
    for (const StateTensor& tensor : state.layout.tensors) {
      if (!is_of_model(tensor)) continue;
      forms.push_back({tensor.name == "embed.weight" ? kept : tensor.name, tensor.dtype, tensor.shape});
      elements.append(reinterpret_cast<const char*>(state.bytes() + tensor.offset), tensor.bytes());
    }
    const std::string path = written(folder, safetensors_header(forms, {}) + elements);
    State read(state.layout);
    read_model({path}, read.layout, read.bytes());
    CHECK(read.words == model_part(state).words);
  }
}

TEST_CASE("tied weights that differ, other types and names are refused by name") {
  const ScratchFolder folder;
  const std::string both =
      R"({"embed.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"head.weight":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})";
  StateLayout layout;
  layout.append(Role::parameter, "embed.weight", "", DType::f32, {1});
  layout.aliases.push_back({Role::parameter, "head.weight", "embed.weight"});
  State read(layout);
  const auto complaint = [&](const std::string& bytes) {
    const std::string path = written(folder, bytes);
    const Error error = error_of([&] { read_model({path}, read.layout, read.bytes()); });
    CHECK(error.fault() == Fault::mismatch);
    return error.message().substr(path.size() + 2);
  };
  CHECK(complaint(with_length(both, "aaaabbbb")) ==
        "embed.weight and head.weight are tied in the model, but differ in the file");
  CHECK(complaint(with_length(R"({"embed.weight":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}})", "a")) ==
        "does not fit the model: embed.weight is F8_E4M3 [1] in the file, float32 [1] in the model");
  CHECK(complaint(with_length(R"({"embed.weight":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}})", "aaaa")) ==
        "does not fit the model: embed.weight is BF16 [2] in the file, float32 [1] in the model");
  CHECK(complaint(with_length(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "aaaa")) ==
        "does not fit the model: missing: embed.weight, head.weight; superfluous: x");
}

template <typename Number>
std::string bytes_of(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

// The expected values are those of torch: torch.zeros(4, dtype=…).copy_(stored).
TEST_CASE("numbers of another type become the model's, as load_state_dict makes them") {
  const ScratchFolder folder;
  const auto taken = [&]<typename Number>(const std::string& type, const std::string& elements, DType as,
                                          const std::vector<Number>& expected) {
    CAPTURE(type);
    StateLayout layout;
    layout.append(Role::buffer, "x", "", as, {4});
    State read(layout);
    const std::string header =
        R"({"x":{"dtype":")" + type + R"(","shape":[4],"data_offsets":[0,)" + std::to_string(elements.size()) + "]}}";
    read_model({written(folder, with_length(header, elements))}, read.layout, read.bytes());
    CHECK(std::memcmp(read.bytes(), expected.data(), 4 * sizeof(Number)) == 0);
  };
  const float infinity = std::numeric_limits<float>::infinity();
  taken("BF16", bytes_of<uint16_t>({0x3fc0, 0xbf81, 0x8000, 0x0001}), DType::f32,
        std::vector<float>{1.5f, -1.0078125f, -0.0f, 0x1p-133f});
  taken("F16", bytes_of<uint16_t>({0x3e00, 0x8001, 0x7c00, 0x7bff}), DType::f32,
        std::vector<float>{1.5f, -0x1p-24f, infinity, 65504});
  taken("F16", bytes_of<uint16_t>({0x3e00, 0x8001, 0xfc00, 0x0400}), DType::f64,
        std::vector<double>{1.5, -0x1p-24, -infinity, 0x1p-14});
  taken("F64", bytes_of<double>({0.1, 1e300, -1e-50, 16777217}), DType::f32,
        std::vector<float>{0.1f, infinity, -0.0f, 16777216});
  taken("F32", bytes_of<float>({0.1f, -7.9f, 3e9f, 0}), DType::i64, std::vector<int64_t>{0, -7, 3000000000, 0});
  taken("I32", bytes_of<int32_t>({-1, 7, INT32_MIN, 0}), DType::i64, std::vector<int64_t>{-1, 7, INT32_MIN, 0});
  taken("I64", bytes_of<int64_t>({-1, 16777217, 0, 3}), DType::f32, std::vector<float>{-1, 16777216, 0, 3});
  taken("BOOL", bytes_of<uint8_t>({0, 1, 1, 0}), DType::f32, std::vector<float>{0, 1, 1, 0});
  taken("BOOL", bytes_of<uint8_t>({0, 1, 1, 0}), DType::i64, std::vector<int64_t>{0, 1, 1, 0});
}

TEST_CASE("whatever is wrong with a file is said, and where") {
  const ScratchFolder folder;
  const auto about = [&](const std::string& header, const std::string& elements) {
    return complaint_about(folder, with_length(header, elements));
  };
  const auto one = [&](const std::string& entry) { return about("{\"w\":" + entry + "}", "01234567"); };
  CHECK(complaint_about(folder, "abc") == "not a safetensors file: it has 3 bytes");
  CHECK(complaint_about(folder, std::string(8, '\xff') + "{}") ==
        "not a safetensors file, or truncated: a header of 18446744073709551615 bytes in 10");
  CHECK(about("[]", "") == "a header that is not an object");
  CHECK(about("{", "").find("not valid JSON") != std::string::npos);
  CHECK(about(std::string(100, '['), "").find("nested more than") != std::string::npos);
  CHECK(about("[0" + std::string(400'000, ','), "") == "a header with too many values");
  CHECK(one("1") == "tensor w: not an object");
  CHECK(one(R"({"shape":[2],"data_offsets":[0,8]})") == "tensor w: no dtype");
  CHECK(one(R"({"dtype":"F7","shape":[2],"data_offsets":[0,8]})") == "tensor w: an unknown type, F7");
  CHECK(one(R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})") == "tensor w: no shape");
  CHECK(one(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})") ==
        "tensor w: a length that is not a whole number >= 0");
  CHECK(one(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})") ==
        "tensor w: a length that is not a whole number >= 0");
  CHECK(one(R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]})") ==
        "tensor w: an impossible length");
  CHECK(one(R"({"dtype":"F32","shape":[4611686018427387904,2],"data_offsets":[0,8]})") ==
        "tensor w: a shape with more elements than any file has");
  CHECK(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})") == "tensor w: no data_offsets");
  CHECK(one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})") ==
        "tensor w: data_offsets [8, 0] outside its 8 bytes of elements");
  CHECK(one(R"({"dtype":"F32","shape":[4],"data_offsets":[0,16]})") ==
        "tensor w: data_offsets [0, 16] outside its 8 bytes of elements");
  CHECK(one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})") == "tensor w: 8 bytes for a shape of 12");
  CHECK(one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})").starts_with("tensor w: begins at byte "));
  CHECK(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})").find("it is truncated or has extra") !=
        std::string::npos);
  const std::string overlap = R"({"a":{"dtype":"U8","shape":[6],"data_offsets":[0,6]},)"
                              R"("b":{"dtype":"U8","shape":[6],"data_offsets":[2,8]}})";
  CHECK(about(overlap, "01234567").starts_with("tensor b: begins at byte "));
}

TEST_CASE("a file cut off at any byte is refused") {
  const ScratchFolder folder;
  const State state = filled(small_layout());
  const std::string whole = contents(exported(folder, state, ModelFormat::safetensors));
  for (size_t length = 0; length < whole.size(); ++length) {
    const std::string path = written(folder, whole.substr(0, length));
    CHECK_THROWS_AS(SafetensorsFile::open(path), Error);
  }
}

TEST_CASE("an export of a damaged checkpoint leaves what was there, and nothing else") {
  for (const ModelFormat format : {ModelFormat::safetensors, ModelFormat::hdf5}) {
    const ScratchFolder folder;
    const State state = filled(small_layout());
    write_checkpoint(folder / "a.h5", state.layout, state.bytes(), sample_meta());
    std::string bytes = contents(folder / "a.h5");
    const size_t at =
        bytes.find(std::string(reinterpret_cast<const char*>(state.bytes() + state.layout.tensors[1].offset), 24));
    REQUIRE(at != std::string::npos);
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    std::ofstream(folder / "a.h5", std::ios::binary) << bytes;
    std::ofstream(folder / "out") << "before";
    const CheckpointFile from = CheckpointFile::open(folder / "a.h5");
    const Error error = error_of([&] { export_model(from, folder / "out", {format}); });
    CHECK(error.fault() == Fault::corrupt);
    CHECK(error.message().find("layer1.0.bias") != std::string::npos);
    CHECK(contents(folder / "out") == "before");
    CHECK_FALSE(std::filesystem::exists(folder / "out.tmp"));
  }
}

}  // namespace estrain::checkpoint
