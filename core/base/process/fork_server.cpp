#include "core/base/process/fork_server.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <span>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files/files.h"
#include "core/base/files/poll_set.h"
#include "core/base/json/codec.h"
#include "core/base/json/fields.h"
#include "core/base/process/child_process.h"
#include "core/base/process/packet_socket.h"

namespace estrain {
namespace {

constexpr std::chrono::seconds kPatience{1};  // until a ready server has answered
constexpr size_t kLargestOrder = 64 * 1024;
constexpr size_t kMostDescriptors = 32;

// Asks for a copy. Descriptors travel beside the order: the pipe at which the copy waits, the output if given, then the
// descriptors with `numbers`.
struct Order {
  std::vector<std::string> arguments;
  std::vector<int> numbers, ignored_signals;
  bool dies_with_parent = true, has_output = false;

  ESTRAIN_FIELDS(arguments, numbers, ignored_signals, dies_with_parent, has_output)
};

// The server says 0 once ready, then the process id of each copy; negative: no copy can be made.
using Answer = int32_t;

bool send_order(int socket, const Order& order, std::span<const int> descriptors) {
  std::string text;
  Json::to_cbor(codec::fields_of(order), text);  // paths need not be UTF-8, as JSON would require
  if (text.size() > kLargestOrder || descriptors.size() > kMostDescriptors) return false;
  return send_packet(socket, text, descriptors, MSG_DONTWAIT);
}

// Blocks. False: no process can ask any more.
bool receive_order(int socket, Order* order, std::vector<UniqueFd>* descriptors) {
  std::optional<Packet> packet = receive_packet(socket, kLargestOrder, kMostDescriptors);
  if (!packet) return false;
  *descriptors = std::move(packet->descriptors);
  codec::from_field(Json::from_cbor(packet->bytes), *order);
  return true;
}

// Negative if the server has ended. Nothing while the server says nothing.
std::optional<Answer> receive_answer(int socket, std::chrono::milliseconds patience) {
  pollfd poll{socket, POLLIN, 0};
  if (poll_within({&poll, 1}, patience) == 0) return std::nullopt;
  Answer answer = -1;
  return ::recv(socket, &answer, sizeof answer, MSG_DONTWAIT) == sizeof answer ? answer : -1;
}

void send_answer(int socket, Answer answer) { ::send(socket, &answer, sizeof answer, MSG_NOSIGNAL); }

// The C library keeps a thread's number at an address known to the kernel: a copy must have its own number. The same is
// true for the list of the thread's robust mutexes. `fork` of the C library does both, but cannot name another parent.
struct ThreadNotes {
  int* number = nullptr;
  void* robust_list = nullptr;
  size_t robust_size = 0;

  bool find() {
    return ::prctl(PR_GET_TID_ADDRESS, &number) == 0 && number != nullptr &&
           ::syscall(SYS_get_robust_list, 0, &robust_list, &robust_size) == 0;
  }
};

// Like fork(2), but the copy's parent is this process's parent.
pid_t fork_sibling() {
  ThreadNotes notes;
  if (!notes.find()) return -1;
  clone_args arguments{};
  arguments.flags = CLONE_PARENT | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
  arguments.child_tid = reinterpret_cast<uint64_t>(notes.number);
  const auto pid = static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof arguments));
  if (pid == 0) ::syscall(SYS_set_robust_list, notes.robust_list, notes.robust_size);
  return pid;
}

// A joined thread is still in the list for a moment.
bool has_one_thread() {
#if defined(__SANITIZE_THREAD__)
  return false;  // the sanitizer's own threads do not survive
#else
  namespace fs = std::filesystem;
  for (int tries = 0; tries < 100; ++tries, ::usleep(1000))
    if (std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator()) == 1) return true;
  return false;
#endif
}

// Gives `passed` these numbers, even numbers in use, without CLOEXEC.
void renumber(std::span<const UniqueFd> passed, const std::vector<int>& numbers) {
  const int above = numbers.empty() ? 0 : std::ranges::max(numbers) + 1;
  std::vector<UniqueFd> moved;  // out of the way of these numbers
  for (const UniqueFd& fd : passed) moved.emplace_back(::fcntl(fd.get(), F_DUPFD_CLOEXEC, above));
  for (size_t i = 0; i < numbers.size() && i < moved.size(); ++i) {
    if (::dup2(moved[i].get(), numbers[i]) < 0) ::_exit(127);
  }
}

// Shows these arguments in /proc/self/cmdline, where ps and scripts look.
void set_title(const std::vector<std::string>& arguments) {
  const size_t room = text_if_readable("/proc/self/cmdline").size();
  std::string title;
  for (const std::string& argument : arguments) title.append(argument).push_back('\0');
  title.resize(room);
  if (room > 0) title.back() = '\0';
  std::ranges::copy(title, program_invocation_name);  // argv[0]: the kernel shows this memory
}

// Blocks until the parent knows this copy. A parent that closes the pipe has given the copy up.
void await_parent(int pipe) {
  char byte;
  ssize_t size = 0;
  while ((size = ::read(pipe, &byte, 1)) < 0 && errno == EINTR) {
  }
  if (size != 1) ::_exit(127);
}

// For the parent: lets the copy continue, once the parent is sure to wait for the copy.
ChildProcess welcome(pid_t pid, UniqueFd pipe) {
  try {
    ChildProcess copy = ChildProcess::adopt(pid);
    [[maybe_unused]] const ssize_t sent = ::write(pipe.get(), "", 1);
    return copy;
  } catch (const Error&) {
    pipe.reset();  // the copy exits
    ::waitpid(pid, nullptr, 0);
    throw;
  }
}

std::vector<std::string> begin_copy(Order order, std::vector<UniqueFd> passed, pid_t parent) {
  await_parent(passed[0].get());
  const int output = order.has_output ? passed[1].get() : -1;
  set_up_child({parent, order.dies_with_parent, order.ignored_signals, output});
  renumber(std::span(passed).subspan(order.has_output ? 2 : 1), order.numbers);
  // renumber() may have given the numbers of these descriptors to other files.
  for (UniqueFd& fd : passed) {
    if (const int number = fd.release(); std::ranges::find(order.numbers, number) == order.numbers.end())
      ::close(number);
  }
  set_title(order.arguments);
  return std::move(order.arguments);
}

}  // namespace

ForkServer ForkServer::start(ChildOptions options) {
  auto [ours, theirs] = packet_sockets();
  ForkServer server;
  server.socket_ = std::move(ours);
  options.arguments.insert(options.arguments.end(), {"--socket", std::to_string(theirs.get()), "--room-for-title",
                                                     std::string(kRoomForTitle, ' ')});
  options.inherited.push_back(theirs.get());
  server.process_ = ChildProcess::start(options);
  return server;
}

ForkServer ForkServer::adopt(const Note& note) {
  ForkServer server;
  server.process_ = ChildProcess::adopt(note.pid);
  server.socket_ = UniqueFd(note.socket);
  server.ready_ = note.ready;
  return server;
}

bool ForkServer::wait_until_ready(std::chrono::milliseconds patience) {
  if (!socket_ || ready_) return ready_;
  const std::optional<Answer> answer = receive_answer(socket_.get(), patience);
  if (answer && *answer < 0) give_up();
  return ready_ = answer == 0;
}

std::optional<ChildProcess> ForkServer::fork(const ChildOptions& options) {
  if (!wait_until_ready(0ms)) return std::nullopt;
  UniqueFd output = open_output(options);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw system_error("cannot create a pipe", errno);
  UniqueFd reader(ends[0]), writer(ends[1]);
  Order order{options.arguments, options.inherited, options.ignored_signals, options.dies_with_parent};
  std::vector<int> descriptors = {reader.get()};
  const int output_fd = output ? output.get() : options.output_descriptor;
  order.has_output = output_fd >= 0;
  if (order.has_output) descriptors.push_back(output_fd);
  descriptors.insert(descriptors.end(), options.inherited.begin(), options.inherited.end());
  std::optional<Answer> pid;
  if (send_order(socket_.get(), order, descriptors)) pid = receive_answer(socket_.get(), kPatience);
  if (pid.value_or(-1) <= 0) {
    give_up();
    return std::nullopt;
  }
  reader.reset();
  output.reset();
  return welcome(*pid, std::move(writer));
}

void ForkServer::give_up() {
  socket_.reset();
  ready_ = false;
  if (!process_.running()) return;
  process_.signal(SIGKILL);
  process_.wait();
}

std::vector<std::string> serve_forks(int number) {
  UniqueFd socket(number);
  const pid_t parent = ::getppid();
  send_answer(socket.get(), has_one_thread() ? 0 : -1);
  while (true) {
    Order order;
    std::vector<UniqueFd> passed;
    if (!receive_order(socket.get(), &order, &passed)) ::_exit(0);
    const pid_t pid = fork_sibling();
    if (pid == 0) {
      socket.reset();
      return begin_copy(std::move(order), std::move(passed), parent);
    }
    send_answer(socket.get(), pid > 0 ? pid : -1);
  }
}

}  // namespace estrain
