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

// The lines "  estrain …" under "Examples:", without the remark behind them.
Words examples_in(const std::string& text) {
  Words found;
  const size_t begin = text.find("Examples:\n");
  if (begin == text.npos) return found;
  for (size_t at = begin; (at = text.find("\n  estrain ", at)) != text.npos; ++at) {
    const std::string line = text.substr(at + 11, text.find('\n', at + 1) - at - 11);
    found.push_back(line.substr(0, line.find("  #")));
  }
  return found;
}

TEST_CASE("the examples in the help have commands and options that there are") {
  const auto names = verbs();
  std::set<std::string> tops;
  for (const std::string& name : names) tops.insert(words_in(name).front());
  const Words of_program = examples_in(estrain({"--help"}).text);
  CHECK(of_program.size() >= 4);
  for (const std::string& example : of_program) CHECK_MESSAGE(tops.count(words_in(example).front()) == 1, example);
  size_t with_examples = 0;
  for (const std::string& verb : names) {
    const std::string text = estrain(with(words_in(verb), {"--help"})).text;
    const Words all = examples_in(text);
    with_examples += !all.empty();
    for (const std::string& example : all) {
      CAPTURE(example);
      CHECK(example.starts_with(verb));
      for (size_t at = 0; (at = example.find(" --", at)) != example.npos; ++at) {
        const std::string option = example.substr(at + 1, example.find(' ', at + 1) - at - 1);
        CHECK_MESSAGE(text.find("  " + option + " ") != text.npos, option);
      }
    }
  }
  CHECK(with_examples > 10);
}

TEST_CASE("the help has the commands in groups") {
  const std::string text = estrain({"--help"}).text;
  for (const char* group : {"\nTrain:\n", "\nChange the devices of a job:\n", "\nLook at runs:\n"})
    CHECK_MESSAGE(text.find(group) != text.npos, group);
  CHECK(text.find("Subcommands:") == text.npos);
}

TEST_CASE("a message ends with its id, which help knows") {
  const Ended ended = estrain({"train"});
  CHECK(ended.says("estrain: no job spec given [usage]\n"));
  const Ended explained = estrain({"help", ended.text.substr(0, ended.text.find('\n'))});
  CHECK(explained.code == 0);
  CHECK(explained.text.starts_with("usage (kind of error)"));
}

TEST_CASE("the guide names every command and every exit code as the program does") {
  const std::string guide = bytes_of(kTree + "/core/GUIDE.md");
  for (const std::string& verb : verbs()) {
    if (words_in(verb).size() == 1) CHECK_MESSAGE(guide.find("| `estrain " + verb) != guide.npos, verb);
  }
  for (const ExitCode& code : exit_codes) {
    const std::string row = fmt::format("| {} | {} |\n", code.code, code.meaning);
    CHECK_MESSAGE(guide.find(row) != guide.npos, row);
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

TEST_CASE("an option that is a key of the spec: --set with the key and the value that was given") {
  const auto meant = [](const Words& words) {
    const Ended ended = estrain(words);
    CHECK(ended.code == 2);
    const size_t begin = ended.text.find("did you mean ");
    return begin == ended.text.npos ? "" : ended.text.substr(begin, ended.text.find('\n', begin) - begin);
  };
  CHECK(meant({"train", "--epochs", "3"}) == "did you mean --set train.epochs=3?");
  CHECK(meant({"train", "x.toml", "--epochs=3", "--run", "r"}) == "did you mean --set train.epochs=3?");
  CHECK(meant({"check", "x.toml", "--eval-every", "2"}) == "did you mean --set train.eval_every=2?");
  CHECK(meant({"pool", "submit", "p", "x.toml", "--epochs"}) == "did you mean --set train.epochs=VALUE?");
  CHECK(meant({"train", "x.toml", "--name_", "a"}) == "did you mean --name?");
  CHECK(meant({"train", "x.toml", "--unit", "step", "--period", "3"}) == "did you mean --set schedule.unit=step?");
  CHECK(meant({"status", "r", "--epochs", "3"}) == "");     // status takes no --set
  CHECK(meant({"train", "x.toml", "--every", "3"}) == "");  // several keys end in it
}

TEST_CASE("the version, asked for in three ways") {
  const Ended long_option = estrain({"--version"});
  CHECK(long_option.code == 0);
  CHECK(long_option.text.starts_with("estrain "));
  for (const Words& words : {Words{"-V"}, Words{"version"}}) {
    const Ended ended = estrain(words);
    CHECK(ended.code == 0);
    CHECK(ended.text == long_option.text);
  }
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
