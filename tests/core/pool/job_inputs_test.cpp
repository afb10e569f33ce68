#include "core/pool/job_inputs.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "tests/scratch_folder.h"

namespace estrain::pool {
namespace {

using Files = std::vector<std::string>;

TEST_CASE("a job's inputs are all of its data files, its exported model and its weights, each once, and no code") {
  spec::JobSpec spec;
  CHECK(inputs_of(spec).empty());
  spec.data.images = "/d/images";
  spec.data.labels = "/d/labels";
  spec.data.test_images = spec.data.images;
  spec.data.test_labels = "/d/test-labels";
  spec.data.test_path = "/d/test";
  spec.data.sample_weights = "/d/weights.txt";
  spec.model.init = "/w/init.safetensors";
  CHECK(inputs_of(spec) ==
        Files{"/d/images", "/d/labels", "/d/test-labels", "/d/test", "/d/weights.txt", "/w/init.safetensors"});
  spec::JobSpec program;
  program.data.path = "/d/train.h5";
  program.model.name = "program";
  program.model.file = "/m/net.pt2";
  program.model.eval_file = "/m/net-eval.pt2";
  CHECK(inputs_of(program) == Files{"/d/train.h5", "/m/net.pt2", "/m/net-eval.pt2"});
  program.model.name = "python";
  program.model.file = "/m/net.py:build";
  program.model.eval_file = "";
  CHECK(inputs_of(program) == Files{"/d/train.h5"});
}

TEST_CASE("files are found in an error by the inputs that their names begin with, also with spaces and colons") {
  const ScratchFolder folder;
  std::filesystem::create_directory(folder / "my data");
  const std::string a = folder.write("my data/a b: c.tar", "x"), b = folder.write("my data/b", "x"),
                    c = folder.write("my data/b c", "x");
  const std::string in = folder / "my data";
  CHECK(files_named_in(a + ": not a whole tar archive: Damaged", {in}) == Files{a});
  CHECK(files_named_in("rank 1: " + c + " became shorter; " + b + ", " + a, {in}) == Files{c, b, a});
  CHECK(files_named_in(b + ": x\n" + b + ": x", {in}) == Files{b});
  CHECK(files_named_in("'" + a + "' is damaged", {a}) == Files{a});
  CHECK(files_named_in("data: " + in + ": the training set is empty", {in}) == Files{in});
  CHECK(files_named_in(in + "/gone.jpg: No such file", {in}) == Files{in});
  CHECK(files_named_in(in + "\nlast lines", {in}) == Files{in});
}

TEST_CASE("names that go on, or are part of another path, are no inputs") {
  CHECK(files_named_in("/data/train2: truncated", {"/data/train"}).empty());
  CHECK(files_named_in("/data/train.old/x: truncated", {"/data/train"}).empty());
  CHECK(files_named_in("/mnt/data/train: truncated", {"/data/train"}).empty());
  CHECK(files_named_in("no file at all", {"/data/train"}).empty());
  CHECK(files_named_in("/data/train: truncated", {}).empty());
}

}  // namespace
}  // namespace estrain::pool
