#include "core/engine/model/exported/program_blocks.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace estrain::model {
namespace {

// A program, written call by call. Values are named; the first use of a name gives the value its number.
class Written {
 public:
  Written& parameter(const std::string& value, const std::string& name) {
    uses_.parameters[number(value)] = name;
    return *this;
  }
  Written& input(const std::string& value) {
    uses_.inputs.push_back(number(value));
    return *this;
  }
  Written& output(const std::string& value) {
    uses_.outputs.push_back(number(value));
    return *this;
  }
  Written& writes_buffer(const std::string& value) {
    uses_.written_buffers.insert(number(value));
    return *this;
  }
  // The latest call is in a module; changes values; and so on.
  Written& call(const std::string& given, const std::vector<std::string>& read, const std::string& module = "") {
    UsedCall call{.module = module};
    for (const std::string& value : read) call.reads.push_back(number(value));
    call.gives = {number(given)};
    uses_.calls.push_back(call);
    return *this;
  }
  Written& changing(const std::vector<std::string>& values) {
    for (const std::string& value : values) latest().changes.push_back(number(value));
    return *this;
  }
  Written& drawing() {
    latest().draws = true;
    return *this;
  }
  Written& measuring() {
    latest().measures = latest().gives_numbers = true;
    return *this;
  }
  Written& giving_a_number() {
    latest().gives_numbers = true;
    return *this;
  }

  std::vector<ProgramBlock> blocks() const {
    ProgramUses uses = uses_;
    uses.values = static_cast<int>(names_.size());
    return blocks_of(uses);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const ProgramBlock& block : blocks()) names.push_back(block.name);
    return names;
  }
  // The activations that cross from block to block.
  std::vector<std::string> crossings() const {
    std::vector<std::string> crossings;
    for (const ProgramBlock& block : blocks())
      if (block.activation >= 0) crossings.push_back(names_[static_cast<size_t>(block.activation)]);
    return crossings;
  }

 private:
  int number(const std::string& name) {
    const auto found = std::ranges::find(names_, name);
    if (found == names_.end()) {
      names_.push_back(name);
      return static_cast<int>(names_.size()) - 1;
    }
    return static_cast<int>(found - names_.begin());
  }
  UsedCall& latest() { return uses_.calls.back(); }

  std::vector<std::string> names_;
  ProgramUses uses_;
};

using Names = std::vector<std::string>;

// Two linear layers with parameters v and w.
Written two_layers() {
  Written program;
  program.input("x").parameter("v", "one.weight").parameter("w", "two.weight");
  return program;
}

TEST_CASE("a chain is cut before each call with parameters; other calls belong to the block before") {
  Written program = two_layers();
  program.input("labels").parameter("b", "two.bias");
  program.call("scaled", {"x"}).call("a", {"scaled", "v"}, "one").call("relu", {"a"}, "act").call("pool", {"relu"});
  program.call("y", {"pool", "w", "b"}, "two").call("loss", {"y", "labels"}).output("loss");
  CHECK(program.names() == Names{"one", "two"});
  CHECK(program.crossings() == Names{"pool"});
  CHECK(program.blocks()[0].begin == 0);
  CHECK(program.blocks()[0].activation == -1);
  CHECK(program.blocks()[1].begin == 4);
}

TEST_CASE("a residual branch lies within a block") {
  Written program = two_layers();
  program.parameter("u", "stem.weight").parameter("t", "head.weight");
  program.call("s", {"x", "u"}, "stem").call("a", {"s", "v"}, "block.one").call("b", {"a", "w"}, "block.two");
  program.call("sum", {"b", "s"}, "block").call("y", {"sum", "t"}, "head").output("y");
  CHECK(program.names() == Names{"stem", "block", "head"});
  CHECK(program.crossings() == Names{"s", "sum"});
}

TEST_CASE("an output that is given early crosses all later cuts") {
  Written program = two_layers();
  program.parameter("u", "middle.weight").call("a", {"x", "v"}, "one").call("term", {"a"});
  program.call("m", {"a", "u"}, "middle").call("y", {"m", "w"}, "two").output("y");
  CHECK(program.crossings() == Names{"a", "m"});
  CHECK(program.output("term").crossings() == Names{"a"});
}

TEST_CASE("a tied weight is on both sides of a cut; a value made of the weight is not") {
  Written program;
  program.input("x").parameter("w", "token.weight").parameter("v", "middle.weight");
  Written turned = program;
  program.call("e", {"x", "w"}, "token").call("m", {"e", "v"}, "middle").call("y", {"m", "w"}, "head").output("y");
  CHECK(program.names() == Names{"token", "middle", "head"});
  turned.call("t", {"w"}, "token").call("e", {"x", "t"}, "token").call("m", {"e", "v"}, "middle");
  turned.call("y", {"m", "t"}, "head").output("y");
  CHECK(turned.crossings().empty());
}

TEST_CASE("what the mini-batch and constants alone give is on both sides of a cut; what is drawn is not") {
  for (const bool draws : {false, true}) {
    CAPTURE(draws);
    Written program = two_layers();
    program.input("tokens").call("mask", {"tokens", "constant"});
    if (draws) program.drawing();
    program.call("a", {"x", "v", "mask"}, "one").call("y", {"a", "w", "mask"}, "two").output("y");
    CHECK(program.crossings() == (draws ? Names{} : Names{"a"}));
  }
}

TEST_CASE("a size does not cross, even of an activation; a number that depends on the activation's elements does") {
  for (const bool measures : {true, false}) {
    CAPTURE(measures);
    Written program = two_layers();
    program.parameter("u", "middle.weight").call("a", {"x", "v"}, "one").call("n", {"a"});
    measures ? program.measuring() : program.giving_a_number();
    program.call("m", {"a", "u"}, "middle").call("y", {"m", "w", "n"}, "two").output("y");
    CHECK(program.crossings() == (measures ? Names{"a", "m"} : Names{"a"}));
  }
  for (const bool is_number : {true, false}) {
    CAPTURE(is_number);
    Written alone = two_layers();
    alone.call("n", {"x", "v"}, "one");
    if (is_number) alone.giving_a_number();  // no tensor, so no leaf
    CHECK(alone.call("y", {"n", "w"}, "two").output("y").crossings() == (is_number ? Names{} : Names{"n"}));
  }
}

TEST_CASE("an activation that is changed behind a place does not cross there, under whatever name") {
  Written program = two_layers();
  program.call("a", {"x", "v"}, "one").call("view", {"a"}).call("added", {"view", "w"}, "two");
  CHECK(Written(program).output("added").crossings() == Names{"view"});
  program.changing({"a", "view", "added"});
  CHECK(Written(program).output("added").crossings().empty());
  // Changed before: as for a ReLU in place.
  Written relu = two_layers();
  relu.call("a", {"x", "v"}, "one").call("r", {"a"}).changing({"a", "r"}).call("y", {"r", "w"}, "two").output("y");
  CHECK(relu.crossings() == Names{"r"});
}

TEST_CASE("an input of the mini-batch that a call changes becomes an activation") {
  Written program = two_layers();
  program.input("z").call("a", {"x", "v"}, "one").call("b", {"z", "a"});
  Written changed = program;
  changed.changing({"z", "b"});
  for (Written* each : {&program, &changed}) each->call("y", {"a", "w"}, "two").call("end", {"y", "z"}).output("end");
  CHECK(program.crossings() == Names{"a"});
  CHECK(changed.crossings().empty());
}

TEST_CASE("a written buffer crosses only where a later call reads what was written") {
  Written program = two_layers();
  program.writes_buffer("mean").call("a", {"x", "v"}, "one").call("n", {"a", "mean"}).changing({"mean"});
  CHECK(Written(program).call("y", {"n", "w"}, "two").output("y").crossings() == Names{"n"});
  CHECK(Written(program).call("y", {"n", "w", "mean"}, "two").output("y").crossings() == Names{"a"});
  Written made = program;
  made.call("old", {"mean"}).call("y", {"n", "w", "old"}, "two").output("y");
  CHECK(made.crossings() == Names{"a"});
  Written only = two_layers();  // the buffer alone crosses, and is no activation
  only.writes_buffer("mean").call("a", {"x", "v", "mean"}, "one").changing({"mean"});
  CHECK(only.call("y", {"x", "w", "mean"}, "two").output("y").crossings().empty());
}

TEST_CASE("what does not depend on the mini-batch is no activation to cut at") {
  Written program;
  program.input("x").parameter("p", "position.weight").parameter("v", "token.weight").parameter("w", "head.weight");
  program.call("rows", {"p"}, "position").call("e", {"x", "v"}, "token").call("sum", {"e", "rows"});
  program.call("y", {"sum", "w"}, "head").output("y");
  CHECK(program.crossings() == Names{"sum"});
  CHECK(program.names() == Names{"position+token", "head"});
}

TEST_CASE("blocks have the names of the user's modules, or of the parameters, once each") {
  Written program;
  program.input("x");
  const auto layer = [&](const std::string& from, const std::string& to, const std::string& parameter,
                         const std::string& module = "") {
    program.parameter(parameter, parameter).call(to, {from, parameter}, module);
  };
  layer("x", "a", "fc.weight");
  layer("a", "b", "raw");
  layer("b", "c", "blocks.0.norm.weight", "blocks.0.norm");
  layer("c", "d", "blocks.0.fc.weight", "blocks.0");
  layer("d", "e", "blocks.0.end.weight", "blocks.0");
  program.output("e");
  CHECK(program.names() == Names{"fc", "raw", "blocks.0.norm", "blocks.0", "blocks.0 (2)"});

  Written joined;
  joined.input("x").parameter("p", "a.weight").parameter("q", "ab.weight").parameter("r", "c");
  joined.call("1", {"p"}).call("2", {"q"}).call("y", {"x", "r", "1", "2"}).output("y");
  CHECK(joined.names() == Names{"a+…+c"});

  Written bare;
  bare.input("x").call("y", {"x"}).output("y");
  CHECK(bare.names() == Names{"without parameters"});
  CHECK(Written().names() == Names{"without parameters"});
}

}  // namespace
}  // namespace estrain::model
