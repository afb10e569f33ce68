// data.format = "python": a user's Dataset, read by processes of the Python of scripts/setup --peers. The bits are
// those of a plain loop over a DataLoader that seeds each sample alike; what goes wrong in the user's code is told.

#include "core/data/python/python_dataset.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <numeric>
#include <thread>

#include "core/base/files/files.h"
#include "core/data/files/identity.h"
#include "core/data/format_table.h"
#include "core/data/formats/hdf5_arrays.h"
#include "core/data/job_data.h"
#include "core/data/reading/loader.h"
#include "tests/core/data/data_files.h"
#include "tests/error_of.h"

namespace estrain::data {
namespace {

namespace fs = std::filesystem;

bool is_here() { return fs::exists(ESTRAIN_PEERS_PYTHON); }

// 7 samples that draw from all generators, also while the set is made; and sets with a mistake each.
constexpr const char* kCode = R"(
import os, random, time
import numpy, torch
from torch.utils.data import Dataset, IterableDataset
import beside

class Train(Dataset):
    classes = ["a", "b", "c"]
    def __init__(self, samples=7):
        self.samples, self.shift = samples, torch.rand(())
    def __len__(self):
        return self.samples
    def __getitem__(self, i):
        return torch.rand(1, 2, 3) + self.shift + random.random() + float(numpy.random.rand()) + i, i % 3

def train():
    return Train()
def evaluation():
    return Train(4)
named = [{"x": numpy.arange(3, dtype=numpy.int32) + i, "on": i > 2, "y": i / 2, "more": "words"[i:] and i} for i in range(5)]
class Ragged(Dataset):  # arrays of different lengths, one always empty
    lengths = {"a": [2, 0, 3], "b": [1, 5, 1], "none": [0, 0, 0]}
    def __len__(self):
        return 3
    def __getitem__(self, i):
        a, b, none = (numpy.arange(10 * i, 10 * i + self.lengths[name][i], dtype=numpy.int32) for name in ("a", "b", "none"))
        return {"a": a, "b": b, "none": none}
class Stream(IterableDataset):
    def __iter__(self):
        return iter(())
class Collated(Train):
    def collate_fn(self, samples):
        return samples
class Many(Train):
    def __getitem__(self, i):
        return torch.full((1, 2, 3), float(i)), i % 3
def beside():
    open("beside.py").close()
    return Train()
def many():
    return Many(200)
class Empty(Train):
    def __len__(self):
        return 0
number = 3
class At3(Train):
    def __getitem__(self, i):
        return super().__getitem__(i) if i != 3 else self.at_3()
class Raises(At3):
    def at_3(self):
        raise ValueError("no picture")
class Exits(At3):
    def at_3(self):
        os._exit(7)
class Crashes(At3):
    def at_3(self):
        os.kill(os.getpid(), 11)
class Hangs(At3):
    def at_3(self):
        with open(os.path.join(os.path.dirname(__file__), "pid"), "w") as file:
            print(os.getpid(), file=file)
        time.sleep(1000)
class Wide(At3):
    def at_3(self):
        return torch.rand(1, 2, 4), 0
class Label(At3):
    def at_3(self):
        return torch.rand(1, 2, 3), 3
class Half(At3):
    def __getitem__(self, i):
        return torch.rand(3).half(), 0
class Picture(At3):
    def __getitem__(self, i):
        return object(), 0
)";

// The seeds of examples/python/README.md, in a plain loop. Prints the bytes of each sample and its class.
constexpr const char* kLoop = R"(
import hashlib, random, struct, sys
import numpy, torch
from torch.utils.data import DataLoader, Dataset
import data

def seed_all(value):
    torch.manual_seed(value); random.seed(value); numpy.random.seed(value)

class Seeded(Dataset):
    def __init__(self, samples, seed, epoch):
        self.samples, self.seed, self.epoch = samples, seed, epoch
    def __len__(self):
        return len(self.samples)
    def __getitem__(self, i):
        words = struct.pack("<3q", self.seed, self.epoch, i)
        seed_all(int.from_bytes(hashlib.blake2b(words, digest_size=4).digest(), "little"))
        return self.samples[i]

torch.set_num_threads(1)
seed_all(11)
train = data.train()
seed_all(11)
evaluation = data.evaluation()
for samples, epoch in ((train, 0), (train, 2), (evaluation, -1)):
    for image, target in DataLoader(Seeded(samples, 11, epoch), batch_size=1):
        sys.stdout.buffer.write(image.numpy().tobytes() + target.numpy().tobytes())
)";

struct PythonData {
  DataFolder folder;
  spec::DataSection section;

  explicit PythonData(const std::string& name = "train", const std::string& test = "") {
    folder.write("data.py", kCode);
    folder.write("beside.py", "");
    section.format = spec::DataFormat::python;
    section.python = ESTRAIN_PEERS_PYTHON;
    section.file = folder / "data.py:" + name;
    if (!test.empty()) section.test_file = folder / "data.py:" + test;
    section.readers = 2;
  }
  DataPair open(const std::vector<std::string>& arrays = {}) const {
    return data::open(section, 0, 11, std::nullopt, arrays);
  }
};

std::string sample_bytes(const Dataset& set, int64_t index, const SampleDraw& draw) {
  std::string bytes(set.shape().bytes(), '\0');
  int64_t target = 0;
  set.read(index, draw, reinterpret_cast<std::byte*>(bytes.data()), &target);
  std::memcpy(bytes.data() + set.shape().input_bytes(), &target, sizeof target);
  return bytes;
}

std::string all_bytes(const Dataset& set, const std::function<SampleDraw(int64_t)>& draw) {
  std::string bytes;
  for (int64_t i = 0; i < set.size(); ++i) bytes += sample_bytes(set, i, draw(i));
  return bytes;
}

std::string of_epoch(const Dataset& set, int64_t epoch) {
  return all_bytes(set, [&](int64_t i) { return SampleDraw(11, Epoch(epoch), i); });
}

TEST_CASE("samples have the bits of a plain loop that seeds alike" * doctest::skip(!is_here())) {
  const PythonData data("train", "evaluation");
  const DataPair pair = data.open();
  CHECK(pair.train->size() == 7);
  CHECK(pair.train->shape() == SampleShape::image(1, 2, 3));
  CHECK(pair.train->classes() == 3);
  REQUIRE(pair.test != nullptr);
  data.folder.write("loop.py", kLoop);
  const std::string run = fmt::format("{} {} > {}", ESTRAIN_PEERS_PYTHON, data.folder / "loop.py", data.folder / "out");
  REQUIRE(std::system(run.c_str()) == 0);
  CHECK(read_all(data.folder / "out") == of_epoch(*pair.train, 0) + of_epoch(*pair.train, 2) +
                                             all_bytes(*pair.test, [](int64_t) { return SampleDraw::fixed(); }));

  // Loaders of any number of readers and ESTs give these bits.
  const EpochSampler sampler(7, 2, 3, true, false, 11);
  for (const int64_t readers : {1, 3}) {
    LoaderOptions options;
    options.readers = readers;
    options.seed = 11;
    Loader loader(*pair.train, sampler, {VirtualRank(0), VirtualRank(2)}, Step(0), options);
    for (int batches = 0; batches < 8; ++batches) {
      const LoadedBatch batch = loader.next();
      for (int64_t i = 0; i < batch.size(); ++i) {
        const int64_t index = batch.indices()[static_cast<size_t>(i)];
        const std::string bytes = sample_bytes(*pair.train, index, SampleDraw(11, batch.cursor().epoch, index));
        CHECK(std::memcmp(batch.floats() + 6 * i, bytes.data(), 24) == 0);
        CHECK(batch.targets()[i] == index % 3);
      }
    }
  }

  // The code, the modules of the code, and the description of the samples.
  std::vector<std::string> known;
  for (const DataFile& file : pair.files)
    known.push_back(file.what + (file.samples.empty() ? "" : ": " + file.samples));
  CHECK(known == std::vector<std::string>{
                     data_code_file, "training samples: 7 samples, images float32 [1, 2, 3] with a class",
                     "data module beside.py", "evaluation samples: 4 samples, images float32 [1, 2, 3] with a class"});
}

TEST_CASE("relative paths of the code begin in its folder" * doctest::skip(!is_here())) {
  const PythonData data("beside");
  CHECK(data.open().train->size() == 7);
}

TEST_CASE("no sample is overwritten while the reader is slower than the data worker" * doctest::skip(!is_here())) {
  const PythonData data("many");
  const DataPair pair = data.open();
  std::vector<int64_t> indices(200), targets(200);
  std::iota(indices.begin(), indices.end(), 0);
  std::vector<float> values(200 * 6);
  pair.train->read_run({.indices = indices,
                        .draw = [](int64_t index, size_t) { return SampleDraw(11, Epoch(0), index); },
                        .out = {reinterpret_cast<std::byte*>(values.data())},
                        .targets = targets.data(),
                        .is_abandoned = [] {  // asked before each request
                          std::this_thread::sleep_for(std::chrono::milliseconds(2));
                          return false;
                        }});
  for (size_t i = 0; i < 200; ++i) {
    CHECK(values[6 * i] == static_cast<float>(i));
    CHECK(targets[i] == static_cast<int64_t>(i) % 3);
  }
}

TEST_CASE("data.holdout keeps samples of a Dataset, which keep their numbers" * doctest::skip(!is_here())) {
  PythonData data("train");
  const DataPair whole = data.open();
  data.section.holdout = 0.3;
  const DataPair pair = data.open();
  REQUIRE(pair.test != nullptr);
  CHECK(pair.train->size() == 5);
  CHECK(pair.test->size() == 2);
  std::vector<int64_t> kept = randperm(7, 11);
  kept.resize(2);
  std::ranges::sort(kept);
  std::string expected;
  for (const int64_t number : kept) expected += sample_bytes(*whole.train, number, SampleDraw::fixed());
  CHECK(all_bytes(*pair.test, [](int64_t) { return SampleDraw::fixed(); }) == expected);
}

TEST_CASE("dictionaries are arrays by name, for the model to choose" * doctest::skip(!is_here())) {
  const PythonData data("named");
  const DataPair pair = data.open({"y", "x"});
  CHECK(pair.train->shape() ==
        SampleShape::fields({{"y", program::ScalarType::f64, {}}, {"x", program::ScalarType::i32, {3}}}));
  double y = 0;
  std::array<int32_t, 3> x{};
  const std::array<std::byte*, 2> out = {reinterpret_cast<std::byte*>(&y), reinterpret_cast<std::byte*>(x.data())};
  pair.train->read_fields(3, SampleDraw::fixed(), out);
  CHECK(y == 1.5);
  CHECK(x == std::array<int32_t, 3>{3, 4, 5});
  const Error error = error_of([&] { data.open({"mask"}); });
  CHECK(error.fault() == Fault::mismatch);
  CHECK(contains(error.message(),
                 "data.py:named: sample 0 lacks mask, an input of the program; it has: x int32 [3], on bool"));
}

TEST_CASE("arrays of any length are padded to the longest of a mini-batch, an array without values to one place" *
          doctest::skip(!is_here())) {
  const PythonData data("Ragged");
  const DataPair pair = data.open({"a", "none", "a_mask", "b"});
  CHECK(describe_arrays(pair.train->shape()) ==
        "a int32 [up to 3], none int32 [up to 1], a_mask bool [up to 3], b int32 [up to 5]");
  for (const auto& [sample, length] : {std::pair(0, 3), {1, 5}, {2, 4}}) CHECK(pair.train->length(sample) == length);
  CHECK(pair.train->lengths_of(std::vector<int64_t>{0, 1}) == std::vector<int64_t>{2, 1, 2, 5});
  std::array<int32_t, 3> a{}, none{7, 7, 7};
  std::array<uint8_t, 3> mask{};
  std::array<int32_t, 5> b{};
  const std::array<std::byte*, 4> out = {
      reinterpret_cast<std::byte*>(a.data()), reinterpret_cast<std::byte*>(none.data()),
      reinterpret_cast<std::byte*>(mask.data()), reinterpret_cast<std::byte*>(b.data())};
  pair.train->read_fields(2, SampleDraw::fixed(), out);
  CHECK(a == std::array<int32_t, 3>{20, 21, 22});
  pair.train->read_fields(0, SampleDraw::fixed(), out);
  CHECK(a == std::array<int32_t, 3>{0, 1, 0});
  CHECK(none == std::array<int32_t, 3>{0, 7, 7});
  CHECK(mask == std::array<uint8_t, 3>{1, 1, 0});
  CHECK(b == std::array<int32_t, 5>{0, 0, 0, 0, 0});
}

struct Refusal {
  const char *name, *message, *advice;
};

TEST_CASE("code that cannot be trained on is refused with what to do" * doctest::skip(!is_here())) {
  for (const Refusal& refusal : std::initializer_list<Refusal>{
           {"Stream", "data.py:Stream: is an IterableDataset", "map-style Dataset, with __len__ and __getitem__"},
           {"Collated", "data.py:Collated: has a collate_fn", "do in __getitem__ what collate_fn does"},
           {"number", "data.py:number: gave a int without __len__ and __getitem__", "map-style"},
           {"absent", "/data.py has no absent", "function without arguments"},
           {"Empty", "data.py:Empty has no samples", ""},
           {"Half", "sample 0: the input is float16", "convert it to one of float32"},
           {"Picture", "sample 0: the input is a object", "ToTensor()"}}) {
    CAPTURE(refusal.name);
    const PythonData data(refusal.name);
    const Error error = error_of([&] { data.open(); });
    CHECK(contains(error.message(), refusal.message));
    CHECK(contains(error.advice(), refusal.advice));
    CHECK(error.cause().empty());
    DataScan scanned = scan(data.section, 0);
    REQUIRE(scanned.findings.size() == 1);
    CHECK(contains(scanned.findings[0].seen, refusal.message));
  }
}

TEST_CASE("a Python without torch, or without a module, is named with the key to choose another" *
          doctest::skip(!is_here())) {
  PythonData data;
  SUBCASE("torch") {
    data.folder.write("python", fmt::format("#!/bin/sh\nexec {} -S \"$@\"\n", ESTRAIN_PEERS_PYTHON));
    fs::permissions(data.folder / "python", fs::perms::owner_all);
    data.section.python = data.folder / "python";
    const Error error = error_of([&] { data.open(); });
    CHECK(contains(error.message(), "torch cannot be imported: No module named 'torch'"));
    CHECK(contains(error.advice(), "install torch into that Python, or name another Python with data.python"));
  }
  SUBCASE("a module of the code") {
    data.folder.write("data.py", "import no_such_module");
    const Error error = error_of([&] { data.open(); });
    CHECK(contains(error.message(), "lacks the module no_such_module"));
    CHECK(contains(error.advice(), "install no_such_module into that Python, or name another Python with data.python"));
  }
  SUBCASE("no Python") {
    data.section.python = "/bin/true";
    CHECK(contains(error_of([&] { data.open(); }).message(), "data.python: /bin/true ended before it had made"));
    data.section.python = data.folder / "absent";
    CHECK(contains(error_of([&] { data.open(); }).message(), "absent is no program"));
  }
}

struct Mishap {
  const char *name, *message, *cause;
};

// Whether the process ends, or has ended and is not yet waited for.
bool ends_soon(int pid) {
  for (int tries = 0; tries < 500; ++tries) {
    const std::string stat = read_file_if_present(fmt::format("/proc/{}/stat", pid)).value_or("");
    if (stat.empty() || contains(stat, ") Z ")) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST_CASE("a data worker that fails is named with the sample, and another takes its place" *
          doctest::skip(!is_here())) {
  for (const Mishap& mishap : std::initializer_list<Mishap>{
           {"Raises", "data.py:Raises: sample 3 raised ValueError: no picture\nTraceback", "user_code"},
           {"Exits", "data.py:Exits: sample 3: the data worker that read the sample ended: exit status 7",
            "data_worker_lost"},
           {"Crashes", "sample 3: the data worker that read the sample ended: SIGSEGV (signal 11)", "data_worker_lost"},
           {"Hangs", "data.py:Hangs: sample 3: the data worker has not read the sample in 0.5 s", "data_worker_hung"},
           {"Wide", "sample 3: the input is float32 [1, 2, 4]; in sample 0 it is float32 [1, 2, 3]", ""},
           {"Label", "data.py:Label: sample 3 has the target 3; the classes are 0 to 2", ""}}) {
    CAPTURE(mishap.name);
    PythonData data(mishap.name);
    data.section.readers = 1;
    if (mishap.name == std::string("Hangs")) data.section.hang_seconds = 0.5;
    const DataPair pair = data.open();
    const std::string second = sample_bytes(*pair.train, 2, SampleDraw::fixed());
    const Error error = error_of([&] { sample_bytes(*pair.train, 3, SampleDraw::fixed()); });
    CHECK(contains(error.message(), mishap.message));
    CHECK(error.cause() == mishap.cause);
    if (!error.cause().empty() && mishap.name != std::string("Exits")) CHECK(contains(error.message(), "in at_3"));
    CHECK(sample_bytes(*pair.train, 2, SampleDraw::fixed()) == second);
    if (mishap.name == std::string("Hangs")) CHECK(ends_soon(std::stoi(read_all(data.folder / "pid"))));
  }
}

TEST_CASE("other numbers, types or shapes of samples are other data") {
  DataFile file{.what = "training samples", .path = "/a/data.py:train", .content = {}, .samples = "7 samples, x"};
  const DataIdentity known = identify({file});
  CHECK(DataIdentity::from_json(known.to_json()) == known);
  CHECK(recognize(known, {file}).changes.empty());
  file.samples = "8 samples, x";
  const Recognition seen = recognize(known, {file});
  REQUIRE(seen.changes.size() == 1);
  CHECK(seen.changes[0].in_words() == "/a/data.py:train: 8 samples, x, were 7 samples, x");
}

}  // namespace
}  // namespace estrain::data
