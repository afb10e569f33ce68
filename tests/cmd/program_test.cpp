// model.name = "program": users' own modules, exported from PyTorch. Their bits do not depend on the placement;
// untrainable programs are refused with a reason before anything is written.

#include <doctest/doctest.h>

#include <filesystem>
#include <functional>

#include "core/formats/h5/file.h"
#include "core/state/checkpoint/checkpoint_file.h"
#include "core/state/record/logs/metrics.h"
#include "job.h"
#include "run_files.h"
#include "tests/contains.h"
#include "tests/program_file.h"

namespace estrain::testing {
namespace {

namespace fs = std::filesystem;

// Linear, dropout, batch norm, and the mean as the loss.
std::string job_of(const std::string& program, const std::string& data, const std::string& model = "") {
  return "job = { name = \"program\", seed = 21, ests = 4 }\n[model]\nname = \"program\"\nfile = \"" + program +
         "\"\n" + model + "[data]\n" + data +
         "batch = 8\n[optimizer]\nname = \"sgd\"\nlr = 0.001\nmomentum = 0.5\n[train]\nsteps = 9\neval_every = 4\n";
}

const std::string kVectors = "format = \"synthetic\"\nshape = [3]\nsamples = 300\n";
const std::string kManyVectors = "format = \"synthetic\"\nshape = [3]\nsamples = 3000000\n";

struct Files {
  ScratchFolder folder;
  std::string program = folder.write("net.pt2", small_program().file());
  std::string spec = folder.write("job.toml", job_of(program, kVectors));
};

// Fails with the error and leaves nothing behind.
Ended refused(const ScratchFolder& folder, const std::string& spec, int code) {
  const Ended ended = estrain({"train", spec, "--run", folder / "refused"});
  INFO(ended.shown());
  CHECK(ended.code == code);
  CHECK(!fs::exists(folder / "refused/checkpoints/latest"));
  fs::remove_all(folder / "refused");
  return ended;
}

TEST_CASE("a program trains without a trace of the placement") {
  const Files files;
  const std::string alone = train_on(files.folder, files.spec, "1");
  CHECK(metric_steps(alone) == first_steps(9));
  for (const std::string devices : {"2", "cpu=1,cpu=3", "4"}) {
    CAPTURE(devices);
    CHECK(difference(alone, train_on(files.folder, files.spec, devices)).text == "");
  }
}

TEST_CASE("at D2 it gives the same bits on every kind of CPU") {
  const Files files;
  ProgramParts parts = small_program();  // with a number in place of a tensor, as in Python's x + 1.5
  parts.nodes().back() = call_of("torch.ops.aten.add.Tensor",
                                 {{"self", tensor_argument("mul")}, {"other", object_of("as_float", 1.5)}}, "more");
  parts.nodes().push_back(call_of("torch.ops.aten.mean.default", {{"self", tensor_argument("more")}}, "mean"));
  files.folder.write("net.pt2", parts.file());
  const Words d2 = {"--set", "job.determinism=D2"};
  const std::string alone = train_on(files.folder, files.spec, "1", d2);
  for (const std::string devices : {"cpu:sse", "cpu:avx2,cpu:sse"}) {
    CAPTURE(devices);
    CHECK(difference(alone, train_on(files.folder, files.spec, devices, d2)).text == "");
  }
}

TEST_CASE("it goes on over resizes, a killed worker, a stop and a resume") {
  const Files files;
  check_disturbed_job(files.folder, files.folder.write("long.toml", job_of(files.program, kManyVectors)),
                      {"cpu=1,cpu=3", "4"});
}

// small_program(), as in eval() mode.
ProgramParts for_evaluation(ProgramParts parts) {
  parts.nodes()[1]["inputs"][2]["arg"] = object_of("as_bool", false);
  parts.nodes()[3]["inputs"][5]["arg"] = object_of("as_bool", false);
  parts.nodes().erase(parts.nodes().begin() + 2);
  return parts;
}

// small_program() with further weights that no call takes: a parameter, a buffer, and a buffer of no state_dict.
ProgramParts wide_program(int64_t floats) {
  ProgramParts parts = small_program();
  const std::string zeros(static_cast<size_t>(floats) * sizeof(float), '\0');
  parts.add_stored("parameter", "wide.weight", "p_wide", meta_of({floats}, 7, true), zeros);
  parts.add_stored("buffer", "wide.kept", "b_kept", meta_of({floats}), zeros);
  parts.add_stored("buffer", "wide.other", "b_other", meta_of({floats}), zeros);
  parts.signature()["input_specs"][7]["buffer"]["persistent"] = false;
  return parts;
}

TEST_CASE("a load of a program needs memory for its weights once, also where an evaluation program lies beside") {
  const ScratchFolder folder;
  const auto peak = [&](int64_t floats) {
    const std::string program = folder.write("wide.pt2", wide_program(floats).file()),
                      evaluation = folder.write("wide-eval.pt2", for_evaluation(wide_program(floats)).file()),
                      keys = "eval_file = \"" + evaluation + "\"\n";
    const Ended checked = estrain({"check", folder.write("job.toml", job_of(program, kVectors, keys)), "--json"});
    INFO(checked.shown());
    REQUIRE(checked.text.starts_with("{"));
    return Json::parse(checked.text).at("memory").at("peak").get<int64_t>();
  };
  constexpr int64_t kFloats = 8 << 20, kWeights = 3 * kFloats * sizeof(float);
  const int64_t grown = peak(kFloats) - peak(1);
  CHECK(grown > kWeights * 9 / 10);
  CHECK(grown < kWeights * 11 / 10);
}

TEST_CASE("a program that changed is refused at a resume like changed data") {
  const Files files;
  const std::string run = train_on(files.folder, files.spec, "1");
  ProgramParts other = small_program();
  other.nodes()[1]["inputs"][1]["arg"] = object_of("as_float", 0.25);
  files.folder.write("net.pt2", other.file());
  const Ended resumed = estrain({"train", "--resume", "--run", run, "--set", "train.steps=12"});
  INFO(resumed.shown());
  CHECK(resumed.code == 1);
  CHECK(resumed.says("the data have changed since the run began"));
  CHECK(resumed.says("net.pt2"));
  CHECK(metric_steps(run) == first_steps(9));
}

std::string array_file(const ScratchFolder& folder, const std::string& input) {
  const std::string path = folder / (input + ".h5");
  h5::File file = h5::File::create(path);
  h5::Group root = file.root();
  std::vector<float> values(40 * 3);
  std::vector<uint8_t> classes(40);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * i % 17) / 17;
  for (size_t i = 0; i < classes.size(); ++i) classes[i] = i % 2;
  root.create_dataset(input, h5::Type::f32, {40, 3}).write(h5::Type::f32, values.data());
  root.create_dataset("kind", h5::Type::u8, {40}).write(h5::Type::u8, classes.data());
  return path;
}

std::string arrays(const std::string& path) {
  return "format = \"hdf5\"\npath = \"" + path + "\"\ntest_path = \"" + path + "\"\n";
}

TEST_CASE("arrays of an HDF5 file go to the inputs of their names; a loss of torch's is taken of the output") {
  const Files files;
  ProgramParts logits = small_program();
  logits.set_output("norm");
  const std::string program = files.folder.write("logits.pt2", logits.file());
  const std::string model = "loss = \"cross_entropy\"\nloss_target = \"kind\"\n";
  const std::string spec =
      files.folder.write("arrays.toml", job_of(program, arrays(array_file(files.folder, "x")), model));
  const Ended ended = estrain({"train", spec, "--run", files.folder / "run", "--devices", "2"});
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  CHECK(ended.says("test accuracy"));
  const std::string alone = train_on(files.folder, spec, "1");
  CHECK(difference(files.folder / "run", alone).text == "");
}

// x [n, 3] of random-looking numbers, and `kind`, of this type and these sizes after the first.
template <typename T>
std::string labelled(const ScratchFolder& folder, const std::string& name, h5::Type type,
                     const std::vector<int64_t>& sizes, const std::vector<size_t>& samples,
                     const std::function<T(size_t sample, size_t element)>& kind) {
  size_t elements = 1;
  for (const int64_t size : sizes) elements *= static_cast<size_t>(size);
  std::vector<float> x;
  std::vector<T> kinds;
  for (const size_t sample : samples) {
    for (size_t i = 0; i < 3; ++i) x.push_back(static_cast<float>((sample * 3 + i) * (sample + i + 5) % 17 + 1) / 17);
    for (size_t i = 0; i < elements; ++i) kinds.push_back(kind(sample, i));
  }
  const auto count = static_cast<int64_t>(samples.size());
  std::vector<int64_t> shape = {count};
  shape.insert(shape.end(), sizes.begin(), sizes.end());
  h5::File file = h5::File::create(folder / name);
  h5::Group root = file.root();
  root.create_dataset("x", h5::Type::f32, {count, 3}).write(h5::Type::f32, x.data());
  root.create_dataset("kind", type, shape).write(type, kinds.data());
  return folder / name;
}

std::string trained_on(const std::string& train, const std::string& test) {
  return "format = \"hdf5\"\npath = \"" + train + "\"\ntest_path = \"" + test + "\"\n";
}

// The last evaluation of a job with this data, on two workers.
Json evaluation_of(const ScratchFolder& folder, const std::string& name, const ProgramParts& program,
                   const std::string& data) {
  const std::string file = folder.write(name + ".pt2", program.file());
  const std::string model = "loss = \"cross_entropy\"\nloss_target = \"kind\"\n";
  const std::string spec = folder.write(name + ".toml", job_of(file, data, model));
  const std::string run = folder / name;
  const Ended ended = estrain(
      {"train", spec, "--run", run, "--devices", "2", "--set", "train.eval_batch=7", "--set", "train.top_k=[1]"});
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  const auto evaluations = record::read_metrics(run + "/metrics.jsonl").evaluations;
  REQUIRE(!evaluations.empty());
  const record::EvaluationRecord& last = evaluations.back();
  CHECK(last.metrics.at(0).second == last.accuracy);  // top1
  return {{"loss", last.loss}, {"accuracy", last.accuracy}, {"predictions", last.predictions}};
}

TEST_CASE("an evaluation counts the targets that are not ignored, as PyTorch's loss does") {
  const ScratchFolder folder;
  ProgramParts logits = small_program();
  logits.set_output("norm");
  std::vector<size_t> all, some;
  for (size_t i = 0; i < 40; ++i) all.push_back(i);
  for (size_t i = 0; i < 40; i += 4) some.push_back(i);
  const auto kinds = [](size_t sample, size_t) -> int16_t { return sample / 2 % 2; };
  const auto quarter = [](size_t sample, size_t) -> int16_t { return sample % 4 == 0 ? sample / 2 % 2 : -100; };
  const std::string train = labelled<int16_t>(folder, "train.h5", h5::Type::i16, {}, all, kinds);
  const std::string ignoring = labelled<int16_t>(folder, "ignoring.h5", h5::Type::i16, {}, all, quarter);
  const std::string without = labelled<int16_t>(folder, "without.h5", h5::Type::i16, {}, some, quarter);
  const Json found = evaluation_of(folder, "one", logits, trained_on(train, ignoring));
  const Json expected = evaluation_of(folder, "two", logits, trained_on(train, without));
  CHECK(found.at("loss").get<double>() == doctest::Approx(expected.at("loss").get<double>()).epsilon(1e-9));
  CHECK(found.at("accuracy") == expected.at("accuracy"));
  CHECK(found.at("predictions") == 10);
  CHECK(expected.at("predictions") == 10);
}

TEST_CASE("targets that are ignored in some places of a sample count in none of an evaluation's means") {
  const ScratchFolder folder;
  ProgramParts places = small_program();
  const auto unsqueezed = [](const char* of, int64_t dim, const char* name) {
    return call_of("torch.ops.aten.unsqueeze.default",
                   {{"self", tensor_argument(of)}, {"dim", object_of("as_int", dim)}}, name);
  };
  places.nodes().push_back(unsqueezed("norm", 2, "classes"));
  places.nodes().push_back(unsqueezed("x", 1, "numbers"));
  places.nodes().push_back(call_of("torch.ops.aten.mul.Tensor",
                                   {{"self", tensor_argument("classes")}, {"other", tensor_argument("numbers")}},
                                   "all"));
  places.set_output("all");  // [n, 2, 3]
  std::vector<size_t> all;
  for (size_t i = 0; i < 40; ++i) all.push_back(i);
  const auto kind = [](size_t sample, size_t place) { return static_cast<int16_t>((sample + place) / 2 % 2); };
  const auto first = [](size_t sample, size_t place) { return sample % 5 == 0 || sample % 3 == place; };
  struct Means {
    double loss, right, predictions;
  };
  const auto means = [&](const std::string& name, const std::function<bool(size_t, size_t)>& counts) -> Means {
    const auto kinds = [&](size_t sample, size_t place) -> int16_t {
      return counts(sample, place) ? kind(sample, place) : static_cast<int16_t>(-100);
    };
    const std::string train = labelled<int16_t>(folder, name + "-train.h5", h5::Type::i16, {3}, all, kind);
    const std::string test = labelled<int16_t>(folder, name + "-test.h5", h5::Type::i16, {3}, all, kinds);
    const Json found = evaluation_of(folder, name, places, trained_on(train, test));
    const double predictions = found.at("predictions").get<double>();
    return {found.at("loss").get<double>() * predictions, found.at("accuracy").get<double>() * predictions,
            predictions};
  };
  const Means whole = means("whole", [](size_t, size_t) { return true; });
  const Means part = means("part", first);
  const Means rest = means("rest", [&](size_t sample, size_t place) { return !first(sample, place); });
  CHECK(whole.predictions == 120);
  CHECK(part.predictions == 56);
  CHECK(rest.predictions == 64);
  CHECK(part.loss + rest.loss == doctest::Approx(whole.loss).epsilon(1e-6));
  CHECK(part.right + rest.right == doctest::Approx(whole.right));
  CHECK(part.loss / part.predictions != doctest::Approx(whole.loss / whole.predictions).epsilon(1e-3));
}

TEST_CASE("probabilities of classes are evaluated as they are trained; eval_batch may be the number of classes") {
  const ScratchFolder folder;
  ProgramParts logits = small_program();
  logits.set_output("norm");
  std::vector<size_t> all;
  for (size_t i = 0; i < 40; ++i) all.push_back(i);
  const auto kind = [](size_t sample) { return sample / 2 % 2; };
  const auto kinds = [&](size_t sample, size_t) { return static_cast<int64_t>(kind(sample)); };
  const auto one_hot = [&](size_t sample, size_t i) { return i == kind(sample) ? 1.0f : 0.0f; };
  const std::string classes = labelled<int64_t>(folder, "classes.h5", h5::Type::i64, {}, all, kinds);
  const std::string hot = labelled<float>(folder, "hot.h5", h5::Type::f32, {2}, all, one_hot);
  const std::string wide = labelled<double>(folder, "wide.h5", h5::Type::f64, {2}, all, one_hot);
  const Json expected = evaluation_of(folder, "classes", logits, trained_on(classes, classes));
  for (const std::string& file : {hot, wide}) {
    CAPTURE(file);
    const Json found = evaluation_of(folder, fs::path(file).stem(), logits, trained_on(file, file));
    CHECK(found.at("loss").get<double>() == doctest::Approx(expected.at("loss").get<double>()).epsilon(1e-4));
    CHECK(found.at("accuracy") == expected.at("accuracy"));
    CHECK(found.at("predictions") == 40);
  }
  const std::string spec = folder / "hot.toml", run = folder / "again";
  REQUIRE(estrain({"train", spec, "--run", run, "--set", "train.eval_batch=2"}).code == 0);
  CHECK(record::read_metrics(run + "/metrics.jsonl").evaluations.back().accuracy == expected.at("accuracy"));
}

TEST_CASE("a loss of the program's own is evaluated without an accuracy, which status and records bear") {
  const Files files;
  const std::string run = files.folder / "run";
  const Ended ended = estrain({"train", files.spec, "--run", run});
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  CHECK(ended.says("step 4: test loss"));
  CHECK_FALSE(ended.says("accuracy"));
  const Ended status = estrain({"status", run});
  INFO(status.shown());
  CHECK(status.code == 0);
}

TEST_CASE("trained weights go back into the program's file, and a job that starts from it has them") {
  const Files files;
  const std::string run = train_on(files.folder, files.spec, "1"), out = files.folder / "trained.pt2";
  const Ended written = estrain({"weights", run, out, "--format", "pt2"});
  INFO(written.shown());
  REQUIRE(written.code == 0);
  CHECK(fs::file_size(out) == fs::file_size(files.program));
  const std::string spec = files.folder.write("next.toml", job_of(out, kVectors));
  const std::string next = train_on(files.folder, spec, "1", {"--set", "train.steps=1"});
  const auto weights = [](const std::string& path) {
    const checkpoint::CheckpointFile file = checkpoint::CheckpointFile::open(path);
    std::string bytes;
    for (size_t i = 0; i < file.layout().tensors.size(); ++i) {
      const checkpoint::StateTensor& tensor = file.layout().tensors[i];
      if (tensor.role != checkpoint::Role::parameter && tensor.role != checkpoint::Role::buffer) continue;
      std::string elements(tensor.bytes(), '\0');
      file.read(i, reinterpret_cast<std::byte*>(elements.data()));
      bytes += elements;
    }
    return bytes;
  };
  const std::string first = next + "/checkpoints/step-000000000.h5";
  CHECK(weights(first) == weights(latest_checkpoint(run)));
  CHECK(weights(first) != weights(run + "/checkpoints/step-000000000.h5"));

  ProgramParts other = small_program();
  other.files["data/weights/weight_0"] = raw<float>({1, 2, 3, 4, 5, 6, 7, 8, 9});
  other.weights["config"]["layer.weight"]["tensor_meta"] = meta_of({3, 3}, 7, true);
  const std::string wrong = files.folder.write("other.pt2", other.file());
  const Ended refusal = estrain({"weights", run, files.folder / "no.pt2", "--format", "pt2", "--program", wrong});
  INFO(refusal.shown());
  CHECK(refusal.code == 1);
  CHECK(refusal.says("other.pt2: its layer.weight is not that of"));
  CHECK_FALSE(fs::exists(files.folder / "no.pt2"));
}

TEST_CASE("the evaluation program gets the trained weights, if the job has one; another one on demand") {
  const Files files;
  const std::string eval_file = files.folder.write("net-eval.pt2", for_evaluation(small_program()).file());
  const std::string spec =
      files.folder.write("both.toml", job_of(files.program, kVectors, "eval_file = \"" + eval_file + "\"\n"));
  const std::string run = train_on(files.folder, spec, "1"), out = files.folder / "out.pt2";
  const auto written = [&](const Words& more) {
    const Ended ended = estrain(with({"weights", run, out, "--format", "pt2", "--force"}, more));
    INFO(ended.shown());
    REQUIRE(ended.code == 0);
    CHECK(ended.says("exported in train() mode") == false);
    return ended.text;
  };
  CHECK(contains(written({}), "the weights after step 9 in " + eval_file));
  CHECK(fs::file_size(out) == fs::file_size(eval_file));
  CHECK(bytes_of(out) != bytes_of(eval_file));
  CHECK(contains(written({"--json"}), "\"program\":\"" + eval_file + "\""));
  CHECK(contains(written({"--program", files.program}), "in " + files.program));
  CHECK(fs::file_size(out) == fs::file_size(files.program));

  const std::string alone = train_on(files.folder, files.spec, "1");
  const Ended ended = estrain({"weights", alone, out, "--format", "pt2", "--force"});
  INFO(ended.shown());
  CHECK(ended.code == 0);
  CHECK(ended.says("net.pt2 was exported in train() mode, so " + out + " drops out"));
}

TEST_CASE("check tells the operators with the user's source line") {
  const Files files;
  const Ended check = estrain({"check", files.spec, "--run", files.folder / "run", "--operators"});
  INFO(check.shown());
  CHECK(check.code == 0);
  CHECK(check.says("layer (net.py:7)"));
  CHECK(check.says("aten::native_batch_norm"));
}

TEST_CASE("check warns of what a program computes otherwise than its user may think") {
  const Files files;
  ProgramParts parts = small_program();
  parts.more["extra/estrain.notes"] = R"(["net.py:3 calls all_gather of torch.distributed"])";
  parts.nodes()[0]["metadata"]["nn_module_stack"] =
      "L__self__,,net.Net;L__self___layer,layer,torch.nn.modules.batchnorm.SyncBatchNorm";
  files.folder.write("net.pt2", parts.file());
  const Ended check = estrain({"check", files.spec, "--run", files.folder / "run"});
  INFO(check.shown());
  CHECK(check.code == 0);
  CHECK(check.says("warning  net.py:3 calls all_gather of torch.distributed"));
  CHECK(check.says("warning  layer is a SyncBatchNorm: each EST takes the statistics of its own mini-batch"));
}

TEST_CASE("a program for one precision is refused at the other, with what to do") {
  const Files files;
  ProgramParts parts = small_program();
  parts.more["extra/estrain.precision"] = "bf16";
  files.folder.write("net.pt2", parts.file());
  const Ended ended = refused(files.folder, files.spec, 2);
  CHECK(ended.says("exported for bf16; at job.precision = \"fp32\" its module computes otherwise"));
  CHECK(ended.says("export it with estrain export --precision fp32"));
}

TEST_CASE("booleans and int32 of a program are in its checkpoints, and go back into its file") {
  const Files files;
  ProgramParts parts = small_program();
  parts.add_stored("buffer", "seen", "b_seen", meta_of({3}, 12), std::string("\1\0\1", 3));
  parts.add_stored("buffer", "count", "b_count32", meta_of({2}, 4), raw<int32_t>({7, -1}));
  parts.nodes().push_back(call_of("torch.ops.aten.add_.Scalar",
                                  {{"self", tensor_argument("b_count32")}, {"other", object_of("as_int", 1)}}, "more"));
  parts.nodes().push_back(
      call_of("torch.ops.aten.logical_not_.default", {{"self", tensor_argument("b_seen")}}, "turned"));
  files.folder.write("net.pt2", parts.file());
  const std::string run = train_on(files.folder, files.spec, "1", {"--set", "train.eval_every=never"});
  CHECK(difference(run, train_on(files.folder, files.spec, "2", {"--set", "train.eval_every=never"})).text == "");
  const Ended written = estrain({"weights", run, files.folder / "out.pt2", "--format", "pt2"});
  INFO(written.shown());
  REQUIRE(written.code == 0);
  const std::string spec = files.folder.write("next.toml", job_of(files.folder / "out.pt2", kVectors));
  const std::string next =
      train_on(files.folder, spec, "1", {"--set", "train.steps=1", "--set", "train.eval_every=never"});
  const h5::File first = h5::File::open(next + "/checkpoints/step-000000000.h5");
  std::vector<int32_t> count(2);
  first.root().group("buffers").dataset("count").read(h5::Type::i32, count.data());
  CHECK(count == std::vector<int32_t>{16, 8});  // after nine steps of every EST
  std::vector<uint8_t> seen(3);
  first.root().group("buffers").dataset("seen").read(h5::Type::u8, seen.data());
  CHECK(seen == std::vector<uint8_t>{0, 1, 0});
}

TEST_CASE("programs that cannot be trained are refused with the reason") {
  const ScratchFolder folder;
  const auto spec_of = [&](const ProgramParts& parts, const std::string& data = kVectors) {
    return folder.write("job.toml", job_of(folder.write("net.pt2", parts.file()), data));
  };
  ProgramParts old = small_program();
  old.model["torch_version"] = "2.4.0";
  CHECK(refused(folder, spec_of(old), 1).says("exported by torch 2.4.0; this estrain is built with LibTorch 2.11"));

  ProgramParts nan = small_program();
  nan.files["data/weights/weight_1"] = raw<float>({1, std::numeric_limits<float>::quiet_NaN()});
  CHECK(refused(folder, spec_of(nan), 1).says("parameter layer.bias holds nan"));

  ProgramParts eval = small_program();
  eval.nodes()[1]["inputs"][2]["arg"] = object_of("as_bool", false);
  eval.nodes()[3]["inputs"][5]["arg"] = object_of("as_bool", false);
  CHECK(refused(folder, spec_of(eval), 2).says("exported in eval() mode"));

  ProgramParts draws = small_program();
  draws.nodes()[1] = call_of("torch.ops.aten.bernoulli.default", {{"self", tensor_argument("linear")}}, "dropout");
  const Ended early = refused(folder, spec_of(draws), 2);  // not at the first evaluation
  CHECK(early.says("aten::bernoulli at net.py:7 draws random numbers"));

  const std::string four = "format = \"synthetic\"\nshape = [4]\nsamples = 300\n";
  CHECK(refused(folder, spec_of(small_program(), four), 2).says("is [s0, 3], a sample of the data is [batch, 4]"));
  CHECK(refused(folder, spec_of(small_program(), arrays(array_file(folder, "z"))), 1)
            .says("lacks dataset x, an input of the program; it has: z, kind"));

  const std::string whole = small_program().file();
  folder.write("net.pt2", whole.substr(0, whole.size() / 2));
  CHECK(refused(folder, folder / "job.toml", 1).says("not a valid zip archive"));
  fs::remove(folder / "net.pt2");
  CHECK(refused(folder, folder / "job.toml", 1).says("net.pt2"));
}

TEST_CASE("labels that the program has no class for: the error tells the values, and nothing is lost") {
  const ScratchFolder folder;
  ProgramParts logits = small_program();
  logits.set_output("norm");
  const std::string run = folder / "run";
  {
    h5::File file = h5::File::create(folder / "wrong.h5");
    std::vector<float> values(40 * 3, 0.5f);
    std::vector<uint8_t> classes(40, 1);
    classes[17] = 5;
    file.root().create_dataset("x", h5::Type::f32, {40, 3}).write(h5::Type::f32, values.data());
    file.root().create_dataset("kind", h5::Type::u8, {40}).write(h5::Type::u8, classes.data());
    file.close();
  }
  const std::string model = "loss = \"cross_entropy\"\nloss_target = \"kind\"\n";
  const std::string spec =
      folder.write("job.toml", job_of(folder.write("net.pt2", logits.file()), arrays(folder / "wrong.h5"), model));
  const Ended ended = estrain({"train", spec, "--run", run, "--set", "data.shuffle=false"});
  INFO(ended.shown());
  CHECK(ended.code == 1);
  CHECK(ended.says("is not one of the model's classes"));
  CHECK(ended.says("the mini-batch has kind 1 to 5"));
  CHECK(ended.says("last good step: 0, saved"));
}

TEST_CASE("check tells what is wrong with a program, and goes on with the rest") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", job_of(folder.write("net.pt2", "no zip at all"), kVectors));
  const Ended check = estrain({"check", spec, "--run", folder / "run"});
  INFO(check.shown());
  CHECK(check.code != 0);
  CHECK(check.says("not a valid zip archive"));
  CHECK(check.says("correct the program first"));
  CHECK(check.says("shared memory"));
}

}  // namespace
}  // namespace estrain::testing
