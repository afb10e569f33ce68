#include "core/base/error.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json/json.h"
#include "tests/error_of.h"

namespace estrain {
namespace {

TEST_CASE("contexts stand before the cause, the outermost first; fault and advice stay") {
  const Error error = error_of([] {
    with_context("resume", [] {
      with_context("read checkpoint 42", [] {
        throw Error::make(Fault::corrupt, "checksum differs: {} and {}", 1, 2)
            .caused_by("damaged_state")
            .advise("use the one before");
      });
    });
  });
  CHECK(error.message() == "resume: read checkpoint 42: checksum differs: 1 and 2");
  CHECK(std::string(error.what()) == error.message());
  CHECK(error.fault() == Fault::corrupt);
  CHECK(error.advice() == "use the one before");
  CHECK(error.cause() == "damaged_state");
}

TEST_CASE("with_context hands on what its body returns, and leaves other exceptions alone") {
  CHECK(with_context("sum", [] { return 3; }) == 3);
  int value = 1;
  with_context("reference", [&]() -> int& { return value; }) = 5;
  CHECK(value == 5);
  CHECK_THROWS_AS(with_context("other", [] { throw 7; }), int);
}

TEST_CASE("exit codes of the faults") {
  const std::pair<Fault, int> expected[] = {
      {Fault::usage, 2},  {Fault::spec, 2}, {Fault::infeasible, 2}, {Fault::corrupt, 1}, {Fault::mismatch, 1},
      {Fault::device, 1}, {Fault::peer, 1}, {Fault::io, 1},         {Fault::bug, 1},     {Fault::interrupted, 75},
  };
  for (const auto& [fault, code] : expected) {
    CAPTURE(fault_name(fault));
    CHECK(exit_code(fault) == code);
  }
}

TEST_CASE("every fault has a name of its own") {
  std::vector<std::string> names;
  for (int value = 0; value <= static_cast<int>(Fault::bug); ++value) {
    const std::string name(fault_name(static_cast<Fault>(value)));
    CHECK(std::ranges::find(names, name) == names.end());
    names.push_back(name);
  }
  CHECK(names.front() == "usage");
  CHECK(names.back() == "bug");
}

TEST_CASE("system errors say what the system said, and what to do about a full disk or a missing permission") {
  const Error missing = system_error("cannot open x", ENOENT);
  CHECK(missing.fault() == Fault::io);
  CHECK(missing.message() == "cannot open x: No such file or directory");
  CHECK(missing.advice().empty());
  for (const int number : {ENOSPC, EDQUOT})
    CHECK(system_error("cannot write x", number).advice().find("free disk space") != std::string::npos);
  CHECK(system_error("cannot write x", EACCES).advice().find("owner and mode") != std::string::npos);
}

TEST_CASE("JSON keeps the order of its keys, and text that is none is corrupt") {
  CHECK(parse_json(R"({"b":1,"a":2})", "note").dump() == R"({"b":1,"a":2})");
  const Error error = error_of([] { parse_json(R"({"b":)", "note"); });
  CHECK(error.fault() == Fault::corrupt);
  CHECK(error.message().starts_with("note: not valid JSON"));
}

}  // namespace
}  // namespace estrain
