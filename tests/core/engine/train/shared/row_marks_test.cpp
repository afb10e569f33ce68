#include "core/engine/train/shared/row_marks.h"

#include <ATen/ops/zeros.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

#include "core/state/comm/job_memory.h"

namespace estrain::train {
namespace {

constexpr int64_t kRowsOfTable = 4100;  // the last word of marks is not full

// Two workers' marks of a small matrix, a table, and a table of 2^18 rows of one element.
class MarksOfTwo {
 public:
  MarksOfTwo() : places_(tensors(), layout_) {
    comm::MemoryPlan plan;
    plan.manifest = "the manifest";
    plan.state_bytes = plan.gradient_bytes = 64;
    plan.ests = 2;
    plan.parameters = 3;
    plan.digests = plan.ring_records = 4;
    plan.row_mark_words = places_.row_mark_words();
    memory_.lay_out(plan);
  }

  ModelPlaces& places() { return places_; }
  RowMarks marks(int64_t worker) {
    const auto rank = [](int64_t number) { return VirtualRank(number); };
    return {places_, memory_, StageOrder{WorkerRank(worker), {{rank(0), rank(1)}, {rank(1), rank(2)}}}};
  }

 private:
  static model::NamedTensors tensors() {
    model::NamedTensors tensors;
    tensors.parameters.emplace_back("small", at::zeros({100, 10}));
    tensors.parameters.emplace_back("table", at::zeros({kRowsOfTable, 64}));
    tensors.parameters.emplace_back("narrow", at::zeros({1 << 18, 1}));
    return tensors;
  }

  checkpoint::StateLayout layout_;
  ModelPlaces places_;
  UniqueFd fd_ = comm::JobMemory::create();
  comm::JobMemory memory_{fd_.get()};
};

using Rows = std::set<int64_t>;

std::vector<RowNumber> numbers_of(const Rows& rows) { return {rows.begin(), rows.end()}; }

Rows drawn(std::mt19937& random) {
  Rows rows;
  for (int runs = static_cast<int>(random() % 40); runs > 0; --runs) {
    const int64_t first = static_cast<int64_t>(random() % kRowsOfTable),
                  length = 1 + static_cast<int64_t>(random() % 150);
    for (int64_t row = first; row < std::min(kRowsOfTable, first + length); ++row) rows.insert(row);
  }
  return rows;
}

Rows part_of(const Rows& rows, size_t begin, size_t end) {
  return {rows.lower_bound(static_cast<int64_t>(begin)), rows.lower_bound(static_cast<int64_t>(end))};
}

// The rows of the runs that for_each calls with; requires that no two runs touch.
template <typename ForEach>
Rows rows_of_runs(ForEach&& for_each) {
  Rows rows;
  size_t last_end = 0;
  bool is_first = true;
  for_each([&](size_t begin, size_t end) {
    CHECK(begin < end);
    CHECK((is_first || begin > last_end));
    is_first = false;
    last_end = end;
    for (size_t row = begin; row < end; ++row) rows.insert(static_cast<int64_t>(row));
  });
  return rows;
}

TEST_CASE("the rows that any worker has marked come in runs, apart from those of the step before") {
  MarksOfTwo two;
  RowMarks marks[2] = {two.marks(0), two.marks(1)};
  std::mt19937 random(1);
  Rows before;
  for (int64_t step = 0; step < 20; ++step) {
    CAPTURE(step);
    for (RowMarks& of_worker : marks) of_worker.begin_step(Step(step));
    CHECK(marks[0].are_few(1) == (step > 0));
    Rows now;
    for (RowMarks& of_worker : marks) {
      for (int est = 0; est < 2; ++est) {
        const Rows rows = drawn(random);
        of_worker.mark(1, numbers_of(rows));
        now.insert(rows.begin(), rows.end());
      }
    }
    Rows only_before;
    std::ranges::set_difference(before, now, std::inserter(only_before, only_before.end()));
    const size_t cut = random() % kRowsOfTable;
    for (const auto& [begin, end] : {std::pair<size_t, size_t>{0, cut}, {cut, kRowsOfTable}, {0, kRowsOfTable}}) {
      const size_t first = begin, last = end;
      CHECK(
          (rows_of_runs([&](auto take) { marks[1].for_each_run(1, first, last, take); }) == part_of(now, first, last)));
      if (step == 0) continue;
      CHECK((rows_of_runs([&](auto take) { marks[0].for_each_run_before(1, first, last, take); }) ==
             part_of(only_before, first, last)));
    }
    before = now;
  }
}

TEST_CASE("a worker that marks all rows does so for all workers, in this step and the next") {
  MarksOfTwo two;
  RowMarks first = two.marks(0), second = two.marks(1);
  const auto begin = [&](int64_t step) {
    first.begin_step(Step(step));
    second.begin_step(Step(step));
  };
  begin(6);
  begin(7);
  CHECK(second.are_few(1));
  first.mark_all(1);
  CHECK_FALSE(second.are_few(1));
  CHECK(second.are_few(2));
  begin(8);
  CHECK_FALSE(first.are_few(1));
  CHECK_FALSE(second.are_few(1));
  begin(9);
  CHECK(second.are_few(1));
}

TEST_CASE("what is no table has no marks") {
  MarksOfTwo two;
  CHECK(two.places().table(0).rows == 0);
  CHECK(two.places().table(1).rows == kRowsOfTable);
  RowMarks marks = two.marks(0);
  for (const int64_t step : {0, 1}) {
    marks.begin_step(Step(step));
    marks.mark(0, numbers_of({1, 99}));
    marks.mark_all(0);
    CHECK_FALSE(marks.are_few(0));
  }
  CHECK(marks.are_few(1));
}

}  // namespace
}  // namespace estrain::train
