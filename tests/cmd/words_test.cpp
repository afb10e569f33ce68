// Help, the reference, man pages and completion, as the program gives them and as the tree holds them.

#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <set>

#include "command.h"
#include "core/base/exit_codes.h"
#include "tests/scratch_folder.h"

namespace estrain::testing {
namespace {

namespace fs = std::filesystem;

const std::string kTree = ESTRAIN_SOURCE_DIR;

Json help_as_json(const Words& words) {
  const Ended ended = estrain(with(with({"help"}, words), {"--json"}));
  REQUIRE(ended.code == 0);
  return parse_json(ended.text, "stdout");
}

std::vector<std::string> verbs() {
  std::vector<std::string> names;
  for (const Json& topic : help_as_json({})) {
    if (topic.at("kind") == "command") names.push_back(topic.at("name"));
  }
  return names;
}

// "pool serve" -> {"pool", "serve"}
Words words_in(const std::string& verb) {
  const size_t space = verb.find(' ');
  return space == verb.npos ? Words{verb} : Words{verb.substr(0, space), verb.substr(space + 1)};
}

Ended shell(const std::string& script) { return Command({}, {.before = script + "; exit"}).wait(); }

TEST_CASE("configs/REFERENCE.md is what `estrain help --reference` prints") {
  CHECK(bytes_of(kTree + "/configs/REFERENCE.md") == estrain({"help", "--reference"}).text);
}

TEST_CASE("the help of every command is the transcript in tests/cmd/help, which has no other") {
  std::set<std::string> transcripts;
  for (const auto& entry : fs::directory_iterator(kTree + "/tests/cmd/help")) {
    if (entry.path().extension() == ".txt") transcripts.insert(entry.path().stem());  // beside the tests of cmd/help
  }
  CHECK(estrain({"--help"}).text == bytes_of(kTree + "/tests/cmd/help/estrain.txt"));
  transcripts.erase("estrain");
  const auto names = verbs();
  REQUIRE(names.size() > 10);
  for (const std::string& verb : names) {
    CAPTURE(verb);
    const std::string name = fmt::format("{}", fmt::join(words_in(verb), "-"));
    REQUIRE(transcripts.erase(name) == 1);
    CHECK(estrain(with(words_in(verb), {"--help"})).text == bytes_of(kTree + "/tests/cmd/help/" + name + ".txt"));
  }
  CHECK(transcripts.empty());
}

TEST_CASE("README names every command and every exit code as the program does") {
  const std::string readme = bytes_of(kTree + "/README.md");
  for (const std::string& verb : verbs()) {
    if (words_in(verb).size() == 1) CHECK_MESSAGE(readme.find("| `estrain " + verb) != readme.npos, verb);
  }
  for (const ExitCode& code : exit_codes) {
    const std::string row = fmt::format("| {} | {} |\n", code.code, code.meaning);
    CHECK_MESSAGE(readme.find(row) != readme.npos, row);
  }
}

TEST_CASE("a word that is not known: similar ones, in words and as data") {
  const Ended ended = estrain({"help", "data.bach", "--json"});
  INFO(ended.shown());
  CHECK(ended.code == 2);
  CHECK(ended.says("did you mean \"data.batch\""));
  const size_t begin = ended.text.find('{');
  const Json answer = parse_json(ended.text.substr(begin, ended.text.find('\n', begin) - begin), "stdout");
  CHECK(answer.at("similar").at(0) == "data.batch");
  CHECK(estrain({"stats"}).says("did you mean \"status\"?"));
  CHECK(estrain({"train", "x.toml", "--devicess", "2"}).says("did you mean --devices?"));
}

TEST_CASE("an error without advice of its own gets that of its kind") {
  const Ended ended = estrain({"stop"});
  INFO(ended.shown());
  CHECK(ended.code == 2);
  CHECK(ended.says("see `estrain help` and `estrain help COMMAND`"));
}

TEST_CASE("there is a manual page for every command, and groff takes all of them without a warning") {
  const ScratchFolder folder;
  REQUIRE(estrain({"help", "--man", folder / "man"}).code == 0);
  std::set<std::string> expected = {"estrain.1", "estrain-spec.5", "estrain-errors.7"}, found;
  for (const std::string& verb : verbs()) expected.insert(fmt::format("estrain-{}.1", fmt::join(words_in(verb), "-")));
  for (const auto& entry : fs::directory_iterator(folder / "man")) found.insert(entry.path().filename());
  CHECK(found == expected);
  const Ended ended = shell("groff -k -man -Tutf8 -ww -z " + (folder / "man") + "/*");
  INFO(ended.shown());
  CHECK(ended.code == 0);
  CHECK(ended.text.empty());
}

// Bash's offers behind these words, the last of which is being typed.
std::string completed(const std::string& file, const std::string& words) {
  return shell(fmt::format("bash -c 'compopt() {{ :; }}; . {}; COMP_WORDS=({}); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); "
                           "_estrain; echo ${{COMPREPLY[*]}}'",
                           file, words))
      .text;
}

TEST_CASE("bash completes commands, options, words of options, keys and topics") {
  const ScratchFolder folder;
  const std::string file = folder.write("estrain.bash", estrain({"help", "--completion"}).text);
  CHECK(completed(file, "estrain res") == "resize\n");
  CHECK(completed(file, "estrain train --dev") == "--devices\n");
  CHECK(completed(file, "estrain weights run --format s") == "safetensors\n");
  CHECK(completed(file, "estrain train --set data.bat") == "data.batch=\n");
  CHECK(completed(file, "estrain help disk_") == "disk_full\n");
  CHECK(completed(file, "estrain train job.t") == "\n");  // files: bash's own
  CHECK(completed(file, "estrain pool sub") == "submit\n");
  CHECK(completed(file, "estrain pool submit dir job.toml --dead") == "--deadline\n");
}

}  // namespace
}  // namespace estrain::testing
