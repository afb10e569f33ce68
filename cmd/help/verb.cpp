#include "cmd/help/verb.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

namespace estrain::help {
namespace {

struct Example {
  std::string_view command, words, does;
};

constexpr Example kExamples[] = {
    {"", "demo", "shows in a minute what estrain is for"},
    {"", "check job.toml", "tells what would keep the job from running"},
    {"", "train job.toml --run runs/a --devices 2", "trains on two CPU workers"},
    {"", "resize runs/a --devices 4", "goes over to four, while the job runs"},
    {"", "stop runs/a", "ends it with a checkpoint"},
    {"", "train --resume --run runs/a", "continues it"},
    {"", "help data.batch", "explains a key, an error, a word"},
    {"demo", "demo", ""},
    {"train", "train job.toml", "into runs/<job name>, on the devices of the spec"},
    {"train", "train job.toml --run runs/a --devices cuda:0,cuda:1", "on two GPUs"},
    {"train", "train job.toml --set train.epochs=3 --set optimizer.lr=0.01", "with other keys of the spec"},
    {"train", "train --resume --run runs/a --devices 3", "continues a run, on three CPU workers"},
    {"stop", "stop runs/a", ""},
    {"change", "change runs/a --batch 64 --lr-factor 2", ""},
    {"resize", "resize runs/a --devices 4", "four CPU workers"},
    {"resize", "resize runs/a --devices cpu=3,cpu=5", "two, with three and five ESTs"},
    {"resize", "resize runs/a --devices auto", "the best split over the devices that the job has"},
    {"offer", "offer runs/a cpu,cpu", ""},
    {"reclaim", "reclaim runs/a cpu --within 5s", ""},
    {"agent", "agent --run /shared/runs/a", "a host that sees the run directory"},
    {"agent", "agent --join nodeA:7000 --key-file network.key", "a host that does not"},
    {"status", "status", "a table of the runs in ./runs"},
    {"status", "status runs/a --watch", "a run, until it ends"},
    {"report", "report runs/a", "writes a.html"},
    {"report", "report runs/a runs/b --html both.html", "two runs side by side"},
    {"verify", "verify runs/a runs/b", ""},
    {"verify", "verify runs/a runs/b --replay", "finds the element that differs"},
    {"evaluate", "evaluate runs/a", "the newest state"},
    {"evaluate", "evaluate runs/a --write out.h5", "with the outputs of each sample, for metrics of one's own"},
    {"audit", "audit runs/a", ""},
    {"check", "check job.toml", ""},
    {"check", "check job.toml --devices cuda:0 --operators", "on a GPU; with the model's operators"},
    {"plan", "plan job.toml --devices 4", ""},
    {"plan", "plan --run runs/a --offer cpu,cpu", "whether two devices more pay for a job"},
    {"pool serve", "pool serve /shared/pool --devices 8", ""},
    {"pool submit", "pool submit /shared/pool job.toml --set train.epochs=3", ""},
    {"pool submit", "pool submit /shared/pool sweep.toml --background", "as a guest, on what others leave"},
    {"simulate", "simulate jobs.csv --policy fifo,estrain", ""},
    {"help", "help train", "a command"},
    {"help", "help EST", "a word"},
    {"help", "help disk_full", "the id at the end of a message, or the message"},
};

}  // namespace

std::string Verb::usage() const {
  std::string text = "estrain " + name;
  if (!options.empty()) text += " [OPTIONS]";
  for (const Option& argument : arguments) {
    const std::string one = argument.names.front() + (argument.repeats ? "..." : "");
    text += argument.required ? " " + one : fmt::format(" [{}]", one);
  }
  return text;
}

std::string title_of(const Option& option) {
  std::string text = fmt::format("{}", fmt::join(option.names, ", "));
  if (!option.choices.empty()) return fmt::format("{} {}", text, fmt::join(option.choices, "|"));
  return option.value.empty() ? text : text + " " + option.value;
}

std::string examples_of(const std::string& command) {
  size_t width = 0;
  for (const Example& example : kExamples)
    if (example.command == command) width = std::max(width, example.words.size());
  if (width == 0) return "";
  std::string text = "Examples:\n";
  for (const Example& example : kExamples) {
    if (example.command != command) continue;
    text += example.does.empty() ? fmt::format("  estrain {}\n", example.words)
                                 : fmt::format("  estrain {:<{}}  # {}\n", example.words, width, example.does);
  }
  return text + "\n";
}

}  // namespace estrain::help
