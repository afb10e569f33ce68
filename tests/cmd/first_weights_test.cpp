// Published weights become a job's first weights: converted by the user's Python where torch.save wrote them, from
// files in parts, of other precisions, under other names, in part.

#include <doctest/doctest.h>

#include <filesystem>

#include "core/base/files/files.h"
#include "job.h"
#include "job_specs.h"

namespace estrain::testing {
namespace {

namespace fs = std::filesystem;

bool python_is_there() { return fs::exists(ESTRAIN_PEERS_PYTHON); }

constexpr const char* kSave = R"(import os
import sys
import h5py
import torch
with h5py.File(sys.argv[1]) as file:
    arrays = {name: torch.from_numpy(file["model"][name][...]) for name in file["model"]}
wrapped = {"module." + name: array for name, array in arrays.items()}
torch.save({"state_dict": wrapped, "epoch": 7}, sys.argv[2])
torch.save({"model": wrapped, "ema": {"model": arrays}}, sys.argv[3], _use_new_zipfile_serialization=False)
torch.save(torch.nn.Linear(2, 2), sys.argv[4])
torch.save({"epoch": 7}, sys.argv[5])
beside = sys.argv[5].removesuffix("empty.pth")
torch.save({"weight": torch.empty(3, device="meta")}, beside + "meta.pth")
class Runs:
    def __reduce__(self):
        return os.system, ("true",)
torch.save({"weight": Runs()}, beside + "code.pth")
with open(sys.argv[2], "rb") as file:
    half = file.read()[:1000]
with open(beside + "half.pth", "wb") as file:
    file.write(half)
)";

// A trained job, and its weights as Python's programs keep them.
struct Published {
  ScratchFolder folder;
  std::string spec = folder.write("job.toml", mlp_job());
  std::string run = train_on(folder, spec, "1", {"--set", "train.steps=2"});
  std::string one = folder / "one.pth", several = folder / "several.pth", module = folder / "module.pth",
              empty = folder / "empty.pth";

  Published() {
    REQUIRE(estrain({"weights", run, folder / "a.h5", "--format", "hdf5"}).code == 0);
    const std::string script = folder.write("save.py", kSave);
    const std::string command =
        fmt::format("{} {} {} {} {} {} {}", ESTRAIN_PEERS_PYTHON, script, folder / "a.h5", one, several, module, empty);
    REQUIRE(std::system(command.c_str()) == 0);
  }
  Ended convert(const std::string& file, const Words& more = {}) const {
    return estrain(
        with({"weights", file, folder / "out.safetensors", "--force", "--python", ESTRAIN_PEERS_PYTHON}, more));
  }
  std::string trained(const std::string& name, const std::string& devices, const Words& more) const {
    const std::string to = folder / name;
    const Ended ended = estrain(with(
        {"train", spec, "--run", to, "--devices", devices, "--set", "train.steps=3", "--set", "train.eval_every=never"},
        more));
    INFO(ended.shown());
    CHECK(ended.code == 0);
    return to;
  }
  int compared(const std::string& a, const std::string& b) const { return estrain({"verify", a, b}).code; }
};

TEST_CASE("a file of torch.save is converted, and gives a job the weights that it has" *
          doctest::skip(!python_is_there())) {
  const Published files;
  const Words checkpoint = {"--set", "model.init=" + files.run + "/checkpoints/latest"};
  const std::string expected = files.trained("expected", "1", checkpoint);
  const Words converted = {"--set", "model.init=" + files.folder / "out.safetensors"};
  const Words prefix = {"--set", "model.init_prefix=[\"module.\"]"};

  CHECK(files.convert(files.one).code == 0);
  CHECK(files.compared(files.trained("one", "2", with(converted, prefix)), expected) == 0);
  CHECK(files.convert(files.several, {"--key", "ema.model"}).code == 0);
  CHECK(files.compared(files.trained("averages", "1", converted), expected) == 0);

  // The last layer from the seed: other bits, whichever the workers.
  const Words part = with(converted, {"--set", R"(model.init_match=["*", "!layers.2.*"])"});
  const std::string of_one = files.trained("part", "1", part);
  CHECK(files.compared(of_one, expected) == 3);
  CHECK(files.compared(files.trained("part-of-two", "2", part), of_one) == 0);
}

// A tensor of a safetensors file, with elements near 0.01 in the type's own bits.
struct PublishedTensor {
  std::string name, type, shape;
  size_t elements;
};

std::string element_bits(const std::string& type, size_t i) {
  std::string bytes(type == "F64" ? 8 : 2, '\1');
  bytes[bytes.size() - 1] = type == "BF16" ? '\x3c' : type == "F16" ? '\x21' : '\x3f';
  bytes[bytes.size() - 2] = static_cast<char>(type == "F64" ? 0x80 + i % 16 : i % 128);
  return bytes;
}

void write_part(const ScratchFolder& folder, const std::string& file, const std::vector<PublishedTensor>& tensors) {
  Json header = Json::object();
  std::string elements;
  for (const PublishedTensor& tensor : tensors) {
    const size_t begin = elements.size();
    for (size_t i = 0; i < tensor.elements; ++i) elements += element_bits(tensor.type, i);
    header[tensor.name] = {
        {"dtype", tensor.type}, {"shape", Json::parse(tensor.shape)}, {"data_offsets", {begin, elements.size()}}};
  }
  const std::string text = header.dump();
  const uint64_t length = text.size();
  folder.write(file, std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + elements);
}

TEST_CASE("weights in parts, of half and double precision, without their head: no trace of resizes, a kill, a resume") {
  const ScratchFolder folder;
  write_part(folder, "a.safetensors",
             {{"net.layers.0.weight", "BF16", "[48, 24]", 48 * 24}, {"net.layers.0.bias", "F16", "[48]", 48}});
  write_part(folder, "b.safetensors",
             {{"net.layers.1.weight", "F64", "[32, 48]", 32 * 48},
              {"net.layers.1.bias", "F16", "[32]", 32},
              {"net.layers.2.weight", "BF16", "[1000, 32]", 1000 * 32}});
  const Json parts = {{"net.layers.0.weight", "a.safetensors"},
                      {"net.layers.0.bias", "a.safetensors"},
                      {"net.layers.1.weight", "b.safetensors"},
                      {"net.layers.1.bias", "b.safetensors"},
                      {"net.layers.2.weight", "b.safetensors"}};
  const std::string index = folder.write("model.safetensors.index.json", Json{{"weight_map", parts}}.dump());
  const std::string plain = mlp_job(), keys = "init = \"" + index +
                                              "\"\ninit_prefix = [\"net.\"]\ninit_match = "
                                              "[\"*\", \"!layers.2.*\"]\n";
  std::string text = plain;
  const std::string spec = folder.write("job.toml", text.insert(text.find("dropout"), keys));
  const Ended checked = estrain({"check", spec});
  INFO(checked.shown());
  CHECK(checked.code == 0);
  CHECK(checked.says("4 of 6 tensors come from the file; from the seed: layers.2.weight, layers.2.bias"));
  check_disturbed_job(folder, spec, {"cpu=1,cpu=7", "3"});
  const Ended whole = estrain({"train", spec, "--run", folder / "whole", "--set", "model.init_match=[]"});
  INFO(whole.shown());
  CHECK(whole.code != 0);
  CHECK(whole.says("layers.2.weight is BF16 [1000, 32] in the file, float32 [10, 32] in the model"));
  folder.write("b.safetensors", read_file(folder / "b.safetensors").substr(0, 3000));
  const Ended cut = estrain({"train", spec, "--run", folder / "cut"});
  INFO(cut.shown());
  CHECK(cut.code == 1);
  CHECK(cut.says("b.safetensors"));
}

TEST_CASE("what is no state_dict is refused by name" * doctest::skip(!python_is_there())) {
  const Published files;
  const auto refused = [&](const std::string& file, const Words& more, const char* says, const char* advice) {
    const Ended ended = files.convert(file, more);
    INFO(ended.shown());
    CHECK(ended.code == 1);
    CHECK(ended.says(says));
    CHECK(ended.says(advice));
    CHECK_FALSE(fs::exists(files.folder / "out.safetensors"));
  };
  refused(files.several, {}, "several state_dicts: model, ema.model", "--key");
  refused(files.several, {"--key", "emma"}, "there is no state_dict emma", "model, ema.model");
  refused(files.module, {}, "without running code", "state_dict()");
  refused(files.folder / "code.pth", {}, "without running code from it: Trying to load unsupported GLOBAL", "save");
  refused(files.folder / "half.pth", {}, "torch cannot read it", "cut short");
  refused(files.folder / "meta.pth", {}, "weight has a shape and no values", "with its values");
  refused(files.empty, {}, "no state_dict", "state_dict()");
  const Ended spec = estrain({"train", files.spec, "--run", files.folder / "x", "--set", "model.init=" + files.one});
  CHECK(spec.code != 0);
  CHECK(spec.says("a file of torch.save"));
  CHECK(spec.says("estrain weights"));
  CHECK(estrain({"weights", files.run, "--key", "model"}).code == 2);
  const std::string safetensors = files.folder / "a.safetensors";
  REQUIRE(estrain({"weights", files.run, safetensors}).code == 0);
  const Ended again = estrain({"weights", safetensors, files.folder / "b.safetensors"});
  CHECK(again.code == 2);
  CHECK(again.says("a safetensors file already"));
  CHECK(estrain({"weights", files.one, files.folder / "x.h5", "--format", "hdf5"}).code == 2);
}

}  // namespace
}  // namespace estrain::testing
