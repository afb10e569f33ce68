#include "core/state/checkpoint/models/output_parts.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <vector>

#include "core/formats/h5/file.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::checkpoint {
namespace {

const OutputColumn kScores = {"output", "float32", {2}};
const OutputColumn kLabels = {"labels", "int64", {}};

template <typename T>
void put(OutputParts& parts, const OutputColumn& column, int64_t first, const std::vector<T>& values) {
  const int64_t rows = static_cast<int64_t>(values.size() * sizeof(T)) / column.row_bytes();
  parts.put(column, first, rows, reinterpret_cast<const std::byte*>(values.data()));
}

template <typename T>
std::vector<T> read(const std::string& path, const std::string& name, h5::Type type,
                    const std::vector<int64_t>& shape) {
  const h5::DatasetObject dataset = h5::File::open(path).root().dataset(name);
  CHECK(dataset.shape() == shape);
  CHECK(dataset.type() == type);
  std::vector<T> values(static_cast<size_t>(dataset.elements()));
  dataset.read(type, values.data());
  return values;
}

TEST_CASE("rows of several workers are in one file in the order of the samples, also where one writes twice") {
  const ScratchFolder folder, out;
  OutputParts one(folder.path(), 1), other(folder.path(), 2);
  put<float>(other, kScores, 2, {5, 6, 7, 8});
  put<float>(one, kScores, 4, {9, 10});
  put<float>(one, kScores, 0, {-1, -1, 3, 4});
  put<int64_t>(other, kLabels, 2, {2, 3});
  put<int64_t>(one, kLabels, 0, {0, 1});
  OutputParts again(folder.path(), 3);  // takes the place of a lost worker
  put<float>(again, kScores, 0, {1, 2, 3, 4});
  put<int64_t>(again, kLabels, 4, {-100});
  const WrittenOutputs written =
      write_outputs(folder.path(), out / "out.h5", {{{"step", 7}}, {{"loss", 0.5}}, {{"source", "runs/a"}}});
  CHECK(written.rows == 5);
  CHECK(written.columns == std::vector<OutputColumn>{kLabels, kScores});
  CHECK(read<float>(out / "out.h5", "output", h5::Type::f32, {5, 2}) ==
        std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  CHECK(read<int64_t>(out / "out.h5", "labels", h5::Type::i64, {5}) == std::vector<int64_t>{0, 1, 2, 3, -100});
  const h5::Group root = h5::File::open(out / "out.h5").root();
  CHECK(root.get_i64("step") == 7);
  CHECK(root.get_f64("loss") == 0.5);
  CHECK(root.get_string("source") == "runs/a");
}

TEST_CASE("rows of other sizes or types are refused, of one worker and between two") {
  const ScratchFolder folder, out;
  OutputParts one(folder.path(), 1), other(folder.path(), 2);
  put<float>(one, kScores, 0, {1, 2});
  const OutputColumn wide = {"output", "float32", {3}}, whole = {"output", "int64", {2}};
  const Error own = error_of([&] { put<float>(one, wide, 1, {1, 2, 3}); });
  CHECK(own.fault() == Fault::spec);
  CHECK(own.message() == "output output of the model is float32 [2] for some samples and float32 [3] for others");
  put<int64_t>(other, whole, 1, {1, 2});
  CHECK(error_of([&] { write_outputs(folder.path(), out / "out.h5", {}); }).fault() == Fault::spec);
  CHECK_FALSE(std::filesystem::exists(out / "out.h5"));
}

TEST_CASE("an output with fewer rows than another is no file") {
  const ScratchFolder folder, out;
  OutputParts one(folder.path(), 1);
  put<float>(one, kScores, 0, {1, 2, 3, 4});
  put<int64_t>(one, kLabels, 0, {1});
  CHECK(error_of([&] { write_outputs(folder.path(), out / "out.h5", {}); }).fault() == Fault::bug);
  CHECK(std::filesystem::is_empty(out.path()));
}

}  // namespace
}  // namespace estrain::checkpoint
