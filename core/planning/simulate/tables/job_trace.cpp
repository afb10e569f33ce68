#include "core/planning/simulate/tables/job_trace.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/planning/simulate/tables/csv_table.h"

namespace estrain::simulate {
namespace {

using Names = std::initializer_list<std::string_view>;

// The column with the first of the names that the table has.
std::optional<size_t> find_column(const CsvTable& table, Names names) {
  const auto* const known = std::ranges::find_if(names, [&](std::string_view name) { return table.has(name); });
  return known == names.end() ? std::nullopt : std::optional(table.column(*known));
}

size_t require_column(const CsvTable& table, const char* what, Names names) {
  if (const auto column = find_column(table, names)) return *column;
  throw Error::make(Fault::spec, "{}: no column tells {}; the columns are {}", table.path(), what, table.all_columns())
      .advise(fmt::format("name the column {}", fmt::join(names, " or ")));
}

bool is_missing(std::string_view field) {
  constexpr std::array kNothing = {std::string_view(""),     std::string_view("None"), std::string_view("NULL"),
                                   std::string_view("null"), std::string_view("NaN"),  std::string_view("nan")};
  return std::ranges::find(kNothing, field) != kNothing.end();
}

// Seconds, or a date.
double time_in(const CsvTable& table, size_t row, size_t column) {
  const auto date = seconds_of_utc(table.text(row, column));
  return date ? *date : table.number_from(row, column, 0);
}

class Columns {
 public:
  explicit Columns(const CsvTable& table)
      : table_(table),
        submitted_(require_column(
            table, "when a job was submitted",
            {"submit_s", "submit_time", "submission_time", "submitted", "arrival_s", "arrival_time", "creation_time"})),
        devices_(require_column(table, "how many devices a job asks for",
                                {"num_gpus", "num_gpu", "gpu_num", "gpus", "gpu_count", "devices"})),
        duration_(find_column(table, {"duration_s", "duration", "run_time", "runtime"})),
        name_(find_column(table, {"name", "job", "job_name", "jobname", "job_id"})),
        owner_(find_column(table, {"vc", "user", "owner", "queue"})),
        model_(find_column(table, {"model", "model_name"})),
        workload_(find_column(table, {"cluster"})),
        deadline_(find_column(table, {"deadline_s", "ddl"})) {
    if (duration_) return;
    end_ = require_column(table, "how long a job ran, or when the job ended",
                          {"duration_s", "end_s", "end_time", "finish_time", "deletion_time", "finished"});
    start_ = require_column(table, "when a job started", {"start_s", "start_time", "scheduled_time", "started"});
  }

  bool has_devices(size_t row) const {
    return !is_missing(table_.text(row, devices_)) && table_.whole(row, devices_, 0) > 0;
  }
  bool has_end(size_t row) const {
    const auto has = [&](size_t column) { return !is_missing(table_.text(row, column)); };
    return duration_ ? has(*duration_) : has(start_) && has(end_);
  }

  TracedJob job(size_t row) const {
    TracedJob job;
    job.name = text(row, name_), job.owner = text(row, owner_), job.model = text(row, model_);
    job.workload = text(row, workload_);
    if (job.name.empty()) job.name = std::to_string(row);
    if (job.workload.empty()) job.workload = "1";
    job.submitted = time_in(table_, row, submitted_);
    job.duration = duration(row);
    job.devices = table_.whole(row, devices_, 1);
    if (deadline_) job.deadline = table_.number(row, *deadline_);
    return job;
  }

 private:
  std::string text(size_t row, std::optional<size_t> column) const {
    return column ? std::string(table_.text(row, *column)) : std::string();
  }
  double duration(size_t row) const {
    if (duration_) return table_.number_from(row, *duration_, 0);
    const double ran = time_in(table_, row, end_) - time_in(table_, row, start_);
    if (ran < 0) throw Error::make(Fault::spec, "{}: the job ends before it starts", table_.place(row, end_));
    return ran;
  }

  const CsvTable& table_;
  size_t submitted_, devices_, start_ = 0, end_ = 0;
  std::optional<size_t> duration_, name_, owner_, model_, workload_, deadline_;
};

}  // namespace

JobTrace read_job_trace(const std::string& path) {
  const CsvTable table = CsvTable::read(path);
  const Columns columns(table);
  JobTrace trace;
  for (size_t row = 0; row < table.rows(); ++row) {
    if (!columns.has_devices(row)) {
      ++trace.without_devices;
    } else if (!columns.has_end(row)) {
      ++trace.without_end;
    } else {
      trace.jobs.push_back(columns.job(row));
    }
  }
  return trace;
}

}  // namespace estrain::simulate
