// D2 between machines: the networks of the zoo, trained for some steps, reach the states with the digests in
// pinned_d2.txt, on each kind of CPU that this machine can act as. Only integers are compared. Both VGGs are excluded:
// 130 million parameters in any configuration, 1 GB of files and 17 s of CPU time per run.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "core/state/record/logs/fingerprints.h"
#include "core/state/record/logs/metrics.h"
#include "cpu_kinds.h"
#include "job.h"
#include "job_specs.h"
#include "kernels/digest.h"

namespace estrain::testing {
namespace {

const std::string kPinned = std::string(ESTRAIN_SOURCE_DIR) + "/tests/cmd/pinned_d2.txt";

// {network: digest}.
std::map<std::string, std::string> pinned_digests() {
  std::map<std::string, std::string> pinned;
  std::ifstream file(kPinned);
  for (std::string line, name; std::getline(file, line);) {
    std::istringstream words(line);
    if (words >> name && name[0] != '#') words >> pinned[name];
  }
  return pinned;
}

struct Network {
  std::string name, model, data, optimizer;
};

const char* const kImages = R"(format = "synthetic"
shape = [3, 16, 16]
samples = 30
batch = 4
pad = 1
crop = [16, 16]
flip = true
)";

// Its blocks end in one pixel, so their batch norms need at least this many samples.
const char* const kLargerImages = R"(format = "synthetic"
shape = [3, 32, 32]
samples = 48
batch = 8
)";

// The smallest configuration of each, together with dropout, clipping, each optimizer, groups, momentum.
std::vector<Network> networks(const std::string& text) {
  const std::string vectors = "format = \"synthetic\"\nshape = [24]\nsamples = 40\nbatch = 4\n";
  const std::string digits = R"(format = "synthetic"
shape = [1, 28, 28]
samples = 20
batch = 2
pad = 2
crop = [28, 28]
flip = true
mean = [0.45]
std = [0.3]
)";
  const std::string book = "format = \"text\"\nholdout = 0.1\nbatch = 2\npath = \"" + text + "\"\n";
  const std::string momentum = "name = \"sgd\"\nlr = 0.05\nmomentum = 0.9\nnesterov = true\nweight_decay = 0.0005\n";
  const std::string adamw =
      "name = \"adamw\"\nlr = 0.01\nweight_decay = 0.05\n[[optimizer.groups]]\nmatch = [\"*.bias\"]\nweight_decay = "
      "0.0\n";
  return {
      {"mlp", "hidden = [48, 32]\ndropout = 0.2\nclasses = 10", vectors, adamw},
      {"lenet", "classes = 10", digits, momentum},
      {"resnet18", "classes = 10", kImages, momentum},
      {"resnet34", "classes = 10", kImages, "name = \"adam\"\nlr = 0.001\n"},
      {"resnet50", "classes = 10", kLargerImages, "name = \"sgd\"\nlr = 0.001\nmomentum = 0.9\ndampening = 0.1\n"},
      {"gpt", "layers = 1\nheads = 2\nwidth = 32\ncontext = 32\ndropout = 0.1", book, adamw},
  };
}

std::string spec_of(const Network& network) {
  return fmt::format(
      "[job]\nname = \"{0}\"\nseed = 21\nests = 3\ndeterminism = \"D2\"\n[model]\nname = \"{0}\"\n{1}\n[data]\n{2}"
      "[optimizer]\n{3}[schedule]\nname = \"cosine\"\nunit = \"step\"\nperiod = 6\nwarmup = 1\n"
      "[train]\nsteps = 3\neval_every = 3\nclip_grad_norm = 1.0\nlabel_smoothing = 0.05\n[checkpoint]\nevery = 0\n",
      network.name, network.model, network.data, network.optimizer);
}

// Digest of the final state, the losses of all steps, and the evaluation.
std::string digest_of(const std::string& run) {
  const record::FingerprintReader prints(run + "/fingerprints");
  const record::Metrics metrics = record::read_metrics(run + "/metrics.jsonl");
  REQUIRE(prints.size() == 3);
  REQUIRE(metrics.evaluations.size() == 1);
  const auto last = prints.digests(2);
  std::vector<uint64_t> words(last.begin(), last.end());
  for (const record::StepRecord& step : metrics.steps)
    for (const float loss : step.est_losses) words.push_back(std::bit_cast<uint32_t>(loss));
  words.push_back(std::bit_cast<uint64_t>(metrics.evaluations[0].loss));
  return fmt::format("{:016x}", kernels::digest(words.data(), 8 * words.size()));
}

void check_pinned(const Network& network, const std::string& found) {
  const std::map<std::string, std::string> pinned = pinned_digests();
  const auto at = pinned.find(network.name);
  const std::string expected = at == pinned.end() ? "not pinned" : at->second;
  CAPTURE(network.name);
  INFO("If these bits are meant to change, on every machine, the line in ", kPinned, " becomes: ", network.name, " ",
       found);
  CHECK(found == expected);
}

TEST_CASE("networks at D2 have the state that is pinned, on every kind of CPU") {
  for (const char* kind : {"cpu:avx512", "cpu:avx2", "cpu:sse"}) {
    if (std::ranges::count(kinds(), std::string(kind)) == 0)
      fmt::print("skipped: pinned digests on {}, which this machine has not\n", kind);
  }
  const ScratchFolder folder;
  for (const Network& network : networks(folder.write("book.txt", some_text(1600)))) {
    const std::string spec = folder.write("job.toml", spec_of(network));
    for (const std::string& devices : kinds()) {
      CAPTURE(devices);
      const std::string run = train_on(folder, spec, devices);
      check_pinned(network, digest_of(run));
      std::filesystem::remove_all(run);
    }
  }
}

}  // namespace
}  // namespace estrain::testing
