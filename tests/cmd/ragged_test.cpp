// Ragged arrays: mini-batches have lengths of their own, and buckets of samples of about one length. Neither depends on
// the places of ESTs, nor on what happens to the job.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "core/base/files/files.h"
#include "core/formats/h5/file.h"
#include "core/state/record/logs/metrics.h"
#include "job.h"
#include "run_files.h"
#include "tests/program_file.h"

namespace estrain::testing {
namespace {

constexpr int64_t kSamples = 90;

// Lengths 1 to 25, most of them short.
int64_t length_of(int64_t sample) { return 1 + sample * 37 % 89 * (sample * 37 % 89) / 320; }

// `x` [rows, 3] and `kinds` [rows], ragged alike; `other` [samples].
std::string ragged_file(const ScratchFolder& folder) {
  std::vector<int64_t> offsets = {0};
  for (int64_t i = 0; i < kSamples; ++i) offsets.push_back(offsets.back() + length_of(i));
  const int64_t rows = offsets.back();
  std::vector<float> x(static_cast<size_t>(rows) * 3);
  std::vector<int16_t> kinds(static_cast<size_t>(rows));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * i % 31) / 31;
  for (size_t i = 0; i < kinds.size(); ++i) kinds[i] = static_cast<int16_t>(i / 3 % 2);
  const std::vector<int64_t> other(static_cast<size_t>(kSamples), 1);
  h5::File file = h5::File::create(folder / "ragged.h5");
  h5::Group root = file.root();
  root.create_dataset("x", h5::Type::f32, {rows, 3}).write(h5::Type::f32, x.data());
  root.create_dataset("kinds", h5::Type::i16, {rows}).write(h5::Type::i16, kinds.data());
  for (const char* name : {"x.offsets", "kinds.offsets"})
    root.create_dataset(name, h5::Type::i64, {kSamples + 1}).write(h5::Type::i64, offsets.data());
  root.create_dataset("other", h5::Type::i64, {kSamples}).write(h5::Type::i64, other.data());
  // As x, but the first sample is one row longer than in x, the second one shorter.
  root.create_dataset("late", h5::Type::f32, {rows, 3}).write(h5::Type::f32, x.data());
  ++offsets[1];
  root.create_dataset("late.offsets", h5::Type::i64, {kSamples + 1}).write(h5::Type::i64, offsets.data());
  return folder / "ragged.h5";
}

// x [s0, s1, 3] -> linear to 2, dropout of a half, transposed to [s0, 2, s1]: logits of a class for each place.
// `least`: the least length for which the program was exported. `second`: another input, added to x.
std::string tagger(int64_t length = 0, int64_t least = 2, const std::string& second = "") {
  ProgramParts parts = empty_program();
  parts.model["range_constraints"]["s1"] = {{"min_val", least}, {"max_val", nullptr}};
  parts.add_stored("parameter", "layer.weight", "p_weight", meta_of({2, 3}, 7, true),
                   raw<float>({1, 2, 3, -1, 0.5f, 0.25f}));
  parts.add_stored("parameter", "layer.bias", "p_bias", meta_of({2}, 7, true), raw<float>({0.5f, -0.5f}));
  Json input = meta_of({1, length, 3});
  for (const int d : {0, 1}) {
    if (d == 1 && length > 0) continue;
    const std::string symbol = "Symbol('s" + std::to_string(d) + "', positive=True, integer=True)";
    input["sizes"][static_cast<size_t>(d)] = object_of("as_expr", object_of("expr_str", symbol));
  }
  parts.add_input("x", input);
  if (!second.empty()) parts.add_input(second, input);
  const Json nodes = {
      call_of("torch.ops.aten.linear.default",
              {{"input", tensor_argument(second.empty() ? "x" : "both")},
               {"weight", tensor_argument("p_weight")},
               {"bias", tensor_argument("p_bias")}},
              "linear", "layer"),
      call_of("torch.ops.aten.dropout.default",
              {{"input", tensor_argument("linear")},
               {"p", object_of("as_float", 0.5)},
               {"train", object_of("as_bool", true)}},
              "dropout"),
      call_of(
          "torch.ops.aten.transpose.int",
          {{"self", tensor_argument("dropout")}, {"dim0", object_of("as_int", 1)}, {"dim1", object_of("as_int", 2)}},
          "logits")};
  if (!second.empty())
    parts.nodes().push_back(call_of("torch.ops.aten.add.Tensor",
                                    {{"self", tensor_argument("x")}, {"other", tensor_argument(second)}}, "both"));
  for (const Json& node : nodes) parts.nodes().push_back(node);
  parts.set_output("logits");
  return parts.file();
}

struct RaggedFiles {
  ScratchFolder folder;
  std::string data = ragged_file(folder);
  std::string program = folder.write("net.pt2", tagger());
  std::string spec = folder.write("job.toml", job());

  std::string job() const {
    return "job = { name = \"ragged\", seed = 21, ests = 4 }\n[model]\nname = \"program\"\nfile = \"" + program +
           "\"\nloss = \"cross_entropy\"\nloss_target = \"kinds\"\n[data]\nformat = \"hdf5\"\npath = \"" + data +
           "\"\nholdout = 0.2\nbatch = 4\npad_values = [\"kinds=-100\"]\nbucket = 3\n[optimizer]\nname = \"sgd\"\n"
           "lr = 0.05\nmomentum = 0.5\n[train]\nsteps = 13\neval_every = 6\neval_batch = 5\n[elastic]\nbatch = "
           "\"adaptive\"\n";
  }
};

TEST_CASE("padded mini-batches and buckets leave no trace of the placement, nor of reading ahead") {
  const RaggedFiles files;
  const std::string alone = train_on(files.folder, files.spec, "1");
  CHECK(metric_steps(alone) == first_steps(13));
  CHECK(difference(alone, train_on(files.folder, files.spec, "2", {"--set", "data.readers=3"})).text == "");
  CHECK(difference(alone, train_on(files.folder, files.spec, "cpu=1,cpu=3", {"--set", "data.prefetch=9"})).text == "");
  const Words more[] = {{"--set", "data.bucket=0"}, {"--set", "data.pad_multiple=4"}, {"--set", "data.bucket=2"}};
  for (const Words& other : more) CHECK(difference(alone, train_on(files.folder, files.spec, "1", other)).text != "");
}

TEST_CASE("they go over resizes, a killed worker, a stop and a resume without a trace") {
  const RaggedFiles files;
  check_disturbed_job(files.folder, files.spec, {"3"});
}

TEST_CASE("a batch that is changed in mid-epoch: a repeat on another device set has the bits") {
  const RaggedFiles files;
  const std::string run = files.folder / "run", other = files.folder / "other";
  const Words start = {"--set", "train.steps=3", "--set", "train.eval_every=never"};
  REQUIRE(estrain(with({"train", files.spec, "--run", run}, start)).code == 0);
  const Ended changed = estrain({"change", run, "--batch", "3"});
  INFO(changed.shown());
  REQUIRE(changed.code == 0);
  REQUIRE(estrain({"train", "--resume", "--run", run, "--devices", "3", "--set", "train.steps=15"}).code == 0);
  REQUIRE(estrain({"train", run + "/job.toml", "--run", other, "--devices", "2"}).code == 0);
  CHECK(difference(run, other).text == "");
}

double evaluated_loss(const std::string& run) {
  return record::read_metrics(run + "/metrics.jsonl").evaluations.back().loss;
}

TEST_CASE("an evaluation's loss is a mean over places with a target, whatever the padding; outputs have one shape") {
  const RaggedFiles files;
  const Words untrained = {"--set", "optimizer.lr=0", "--set", "train.steps=6"};
  const std::string run = train_on(files.folder, files.spec, "1", untrained);
  const double loss = evaluated_loss(run);
  CHECK(loss > 0);
  for (const Words& other : {Words{"--set", "train.eval_batch=1"}, Words{"--set", "data.pad_multiple=16"}})
    CHECK(evaluated_loss(train_on(files.folder, files.spec, "2", with(untrained, other))) == doctest::Approx(loss));
  const std::string out = files.folder / "out.h5";
  const Ended written = estrain({"evaluate", run, "--write", out});
  INFO(written.shown());
  REQUIRE(written.code == 0);
  const h5::Group root = h5::File::open(out).root();
  int64_t longest = 0;
  for (int64_t i = 0; i < kSamples; ++i) longest = std::max(longest, length_of(i));
  CHECK(root.dataset("output").shape() == std::vector<int64_t>{18, 2, longest});
  CHECK(root.dataset("labels").shape() == std::vector<int64_t>{18, longest});
  std::vector<int16_t> labels(static_cast<size_t>(18 * longest));
  root.dataset("labels").read(h5::Type::i16, labels.data());
  std::vector<float> losses(18);
  root.dataset("losses").read(h5::Type::f32, losses.data());
  double sum = 0;
  for (const float value : losses) sum += static_cast<double>(value);
  CHECK(sum / static_cast<double>(std::ranges::count_if(labels, [](int16_t label) { return label != -100; })) ==
        doctest::Approx(loss));
}

TEST_CASE("a program takes mini-batches of its lengths alone, and arrays of one length in each") {
  const RaggedFiles files;
  const auto trained = [&](const std::string& program, const Words& more) {
    (void)files.folder.write("other.pt2", program);
    std::filesystem::remove_all(files.folder / "other");
    return estrain(with({"train", files.spec, "--run", files.folder / "other", "--set", "train.steps=2", "--set",
                         "model.file=" + files.folder / "other.pt2"},
                        more));
  };
  const Ended few = trained(tagger(0, 20), {});
  INFO(few.shown());
  CHECK(few.code == 2);
  CHECK(few.says("the program takes x of lengths 20 to any, but this mini-batch has"));
  CHECK(trained(tagger(0, 20), {"--set", "data.pad_multiple=30"}).code == 0);
  const Words unsorted = {"--set", "data.bucket=0", "--set", "data.batch=1", "--set", "train.steps=18"};
  const Ended unequal = trained(tagger(0, 2, "late"), unsorted);  // an epoch without evaluation samples
  INFO(unequal.shown());
  CHECK(unequal.code == 2);
  CHECK(unequal.says("the program takes x and late of one length, but in this mini-batch they have"));
  CHECK(trained(tagger(0, 2, "late"), with(unsorted, {"--set", "data.pad_multiple=32"})).code == 0);
}

bool has_dataset_python() { return std::filesystem::exists(ESTRAIN_PEERS_PYTHON); }

// The samples of ragged_file(), from a Dataset. `lengths`: the Dataset's, as Python code.
struct RaggedDataset : RaggedFiles {
  std::string stored = spec;  // the same job on the HDF5 file

  explicit RaggedDataset(const std::string& lengths = "{\"x\": self.each, \"kinds\": numpy.array(self.each)}") {
    folder.write("data.py",
                 "import numpy, torch\n"
                 "class Train(torch.utils.data.Dataset):\n"
                 "    def __init__(self):\n"
                 "        self.each = [1 + i * 37 % 89 * (i * 37 % 89) // 320 for i in range(90)]\n"
                 "        self.ends = numpy.cumsum(self.each)\n"
                 "        self.lengths = " +
                     lengths +
                     "\n"
                     "    def __len__(self):\n"
                     "        return 90\n"
                     "    def __getitem__(self, i):\n"
                     "        rows = numpy.arange(self.ends[i] - self.each[i], self.ends[i])\n"
                     "        flat = rows[:, None] * 3 + numpy.arange(3)\n"
                     "        x = (flat * flat % 31).astype(numpy.float32) / numpy.float32(31)\n"
                     "        return {\"other\": 1, \"x\": x, \"kinds\": (rows // 3 % 2).astype(numpy.int16)}\n");
    const std::string was = "format = \"hdf5\"\npath = \"" + data + "\"";
    std::string text = job();
    text.replace(text.find(was), was.size(),
                 "format = \"python\"\nfile = \"data.py:Train\"\npython = \"" ESTRAIN_PEERS_PYTHON "\"");
    spec = folder.write("python.toml", text);
  }
};

TEST_CASE("samples of any length from a Dataset have the bits of the same samples in an HDF5 file, on any placement" *
          doctest::skip(!has_dataset_python())) {
  const RaggedDataset files;
  const Words more = {"--set", "data.pad_multiple=4"};
  const std::string stored = train_on(files.folder, files.stored, "1", more);
  CHECK(difference(stored, train_on(files.folder, files.spec, "cpu=1,cpu=3", more)).text == "");
}

TEST_CASE("samples of any length from a Dataset go over a resize, a killed worker, a stop and a resume" *
          doctest::skip(!has_dataset_python())) {
  const RaggedDataset files;
  check_disturbed_job(files.folder, files.spec, {"3"}, {.steps = 3});
}

TEST_CASE("lengths of a Dataset that do not fit its samples are refused in words" *
          doctest::skip(!has_dataset_python())) {
  const auto refused = [](const RaggedDataset& files, const Words& more, const std::string& words) {
    CAPTURE(words);
    const Ended ended = estrain(with({"train", files.spec, "--run", files.folder / "refused"}, more));
    INFO(ended.shown());
    CHECK(ended.code == 2);
    CHECK(ended.says(words));
  };
  refused(RaggedDataset("{\"x\": self.each, \"kinds\": [9] * 90}"), {}, "and the Dataset's lengths['kinds'] says 9");
  refused(RaggedDataset("{\"x\": self.each[1:]}"), {}, "lengths['x'] is int64 [89], for 90 samples");
  refused(RaggedDataset("{\"x\": [3, 5, -2] + [4] * 87}"), {},
          "lengths['x'] says -2 for sample 2, and a length is at least 0");
  refused(RaggedDataset("None"), {"--set", "data.bucket=0", "--set", "data.pad_values=[]"},
          "give lengths as a dictionary");
  refused(RaggedDataset("None"), {"--set", "data.pad_values=[]"}, "data.bucket is for arrays of samples of any length");
  const RaggedDataset files;
  refused(files, {"--set", "data.pad_values=[\"other=1\"]"}, "data.pad_values: other is no ragged array");
  refused(files, {"--set", "data.skip_bad=1"}, "data.skip_bad");
}

TEST_CASE("what does not fit ragged arrays is refused in words") {
  const RaggedFiles files;
  (void)files.folder.write("fixed.pt2", tagger(12));
  const std::pair<Words, std::string> cases[] = {
      {{"--set", "model.file=" + files.folder / "fixed.pt2"}, "the program has one length"},
      {{"--set", "data.pad_values=[]"}, "would take 0, which fills the shorter samples of kinds, for a class"},
      {{"--set", "model.loss=mse"}, "would count what fills the shorter samples of kinds"},
      {{"--set", "data.pad_values=[\"y=1\"]"}, "data.pad_values: y is no ragged array"},
      {{"--set", "data.shuffle=false"}, "data.bucket needs data.shuffle = true"},
      {{"--set", "data.bucket=-1"}, "data.bucket"},
      {{"--set", "data.pad_multiple=0"}, "data.pad_multiple"},
      {{"--set", "data.format=synthetic", "--set", "data.path="}, "belongs to data.format = \"hdf5\" or \"python\""},
  };
  for (const auto& [options, words] : cases) {
    CAPTURE(words);
    const Ended refused = estrain(with({"train", files.spec, "--run", files.folder / "refused"}, options));
    INFO(refused.shown());
    CHECK(refused.code == 2);
    CHECK(refused.says(words));
  }
  const Ended checked = estrain({"check", files.spec});
  INFO(checked.shown());
  CHECK(checked.code == 0);
  CHECK(checked.says("x float32 [up to 25, 3]"));
}

}  // namespace
}  // namespace estrain::testing
