#include "core/state/checkpoint/models/model_file.h"

#include <doctest/doctest.h>
#include <hdf5.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/formats/h5/file.h"
#include "core/state/checkpoint/checkpoint_file.h"
#include "tests/core/state/checkpoint/sample_state.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::checkpoint {
namespace {

// A state_dict as written by h5py, from the model's part of `state`.
struct StateDict {
  std::string parameters = "model/", buffers = "buffers/";  // target groups
  bool tied_copy = true;
  float tied_change = 0;
};

h5::Type type_of(DType dtype) {
  return dtype == DType::f32 ? h5::Type::f32 : dtype == DType::f64 ? h5::Type::f64 : h5::Type::i64;
}

void write_state_dict(const std::string& path, const State& state, const StateDict& how) {
  h5::File file = h5::File::create(path);
  h5::Group root = file.root();
  for (const StateTensor& tensor : state.layout.tensors) {
    if (tensor.role != Role::parameter && tensor.role != Role::buffer) continue;
    const std::string name = (tensor.role == Role::parameter ? how.parameters : how.buffers) + tensor.name;
    root.create_dataset(name, type_of(tensor.dtype), tensor.shape)
        .write(type_of(tensor.dtype), state.bytes() + tensor.offset);
  }
  if (!how.tied_copy) return;
  std::vector<float> head(30);
  std::memcpy(head.data(), state.bytes(), 120);
  if (how.tied_change != 0) head[7] = how.tied_change;
  root.create_dataset(how.parameters + "head.weight", h5::Type::f32, {5, 6}).write(h5::Type::f32, head.data());
}

// The same state with only the model's part kept.
State model_of(const State& state) {
  State model(state.layout);
  for (const StateTensor& tensor : state.layout.tensors)
    if (tensor.role == Role::parameter || tensor.role == Role::buffer)
      std::memcpy(model.bytes() + tensor.offset, state.bytes() + tensor.offset, tensor.bytes());
  return model;
}

TEST_CASE("a state_dict is taken from /model and /buffers, from /model alone, or from the root") {
  const ScratchFolder folder;
  const State state = filled(small_layout());
  for (const auto& [parameters, buffers] :
       {std::pair("model/", "buffers/"), std::pair("model/", "model/"), std::pair("", "")}) {
    CAPTURE(parameters);
    CAPTURE(buffers);
    write_state_dict(folder / "dict.h5", state, {.parameters = parameters, .buffers = buffers});
    State read(state.layout);
    read_model({folder / "dict.h5"}, read.layout, read.bytes());
    CHECK(read.words == model_of(state).words);
  }
}

TEST_CASE("a checkpoint gives its weights and leaves optimizer and ESTs aside") {
  const ScratchFolder folder;
  const State state = filled(small_layout());
  write_checkpoint(folder / "a.h5", state.layout, state.bytes(), sample_meta());
  StateLayout more_ests = small_layout(6, 5);
  State read(more_ests);
  read_model({folder / "a.h5"}, read.layout, read.bytes());
  const State expected = model_of(state);
  CHECK(std::memcmp(read.bytes(), expected.bytes(), state.layout.tensors[6].offset) == 0);
  CHECK(std::all_of(read.words.begin() + static_cast<long>(state.layout.tensors[6].offset / 8), read.words.end(),
                    [](uint64_t word) { return word == 0; }));
}

TEST_CASE("names missing, superfluous and of another shape are all told") {
  const ScratchFolder folder;
  const State state = filled(small_layout());
  write_state_dict(folder / "dict.h5", state, {.tied_copy = false});
  h5::File file = h5::File::open_for_update(folder / "dict.h5");
  file.root().create_dataset("model/fc.weight", h5::Type::f32, {1});
  file.close();
  StateLayout wanted = small_layout();
  wanted.tensors[1].shape = {7};
  wanted.tensors[4].dtype = DType::f32;
  State read(wanted);
  const Error error = error_of([&] { read_model({folder / "dict.h5"}, read.layout, read.bytes()); });
  CHECK(error.fault() == Fault::mismatch);
  CHECK(error.message() == folder / "dict.h5" +
                               ": does not fit the model: layer1.0.bias is float32 [6] in the file, float32 [7] in the "
                               "model; missing: head.weight; superfluous: fc.weight");
}

TEST_CASE("arrays of another type become the model's, half precision too") {
  const ScratchFolder folder;
  const std::string path = folder / "half.h5";
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t half = H5Tcopy(H5T_IEEE_F32LE);  // as h5py writes numpy's float16
  H5Tset_fields(half, 15, 10, 5, 0, 10), H5Tset_size(half, 2), H5Tset_ebias(half, 15);
  const hsize_t three = 3;
  const hid_t space = H5Screate_simple(1, &three, nullptr);
  const auto put = [&](const char* name, hid_t stored, hid_t memory, const void* values) {
    const hid_t data = H5Dcreate2(file, name, stored, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Dwrite(data, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    H5Dclose(data);
  };
  const uint16_t halves[3] = {0x3e00, 0x8001, 0x7c00};
  const double doubles[3] = {0.1, 1e300, -3.0000001};
  const int32_t integers[3] = {-1, 7, 16777217};
  put("half", half, half, halves);
  put("double", H5T_NATIVE_DOUBLE, H5T_NATIVE_DOUBLE, doubles);
  put("integer", H5T_NATIVE_INT32, H5T_NATIVE_INT32, integers);
  put("whole", H5T_NATIVE_DOUBLE, H5T_NATIVE_DOUBLE, doubles);
  H5Tclose(half), H5Sclose(space), H5Fclose(file);
  StateLayout layout;
  layout.append(Role::parameter, "half", "", DType::f32, {3});
  layout.append(Role::parameter, "double", "", DType::f32, {3});
  layout.append(Role::parameter, "integer", "", DType::f32, {3});
  layout.append(Role::buffer, "whole", "", DType::i64, {3});
  State read(layout);
  read_model({path}, read.layout, read.bytes());
  const auto at = [&](size_t tensor, const auto& expected) {
    return std::memcmp(read.bytes() + read.layout.tensors[tensor].offset, expected.data(),
                       sizeof expected[0] * expected.size()) == 0;
  };
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(at(0, std::vector<float>{1.5f, -0x1p-24f, infinity}));
  CHECK(at(1, std::vector<float>{0.1f, infinity, -3.0f}));
  CHECK(at(2, std::vector<float>{-1, 7, 16777216}));
  CHECK(at(3, std::vector<int64_t>{0, INT64_MIN, -3}));
}

TEST_CASE("tied weights that differ in the file are refused") {
  const ScratchFolder folder;
  const State state = filled(small_layout());
  write_state_dict(folder / "dict.h5", state, {.tied_change = 3.5f});
  State read(state.layout);
  const Error error = error_of([&] { read_model({folder / "dict.h5"}, read.layout, read.bytes()); });
  CHECK(error.fault() == Fault::mismatch);
  CHECK(error.message() ==
        folder / "dict.h5" + ": embed.weight and head.weight are tied in the model, but differ in the file");
}

TEST_CASE("a file that is absent or no HDF5 says so") {
  const ScratchFolder folder;
  State read(small_layout());
  CHECK(error_of([&] { read_model({folder / "x.h5"}, read.layout, read.bytes()); }).fault() == Fault::io);
  replace_bytes(folder / "x.h5", "PK\x03\x04 a torch.save file");
  const Error pickled = error_of([&] { read_model({folder / "x.h5"}, read.layout, read.bytes()); });
  CHECK(pickled.message() == folder / "x.h5" + ": a file of torch.save, which only Python can read");
  CHECK(pickled.advice().find("estrain weights") != std::string::npos);
  replace_bytes(folder / "x.h5", "PK");
  CHECK(error_of([&] { read_model({folder / "x.h5"}, read.layout, read.bytes()); }).fault() == Fault::corrupt);
}

}  // namespace
}  // namespace estrain::checkpoint
