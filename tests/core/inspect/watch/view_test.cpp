#include "core/inspect/watch/view.h"

#include <doctest/doctest.h>

#include "core/run/launch/control/run_status.h"

namespace estrain::watch {
namespace {

launch::RunStatus status_of(std::string_view json) { return launch::status_from_json(parse_json(json, "test")); }

WatchView training_view() {
  WatchView view;
  view.status = status_of(R"({"name":"long","model":"mlp","run":"runs/long","state":"training","ests":6,"step":300,
    "total_steps":1200,"loss":0.5,"lr":0.01,"samples_per_second":1000,"test_accuracy":0.75,"seconds_left":90,
    "last_checkpoint_step":250,"plan":{"measured_step_seconds":0.0125},
    "workers":[{"id":0,"pid":1,"device":"cpu","ests":[0,4],"seconds_per_mini_batch":0.003,"seconds_waiting_for_data":0.0015},
               {"id":1,"pid":2,"device":"cuda:0","ests":[4,6],"slow":{"factor":1.7,"since_step":200}}]})");
  report::Series losses;
  for (int64_t step = 1; step <= 300; ++step) losses.add(step, 1 / static_cast<double>(step));
  view.losses = losses.in_spans(100);
  report::Mark fault;
  fault.kind = report::MarkKind::fault;
  fault.time = "2031-05-04T10:20:30.000Z";
  fault.event = "fault";
  fault.step = 280;
  fault.words = "worker 1 ended";
  view.events = {fault};
  return view;
}

// Code points, without escape sequences.
size_t width(const std::string& line) {
  size_t columns = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\033') {
      while (i < line.size() && line[i] != 'm') ++i;
    } else {
      columns += (static_cast<unsigned char>(line[i]) & 0xC0) != 0x80;
    }
  }
  return columns;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST_CASE("a view without colours or block elements") {
  const TerminalLook look{100, 24, false, false};
  CHECK(joined(lines_of(training_view(), look)) ==
        "long (mlp, 6 ESTs): training  runs/long\n"
        "step 300 of 1200  #######.......................  25.0 %  1 min 30 s left\n"
        "loss 0.5  #:..__________________________________  steps 1 to 300\n"
        "12.5 ms a step  1000.0 samples/s  lr 0.01  test accuracy 0.7500  checkpoint 250\n"
        "\n"
        "cpu         ####..  ESTs 0 to 3  3 ms a mini-batch  50 % of it waiting for data\n"
        "cuda:0      ....##  ESTs 4 to 5  slow: 1.7 times the usual\n"
        "\n"
        "10:20:30  fault, step 280: worker 1 ended\n");
}

TEST_CASE("colours are there if they are wanted") {
  CHECK(joined(lines_of(training_view(), {100, 24, true, true})).find("\033[31m") != std::string::npos);
  CHECK(joined(lines_of(training_view(), {100, 24, false, true})).find('\033') == std::string::npos);
}

TEST_CASE("whatever the size of the terminal, nothing is wider or longer") {
  WatchView view = training_view();
  std::vector<launch::WorkerStatus>& workers = *view.status.workers;
  while (workers.size() < 100) workers.push_back(workers[0]);
  view.events.resize(20, view.events[0]);
  for (const size_t columns : {1, 2, 7, 20, 39, 80, 300}) {
    for (const size_t rows : {1, 2, 5, 8, 13, 24, 60}) {
      const std::vector<std::string> lines = lines_of(view, {columns, rows, true, true});
      CAPTURE(columns);
      CAPTURE(rows);
      CHECK(lines.size() <= rows);
      for (const std::string& line : lines) CHECK(width(line) <= columns);
      if (rows >= 13 && columns >= 20)
        CHECK(joined(lines).find("\033[31mf") != std::string::npos);  // events have their section
    }
  }
}

TEST_CASE("more workers than there is room for are counted") {
  WatchView view = training_view();
  std::vector<launch::WorkerStatus>& workers = *view.status.workers;
  while (workers.size() < 50) workers.push_back(workers[0]);
  CHECK(joined(lines_of(view, {80, 24, false, false})).find("more workers") != std::string::npos);
}

TEST_CASE("names and messages do not command the terminal") {
  WatchView view = training_view();
  view.status.name =
      "a\033]0;owned\a\033[2Jb\xC2\x9B"
      "31m";
  view.status.workers->front().device = "\033[41mcpu";
  view.events[0].words = "x\r\n\033[1;1Hy";
  view.trouble = "\033c";
  const std::string text = joined(lines_of(view, {100, 24, false, false}));
  CHECK(text.find('\033') == std::string::npos);
  CHECK(text.find('\a') == std::string::npos);
  CHECK(text.find('\r') == std::string::npos);
  CHECK(text.find('\xC2') == std::string::npos);
  CHECK(text.find("a?]0;owned??[2Jb?31m") != std::string::npos);
}

TEST_CASE("one EST is not called several") {
  WatchView view = training_view();
  view.status.workers =
      status_of(R"({"workers":[{"device":"cpu","ests":[3,4]},{"device":"cpu","ests":[4,4]}]})").workers;
  const std::string text = joined(lines_of(view, {80, 24, false, false}));
  CHECK(text.find("  EST 3\n") != std::string::npos);
  CHECK(text.find("  no ESTs\n") != std::string::npos);
}

TEST_CASE("a run without a launcher, and one that says nothing") {
  WatchView view;
  view.status = status_of(R"({"name":"long","model":"mlp","run":"r","state":"finished","ests":6,"step":12})");
  CHECK(lines_of(view, {80, 24, false, false})[1] == "step 12");
  view.status = status_of(R"({"workers":[{},{"ests":[9,-1]}],"ests":-5,"loss":null})");
  CHECK(lines_of(view, {80, 24, false, false}).size() > 4);
}

TEST_CASE("sparklines") {
  CHECK(sparkline({}, true) == "");
  CHECK(sparkline({0, 7}, false) == "_#");
  CHECK(sparkline({0, 7}, true) == "\u2581\u2588");
  CHECK(sparkline({3, 3, 3}, false) == "===");
  CHECK(bar(2, 4, false) == "##..");
}

}  // namespace
}  // namespace estrain::watch
