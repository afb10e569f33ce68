// The other end of control_socket.h: commands that ask a running launcher for something.

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <thread>

#include "core/base/clock.h"
#include "core/base/files/poll_set.h"
#include "core/base/files/run_files.h"
#include "core/base/json/codec.h"
#include "core/base/json/fields.h"
#include "core/base/json/json_text.h"
#include "core/run/launch/control/control_request.h"
#include "core/run/launch/control/control_socket.h"
#include "core/state/run_directory/run_directory.h"

namespace estrain::launch {
namespace {

constexpr auto kRetry = 10ms;
constexpr size_t kLongestAnswer = size_t{16} << 20;

// How long a command still waits.
class Deadline {
 public:
  explicit Deadline(std::optional<Nanoseconds> limit) : limit_(limit) {
    if (limit) end_ = MonotonicClock::now() + *limit;
  }
  std::chrono::milliseconds left() const { return end_ ? left_until(*end_) : kForever; }
  bool over() const { return left() == 0ms; }
  // For a launcher that has not answered in time.
  Error no_answer(const std::string& run) const {
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(limit_.value_or(0ms));
    return Error::make(Fault::peer, "{}: the launcher did not answer in {} s", run,
                       static_cast<double>(waited.count()) / 1000.0);
  }

 private:
  std::optional<Nanoseconds> limit_;
  std::optional<MonotonicTime> end_;
};

enum class Connected { yes, busy, nobody, forbidden };

// Tells whether the launcher ended and left its socket behind.
bool has_ended(const std::string& run) {
  const std::optional<run_directory::RunOwner> owner = run_directory::RunDirectory(run).owner();
  return owner && owner->has_ended();
}

// Never blocks: connect(2) would block if the launcher stands still and its backlog is full.
Connected try_to_connect(const std::string& run, UniqueFd* connection) {
  const UniqueFd folder(::open(run.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return errno == EACCES ? Connected::forbidden : Connected::nobody;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  fmt::format_to_n(address.sun_path, sizeof address.sun_path - 1, "/proc/self/fd/{}/{}", folder.get(),
                   RunFiles::kControlSocket);
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) throw system_error("cannot create a socket", errno);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == EACCES || errno == EPERM) return has_ended(run) ? Connected::nobody : Connected::forbidden;
    return errno == EAGAIN || errno == EINTR ? Connected::busy : Connected::nobody;
  }
  *connection = std::move(fd);
  return Connected::yes;
}

Error nobody(const std::string& run) {
  if (const auto owner = run_directory::RunDirectory(run).owner_elsewhere())
    return Error::make(Fault::usage, "{}: the job is at work on another host ({})", run, owner->name())
        .advise("give the command there: " + owner->reach() + " estrain …");
  return Error::make(Fault::usage, "{}: no job is running there", run)
      .advise("`estrain status` lists the runs in ./runs; give the directory that `estrain train` printed");
}

UniqueFd connect_to(const std::string& run, const Deadline& deadline) {
  for (;;) {
    UniqueFd fd;
    switch (try_to_connect(run, &fd)) {
      case Connected::yes:
        return fd;
      case Connected::nobody:
        throw nobody(run);
      case Connected::forbidden:
        throw Error::make(Fault::io, "{}: running, but its control socket is another user's", run)
            .advise(
                "the user who started it can ask it, and root; a pool also the group of `estrain pool serve --group`");
      case Connected::busy:
        if (deadline.over()) throw deadline.no_answer(run);
        std::this_thread::sleep_for(kRetry);
    }
  }
}

std::string read_line(int fd, const Deadline& deadline, const std::string& run) {
  std::string line;
  std::array<char, 4096> buffer;
  for (;;) {
    pollfd waiting{fd, POLLIN, 0};
    if (poll_within({&waiting, 1}, deadline.left()) == 0) throw deadline.no_answer(run);
    const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0)
      throw Error::make(Fault::peer, "{}: the launcher hung up without an answer", run)
          .advise("see " + RunFiles(run).events());
    line.append(buffer.data(), static_cast<size_t>(got));
    if (line.back() == '\n') return line;
    if (line.size() > kLongestAnswer)
      throw Error::make(Fault::peer, "{}: the launcher's answer does not end: {} bytes so far", run, line.size());
  }
}

Fault fault_from_name(std::string_view name) {
  for (int value = 0; value <= static_cast<int>(Fault::bug); ++value) {
    if (fault_name(static_cast<Fault>(value)) == name) return static_cast<Fault>(value);
  }
  return Fault::peer;
}

// The fields of every answer.
struct Verdict {
  bool ok = false;
  std::string fault = "peer", error = "refused", advice;
  ESTRAIN_FIELDS(ok, fault, error, advice)
};

AskElsewhere& elsewhere() {
  static AskElsewhere ask;
  return ask;
}

Verdict verdict_of(const Json& answer, const std::string& run) {
  Verdict verdict;
  try {
    codec::from_field(answer, verdict);
  } catch (const Error& error) {
    throw Error::make(Fault::peer, "{}: the launcher's answer makes no sense: {}", run, error.message());
  }
  return verdict;
}

// Throws the error described by a refusal.
Json accepted(Json answer, const std::string& run) {
  const Verdict verdict = verdict_of(answer, run);
  if (!verdict.ok) throw Error(fault_from_name(verdict.fault), verdict.error).advise(verdict.advice);
  return answer;
}

}  // namespace

bool launcher_answers(const std::string& run) {
  UniqueFd fd;
  return try_to_connect(run, &fd) != Connected::nobody;
}

void reach_elsewhere_by(AskElsewhere ask) { elsewhere() = std::move(ask); }

bool may_be_reached_elsewhere(const std::string& run) {
  std::error_code failure;
  return elsewhere() && run_directory::RunDirectory(run).owner_elsewhere() &&
         std::filesystem::exists(RunFiles(run).hosts(), failure) && !launcher_answers(run);
}

UniqueFd connect_to_launcher(const std::string& run) { return connect_to(run, Deadline(0ms)); }

Json ask_launcher(const std::string& run, const decisions::Request& request, std::optional<Nanoseconds> limit) {
  if (!may_be_reached_elsewhere(run)) return ask_server(run, encode_request(request), limit);
  return accepted(elsewhere()(run, encode_request(request), limit), run);
}

Json ask_server(const std::string& run, const Json& request, std::optional<Nanoseconds> limit) {
  const Deadline deadline(limit);
  const UniqueFd fd = connect_to(run, deadline);
  const std::string line = json_text(request) + "\n";
  // A new connection has room for a request. A launcher that has hung up already has sent the reason.
  if (::send(fd.get(), line.data(), line.size(), MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
    throw system_error("cannot reach the launcher of " + run, errno);
  return accepted(parse_json(read_line(fd.get(), deadline, run), "answer of the launcher"), run);
}

}  // namespace estrain::launch
