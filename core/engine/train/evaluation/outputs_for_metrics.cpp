#include "core/engine/train/evaluation/outputs_for_metrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/json/codec.h"
#include "core/base/json/json_text.h"
#include "core/state/checkpoint/bytes/byte_io.h"
#include "core/state/checkpoint/models/output_parts.h"
#include "core/state/comm/output_mail.h"

namespace estrain::train {
namespace {

using comm::OutputMail;

constexpr const char* kFromHosts = "outputs of another host";
constexpr uint64_t kMostText = 1 << 20;

constexpr auto kBetweenTries = 500ms, kNap = 50ms;
constexpr size_t kLongestName = 16;  // of a thread, with the zero at the end

// The name of this thread in the list of processes, until the end of the wait.
class NameWhileWaiting {
 public:
  NameWhileWaiting() {
    ::prctl(PR_GET_NAME, name_.data());
    ::prctl(PR_SET_NAME, "waits for room");
  }
  ~NameWhileWaiting() { ::prctl(PR_SET_NAME, name_.data()); }
  NameWhileWaiting(const NameWhileWaiting&) = delete;
  NameWhileWaiting& operator=(const NameWhileWaiting&) = delete;

 private:
  std::array<char, kLongestName> name_{};
};

// Returns false if the disk has no room.
bool write_once(const std::function<void()>& write, bool is_first) {
  try {
    write();
    return true;
  } catch (const Error& error) {
    if (!checkpoint::lacks_room(error)) throw;
    if (is_first)
      fmt::print(stderr, "warning: {}; the evaluation waits until there is room, and training with it: {}\n",
                 error.message(), error.advice());
    return false;
  }
}

// Before a host's part of a round.
struct PartHead {
  uint64_t bytes = 0;
  uint64_t has_more = 0;
};

// The form in which the rows of an output travel, batch by batch: this head, RowsText as JSON, the rows.
struct RowsHead {
  uint64_t text_bytes = 0, row_bytes = 0;
};

struct RowsText {
  checkpoint::OutputColumn column;
  int64_t first = 0, rows = 0;

  ESTRAIN_FIELDS(column, first, rows)
};

// All rows of a host as one stream of bytes: one batch of one output is in memory at a time.
class LeavingRows {
 public:
  struct Batch {
    int64_t first = 0, rows = 0;
  };

  LeavingRows(std::string folder, std::vector<Batch> batches)
      : folder_(std::move(folder)), batches_(std::move(batches)) {
    if (!batches_.empty()) columns_ = checkpoint::outputs_in(folder_).columns;
  }

  size_t fill(std::span<std::byte> room) {
    size_t filled = 0;
    while (filled < room.size()) {
      if (at_ == waiting_.size() && !take_next()) break;
      const size_t count = std::min(room.size() - filled, waiting_.size() - at_);
      std::memcpy(room.data() + filled, waiting_.data() + at_, count);
      filled += count;
      at_ += count;
    }
    return filled;
  }

 private:
  bool take_next() {
    if (column_ == columns_.size()) return false;
    const checkpoint::OutputColumn& column = columns_[column_];
    const Batch& batch = batches_[batch_];
    const std::string text = json_text(codec::fields_of(RowsText{column, batch.first, batch.rows}));
    const RowsHead head = {text.size(), static_cast<uint64_t>(batch.rows * column.row_bytes())};
    waiting_.resize(sizeof head + head.text_bytes + head.row_bytes);
    std::memcpy(waiting_.data(), &head, sizeof head);
    std::memcpy(waiting_.data() + sizeof head, text.data(), text.size());
    const std::string path = checkpoint::rows_path(folder_, column);
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) throw system_error("cannot read " + path, errno);
    checkpoint::read_bytes(file.get(), static_cast<uint64_t>(batch.first * column.row_bytes()),
                           waiting_.data() + sizeof head + text.size(), head.row_bytes);
    at_ = 0;
    if (++batch_ == batches_.size()) {
      batch_ = 0;
      ++column_;
    }
    return true;
  }

  const std::string folder_;
  const std::vector<Batch> batches_;
  std::vector<checkpoint::OutputColumn> columns_;
  size_t column_ = 0, batch_ = 0;  // the next
  std::vector<std::byte> waiting_;
  size_t at_ = 0;
};

// The rows of another host, put to their places as they arrive.
class ArrivingRows {
 public:
  // `host`: its place among the hosts. `write`: when_there_is_room() of this worker.
  using Write = std::function<void(const std::function<void()>&)>;
  ArrivingRows(const std::string& folder, size_t host, Write write)
      : parts_(folder, -1 - static_cast<int64_t>(host)), write_(std::move(write)) {}

  void take(std::span<const std::byte> part) {
    here_.insert(here_.end(), part.begin(), part.end());
    size_t at = 0;
    while (const size_t taken = take_rows(std::span(here_).subspan(at))) at += taken;
    here_.erase(here_.begin(), here_.begin() + static_cast<ptrdiff_t>(at));
  }

  void require_end() const {
    if (!here_.empty()) throw Error::make(Fault::corrupt, "{}: end within a row", kFromHosts);
  }

 private:
  // Returns the bytes of the first batch; 0: not all of the batch is here.
  size_t take_rows(std::span<const std::byte> here) {
    RowsHead head;
    if (here.size() < sizeof head) return 0;
    std::memcpy(&head, here.data(), sizeof head);
    if (head.text_bytes > kMostText) throw Error::make(Fault::corrupt, "{}: no such rows", kFromHosts);
    const uint64_t rest = here.size() - sizeof head;
    if (rest < head.text_bytes || rest - head.text_bytes < head.row_bytes) return 0;
    const std::byte* text = here.data() + sizeof head;
    RowsText told;
    codec::read_fields(parse_json(std::string(reinterpret_cast<const char*>(text), head.text_bytes), kFromHosts), told);
    if (told.first < 0 || told.rows < 0 || static_cast<uint64_t>(told.rows * told.column.row_bytes()) != head.row_bytes)
      throw Error::make(Fault::corrupt, "{}: {} rows of {} in {} bytes", kFromHosts, told.rows, told.column.text(),
                        head.row_bytes);
    write_([&] { parts_.put(told.column, told.first, told.rows, text + head.text_bytes); });
    return sizeof head + head.text_bytes + head.row_bytes;
  }

  checkpoint::OutputParts parts_;
  const Write write_;
  std::vector<std::byte> here_;
};

}  // namespace

void when_there_is_room(comm::JobMemory& memory, comm::WorkerPulse& pulse, const std::function<void()>& write) {
  if (write_once(write, true)) return;
  const NameWhileWaiting named;
  do {
    for (auto waited = 0ms; waited < kBetweenTries; waited += kNap) {
      pulse.beat(comm::Activity::waiting_for_room, monotonic_ns());
      std::this_thread::sleep_for(kNap);
      if (memory.gate().aborted()) return;
    }
  } while (!write_once(write, false));
}

HostsCorrespondence::HostsCorrespondence(Workplace& place, const StageOrder& order, Step step)
    : place_(place), order_(order), step_(step) {}

bool HostsCorrespondence::leads() const { return OutputMail(place_.memory.evaluation()).own() == 0; }

bool HostsCorrespondence::is_own_batch(int64_t batch) const {
  const int64_t worker = batch % order_.all_workers() - order_.beyond->first_worker;
  return worker >= 0 && worker < static_cast<int64_t>(order_.workers());
}

bool HostsCorrespondence::exchange(const Next& next, const Take& take) {
  OutputMail mail(place_.memory.evaluation());
  comm::WorkerPulse& pulse = place_.memory.pulse(order_.rank());
  for (bool has_more = true; has_more;) {
    const std::span<std::byte> own = mail.slot(mail.own(), mail.hosts());
    PartHead part;
    const std::span<std::byte> room = own.subspan(sizeof part);
    part.bytes = next(room);
    part.has_more = part.bytes == room.size() ? 1 : 0;
    std::memcpy(own.data(), &part, sizeof part);
    mail.set_round(++round_);
    pulse.beat(comm::Activity::meeting, monotonic_ns());
    if (!place_.memory.hosts().ask(comm::HostAsk::evaluation, step_, place_.courier)) return false;
    has_more = part.has_more != 0;
    for (size_t host = 0; host < mail.hosts(); ++host) {
      if (host == mail.own()) continue;
      const std::span<const std::byte> slot = mail.slot(host, mail.hosts());
      std::memcpy(&part, slot.data(), sizeof part);
      if (part.bytes > room.size()) throw Error::make(Fault::corrupt, "{}: {} bytes", kFromHosts, part.bytes);
      take(host, slot.subspan(sizeof part, part.bytes));
      has_more = has_more || part.has_more != 0;
    }
  }
  return true;
}

bool HostsCorrespondence::bring_rows_together() {
  const int64_t samples = place_.job.samples().evaluated(), batch = place_.job.spec().train.eval_batch;
  std::vector<LeavingRows::Batch> batches;
  if (!leads()) {
    for (int64_t number = 0; number * batch < samples; ++number)
      if (is_own_batch(number)) batches.push_back({number * batch, std::min(batch, samples - number * batch)});
  }
  LeavingRows leaving(place_.rows, std::move(batches));
  const auto write = [this](const std::function<void()>& put) {
    when_there_is_room(place_.memory, place_.memory.pulse(order_.rank()), put);
  };
  std::map<size_t, ArrivingRows> arriving;
  const bool done = exchange([&](std::span<std::byte> room) { return leaving.fill(room); },
                             [&](size_t host, std::span<const std::byte> part) {
                               if (!leads()) return;
                               arriving.try_emplace(host, place_.rows, host, write).first->second.take(part);
                             });
  if (!done) return false;
  for (const auto& [host, rows] : arriving) rows.require_end();
  return true;
}

bool HostsCorrespondence::share(std::span<double> numbers) {
  const std::span<std::byte> bytes = std::as_writable_bytes(numbers);
  size_t sent = leads() ? 0 : bytes.size(), received = 0;
  const auto next = [&](std::span<std::byte> room) {
    const size_t count = std::min(room.size(), bytes.size() - sent);
    std::memcpy(room.data(), bytes.data() + sent, count);
    sent += count;
    return count;
  };
  const auto take = [&](size_t host, std::span<const std::byte> part) {
    if (host != 0) return;
    if (part.size() > bytes.size() - received) throw Error::make(Fault::corrupt, "{}: too many numbers", kFromHosts);
    std::memcpy(bytes.data() + received, part.data(), part.size());
    received += part.size();
  };
  if (!exchange(next, take)) return false;
  if (!leads() && received != bytes.size()) throw Error::make(Fault::corrupt, "{}: too few numbers", kFromHosts);
  return true;
}

bool exchange_results(Workplace& place, Step step) {
  const comm::EvaluationResults results = place.memory.evaluation();
  if (OutputMail::is_in(results)) OutputMail(results).set_round(0);
  return place.memory.hosts().ask(comm::HostAsk::evaluation, step, place.courier);
}

}  // namespace estrain::train
