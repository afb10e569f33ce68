#include "core/run/launch/control/progress.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace estrain::launch {
namespace {

TEST_CASE("durations are told in two units at most") {
  const std::pair<double, const char*> expected[] = {
      {0, "0 s"},
      {0.4, "0 s"},
      {0.6, "1 s"},
      {59.4, "59 s"},
      {59.6, "1 min 00 s"},
      {185, "3 min 05 s"},
      {3599.4, "59 min 59 s"},
      {3599.6, "1 h 00 min"},
      {7800, "2 h 10 min"},
      {360'000, "100 h 00 min"},
  };
  for (const auto& [seconds, text] : expected) CHECK(format_duration(seconds) == text);
}

TEST_CASE("a progress line says what is known") {
  Progress progress;
  progress.step = 120;
  progress.total_steps = 5625;
  progress.epoch = 1;
  progress.loss = 0.56789;
  progress.samples_per_second = 3204.26;
  progress.devices = "2 x cpu";
  CHECK(format_progress(progress) == "step 120/5625  epoch 2  loss 0.5679  3204.3 samples/s  on 2 x cpu");
  Progress finished_before = progress;
  finished_before.samples_per_second = finished_before.loss = 0;
  CHECK(format_progress(finished_before) == "step 120/5625  epoch 2  on 2 x cpu");
  finished_before.total_steps = 100;
  CHECK(format_progress(finished_before) == "step 120  epoch 2  on 2 x cpu");
  progress.epochs = 3;
  CHECK(format_progress(progress) == "step 120/5625  epoch 2 of 3  loss 0.5679  3204.3 samples/s  on 2 x cpu");
  progress.epochs = 1;  // users may lower it
  CHECK(format_progress(progress) == "step 120/5625  epoch 2  loss 0.5679  3204.3 samples/s  on 2 x cpu");
  progress.accuracy = 0.8912;
  progress.seconds_left = 61;
  CHECK(format_progress(progress) ==
        "step 120/5625  epoch 2  loss 0.5679  3204.3 samples/s  on 2 x cpu  test accuracy 89.12 %  1 min 01 s left");
}

// The screen of a terminal after these bytes.
class FakeTerminal {
 public:
  explicit FakeTerminal(size_t columns) : columns_(columns) {}

  std::vector<std::string> rows(const std::string& sent) {
    rows_ = {""};
    at_ = 0;
    for (size_t i = 0; i < sent.size(); ++i) {
      if (sent[i] == '\r') {
        at_ = 0;
      } else if (sent[i] == '\n') {
        new_row();
      } else if (sent.compare(i, 3, "\033[K") == 0) {
        rows_.back().resize(std::min(at_, rows_.back().size()));
        i += 2;
      } else {
        put(sent[i]);
      }
    }
    for (std::string& row : rows_) row.erase(row.find_last_not_of(' ') + 1);
    return rows_;
  }

 private:
  void new_row() {
    rows_.emplace_back();
    at_ = 0;
  }
  void put(char c) {
    if (at_ == columns_) new_row();
    std::string& row = rows_.back();
    row.resize(std::max(row.size(), at_ + 1), ' ');
    row[at_++] = c;
  }

  size_t columns_, at_ = 0;
  std::vector<std::string> rows_;
};

// The output so far.
class Output {
 public:
  Output() : file_(std::tmpfile()) { REQUIRE(file_ != nullptr); }
  ~Output() { std::fclose(file_); }
  Output(const Output&) = delete;

  std::FILE* file() const { return file_; }
  std::string text() const {
    std::string text(static_cast<size_t>(std::ftell(file_)), '\0');
    std::rewind(file_);
    REQUIRE(std::fread(text.data(), 1, text.size(), file_) == text.size());
    return text;
  }

 private:
  std::FILE* file_;
};

Screen ansi(std::FILE*) { return {true, true, 40}; }
Screen dumb(std::FILE*) { return {true, false, 40}; }
Screen no_terminal(std::FILE*) { return {false, true, 40}; }

Progress at_step(int64_t step, const std::string& devices = "2 x cpu") {
  Progress progress;
  progress.step = step;
  progress.devices = devices;
  return progress;
}

TEST_CASE("an event takes the place of the line of progress, whole, also behind a re-exec and on any terminal") {
  for (Screen (*const screen)(std::FILE*) : {ansi, dumb}) {
    const Output output;
    ProgressPrinter printer(1, output.file(), screen);
    printer.note("begins");
    printer.show(at_step(5), kNoTime);
    printer.show(at_step(6, "a"), kNoTime);
    printer.note("an event");
    printer.note("another");
    printer.show(at_step(7, "a device with a name that is longer than a row of the terminal"), kNoTime);
    ProgressPrinter successor(1, output.file(), screen);
    successor.note("step 7: 2 -> 1");
    successor.show(at_step(8), kNoTime);
    CHECK(FakeTerminal(40).rows(output.text()) ==
          std::vector<std::string>{"begins", "an event", "another", "step 7: 2 -> 1", "step 8  epoch 1  on 2 x cpu"});
  }
}

TEST_CASE("what is no terminal gets lines and nothing else") {
  const Output output;
  ProgressPrinter printer(1, output.file(), no_terminal);
  printer.show(at_step(5), kNoTime);
  printer.note("an event");
  printer.show(at_step(7, "a device with a name that is longer than a row of the terminal"), kNoTime);
  CHECK(output.text() ==
        "step 5  epoch 1  on 2 x cpu\nan event\n"
        "step 7  epoch 1  on a device with a name that is longer than a row of the terminal\n");
}

TEST_CASE("a dumb terminal gets no escape sequence") {
  const Output output;
  ProgressPrinter printer(1, output.file(), dumb);
  printer.show(at_step(5), kNoTime);
  printer.note("an event");
  CHECK(output.text().find('\033') == std::string::npos);
}

TEST_CASE("the time that is left is never negative") {
  Progress progress;
  progress.step = 90;
  progress.total_steps = 100;
  CHECK(seconds_until_done(progress, 0.5) == 5);
  progress.step = 120;  // the number of steps has been lowered
  CHECK(seconds_until_done(progress, 0.5) == 0);
}

}  // namespace
}  // namespace estrain::launch
