#include <fmt/format.h>

#include <memory>
#include <string>

#include "cmd/commands.h"
#include "core/base/files/temporary_folder.h"
#include "core/base/json/json_text.h"
#include "core/base/visible_text.h"
#include "core/inspect/verify/compare.h"
#include "core/inspect/verify/replay.h"
#include "core/inspect/verify/report.h"
#include "core/run/launch/launcher/copied_run.h"

namespace estrain::cmd {
namespace {

constexpr int kDiffers = 3;

struct VerifyArguments {
  std::string a, b;
  bool replay = false, json = false;
};

// Repeats the steps before the difference with the placement of each run, and returns the verdict.
verify::ReplayVerdict replay_both(const VerifyArguments& arguments, const verify::ReplayPlan& plan) {
  const TemporaryFolder scratch("replay");
  const std::string a = scratch.path() + "/a", b = scratch.path() + "/b";
  launch::replay(arguments.a, plan.from, plan.to, a);
  launch::replay(arguments.b, plan.from, plan.to, b);
  return verify::judge_replay(plan, verify::open_subject(arguments.a), verify::open_subject(arguments.b),
                              verify::open_subject(a), verify::open_subject(b));
}

int compare(const VerifyArguments& arguments) {
  const verify::Comparison comparison = verify::compare(arguments.a, arguments.b);
  Json json = verify::to_json(comparison);
  std::string text = verify::to_text(comparison);
  if (arguments.replay && !comparison.identical()) {
    if (const auto plan = verify::plan_replay(comparison, verify::open_subject(arguments.a))) {
      const verify::ReplayVerdict verdict = replay_both(arguments, *plan);
      json["replay"] = verify::to_json(verdict);
      text += verify::to_text(verdict);
    } else {
      text += "no replay: the runs have no equal checkpoint before the difference\n";
    }
  }
  fmt::print("{}", arguments.json ? json_text(json) + "\n" : visible(text));
  return comparison.identical() ? 0 : kDiffers;
}

}  // namespace

void add_verify(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("verify", "Compare two runs, or two checkpoints, bit for bit");
  auto arguments = std::make_shared<VerifyArguments>();
  verb->add_option("A", arguments->a, "Run directory or checkpoint")->required();
  verb->add_option("B", arguments->b, "Run directory or checkpoint")->required();
  verb->add_flag(
      "--replay", arguments->replay,
      "If they differ, repeat the steps from the last equal checkpoint: names the element, and tells a flipped "
      "bit from a systematic difference");
  verb->add_flag("--json", arguments->json, "Print the findings as JSON");
  verb->callback([arguments, &chosen] { chosen = [arguments] { return compare(*arguments); }; });
}

}  // namespace estrain::cmd
