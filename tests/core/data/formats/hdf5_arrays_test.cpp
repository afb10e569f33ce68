#include "core/data/formats/hdf5_arrays.h"

#include <doctest/doctest.h>
#include <hdf5.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>

#include "core/data/format_table.h"
#include "core/data/job_data.h"
#include "core/data/reading/evaluation_reader.h"
#include "core/data/reading/loader.h"
#include "core/data/sampling/padded_array.h"
#include "core/formats/h5/file.h"
#include "tests/contains.h"
#include "tests/error_of.h"
#include "tests/program_file.h"
#include "tests/scratch_folder.h"

namespace estrain::data {
namespace {

using Fill = std::function<void(h5::Group&)>;

template <typename T>
void add(h5::Group& root, const std::string& name, h5::Type type, const std::vector<int64_t>& shape,
         const std::vector<T>& values) {
  h5::DatasetObject data = root.create_dataset(name, type, shape);
  data.write(type, values.data());
}

void five_samples(h5::Group& root) {
  add<float>(root, "x", h5::Type::f32, {5, 2}, {0, 1, 10, 11, 20, 21, 30, 31, 40, 41});
  add<uint8_t>(root, "keep", h5::Type::u8, {5}, {1, 0, 1, 0, 1});
  add<int64_t>(root, "y", h5::Type::i64, {5}, {5, 6, 7, 8, 9});
}

std::string file_of(const ScratchFolder& folder, const std::string& name, const Fill& fill) {
  const std::string path = folder / name;
  h5::File file = h5::File::create(path);
  h5::Group root = file.root();
  fill(root);
  return path;
}

DataPair open_arrays(const std::string& path, const std::vector<std::string>& names, const std::string& test = "") {
  spec::DataSection section;
  section.format = spec::DataFormat::hdf5;
  section.path = path;
  section.test_path = test;
  return open(section, 0, 1, std::nullopt, names);
}

std::string complaint(const Fill& fill, const std::vector<std::string>& names, Fault fault) {
  const ScratchFolder folder;
  const std::string path = file_of(folder, "a.h5", fill);
  const Error error = error_of([&] { open_arrays(path, names); });
  CHECK(error.fault() == fault);
  CHECK(!error.advice().empty());
  return error.message();
}

template <typename T>
std::vector<T> values(const LoadedBatch& batch, size_t field, size_t count) {
  std::vector<T> copied(count);
  std::memcpy(copied.data(), batch.field(field), count * sizeof(T));
  return copied;
}

TEST_CASE("the arrays that are asked for come in that order, each batch contiguous and aligned") {
  const ScratchFolder folder;
  const DataPair pair = open_arrays(file_of(folder, "a.h5", five_samples), {"y", "x", "keep"});
  CHECK(pair.train->size() == 5);
  CHECK(describe_arrays(pair.train->shape()) == "y int64 [], x float32 [2], keep uint8 []");
  const EpochSampler::Options options{
      .dataset_size = 5, .ests = 1, .batch = 3, .shuffle = false, .drop_last = false, .seed = 1};
  const EpochSampler sampler(options);
  Loader loader(*pair.train, sampler, {VirtualRank(0), VirtualRank(1)}, Step(0), {.readers = 2, .steps = 2});
  const LoadedBatch first = loader.next(), last = loader.next();
  CHECK(values<int64_t>(first, 0, 3) == std::vector<int64_t>{5, 6, 7});
  CHECK(values<float>(first, 1, 6) == std::vector<float>{0, 1, 10, 11, 20, 21});
  CHECK(values<uint8_t>(first, 2, 3) == std::vector<uint8_t>{1, 0, 1});
  CHECK(last.size() == 2);
  CHECK(values<float>(last, 1, 4) == std::vector<float>{30, 31, 40, 41});
  CHECK(values<int64_t>(last, 0, 2) == std::vector<int64_t>{8, 9});
  for (size_t field = 0; field < 3; ++field) CHECK(reinterpret_cast<uintptr_t>(first.field(field)) % 64 == 0);
}

TEST_CASE("unsigned numbers that torch has no type for are widened") {
  const ScratchFolder folder;
  const std::string path = file_of(folder, "a.h5", [](h5::Group& root) {
    add<float>(root, "x", h5::Type::f32, {2}, {1, 2});
    add<double>(root, "z", h5::Type::f64, {2}, {3, 4});
  });
  const DataPair pair = open_arrays(path, {"z", "x"});
  CHECK(describe_arrays(pair.train->shape()) == "z float64 [], x float32 []");
}

TEST_CASE("an array that is missing, empty, or of another length is named") {
  CHECK(contains(complaint(five_samples, {"x", "mask"}, Fault::mismatch),
                 "lacks dataset mask, an input of the program; it has: x, keep, y"));
  const Fill uneven = [](h5::Group& root) {
    add<float>(root, "a", h5::Type::f32, {2}, {1, 2});
    add<float>(root, "b", h5::Type::f32, {3}, {1, 2, 3});
  };
  CHECK(contains(complaint(uneven, {"a", "b"}, Fault::corrupt), "a has 2 samples, b has 3"));
  const Fill scalar = [](h5::Group& root) { add<float>(root, "a", h5::Type::f32, {}, {1}); };
  CHECK(contains(complaint(scalar, {"a"}, Fault::mismatch), "a is a single number"));
}

TEST_CASE("a test file with other arrays than the training file's is refused") {
  const ScratchFolder folder;
  const std::string train = file_of(folder, "a.h5", five_samples);
  const std::string test = file_of(folder, "b.h5", [](h5::Group& root) {
    add<float>(root, "x", h5::Type::f32, {2, 3}, {1, 2, 3, 4, 5, 6});
  });
  const Error error = error_of([&] { open_arrays(train, {"x"}, test); });
  CHECK(error.fault() == Fault::mismatch);
  CHECK(contains(error.message(), "training samples are x float32 [2]; test samples are x float32 [3]"));
  spec::DataSection section;
  section.format = spec::DataFormat::hdf5;
  section.path = train, section.test_path = test;
  const DataScan found = scan(section, 0, std::nullopt, {"x"});
  CHECK_FALSE(found.fine());
  CHECK(found.train_samples == 5);
}

TEST_CASE("a file with images and labels is one of pictures, unless the program asks for something else by name") {
  const ScratchFolder folder;
  const std::string path = file_of(folder, "a.h5", [](h5::Group& root) {
    add<uint8_t>(root, "images", h5::Type::u8, {2, 1, 2, 2}, std::vector<uint8_t>(8, 255));
    add<int64_t>(root, "labels", h5::Type::i64, {2}, {0, 1});
    add<uint8_t>(root, "mask", h5::Type::u8, {2, 2}, {1, 0, 1, 1});
  });
  const std::string many = file_of(folder, "many.h5", [](h5::Group& root) {
    add<float>(root, "images", h5::Type::f32, {2, 1, 2, 2}, std::vector<float>(8, 1));
    add<float>(root, "labels", h5::Type::f32, {2, 3}, {0, 1, 1, 1, 0, 0});
  });
  const std::string other = file_of(folder, "other.h5", [](h5::Group& root) {
    add<uint8_t>(root, "images", h5::Type::u8, {2, 9}, std::vector<uint8_t>(18, 1));
    add<int64_t>(root, "labels", h5::Type::i64, {2}, {0, 1});
  });
  using Inputs = std::vector<program::UserInput>;
  const program::UserInput images{.name = "images", .type = program::ScalarType::f32, .sizes = {}},
      labels{.name = "labels", .type = program::ScalarType::i64, .sizes = {}};
  const auto named = [](const std::string& name, program::ScalarType type = program::ScalarType::f32) {
    return program::UserInput{.name = name, .type = type, .sizes = {}};
  };
  CHECK(is_labelled_pictures(path, {images, labels}));
  CHECK(is_labelled_pictures(path, {images}));
  CHECK(is_labelled_pictures(path, Inputs{named("x"), named("y", program::ScalarType::i64)}));
  CHECK_FALSE(is_labelled_pictures(path, Inputs{images, named("mask", program::ScalarType::u8), labels}));
  CHECK_FALSE(is_labelled_pictures(path, Inputs{images, named("mask", program::ScalarType::u8)}));
  CHECK_FALSE(is_labelled_pictures(path, Inputs{images, named("weights"), labels}));
  CHECK_FALSE(is_labelled_pictures(path, Inputs{named("images", program::ScalarType::u8), labels}));
  CHECK_FALSE(is_labelled_pictures(path, Inputs{images, named("labels", program::ScalarType::f32)}));
  CHECK_FALSE(is_labelled_pictures(many, {images, labels}));
  CHECK(is_labelled_pictures(many, Inputs{named("x"), named("y")}));  // refused as pictures: that says what is wrong
  CHECK_FALSE(is_labelled_pictures(other, {images, labels}));

  spec::JobSpec spec;
  spec.model.name = "python";
  spec.model.file = folder.write("net.py", "");
  spec.data.format = spec::DataFormat::hdf5;
  spec.data.path = path;
  CHECK(arrays_of_job(spec) == std::vector<std::string>{"images", "labels", "mask"});
  spec.data.path = many;
  CHECK(arrays_of_job(spec) == std::vector<std::string>{"images", "labels"});
  const DataPair pair = open_arrays(many, {"images", "labels"});
  CHECK(describe_arrays(pair.train->shape()) == "images float32 [1, 2, 2], labels float32 [3]");
}

TEST_CASE("keys that transform pictures are refused for arrays, which are used unchanged") {
  const ScratchFolder folder;
  spec::DataSection section;
  section.format = spec::DataFormat::hdf5;
  section.path = file_of(folder, "a.h5", five_samples);
  section.mean = {0.5};
  const Error error = error_of([&] { open(section, 0, 1, std::nullopt, {"x", "y"}); });
  CHECK(error.fault() == Fault::spec);
  CHECK(contains(error.message(), "data.mean is for pictures, but the model takes arrays by name, unchanged: x, y"));
  CHECK_FALSE(scan(section, 0, std::nullopt, {"x", "y"}).fine());
  section.mean = {};
  CHECK(scan(section, 0, std::nullopt, {"x", "y"}).fine());
}

TEST_CASE("booleans that h5py stored are booleans") {
  const ScratchFolder folder;
  const std::string path = folder / "a.h5";
  {
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t boolean = H5Tenum_create(H5T_NATIVE_INT8), strange = H5Tenum_create(H5T_NATIVE_INT8);
    const int8_t no = 0, yes = 1;
    H5Tenum_insert(boolean, "FALSE", &no), H5Tenum_insert(boolean, "TRUE", &yes);
    H5Tenum_insert(strange, "RED", &no), H5Tenum_insert(strange, "BLUE", &yes);
    const hsize_t sizes[] = {3, 2};
    const int8_t values[] = {1, 0, 0, 1, 1, 1};
    const hid_t space = H5Screate_simple(2, sizes, nullptr), chunked = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t chunk[] = {2, 2};
    H5Pset_chunk(chunked, 2, chunk);
    const auto write = [&](const char* name, hid_t type, hid_t how) {
      const hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, how, H5P_DEFAULT);
      H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
      H5Dclose(set);
    };
    write("mask", boolean, H5P_DEFAULT), write("packed", boolean, chunked), write("colour", strange, H5P_DEFAULT);
    H5Pclose(chunked), H5Sclose(space), H5Tclose(strange), H5Tclose(boolean), H5Fclose(file);
  }
  const DataPair pair = open_arrays(path, {"mask", "packed"});
  CHECK(describe_arrays(pair.train->shape()) == "mask bool [2], packed bool [2]");
  const EpochSampler sampler(
      {.dataset_size = 3, .ests = 1, .batch = 3, .shuffle = false, .drop_last = false, .seed = 1});
  Loader loader(*pair.train, sampler, {VirtualRank(0), VirtualRank(1)}, Step(0), {.readers = 1, .steps = 1});
  const LoadedBatch batch = loader.next();
  CHECK(values<uint8_t>(batch, 0, 6) == std::vector<uint8_t>{1, 0, 0, 1, 1, 1});
  CHECK(values<uint8_t>(batch, 1, 6) == std::vector<uint8_t>{1, 0, 0, 1, 1, 1});
  const Error error = error_of([&] { open_arrays(path, {"colour"}); });
  CHECK(error.fault() == Fault::mismatch);
  CHECK(contains(error.message(), "colour holds neither integers, booleans"));
}

// Four samples of the lengths 2, 0, 3, 1.
void four_ragged(h5::Group& root) {
  add<int32_t>(root, "ids", h5::Type::i32, {6}, {11, 12, 31, 32, 33, 41});
  add<int64_t>(root, "ids.offsets", h5::Type::i64, {5}, {0, 2, 2, 5, 6});
  add<float>(root, "sound", h5::Type::f32, {6, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  add<uint32_t>(root, "sound.offsets", h5::Type::u32, {5}, {0, 2, 2, 5, 6});
  add<uint8_t>(root, "kind", h5::Type::u8, {4}, {1, 2, 3, 4});
}

DataPair open_padded(const std::string& path, const std::vector<std::string>& names,
                     const std::vector<std::string>& pads, int64_t multiple = 1, double holdout = 0) {
  spec::DataSection section;
  section.format = spec::DataFormat::hdf5;
  section.path = path;
  section.pad_values = pads;
  section.pad_multiple = multiple;
  section.holdout = holdout;
  return open(section, 0, 1, std::nullopt, names);
}

// The mini-batches of `batch` samples in the order of the file.
std::vector<LoadedBatch> batches_of(const Dataset& samples, int64_t batch, bool pads_to_longest = false) {
  EvaluationReader evaluation(samples, {.batch = batch, .readers = 2, .pads_to_longest = pads_to_longest});
  std::vector<LoadedBatch> batches;
  while (std::optional<LoadedBatch> next = evaluation.next()) batches.push_back(std::move(*next));
  return batches;
}

TEST_CASE("samples of a ragged array are padded at the end to the longest of their mini-batch") {
  const ScratchFolder folder;
  const DataPair pair = open_padded(file_of(folder, "a.h5", four_ragged),
                                    {"ids", "kind", "sound", "ids_lengths", "sound_mask"}, {"ids=-7", "sound=0.5"});
  CHECK(pair.train->size() == 4);
  CHECK(describe_arrays(pair.train->shape()) ==
        "ids int32 [up to 3], kind uint8 [], sound float32 [up to 3, 2], ids_lengths int64 [], sound_mask bool [up to "
        "3]");
  const std::vector<LoadedBatch> batches = batches_of(*pair.train, 2);
  REQUIRE(batches.size() == 2);
  CHECK(describe_arrays(batches[0].shape()) ==
        "ids int32 [up to 2], kind uint8 [], sound float32 [up to 2, 2], ids_lengths int64 [], sound_mask bool [up to "
        "2]");
  CHECK(values<int32_t>(batches[0], 0, 4) == std::vector<int32_t>{11, 12, -7, -7});
  CHECK(values<uint8_t>(batches[0], 1, 2) == std::vector<uint8_t>{1, 2});
  CHECK(values<float>(batches[0], 2, 8) == std::vector<float>{1, 2, 3, 4, 0.5f, 0.5f, 0.5f, 0.5f});
  CHECK(values<int64_t>(batches[0], 3, 2) == std::vector<int64_t>{2, 0});
  CHECK(values<uint8_t>(batches[0], 4, 4) == std::vector<uint8_t>{1, 1, 0, 0});
  CHECK(values<int32_t>(batches[1], 0, 6) == std::vector<int32_t>{31, 32, 33, 41, -7, -7});
  CHECK(values<float>(batches[1], 2, 12) == std::vector<float>{5, 6, 7, 8, 9, 10, 11, 12, 0.5f, 0.5f, 0.5f, 0.5f});
  CHECK(values<uint8_t>(batches[1], 4, 6) == std::vector<uint8_t>{1, 1, 1, 1, 0, 0});
  // Of one sample each: an empty one has the length 1.
  const std::vector<LoadedBatch> single = batches_of(*pair.train, 1);
  CHECK(values<int32_t>(single[1], 0, 1) == std::vector<int32_t>{-7});
  CHECK(single[1].shape().parts[0].dims == std::vector<int64_t>{1});
  // For trials and for outputs of one shape.
  const std::vector<LoadedBatch> longest = batches_of(*pair.train, 2, true);
  CHECK(values<int32_t>(longest[0], 0, 6) == std::vector<int32_t>{11, 12, -7, -7, -7, -7});
  CHECK(longest[0].shape() == pair.train->shape());
  int32_t ids[] = {0, 0, 0, 9};
  float sound[7] = {};
  uint8_t kind = 0, mask[] = {9, 9, 9, 9};
  int64_t lengths = 0;
  std::byte* const out[] = {reinterpret_cast<std::byte*>(ids), reinterpret_cast<std::byte*>(&kind),
                            reinterpret_cast<std::byte*>(sound), reinterpret_cast<std::byte*>(&lengths),
                            reinterpret_cast<std::byte*>(mask)};
  pair.train->read_fields(3, SampleDraw::fixed(), out);
  CHECK(std::ranges::equal(ids, std::vector<int32_t>{41, -7, -7, 9}));
  CHECK(std::ranges::equal(sound, std::vector<float>{11, 12, 0.5f, 0.5f, 0.5f, 0.5f, 0}));
  CHECK(std::ranges::equal(mask, std::vector<uint8_t>{1, 0, 0, 9}));
  CHECK(kind == 4);
  CHECK(lengths == 1);
  // The length by which buckets sort is that of both arrays, without their lengths and masks.
  for (const auto& [sample, length] : {std::pair(0, 4), {1, 0}, {2, 6}, {3, 2}})
    CHECK(pair.train->length(sample) == length);
}

TEST_CASE("lengths are rounded up to a multiple, and samples that are held out keep theirs") {
  const ScratchFolder folder;
  const std::string path = file_of(folder, "a.h5", four_ragged);
  const DataPair rounded = open_padded(path, {"ids", "ids_mask"}, {}, 4);
  CHECK(describe_arrays(rounded.train->shape()) == "ids int32 [up to 4], ids_mask bool [up to 4]");
  CHECK(values<int32_t>(batches_of(*rounded.train, 2)[0], 0, 8) == std::vector<int32_t>{11, 12, 0, 0, 0, 0, 0, 0});
  const DataPair divided = open_padded(path, {"ids", "kind"}, {}, 1, 0.25);
  REQUIRE(divided.train->size() == 3);
  REQUIRE(divided.test->size() == 1);
  for (const Dataset* set : {divided.train.get(), divided.test.get()}) {
    const std::vector<int64_t> lengths = {0, 2, 0, 3, 1};  // by `kind`
    for (const LoadedBatch& batch : batches_of(*set, 1)) {
      const int64_t length = lengths[values<uint8_t>(batch, 1, 1)[0]];
      CHECK(set->length(batch.indices()[0]) == length);
      CHECK(batch.shape().parts[0].dims[0] == std::max<int64_t>(1, length));
    }
  }
}

TEST_CASE("offsets of a single number are refused in words") {
  const auto fill = [](h5::Group& root) {
    add<int64_t>(root, "ids", h5::Type::i64, {}, {7});
    add<int64_t>(root, "ids.offsets", h5::Type::i64, {2}, {0, 1});
  };
  for (const char* name : {"ids", "ids_lengths"})
    CHECK(contains(complaint(fill, {name}, Fault::mismatch), "ids is a single number instead of one per sample"));
}

TEST_CASE("offsets that do not fit the array are refused in words") {
  const auto with_offsets = [](const std::vector<int64_t>& offsets) -> Fill {
    return [offsets](h5::Group& root) {
      add<int64_t>(root, "ids", h5::Type::i64, {6}, {1, 2, 3, 4, 5, 6});
      add<int64_t>(root, "ids.offsets", h5::Type::i64, {std::ssize(offsets)}, offsets);
    };
  };
  const auto words = [&](const std::vector<int64_t>& offsets) {
    return complaint(with_offsets(offsets), {"ids"}, Fault::corrupt);
  };
  CHECK(contains(words({1, 2, 6}), "ids.offsets begins at 1, not at 0"));
  CHECK(contains(words({0, 4, 3, 6}), "ids.offsets falls from 4 to 3, at sample 1"));
  CHECK(contains(words({0, 4, 5}), "ids.offsets ends at 5, but the array has 6 rows"));
  CHECK(contains(words({0, 4, 7}), "ids.offsets ends at 7, but the array has 6 rows"));
  const Fill fractions = [](h5::Group& root) {
    add<int64_t>(root, "ids", h5::Type::i64, {2}, {1, 2});
    add<float>(root, "ids.offsets", h5::Type::f32, {2}, {0, 2});
  };
  CHECK(contains(complaint(fractions, {"ids"}, Fault::mismatch),
                 "ids.offsets is float32 [2], not a list of whole numbers"));
  const Fill uneven = [](h5::Group& root) {
    four_ragged(root);
    add<int64_t>(root, "three", h5::Type::i64, {3}, {1, 2, 3});
  };
  CHECK(contains(complaint(uneven, {"ids", "three"}, Fault::corrupt), "ids has 4 samples, three has 3"));
  CHECK(contains(complaint(four_ragged, {"ids", "kind_lengths"}, Fault::mismatch), "lacks dataset kind_lengths"));
}

TEST_CASE("padding that does not fit the arrays is refused in words") {
  const ScratchFolder folder;
  const std::string path = file_of(folder, "a.h5", four_ragged);
  const auto words = [&](const std::vector<std::string>& arrays, const std::vector<std::string>& pads,
                         int64_t multiple = 1) {
    const Error error = error_of([&] { open_padded(path, arrays, pads, multiple); });
    CHECK(error.fault() == Fault::spec);
    CHECK(!error.advice().empty());
    return error.message();
  };
  CHECK(contains(words({"ids"}, {"ids"}), "\"ids\" is not an array and a number"));
  CHECK(contains(words({"ids"}, {"ids=1x"}), "\"ids=1x\" is not an array and a number"));
  CHECK(contains(words({"ids"}, {"ids=nan"}), "is not an array and a number"));
  CHECK(contains(words({"ids"}, {"ids=1", "ids=2"}), "ids has two values"));
  CHECK(contains(words({"ids"}, {"ids=0.5"}), "holds int32, which does not have the value 0.5"));
  CHECK(contains(words({"ids"}, {"ids=3000000000"}), "holds int32, which does not have the value 3000000000"));
  CHECK(contains(words({"ids", "kind"}, {"kind=1"}), "kind is no ragged array that the model takes; these are: ids"));
  CHECK(contains(words({"kind"}, {}, 8), "data.pad_multiple is for arrays of samples of any length"));
  CHECK(contains(words({"kind"}, {"kind=1"}), "kind is no ragged array that the model takes; these are: none"));
}

TEST_CASE(
    "a module in Python is offered ragged arrays with their lengths and masks; a test set has lengths of its own") {
  const ScratchFolder folder;
  const std::string path = file_of(folder, "a.h5", [](h5::Group& root) {
    four_ragged(root);
    add<uint8_t>(root, "sound_mask", h5::Type::u8, {4}, {1, 0, 1, 0});  // the file's own
  });
  CHECK(array_names(path) ==
        std::vector<std::string>{"ids", "sound", "kind", "sound_mask", "ids_lengths", "ids_mask", "sound_lengths"});
  const DataPair own = open_arrays(path, {"sound_mask"});
  CHECK(describe_arrays(own.train->shape()) == "sound_mask uint8 []");
  const std::string longer = file_of(folder, "b.h5", [](h5::Group& root) {
    add<int32_t>(root, "ids", h5::Type::i32, {9}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
    add<int64_t>(root, "ids.offsets", h5::Type::i64, {3}, {0, 8, 9});
  });
  const DataPair pair = open_arrays(path, {"ids"}, longer);
  CHECK(describe_arrays(pair.test->shape()) == "ids int32 [up to 8]");
  const std::string labelled = file_of(folder, "c.h5", [](h5::Group& root) {
    add<uint8_t>(root, "images", h5::Type::u8, {2, 1, 2, 2}, std::vector<uint8_t>(8, 255));
    add<int64_t>(root, "labels", h5::Type::i64, {2}, {0, 1});
    add<int64_t>(root, "labels.offsets", h5::Type::i64, {3}, {0, 0, 2});
  });
  CHECK_FALSE(is_labelled_pictures(labelled, {}));
}

TEST_CASE("a job's programs are files of the job, and tell which arrays it takes") {
  const ScratchFolder folder;
  spec::JobSpec spec;
  spec.model.name = "program";
  spec.model.file = folder.write("net.pt2", testing::small_program().file());
  spec.model.loss_target = "y";
  spec.data.format = spec::DataFormat::hdf5;
  spec.data.path = file_of(folder, "a.h5", five_samples);
  CHECK(arrays_of_job(spec) == std::vector<std::string>{"x", "y"});
  const std::vector<FileName> names = job_file_names(spec);
  REQUIRE(names.size() == 2);
  CHECK(names[1].what == program_file);
  const DataPair pair = open_job(spec);
  REQUIRE(pair.files.size() == 2);
  CHECK(pair.files[1].path == spec.model.file);
  CHECK(pair.train->shape().parts.size() == 2);
  spec.model.file = folder / "none.pt2";
  CHECK(error_of([&] { open_job(spec); }).fault() == Fault::io);
}

}  // namespace
}  // namespace estrain::data
