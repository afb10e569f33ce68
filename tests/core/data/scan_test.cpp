// Reports all errors of data files at once.
#include <doctest/doctest.h>
#include <hdf5.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "core/data/format_table.h"
#include "core/data/formats/dataset.h"
#include "core/formats/h5/file.h"
#include "data_files.h"
#include "unwritten_dataset.h"

namespace estrain::data {
namespace {

using spec::DataFormat;
using spec::DataSection;

// All findings except `ok`, each as "warning|error: seen".
std::vector<std::string> complaints(const DataScan& scan) {
  std::vector<std::string> all;
  for (const Finding& finding : scan.findings) {
    if (finding.severity == Severity::ok) continue;
    CHECK(finding.origin == Origin::user);
    all.push_back(std::string(severity_name(finding.severity)) + ": " + finding.seen);
  }
  return all;
}

// Exactly one complaint for each of `words`, in any order.
void check_complaints(const DataScan& scan, const std::vector<std::string>& words) {
  const std::vector<std::string> all = complaints(scan);
  CHECK(all.size() == words.size());
  for (const std::string& word : words) {
    CAPTURE(word);
    std::string seen;
    for (const std::string& complaint : all) seen += complaint + "\n";
    CAPTURE(seen);
    CHECK(std::ranges::count_if(all, [&](const std::string& complaint) { return contains(complaint, word); }) == 1);
  }
}

// Five training and two test images of 2 x 3, three classes.
struct IdxFolder : DataFolder {
  IdxFolder() {
    write("train-images-idx3-ubyte", idx_bytes({5, 2, 3}, pattern_bytes(30)));
    write("train-labels-idx1-ubyte", idx_bytes({5}, std::string{0, 2, 1, 2, 0}));
    write("t10k-images-idx3-ubyte", idx_bytes({2, 2, 3}, pattern_bytes(12)));
    write("t10k-labels-idx1-ubyte", idx_bytes({2}, std::string{1, 2}));
  }
  DataSection section() const { return section_of(DataFormat::idx, path()); }
};

struct CifarFolder : DataFolder {
  CifarFolder() {
    std::vector<std::string> all;
    for (char label = 0; label < 10; ++label) all.emplace_back(1, label);
    for (int file = 1; file <= 5; ++file) write("data_batch_" + std::to_string(file) + ".bin", cifar_records(all));
    write("test_batch.bin", cifar_records(all));
  }
  DataSection section() const { return section_of(DataFormat::cifar10, path()); }
};

void write_hdf5(const std::string& path, const std::vector<int64_t>& shape, const std::vector<int64_t>& labels,
                h5::Type label_type = h5::Type::i64) {
  h5::File file = h5::File::create(path);
  {
    h5::Group root = file.root();
    int64_t elements = 1;
    for (const int64_t dim : shape) elements *= dim;
    const std::vector<uint8_t> pixels(static_cast<size_t>(elements), 7);
    root.create_dataset("images", h5::Type::u8, shape).write(h5::Type::u8, pixels.data());
    root.create_dataset("labels", label_type, {static_cast<int64_t>(labels.size())})
        .write(h5::Type::i64, labels.data());
  }
  file.close();
}

TEST_CASE("idx: good files are told, one line each, and what the model will see") {
  const IdxFolder folder;
  const DataScan found = scan(folder.section(), 0);
  check_complaints(found, {});
  CHECK(found.fine());
  CHECK(found.findings.size() == 6);
  CHECK(contains(found.findings[0].seen, "train-images-idx3-ubyte: 5 images of [1, 2, 3]"));
  CHECK(contains(found.findings[1].seen, "5 labels"));
  CHECK(found.findings[4] == Finding::fine("labels", "every one of 3 classes occurs in training"));
  CHECK(found.findings[5] == Finding::fine("transforms", "samples of [1, 2, 3]"));
  CHECK(found.stored_shape == std::vector<int64_t>{1, 2, 3});
  CHECK(found.train_samples == 5);
  CHECK(found.classes == 3);
}

TEST_CASE("idx: every file that is wrong is named") {
  const IdxFolder folder;
  folder.write("train-images-idx3-ubyte", idx_bytes({5, 2, 3}, pattern_bytes(29)));
  std::filesystem::remove(folder / "train-labels-idx1-ubyte");
  folder.write("t10k-images-idx3-ubyte", "\x89PNG and what follows it");
  folder.write("t10k-labels-idx1-ubyte", idx_bytes({2}, std::string{1, 2, 3}));
  const DataScan found = scan(folder.section(), 0);
  check_complaints(found, {"train-images-idx3-ubyte: its header declares 5 x 2 x 3 bytes of images, but there are 29",
                           "train-labels-idx1-ubyte: no such file", "t10k-images-idx3-ubyte: not an IDX file of images",
                           "t10k-labels-idx1-ubyte: its header declares 2 bytes of labels, but there are 3"});
  CHECK_FALSE(found.fine());
  CHECK(found.stored_shape.empty());
}

TEST_CASE("idx: a label out of range at the very last sample; fewer labels than images") {
  const IdxFolder folder;
  folder.write("train-labels-idx1-ubyte", idx_bytes({5}, std::string{0, 2, 1, 2, 3}));
  folder.write("t10k-labels-idx1-ubyte", idx_bytes({1}, std::string{7}));
  const DataScan found = scan(folder.section(), 0, 3);
  check_complaints(found, {"train-labels-idx1-ubyte: 1 of 5 labels are out of range, the first is 3 of sample 4: there "
                           "are 3 classes (0 to 2), say model.classes",
                           "t10k-labels-idx1-ubyte: 1 of 1 labels are out of range, the first is 7 of sample 0",
                           "t10k-labels-idx1-ubyte: 1 labels for 2 images"});
  CHECK(found.stored_shape == std::vector<int64_t>{1, 2, 3});  // so the model can still be checked
  check_complaints(
      scan(folder.section(), 0),
      {"the first is 7 of sample 0: there are 4 classes (0 to 3), say the training labels", "1 labels for 2 images"});
}

TEST_CASE("idx: classes that never occur are a warning, and labels that count from 1 are hinted at") {
  const IdxFolder folder;
  check_complaints(scan(folder.section(), 0, 12), {"warning: 9 of 12 classes never occur in training, the first is 3"});
  folder.write("train-labels-idx1-ubyte", idx_bytes({5}, std::string{1, 2, 3, 2, 1}));
  const DataScan found = scan(folder.section(), 0);
  check_complaints(found, {"warning: 1 of 4 classes never occur in training, the first is 0"});
  CHECK(found.fine());
  const auto warning = std::ranges::find(found.findings, Severity::warning, &Finding::severity);
  CHECK(warning->advice == "labels must count from 0");
}

TEST_CASE("idx: shapes and transforms") {
  const IdxFolder folder;
  folder.write("t10k-images-idx3-ubyte", idx_bytes({2, 3, 3}, pattern_bytes(18)));
  check_complaints(scan(folder.section(), 0), {"training samples have shape [1, 2, 3], test samples [1, 3, 3]"});
  DataSection section = folder.section();
  section.resize = {4, 4};
  check_complaints(scan(section, 0), {});
  section.crop = {9, 9};
  check_complaints(scan(section, 0), {"training images: ", "test images: "});
  folder.write("train-images-idx3-ubyte", idx_bytes({0, 2, 3}, ""));
  folder.write("train-labels-idx1-ubyte", idx_bytes({0}, ""));
  folder.write("t10k-images-idx3-ubyte", idx_bytes({2, 0, 3}, ""));
  check_complaints(scan(folder.section(), 0), {"the training set is empty", "its images have no pixels"});
}

TEST_CASE("idx: gzipped and by name") {
  const IdxFolder folder;
  const std::string images = read_all(folder / "train-images-idx3-ubyte");
  std::filesystem::remove(folder / "train-images-idx3-ubyte");
  folder.write_gzip("train-images-idx3-ubyte.gz", images);
  check_complaints(scan(folder.section(), 0), {});
  const std::string packed = read_all(folder / "train-images-idx3-ubyte.gz");
  folder.write("train-images-idx3-ubyte.gz", packed.substr(0, packed.size() - 3));
  check_complaints(scan(folder.section(), 0), {"train-images-idx3-ubyte.gz: decompression failed"});

  DataSection section = section_of(DataFormat::idx, "");
  section.images = folder / "train-images-idx3-ubyte";  // only the .gz exists, which was not named
  section.labels = folder / "train-labels-idx1-ubyte";
  check_complaints(scan(section, 0), {"train-images-idx3-ubyte: No such file"});
}

TEST_CASE("a file that may not be read") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can become somebody else");
    return;
  }
  const IdxFolder folder;
  ::chmod(folder.path().c_str(), 0755);
  ::chmod((folder / "train-labels-idx1-ubyte").c_str(), 0600);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresuid(65534, 65534, 65534) != 0) ::_exit(2);
    const std::vector<std::string> all = complaints(scan(folder.section(), 0));
    ::_exit(all.size() == 1 && contains(all[0], "train-labels-idx1-ubyte: Permission denied") ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("cifar10: every file by itself") {
  const CifarFolder folder;
  check_complaints(scan(folder.section(), 0), {});
  CHECK(scan(folder.section(), 0).train_samples == 50);
  std::filesystem::remove(folder / "data_batch_1.bin");
  folder.write("data_batch_2.bin", read_all(folder / "data_batch_2.bin").substr(1));
  folder.write("data_batch_4.bin", cifar_records({"\1", "\2", "\12"}));
  folder.write("test_batch.bin", "");
  const DataScan found = scan(folder.section(), 0);
  check_complaints(
      found, {"data_batch_1.bin: No such file", "data_batch_2.bin: 30729 bytes are not a multiple of the record size",
              "data_batch_4.bin: 1 of 3 labels are out of range, the first is 10 of sample 2: there are 10 classes",
              "test_batch.bin: 0 bytes are not a multiple of the record size"});
  CHECK(found.stored_shape == std::vector<int64_t>{3, 32, 32});
}

TEST_CASE("cifar100: the fine labels count") {
  const DataFolder folder;
  folder.write("train.bin", cifar_records({"\1\x63", "\x7f\7"}));
  folder.write("test.bin", cifar_records({"\1\x64"}));
  const DataScan found = scan(section_of(DataFormat::cifar100, folder.path()), 0);
  check_complaints(found, {"warning: 98 of 100 classes never occur", "test.bin: 1 of 1 labels are out of range"});
  CHECK(found.classes == 100);
}

TEST_CASE("text: vocabulary, samples of each part, and what is too short") {
  const DataFolder folder;
  folder.write("text", "abcabcabcabcabcabcab");  // 20 bytes
  DataSection section = section_of(DataFormat::text, folder / "text");
  section.holdout = 0.3;
  const DataScan found = scan(section, 4);
  check_complaints(found, {});
  CHECK(contains(found.findings[0].seen, "20 bytes; 3 of the 256 bytes occur"));
  CHECK(contains(found.findings[1].seen, "3 training samples of 4 tokens"));
  CHECK(contains(found.findings[2].seen, "1 test samples of 4 tokens"));
  CHECK(found.train_samples == 3);
  check_complaints(scan(section, 14),
                   {"14 bytes for the training set are too few for a sample of 14 tokens: 15 are needed",
                    "6 bytes for the test set are too few for a sample of 14 tokens"});
  check_complaints(scan(section, 4, 99), {"text: byte 99 at offset 2 is not a token: there are 99 classes"});
  check_complaints(scan(section, 4, 100), {});
  section.test_path = folder / "none";
  folder.write("text", "");
  check_complaints(scan(section, 4), {"text: the text is empty", "none: No such file"});
  folder.write("none", std::string("a\0b\0c\0d\0", 8));
  check_complaints(scan(section, 4),
                   {"text: the text is empty", "warning: " + folder / "none" + ": contains zero bytes"});
}

TEST_CASE("hdf5: images and labels by themselves") {
  const DataFolder folder;
  DataSection section = section_of(DataFormat::hdf5, folder / "train.h5");
  write_hdf5(section.path, {3, 1, 2, 2}, {0, 1, 2});
  check_complaints(scan(section, 0), {});
  section.test_path = folder / "test.h5";
  folder.write("test.h5", "no HDF5");
  write_hdf5(section.path, {3, 2}, {0, 1, -1}, h5::Type::i32);
  check_complaints(scan(section, 0, 2),
                   {"train.h5: images has shape [3, 2]", "the first is -1 of sample 2", "test.h5"});
  write_hdf5(section.path, {3, 2, 2}, {0, 1}, h5::Type::f32);
  write_hdf5(section.test_path, {1, 2, 2}, {0});
  check_complaints(scan(section, 0, 1), {"train.h5: labels is not a list of integers"});
  write_hdf5(section.path, {3, 2, 2}, {0, 0});
  check_complaints(scan(section, 0, 1), {"train.h5: labels: 2 labels for 3 images"});
}

TEST_CASE("headers that announce more than there can be") {
  const IdxFolder idx;
  idx.write("train-images-idx3-ubyte", idx_bytes({0, 0xffffffff, 0xffffffff, 0xffffffff}, ""));
  idx.write("train-labels-idx1-ubyte", idx_bytes({0}, ""));
  check_complaints(scan(idx.section(), 0, 3), {"train-images-idx3-ubyte: its header declares"});
  const DataFolder folder;
  const DataSection section = section_of(DataFormat::hdf5, folder / "train.h5");
  const hid_t file = H5Fcreate(section.path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  add_unwritten(file, "images", H5T_STD_U8LE, {hsize_t{1} << 40, 2, 2});
  add_unwritten(file, "labels", H5T_STD_I64LE, {hsize_t{1} << 40});
  H5Fclose(file);
  check_complaints(scan(section, 0), {"images: declares 4398046511104 bytes", "labels: declares 8796093022208 bytes"});
  write_hdf5(section.path, {2, 2, 2}, {0, INT64_MAX});
  check_complaints(scan(section, 0), {"1 of 2 labels are out of range, the first is 9223372036854775807 of sample 1"});
}

TEST_CASE("synthetic: nothing to read, but transforms must fit") {
  DataSection section;
  check_complaints(scan(section, 0), {});
  CHECK(scan(section, 0).stored_shape == std::vector<int64_t>{3, 32, 32});
  section.crop = {40, 40};
  check_complaints(scan(section, 0), {"training images: "});
  section = DataSection();
  section.shape = {7};
  check_complaints(scan(section, 0), {});
  section.shape = {500'000'000};  // times ten classes
  check_complaints(scan(section, 0), {"synthetic samples of [500000000] in 10 classes need a pattern"});
}

// The scan and the reader must agree: damage to any file that one refuses, the other refuses too.
TEST_CASE("the scan refuses what open refuses: every cut and every changed byte of a header") {
  const IdxFolder folder;
  const auto opens = [&] {
    try {
      open(folder.section(), 0, 0, 3);
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  int refused = 0;
  for (const char* name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"}) {
    const std::string whole = read_all(folder / name);
    const auto compare = [&](const std::string& bytes) {
      folder.write(name, bytes);
      const bool fine = opens();
      refused += fine ? 0 : 1;
      CHECK(scan(folder.section(), 0, 3).fine() == fine);
    };
    for (size_t keep = 0; keep < whole.size(); ++keep) compare(whole.substr(0, keep));
    for (size_t at = 0; at < whole.size(); ++at) {
      for (const int flip : {1, 2, 0x80}) {
        std::string changed = whole;
        changed[at] = static_cast<char>(changed[at] ^ flip);
        compare(changed);
      }
    }
    folder.write(name, whole);
  }
  CHECK(refused > 80);
}

}  // namespace
}  // namespace estrain::data
