#include "core/state/record/logs/openmetrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files/long_files.h"
#include "core/base/files/own_file.h"
#include "core/base/files/run_files.h"
#include "core/base/json/json_fields.h"
#include "core/base/json/json_text.h"

namespace estrain::record {
namespace {

constexpr Nanoseconds kPeriod = 1s;
constexpr size_t kMostEventNames = 100;

// The value of a label: UTF-8 without control characters, with special characters escaped.
std::string label(const std::string& text) {
  const std::string utf8 = parse_json(json_text(Json(text)), "a label").get<std::string>();
  std::string safe;
  for (const char byte : utf8) {
    if (byte == '\\' || byte == '"') safe += '\\';
    if (byte == '\n')
      safe += "\\n";
    else
      safe += byte >= 0 && (byte < ' ' || byte == '\x7F') ? ' ' : byte;
  }
  return safe;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

// Writes the file; removes the partial file if the write fails.
void write_beside(const std::string& path, const std::string& content) {
  const std::string beside = path + ".tmp";
  const UniqueFd file = create_temporary(beside);
  for (size_t done = 0; done < content.size();) {
    const ssize_t written = ::write(file.get(), content.data() + done, content.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const Error refused = system_error("cannot write " + beside, errno);
      ::unlink(beside.c_str());
      throw Error(refused);
    }
    done += static_cast<size_t>(written);
  }
  if (::rename(beside.c_str(), path.c_str()) != 0) throw system_error("cannot replace " + path, errno);
}

}  // namespace

void OpenMetricsWriter::note(const StepRecord& step) {
  step_ = step;
  step_time_ = wall_seconds();
  is_new_ = true;
}

void OpenMetricsWriter::write_if_due(MonotonicTime now) {
  if (!is_new_ || now < next_) return;
  next_ = now + kPeriod;
  write();
}

void OpenMetricsWriter::write() {
  follow_events();
  write_beside(RunFiles(run_).open_metrics(), text());
  is_new_ = false;
}

void OpenMetricsWriter::follow_events() {
  LineReader lines(RunFiles(run_).events(), read_);
  for (std::string_view line; lines.next(&line);) {
    const Json event = parse_json_if_sound(line);
    const auto name = text_in(event, "event");
    if (!name) continue;
    if (events_.size() < kMostEventNames || events_.contains(*name)) ++events_[*name];
    if (*name == "stage") workers_ = whole_in(event, "workers").value_or(0);
  }
  read_ = lines.end();
}

std::string OpenMetricsWriter::text() const {
  const std::string labels = fmt::format("job_name=\"{}\",run=\"{}\"", label(job_), label(run_));
  std::string text;
  const auto gauge = [&](std::string_view name, std::string_view help, double value) {
    text += fmt::format("# TYPE estrain_{0} gauge\n# HELP estrain_{0} {1}\nestrain_{0}{{{2}}} {3}\n", name, help,
                        labels, number(value));
  };
  if (step_) {
    gauge("step", "The last step.", static_cast<double>(step_->step.value));
    gauge("epoch", "The epoch of its samples.", static_cast<double>(step_->epoch.value));
    gauge("loss", "Its loss, the mean of the ESTs.", static_cast<double>(step_->loss));
    gauge("learning_rate", "Its learning rate.", step_->lr);
    gauge("samples_per_second", "Its speed; 0: unknown.", step_->samples_per_second);
    gauge("last_step_timestamp_seconds", "When it was recorded.", step_time_);
  }
  if (evaluation_) {
    gauge("evaluation_step", "The last step with an evaluation.", static_cast<double>(evaluation_->step.value));
    gauge("test_loss", "Its loss on the test set.", evaluation_->loss);
    if (evaluation_->predictions > 0)
      gauge("test_accuracy", "Its accuracy on the test set, 0 to 1.", evaluation_->accuracy);
  }
  gauge("workers", "Workers of the newest stage.", static_cast<double>(workers_));
  text += "# TYPE estrain_events counter\n# HELP estrain_events Lines of events.jsonl, by event.\n";
  for (const auto& [name, count] : events_)
    text += fmt::format("estrain_events_total{{{},event=\"{}\"}} {}\n", labels, label(name), count);
  return text + "# EOF\n";
}

}  // namespace estrain::record
