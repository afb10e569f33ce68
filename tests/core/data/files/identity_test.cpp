// Recognising data files: every format, and every way in which a file can change.
#include "core/data/files/identity.h"

#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <thread>

#include "core/data/format_table.h"
#include "core/data/formats/dataset.h"
#include "core/formats/h5/file.h"
#include "tests/core/data/data_files.h"

namespace estrain::data {
namespace {

namespace fs = std::filesystem;
using spec::DataFormat;
using spec::DataSection;

constexpr size_t kMiB = size_t{1} << 20;

// A job's data in a folder.
struct Fixture {
  std::string name;
  std::function<DataSection(const DataFolder&)> write;
  size_t files;
};

DataSection write_idx(const DataFolder& folder, bool zipped) {
  const auto write = [&](const std::string& name, const std::string& content) {
    zipped ? folder.write_gzip(name + ".gz", content) : folder.write(name, content);
  };
  write("train-images-idx3-ubyte", idx_bytes({5, 2, 3}, pattern_bytes(30)));
  write("train-labels-idx1-ubyte", idx_bytes({5}, std::string{0, 2, 1, 2, 0}));
  write("t10k-images-idx3-ubyte", idx_bytes({2, 2, 3}, pattern_bytes(12)));
  write("t10k-labels-idx1-ubyte", idx_bytes({2}, std::string{1, 2}));
  return section_of(DataFormat::idx, folder.path());
}

std::string cifar_record(const std::string& label) { return label + pattern_bytes(3072, 7); }

DataSection write_cifar10(const DataFolder& folder) {
  for (int file = 1; file <= 5; ++file) folder.write("data_batch_" + std::to_string(file) + ".bin", cifar_record("\3"));
  folder.write("test_batch.bin", cifar_record("\4"));
  return section_of(DataFormat::cifar10, folder.path());
}

DataSection write_cifar100(const DataFolder& folder) {
  folder.write("train.bin", cifar_record("\1\2"));
  folder.write("test.bin", cifar_record("\1\3"));
  return section_of(DataFormat::cifar100, folder.path());
}

void write_hdf5(const std::string& path, char first) {
  h5::File file = h5::File::create(path);
  {
    h5::Group root = file.root();
    const std::string pixels = first + pattern_bytes(23);
    const std::vector<int64_t> labels = {0, 1};
    root.create_dataset("images", h5::Type::u8, {2, 3, 4}).write(h5::Type::u8, pixels.data());
    root.create_dataset("labels", h5::Type::i64, {2}).write(h5::Type::i64, labels.data());
  }
  file.close();
}

DataSection write_two_hdf5(const DataFolder& folder) {
  DataSection section = section_of(DataFormat::hdf5, folder / "train.h5");
  section.test_path = folder / "test.h5";
  write_hdf5(section.path, 'a');
  write_hdf5(section.test_path, 'b');
  return section;
}

DataSection write_text(const DataFolder& folder) {
  folder.write("train.txt", pattern_bytes(1000));
  folder.write("test.txt", pattern_bytes(100));
  DataSection section = section_of(DataFormat::text, folder / "train.txt");
  section.test_path = folder / "test.txt";
  return section;
}

std::vector<Fixture> fixtures() {
  return {{"idx", [](const DataFolder& folder) { return write_idx(folder, false); }, 4},
          {"idx, gzipped", [](const DataFolder& folder) { return write_idx(folder, true); }, 4},
          {"cifar10", write_cifar10, 6},
          {"cifar100", write_cifar100, 2},
          {"hdf5", write_two_hdf5, 2},
          {"text", write_text, 2}};
}

std::vector<DataFile> files_of(const DataSection& section) { return open_files(file_names(section)); }

std::vector<DataChange> changes_of(const DataIdentity& known, const DataSection& section) {
  return recognize(known, files_of(section)).changes;
}

void overwrite(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

// For compressed files the content changes, not the compressed bytes.
void rewrite(const std::string& path, const std::function<std::string(std::string)>& change) {
  if (!path.ends_with(".gz")) return overwrite(path, change(read_all(path)));
  const FileBytes content = FileBytes::open(path);
  const std::string changed = change({reinterpret_cast<const char*>(content.data()), content.size()});
  gzFile file = gzopen(path.c_str(), "wb");
  REQUIRE(gzwrite(file, changed.data(), static_cast<unsigned>(changed.size())) > 0);
  REQUIRE(gzclose(file) == Z_OK);
}

// File systems count time in steps of some milliseconds: two writes within one step get the same time.
void let_file_clock_tick() { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }

std::string flip(std::string bytes, size_t at) {
  bytes.at(at) = static_cast<char>(bytes.at(at) ^ 1);
  return bytes;
}

void check_named(const DataIdentity& known, const DataSection& section, const FileName& file, const std::string& how) {
  const std::vector<DataChange> changes = changes_of(known, section);
  REQUIRE(changes.size() == 1);
  CHECK(contains(changes[0].in_words(), file.path + ": "));
  CHECK(contains(changes[0].in_words(), how));
  const Error error = error_of([&] { require_same(known, files_of(section)); });
  CHECK(error.fault() == Fault::mismatch);
  CHECK(contains(error.message(), "the data have changed since the run began: " + file.path + ": "));
  CHECK(contains(error.advice(), "--accept-data"));
}

TEST_CASE("every file of every format: grown, cut short, one byte flipped") {
  for (const Fixture& fixture : fixtures()) {
    CAPTURE(fixture.name);
    const DataFolder folder;
    const DataSection section = fixture.write(folder);
    const std::vector<FileName> names = file_names(section);
    REQUIRE(names.size() == fixture.files);
    const DataIdentity known = identify(files_of(section));
    CHECK(known.files.size() == fixture.files);
    for (const FileName& file : names) {
      CAPTURE(file.path);
      const std::string before = read_all(file.path);
      const size_t size = FileBytes::open(file.path).size();
      rewrite(file.path, [](std::string bytes) { return bytes + 'x'; });
      check_named(known, section, file, fmt::format("{} bytes, were {}", size + 1, size));
      overwrite(file.path, before);
      rewrite(file.path, [](std::string bytes) { return bytes.substr(0, bytes.size() - 1); });
      check_named(known, section, file, fmt::format("{} bytes, were {}", size - 1, size));
      for (const size_t at : {size_t{0}, size / 2, size - 1}) {
        overwrite(file.path, before);
        rewrite(file.path, [&](const std::string& bytes) { return flip(bytes, at); });
        check_named(known, section, file, fmt::format("other contents in the same {} bytes", size));
      }
      overwrite(file.path, before);
      CHECK(changes_of(known, section).empty());
    }
  }
}

TEST_CASE("the same bytes are the same data: touched, copied, elsewhere, compressed otherwise") {
  for (const Fixture& fixture : fixtures()) {
    CAPTURE(fixture.name);
    const DataFolder folder, other;
    const DataSection section = fixture.write(folder);
    const DataIdentity known = identify(files_of(section));
    for (const FileName& file : file_names(section)) fs::last_write_time(file.path, fs::file_time_type::clock::now());
    CHECK(changes_of(known, section).empty());
    for (const FileName& file : file_names(section)) {
      fs::copy_file(file.path, file.path + ".copy");
      fs::rename(file.path + ".copy", file.path);
    }
    CHECK(changes_of(known, section).empty());
    CHECK(changes_of(known, fixture.write(other)).empty());
    CHECK_NOTHROW(require_same(known, files_of(section)));
  }
  const DataFolder plain, zipped;
  CHECK(changes_of(identify(files_of(write_idx(plain, false))), write_idx(zipped, true)).empty());
}

TEST_CASE("a file that only one side has") {
  const DataFolder folder;
  DataSection both = write_text(folder), one = both;
  one.test_path = "";
  const std::vector<DataChange> more = changes_of(identify(files_of(one)), both);
  REQUIRE(more.size() == 1);
  CHECK(more[0].in_words() == folder / "test.txt" + ": a new file of the data (test data), absent when the run began");
  const std::vector<DataChange> fewer = changes_of(identify(files_of(both)), one);
  REQUIRE(fewer.size() == 1);
  CHECK(fewer[0].in_words() == folder / "test.txt" + ": no longer a file of the data (test data)");
  both.path = folder / "elsewhere.txt";
  folder.write("elsewhere.txt", "other");
  CHECK(contains(changes_of(identify(files_of(one)), both)[0].in_words(), "(then " + folder / "train.txt" + ")"));
}

TEST_CASE("a byte between the sampled blocks is found by the digest of all") {
  const DataFolder folder;
  folder.write("text", pattern_bytes(6 * kMiB));
  const DataSection section = section_of(DataFormat::text, folder / "text");
  const DataIdentity known = identify(files_of(section));
  REQUIRE(known.files[0].whole.has_value());
  let_file_clock_tick();
  size_t found_by_samples = 0;
  for (size_t at = 70'000; at < 6 * kMiB; at += 500'009) {
    const std::string before = read_all(folder / "text");
    overwrite(folder / "text", flip(before, at));
    const Recognition seen = recognize(known, files_of(section));
    CHECK(seen.changes.size() == 1);
    if (seen.now.files[0].sampled != known.files[0].sampled) ++found_by_samples;
    overwrite(folder / "text", before);
  }
  CHECK(found_by_samples > 0);
  CHECK(found_by_samples < 12);
}

// A sparse file of 2 GiB.
TEST_CASE("of a file too large to be read whole, its size, its ends and blocks between them") {
  const DataFolder folder;
  const std::string path = folder / "text";
  const uint64_t size = 2 * most_bytes_digested + 12345;
  folder.write("text", "begin");
  fs::resize_file(path, size);
  const DataSection section = section_of(DataFormat::text, path);
  const DataIdentity known = identify(files_of(section));
  CHECK_FALSE(known.files[0].whole.has_value());
  const auto put = [&](uint64_t at, const std::string& bytes) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(at));
    file << bytes;
  };
  for (const uint64_t at : {uint64_t{0}, size - 1, size - 65000}) {
    CAPTURE(at);
    const std::string before(1, at == 0 ? 'b' : '\0');
    put(at, "!");
    CHECK(changes_of(known, section).size() == 1);
    put(at, before);
    CHECK(changes_of(known, section).empty());
  }
  fs::resize_file(path, size + 1);
  CHECK(changes_of(known, section).size() == 1);
}

TEST_CASE("stamps: what is untouched is not read whole again, and anything done to a file shows") {
  const DataFolder folder;
  const DataSection section = write_text(folder);
  const std::vector<FileName> names = file_names(section);
  DataIdentity known = identify(files_of(section));
  CHECK(is_untouched(known, names));
  known.files[0].whole = *known.files[0].whole + 1;
  CHECK(changes_of(known, section).empty());  // the full digest was not computed
  let_file_clock_tick();
  const std::string text = read_all(folder / "train.txt");
  SUBCASE("touched") { fs::last_write_time(folder / "train.txt", fs::file_time_type::clock::now()); }
  SUBCASE("written, and dated back") {
    const fs::file_time_type date = fs::last_write_time(folder / "train.txt");
    overwrite(folder / "train.txt", text);
    fs::last_write_time(folder / "train.txt", date);
  }
  SUBCASE("replaced") {
    folder.write("copy", text);
    fs::rename(folder / "copy", folder / "train.txt");
  }
  CHECK_FALSE(is_untouched(known, names));
  CHECK(changes_of(known, section).size() == 1);
  fs::remove(folder / "test.txt");
  CHECK_FALSE(is_untouched(known, names));
  CHECK_FALSE(is_untouched(known, {names[0]}));
}

TEST_CASE("as text and back") {
  const DataFolder folder;
  const DataIdentity known = identify(files_of(write_text(folder)));
  CHECK(DataIdentity::from_json(known.to_json()) == known);
  DataIdentity large = known;
  large.files[0].whole.reset();
  CHECK(DataIdentity::from_json(large.to_json()) == large);
  CHECK(DataIdentity().to_json() == "");
  CHECK(DataIdentity::from_json("") == DataIdentity());
  for (const char* text : {"[", "[{}]", "[7]", R"([{"what": "x", "path": "y"}])"}) {
    CAPTURE(text);
    CHECK(error_of([&] { (void)DataIdentity::from_json(text); }).fault() == Fault::corrupt);
  }
}

TEST_CASE("a data set says which files it was made of; made-up data have none") {
  for (const Fixture& fixture : fixtures()) {
    CAPTURE(fixture.name);
    const DataFolder folder;
    const DataSection section = fixture.write(folder);
    const DataPair pair = open(section, 4, 0);
    CHECK(identify(pair.files) == identify(files_of(section)));
    CHECK(pair.files.size() == fixture.files);
  }
  CHECK(open(DataSection(), 4, 0).files.empty());
}

TEST_CASE("each of several token files counts: other bytes, one more, one less") {
  const DataFolder folder;
  for (const char* name : {"a1", "a2", "a3"}) folder.write(name, pattern_bytes(100));
  const DataSection section = section_of(DataFormat::tokens, folder / "a*");
  const DataIdentity known = identify(open_files(file_names(section)));
  const auto changes = [&] {
    std::string words;
    for (const DataChange& change : recognize(known, open_files(file_names(section))).changes)
      words += change.in_words() + "; ";
    return words;
  };
  CHECK(changes() == "");
  CHECK(is_untouched(known, file_names(section)));
  folder.write("a2", pattern_bytes(100, 1));
  CHECK(changes() == folder / "a2" + ": other contents in the same 100 bytes; ");
  folder.write("a2", pattern_bytes(100));
  folder.write("a4", pattern_bytes(100));
  CHECK(contains(changes(), "a4: a new file of the data (training data a4)"));
  fs::remove(folder / "a4");
  fs::remove(folder / "a1");
  CHECK(contains(changes(), "a1: no longer a file of the data (training data a1)"));
}

}  // namespace
}  // namespace estrain::data
