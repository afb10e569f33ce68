// Users' rules: what they add to the built-in table, what they change, and what is wrong with them.

#include "core/run/faults/fault_rules.h"

#include <doctest/doctest.h>

#include <csignal>
#include <utility>

#include "core/base/files/files.h"
#include "core/run/faults/diagnosis.h"
#include "tests/contains.h"
#include "tests/core/run/faults/built_in_table.h"
#include "tests/core/run/faults/fault_samples.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::faults {
namespace {

FaultTable with_rules(const std::string& rules) {
  const ScratchFolder folder;
  write_file_atomically(folder / "rules.toml", rules);
  return FaultTable::with_rules(folder / "rules.toml");
}

constexpr const char* license_rule = R"(
[[cause]]
id = "license_gone"
class = "infrastructure"
description = "the licence server does not answer"
retry = true
backoff_seconds = 30
exit_code = 75
advice = "ring the licence office"
signatures = [{ exit_statuses = [42] }, { text = ['licence server', 'ran out of seats'] }]
)";

TEST_CASE("a user's rules add causes, which are asked first") {
  const FaultTable users = with_rules(license_rule);
  CHECK(users.causes().size() == table().causes().size() + 1);
  const Diagnosis found = users.diagnose(ended_with(42, "std::bad_alloc\n"));
  CHECK(found.cause == "license_gone");
  CHECK(found.fault_class == FaultClass::infrastructure);
  CHECK(found.retry);
  CHECK(found.backoff_seconds == 30);
  CHECK(found.exit_code == 75);
  CHECK(found.advice == "ring the licence office");
  CHECK(found.evidence == "exit status 42");
  CHECK(users.diagnose(ended_with(1, "no Licence Server in sight\n")).cause == "license_gone");
  CHECK(users.diagnose(ended_with(1, "std::bad_alloc\n")).cause == "cpu_out_of_memory");
}

TEST_CASE("a user's rules may change what is done about a built-in cause, and how it is recognised") {
  const FaultTable users = with_rules(R"(
    [[cause]]
    id = "disk_full"
    retry = false
    backoff_seconds = 0
    exit_code = 9
    signatures = [{ text = ['the volume has no room'] }]
    [[cause]]
    id = "killed"
    advice = "ask Kim"
  )");
  CHECK(users.causes().size() == table().causes().size());
  for (const char* line : {"No space left on device", "the volume has no room"}) {
    const Diagnosis found = users.diagnose(ended_with(1, line));
    CHECK(found.cause == "disk_full");
    CHECK(found.fault_class == FaultClass::infrastructure);
    CHECK_FALSE(found.retry);
    CHECK(found.exit_code == 9);
    CHECK(found.advice == cause_called(table(), "disk_full").advice);
  }
  CHECK(users.diagnose(ended_by(SIGKILL)).advice == "ask Kim");
  Evidence for_memory = ended_by(SIGKILL);  // the order of rules is unchanged
  for_memory.job_wide_oom = true;
  CHECK(users.diagnose(for_memory).cause == "cpu_out_of_memory");
}

TEST_CASE("a signature holds where all of its conditions do") {
  const FaultTable users = with_rules(R"(
    [[cause]]
    id = "unplugged"
    class = "infrastructure"
    description = "somebody pulled the plug"
    retry = true
    advice = "put it back"
    signatures = [
      { signals = ["SIGHUP", "SIGKILL"], text = ['carrier lost', 'no carrier'] },
      { faults = ["io", "corrupt"], text = ['/mnt/usb'] },
      { hung = true, text = ['eth[0-9] down'] },
    ]
  )");
  const auto cause = [&](const Evidence& evidence) { return users.diagnose(evidence).cause; };
  CHECK(cause(ended_by(SIGKILL, "no carrier\n")) == "unplugged");
  CHECK(cause(ended_by(SIGKILL, "carrier\n")) == "killed");
  CHECK(cause(ended_by(SIGTERM, "no carrier\n")) == "job_preempted");
  CHECK(cause(reported(Fault::io, "/mnt/usb/a: gone")) == "unplugged");
  CHECK(cause(reported(Fault::corrupt, "/mnt/usb/a: truncated")) == "unplugged");  // matched by its kind
  CHECK(cause(reported(Fault::mismatch, "/mnt/usb/a: gone")) == "incorrect_inputs");
  CHECK(cause(reported(Fault::io, "/mnt/disk/a: gone", "/mnt/usb\n")) == "storage_error");  // only the report counts
  CHECK(cause(ended_with(1, "eth0 down\n")) == "no_signature");
  Evidence hung;
  hung.hung = true;
  hung.log_tail = "eth0 down\n";
  CHECK(cause(hung) == "unplugged");
}

TEST_CASE("without a rule file the built-in rules stand alone; one that is not there is an error") {
  CHECK(FaultTable::with_rules("").causes().size() == table().causes().size());
  const Error error = error_of([] { FaultTable::with_rules("/nowhere/rules.toml"); });
  CHECK(error.fault() == Fault::spec);
  CHECK(contains(error.message(), "/nowhere/rules.toml"));
}

// A new cause with all required keys, and `lines` (from line 7 on).
std::string rule_with(const std::string& lines) {
  return "[[cause]]\nid = \"x\"\nclass = \"engine\"\ndescription = \"d\"\nretry = true\nadvice = \"a\"\n" + lines;
}

TEST_CASE("what is wrong with a rule file is said with line and column") {
  const std::string good = "signatures = [{ oom = true }]\n";
  CHECK(with_rules(rule_with(good)).causes().size() == table().causes().size() + 1);
  const std::pair<std::string, const char*> wrong[] = {
      {"cause = 3", ":1:9: cause: must be written as [[cause]], not the integer 3"},
      {"cause = [1]", ":1:10: cause: must be written as [[cause]], not the integer 1"},
      {"[[cause]", ":1:9: not valid TOML"},
      {"[[causes]]\nid = \"x\"", ":1:3: causes: a file of fault rules may contain only [[cause]] tables"},
      {"[[cause]]\nretry = true", ":1:1: cause.id: is missing"},
      {"[[cause]]\nid = \"new\"", ":1:1: cause.class: is missing in the new cause \"new\""},
      {"[[cause]]\nid = \"Disk full\"", ":2:6: cause.id: must be a name of small letters, digits and _"},
      {"[[cause]]\nid = 7", ":2:6: cause.id: must be a name"},
      {rule_with(good) + rule_with(good), ":8:1: cause.id: \"x\" occurs twice in this file"},
      {rule_with(good + "retri = true"), ":8:1: cause.retri: unknown key; did you mean \"retry\"?"},
      {rule_with(good + "zzz = true"), ":8:1: cause.zzz: unknown key; known are \"id\""},
      {rule_with(good + "backoff_seconds = -1"), ":8:19: cause.backoff_seconds: must be a number of seconds from 0 to"},
      {rule_with(good + "backoff_seconds = nan"), ":8:19: cause.backoff_seconds: must be a number of seconds"},
      {rule_with(good + "backoff_seconds = \"1 s\""), "not the string \"1 s\""},
      {rule_with(good + "exit_code = 0"), ":8:13: cause.exit_code: must be an exit code from 1 to 125"},
      {rule_with(good + "exit_code = 126"), ":8:13: cause.exit_code"},
      {rule_with(good + "exit_code = 1.5"), ":8:13: cause.exit_code"},
      {rule_with(good + "less_memory = 1"), ":8:15: cause.less_memory: must be true or false, not the integer 1"},
      {rule_with(good + "study = \"\""), ":8:9: cause.study: must be a text that is not empty"},
      {rule_with("signatures = []"), ":7:14: cause.signatures: must be a list that is not empty"},
      {rule_with("signatures = [{}]"), ":7:15: cause.signatures: must be a table with at least one condition"},
      {rule_with("signatures = [{ sinals = [\"SIGHUP\"] }]"),
       ":7:17: cause.signatures.sinals: unknown key; did you "
       "mean \"signals\"?"},
      {rule_with("signatures = [{ signals = [\"SIGKIL\"] }]"),
       ":7:28: cause.signatures.signals: must be \"SIGKILL\" or another of \"SIGHUP\""},
      {rule_with("signatures = [{ signals = [9] }]"), ":7:28: cause.signatures.signals: must be one of \"SIGHUP\""},
      {rule_with("signatures = [{ signals = \"SIGKILL\" }]"), ":7:27: cause.signatures.signals: must be a list"},
      {rule_with("signatures = [{ faults = [\"disk\"] }]"), ":7:27: cause.signatures.faults: must be "},
      {rule_with("signatures = [{ exit_statuses = [256] }]"), ":7:34: cause.signatures.exit_statuses: must be an exit"},
      {rule_with("signatures = [{ hung = false }]"), ":7:24: cause.signatures.hung: must be true (or be left out)"},
      {rule_with("signatures = [{ named = 1 }]"), ":7:25: cause.signatures.named: must be true (or be left out)"},
      {rule_with("signatures = [{ text = ['a', '(b'] }]"), ":7:30: cause.signatures.text: not a regular expression: "},
      {rule_with("signatures = [{ text = ['(a)\\1'] }]"), ":7:25: cause.signatures.text: back-references"},
      {rule_with("signatures = [{ text = ['x*'] }]"), ":7:25: cause.signatures.text: matches every line"},
      {rule_with("signatures = [{ text = [''] }]"), ":7:25: cause.signatures.text: matches every line"},
      {rule_with("signatures = [{ text = [3] }]"), ":7:25: cause.signatures.text: must be a regular expression"},
      {"[[cause]]\nid = \"syntax_error\"\nretry = true",
       ":3:9: cause.retry: a fault that the user must correct is not"},
      {"[[cause]]\nid = \"disk_full\"\nclass = \"user\"",
       ":1:1: cause.retry: a fault that the user must correct is not"},
      {"[[cause]]\nid = \"disk_full\"\nclass = \"usr\"", ":3:9: cause.class: must be \"user\" or another of \"user\""},
      {"[[cause]]\nid = \"infeasible\"\nretry_at_start = false",
       ":3:18: cause.retry_at_start: has no effect, since retry is false"},
      {"[[cause]]\nid = \"infeasible\"\nother_device = true",
       ":3:16: cause.other_device: has no effect, since retry is false"},
  };
  for (const auto& [rules, what] : wrong) {
    CAPTURE(rules);
    const Error error = error_of([&text = rules] { with_rules(text); });
    CHECK(error.fault() == Fault::spec);
    CHECK_MESSAGE(contains(error.message(), std::string("/rules.toml") + (what[0] == ':' ? what : "")),
                  error.message());
    CHECK_MESSAGE(contains(error.message(), what), error.message());
  }
}

TEST_CASE("all mistakes of a rule file are said at once") {
  const Error error = error_of([] {
    with_rules("[[cause]]\nid = \"killed\"\nretry = 1\nexit_code = 0\n[[cause]]\nid = \"hung\"\nbackof_seconds = 1\n");
  });
  CHECK(contains(error.message(), ":3:9: cause.retry"));
  CHECK(contains(error.message(), "\n"));
  CHECK(contains(error.message(), ":4:13: cause.exit_code"));
  CHECK(contains(error.message(), ":7:1: cause.backof_seconds: unknown key; did you mean \"backoff_seconds\"?"));
  CHECK(contains(error.advice(), "core/run/faults/FAULTS.md"));
}

TEST_CASE("the rule file in FAULTS.md is one") {
  const std::string document = read_file(ESTRAIN_SOURCE_DIR "/core/run/faults/FAULTS.md");
  const size_t begin = document.find("```toml\n") + 8;
  const FaultTable users = with_rules(document.substr(begin, document.find("```", begin) - begin));
  CHECK(users.causes().size() == table().causes().size() + 1);
}

}  // namespace
}  // namespace estrain::faults
