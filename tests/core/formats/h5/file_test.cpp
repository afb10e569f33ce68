#include "core/formats/h5/file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "core/base/error.h"
#include "core/base/files/unique_fd.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::h5 {
namespace {

template <typename T>
std::vector<T> read_all(const DatasetObject& dataset, Type as) {
  std::vector<T> values(static_cast<size_t>(dataset.elements()));
  dataset.read(as, values.data());
  return values;
}

TEST_CASE("datasets of every type come back, scalars and empty ones too") {
  const ScratchFolder folder;
  const std::string path = folder / "types.h5";
  const std::vector<float> f32 = {1.5f, -0.0f, 3e38f};
  const std::vector<double> f64 = {1e300, -2.5};
  const std::vector<int64_t> i64 = {-1, INT64_MAX};
  const std::vector<uint8_t> u8 = {0, 128, 255};
  {
    File file = File::create(path);
    file.root().create_dataset("group/f32", Type::f32, {3, 1}).write(Type::f32, f32.data());
    file.root().create_dataset("group/f64", Type::f64, {2}).write(Type::f64, f64.data());
    file.root().create_dataset("i64", Type::i64, {2}).write(Type::i64, i64.data());
    file.root().create_dataset("u8", Type::u8, {3}).write(Type::u8, u8.data());
    file.root().create_dataset("scalar", Type::i64, {}).write(Type::i64, &i64[1]);
    file.root().create_dataset("empty", Type::f32, {0, 7}).write(Type::f32, nullptr);
    file.close();
  }
  const File file = File::open(path);
  const Group root = file.root();
  CHECK(root.dataset("group/f32").type() == Type::f32);
  CHECK(root.dataset("group/f32").shape() == std::vector<int64_t>{3, 1});
  const std::vector<float> f32_read = read_all<float>(root.group("group").dataset("f32"), Type::f32);
  CHECK(std::memcmp(f32_read.data(), f32.data(), sizeof(float) * 3) == 0);
  CHECK(read_all<double>(root.dataset("group/f64"), Type::f64) == f64);
  CHECK(read_all<int64_t>(root.dataset("i64"), Type::i64) == i64);
  CHECK(read_all<uint8_t>(root.dataset("u8"), Type::u8) == u8);
  CHECK(read_all<double>(root.dataset("u8"), Type::f64) == std::vector<double>{0, 128, 255});
  CHECK(root.dataset("scalar").shape().empty());
  CHECK(read_all<int64_t>(root.dataset("scalar"), Type::i64) == std::vector<int64_t>{INT64_MAX});
  CHECK(root.dataset("empty").shape() == std::vector<int64_t>{0, 7});
  CHECK(read_all<float>(root.dataset("empty"), Type::f32).empty());
  CHECK_FALSE(root.dataset("empty").offset().has_value());
}

TEST_CASE("offset tells where the elements lie in the file") {
  const ScratchFolder folder;
  const std::string path = folder / "offset.h5";
  std::vector<float> values(5000);
  std::iota(values.begin(), values.end(), 0.25f);
  File created = File::create(path);
  created.root().create_dataset("v", Type::f32, {50, 100}).write(Type::f32, values.data());
  created.close();
  const File file = File::open(path);
  const std::optional<uint64_t> offset = file.root().dataset("v").offset();
  REQUIRE(offset.has_value());
  std::vector<float> raw(values.size());
  const UniqueFd fd(::open(path.c_str(), O_RDONLY));
  REQUIRE(::pread(fd.get(), raw.data(), raw.size() * 4, static_cast<off_t>(*offset)) == 20000);
  CHECK(raw == values);
}

TEST_CASE("rows are read alone, and only rows that exist") {
  const ScratchFolder folder;
  const std::string path = folder / "rows.h5";
  std::vector<int64_t> values(24);
  std::iota(values.begin(), values.end(), 0);
  File file = File::create(path);
  DatasetObject rows = file.root().create_dataset("v", Type::i64, {6, 2, 2});
  rows.write(Type::i64, values.data());
  std::vector<int64_t> two(8);
  rows.read_rows(Type::i64, 3, 2, two.data());
  CHECK(two == std::vector<int64_t>(values.begin() + 12, values.begin() + 20));
  rows.read_rows(Type::i64, 6, 0, nullptr);
  const Error error = error_of([&] { rows.read_rows(Type::i64, 5, 2, two.data()); });
  CHECK(error.fault() == Fault::mismatch);
  CHECK(error.message() == path + ": /v: rows 5 to 7 of an array of shape [6, 2, 2]");
  CHECK_THROWS_AS(rows.read_rows(Type::i64, -1, 1, two.data()), Error);
}

TEST_CASE("children keep the order in which they were made; hard links share one object") {
  const ScratchFolder folder;
  const std::string path = folder / "links.h5";
  File file = File::create(path);
  file.root().create_group("zebra");
  file.root().create_dataset("model/layer1.0.weight", Type::f32, {2});
  file.root().create_dataset("model/bias", Type::f32, {2});
  file.root().link("model/layer1.0.weight", "model/a_tied.weight");
  file.root().create_group("ant");
  std::vector<std::string> names;
  for (const Child& child : file.root().children()) names.push_back(child.name);
  CHECK(names == std::vector<std::string>{"zebra", "model", "ant"});
  names.clear();
  for (const Child& child : file.root().group("model").children()) {
    names.push_back(child.name);
    CHECK(child.kind == Child::Kind::dataset);
  }
  CHECK(names == std::vector<std::string>{"layer1.0.weight", "bias", "a_tied.weight"});
  const Group model = file.root().group("model");
  CHECK(model.dataset("layer1.0.weight").address() == model.dataset("a_tied.weight").address());
  CHECK(model.dataset("layer1.0.weight").address() != model.dataset("bias").address());
}

TEST_CASE("attributes keep every bit, are overwritten, and long strings fit") {
  const ScratchFolder folder;
  const std::string path = folder / "attributes.h5";
  const std::string novel(1 << 20, 'x');
  {
    File file = File::create(path);
    Group root = file.root();
    root.set_i64("i", INT64_MIN);
    root.set_u64("u", UINT64_MAX);
    root.set_f64("f", 0.1);
    root.set_f64("f", -0.1);
    root.set_string("s", "short");
    root.set_string("s", novel);
    root.set_string("empty", "");
    root.set_string("utf8", "λ=0.5");
  }
  const File file = File::open(path);
  const Group root = file.root();
  CHECK(root.attributes() == std::vector<std::string>{"empty", "f", "i", "s", "u", "utf8"});
  CHECK(root.get_i64("i") == INT64_MIN);
  CHECK(root.get_u64("u") == UINT64_MAX);
  CHECK(root.get_f64("f") == -0.1);
  CHECK(root.get_string("s") == novel);
  CHECK(root.get_string("empty").empty());
  CHECK(root.get_string("utf8") == "λ=0.5");
  CHECK_FALSE(root.has("absent"));
  CHECK(error_of([&] { (void)root.get_i64("absent"); }).message() == path + ": /: has no attribute 'absent'");
  CHECK(error_of([&] { (void)root.get_i64("s"); }).fault() == Fault::mismatch);
  CHECK(error_of([&] { (void)root.get_string("i"); }).fault() == Fault::mismatch);
}

TEST_CASE("a name that is absent or of the other kind is a mismatch that says where") {
  const ScratchFolder folder;
  const std::string path = folder / "names.h5";
  File file = File::create(path);
  file.root().create_dataset("g/d", Type::u8, {1});
  const Error absent = error_of([&] { (void)file.root().dataset("g/x/y"); });
  CHECK(absent.fault() == Fault::mismatch);
  CHECK(absent.message() == path + ": /g/x/y: no such dataset");
  CHECK(error_of([&] { (void)file.root().dataset("g"); }).message() == path + ": /g: is not a dataset");
  CHECK(error_of([&] { (void)file.root().group("g/d"); }).message() == path + ": /g/d: is not a group");
  CHECK(file.root().contains("g/d"));
  CHECK_FALSE(file.root().contains("g/e"));
  CHECK_FALSE(file.root().contains("h/e"));
}

TEST_CASE("an update keeps what it does not touch") {
  const ScratchFolder folder;
  const std::string path = folder / "update.h5";
  const float before[2] = {1, 2}, after[2] = {3, 4};
  File file = File::create(path);
  file.root().create_dataset("a", Type::f32, {2}).write(Type::f32, before);
  file.root().create_dataset("b", Type::f32, {2}).write(Type::f32, before);
  file.close();
  file = File::open_for_update(path);
  file.root().dataset("b").write(Type::f32, after);
  file.close();
  file = File::open(path);
  CHECK(read_all<float>(file.root().dataset("a"), Type::f32) == std::vector<float>{1, 2});
  CHECK(read_all<float>(file.root().dataset("b"), Type::f32) == std::vector<float>{3, 4});
}

TEST_CASE("files that cannot be opened say why, on any thread, and nothing is printed") {
  const ScratchFolder folder;
  const std::string path = folder / "bad.h5";
  const Error absent = error_of([&] { (void)File::open(path); });
  CHECK(absent.fault() == Fault::io);
  CHECK(absent.message().find("No such file or directory") != std::string::npos);
  CHECK(error_of([&] { (void)File::open(std::filesystem::temp_directory_path()); }).fault() == Fault::io);
  CHECK(error_of([&] { (void)File::create("/nonexistent/x.h5"); }).fault() == Fault::io);
  std::ofstream(path) << "this is no HDF5 file";
  std::thread([&] {
    const Error foreign = error_of([&] { (void)File::open(path); });
    CHECK(foreign.fault() == Fault::corrupt);
    CHECK(foreign.message().starts_with(path + ": HDF5: "));
  }).join();
}

TEST_CASE("a truncated file is corrupt") {
  const ScratchFolder folder;
  const std::string path = folder / "short.h5";
  const std::vector<float> values(1000, 1.f);
  File file = File::create(path);
  file.root().create_dataset("v", Type::f32, {1000}).write(Type::f32, values.data());
  file.close();
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  const Error error = error_of([&] { (void)File::open(path); });
  CHECK(error.fault() == Fault::corrupt);
  CHECK(error.message().find("truncated file") != std::string::npos);
}

// In a child, since the limit on file sizes holds for the whole process.
TEST_CASE("a write that the system refuses is an io error with its reason") {
  const ScratchFolder folder;
  const std::string path = folder / "full.h5";
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {100000, 100000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::vector<float> values(1000000, 1.f);
    int exit_status = 1;
    try {
      File file = File::create(path);
      file.root().create_dataset("v", Type::f32, {1000000}).write(Type::f32, values.data());
    } catch (const Error& error) {
      const bool reason_given = error.message().find("File too large") != std::string::npos;
      exit_status = error.fault() == Fault::io && reason_given ? 0 : 2;
    }
    ::_exit(exit_status);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace estrain::h5
