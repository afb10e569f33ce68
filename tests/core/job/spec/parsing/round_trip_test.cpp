#include <algorithm>
#include <filesystem>

#include "core/base/files/files.h"
#include "tests/core/job/spec/random_spec.h"
#include "tests/core/job/spec/spec_text.h"

namespace estrain::spec {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> config_files() {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(ESTRAIN_SOURCE_DIR "/configs"))
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  std::sort(files.begin(), files.end());  // the same damage on every machine
  return files;
}

TEST_CASE("every config is a job that this version can do, and goes round") {
  CHECK(config_files().size() >= 7);
  for (const std::string& file : config_files()) {
    CAPTURE(file);
    const JobSpec spec = parse_file(file);
    CHECK(spec.job.name == fs::path(file).stem());
    CHECK(parse_text(to_toml(spec), "resolved") == spec);
    CHECK(read_file(file).rfind("# ", 0) == 0);  // starts with a title
  }
}

TEST_CASE("random specs go round") {
  std::mt19937_64 random(20240229);
  for (int i = 0; i < 500; ++i) {
    const JobSpec spec = random_spec(random);
    const std::string text = to_toml(spec);
    CAPTURE(text);
    const JobSpec back = parse_text(text, "resolved");
    CHECK(back == spec);
    CHECK(to_toml(back) == text);
  }
}

TEST_CASE("damaged specs are refused with a spec error or taken, nothing else") {
  std::mt19937_64 random(7);
  size_t refused = 0;
  for (const std::string& file : config_files()) {
    const std::string whole = read_file(file);
    for (int i = 0; i < 100; ++i) {
      std::string text = whole;
      for (int edits = 0; edits < 3; ++edits) text[random() % text.size()] = static_cast<char>(random() % 128);
      if (i % 4 == 0) text.resize(random() % text.size());
      try {
        parse_text(text, file);
      } catch (const Error& error) {
        CAPTURE(text);
        CHECK(error.fault() == Fault::spec);
        CHECK(error.message().rfind(file, 0) == 0);
        ++refused;
      }
    }
  }
  CHECK(refused > 100);
}

TEST_CASE("the resolved spec of the smallest one") {
  const JobSpec spec = parse_text(smallest, "job.toml");
  const std::string text = to_toml(spec);
  CHECK(text.find(
            "[job]\nname = \"job\"\nseed = 0\nests = 1\ndeterminism = \"D1\"\nkernels = \"torch\"\n"
            "precision = \"fp32\"\nalgorithms = \"measured\"\ncuda_graphs = \"off\"\nexchange = \"auto\"\nstate = "
            "\"device\"\nthreads = 1\n\n"
            "[model]\nname = \"mlp\"\n# init = \"\"\ninit_match = []\ninit_prefix = []\n# classes is not set: the data "
            "set's; text: 256\n"
            "hidden = [128]\n# dropout is not set: gpt 0.1, vgg 0.5, mlp 0\n\n[data]\nformat = \"synthetic\"\n") == 0);
  CHECK(text.find("start_factor") == std::string::npos);  // belongs to another schedule
  CHECK(text.find("betas") == std::string::npos);
  CHECK(text.find("eval_every = \"epoch\"\n") != std::string::npos);
  CHECK(text.find("# epochs is not set: train.steps says\n") != std::string::npos);
}

}  // namespace
}  // namespace estrain::spec
