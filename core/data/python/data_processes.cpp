#include "core/data/python/data_processes.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>
#include <sstream>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files/memory_file.h"
#include "core/base/files/poll_set.h"
#include "core/base/json/json_text.h"
#include "core/base/process/packet_socket.h"

namespace estrain::data {
namespace {

constexpr const char* host_code =
#include <estrain/python_data_host.inc>
    ;

constexpr size_t kLargestMessage = 256 << 10;
constexpr std::string_view kDone = "done";
constexpr size_t kAlignment = 64;
constexpr size_t kBytesUnderWay = 1 << 20;  // slots up to this, of small samples
constexpr size_t kFewestSlots = 4, kMostSlots = 64;
constexpr std::chrono::milliseconds kPatience{1000};  // with a process that has been asked to end, or for its traceback

enum class Heard { message, nothing, ended };

// Waits for at most `seconds`; 0, and more than poll(2) can wait for: for ever.
Heard receive_message(int socket, double seconds, std::string* message) {
  const double milliseconds = std::ceil(1e3 * seconds);
  const bool has_limit = seconds > 0 && milliseconds <= std::numeric_limits<int>::max();
  const auto limit = has_limit ? std::chrono::milliseconds(static_cast<int>(milliseconds)) : kForever;
  pollfd poll{socket, POLLIN, 0};
  if (poll_within({&poll, 1}, limit) == 0) return Heard::nothing;
  thread_local std::string buffer(kLargestMessage, '\0');
  const ssize_t got = ::recv(socket, buffer.data(), buffer.size(), 0);
  if (got <= 0) return Heard::ended;
  message->assign(buffer, 0, static_cast<size_t>(got));
  return Heard::message;
}

// A data worker or the maker has told of a failure in the user's code.
Error users_error(const Json& reply) {
  const std::string message = reply.at("message"), advice = reply.at("advice"), trace = reply.at("traceback");
  if (trace.empty()) return Error(Fault::spec, message).advise(advice);
  return Error::make(Fault::spec, "{}\n{}", message, trace)
      .advise(advice.empty() ? "correct the code; the traceback shows the line" : advice)
      .caused_by("user_code");
}

bool is_failure(const Json& reply) { return reply.contains("traceback"); }

program::ScalarType type_named(const std::string& name) {
  using program::ScalarType;
  for (const ScalarType type : {ScalarType::f32, ScalarType::f64, ScalarType::i8, ScalarType::i16, ScalarType::i32,
                                ScalarType::i64, ScalarType::u8, ScalarType::boolean})
    if (program::type_name(type) == name) return type;
  throw Error::make(Fault::bug, "data processes: unknown type {}", name);
}

SampleShape shape_of(const Json& reply) {
  const std::string kind = reply.at("kind");
  std::vector<SampleShape::Field> fields;
  for (const Json& array : reply.at("arrays"))
    fields.push_back({array.at("name"), type_named(array.at("type")), array.at("dims")});
  if (kind == "fields") return SampleShape::fields(std::move(fields));
  const std::vector<int64_t>& dims = fields.front().dims;
  if (kind == "image") return SampleShape::image(dims[0], dims[1], dims[2]);
  return kind == "vector" ? SampleShape::vector(dims[0]) : SampleShape::tokens(dims[0]);
}

const char* kind_name(SampleShape::Kind kind) {
  switch (kind) {
    case SampleShape::Kind::image:
      return "image";
    case SampleShape::Kind::vector:
      return "vector";
    case SampleShape::Kind::tokens:
      return "tokens";
    case SampleShape::Kind::fields:
      break;
  }
  return "fields";
}

}  // namespace

// Where the arrays and targets of a sample are in its slot, in bytes.
struct DataProcesses::SlotLayout {
  std::vector<SampleShape::Field> arrays;
  std::vector<size_t> at;
  size_t target_at = 0, bytes = 0, slots = 0;

  explicit SlotLayout(const SampleShape& shape) : arrays(shape.parts) {
    if (shape.kind != SampleShape::Kind::fields) {
      const program::ScalarType type =
          shape.kind == SampleShape::Kind::tokens ? program::ScalarType::i64 : program::ScalarType::f32;
      arrays.push_back({"input", type, shape.dims()});
    }
    for (const SampleShape::Field& array : arrays) {
      at.push_back(target_at);
      target_at += (array.bytes() + kAlignment - 1) / kAlignment * kAlignment;
    }
    const size_t targets = static_cast<size_t>(shape.targets()) * sizeof(int64_t);
    bytes = std::max(kAlignment, target_at + (targets + kAlignment - 1) / kAlignment * kAlignment);
    slots = std::clamp(kBytesUnderWay / bytes, kFewestSlots, kMostSlots);
  }

  Json to_json(size_t set, const SampleShape& shape) const {
    Json list = Json::array();
    for (size_t i = 0; i < arrays.size(); ++i) {
      list.push_back({{"name", arrays[i].name},
                      {"type", program::type_name(arrays[i].type)},
                      {"dims", arrays[i].dims},
                      {"ragged", arrays[i].is_ragged},
                      {"at", at[i]}});
    }
    return {{"set", set},     {"kind", kind_name(shape.kind)}, {"arrays", list},
            {"bytes", bytes}, {"target_at", target_at},        {"targets", shape.targets()},
            {"slots", slots}};
  }
};

struct DataProcesses::Slots {
  SlotLayout layout;
  std::shared_ptr<const std::byte> memory;

  const std::byte* slot_of(int64_t number) const {
    return memory.get() + static_cast<size_t>(number) % layout.slots * layout.bytes;
  }

  // Gives the arrays of the run's sample `number` to `take`.
  void give_sample(int64_t number, const Take& take) const {
    std::vector<const std::byte*> arrays;
    for (const size_t at : layout.at) arrays.push_back(slot_of(number) + at);
    take(static_cast<size_t>(number), arrays);
  }

  // Copies the run's sample `number` to its place.
  void copy_sample(int64_t number, const SampleShape& shape, const SampleRun& run) const {
    const std::byte* slot = slot_of(number);
    const auto place = static_cast<size_t>(number);
    for (size_t i = 0; i < layout.arrays.size(); ++i) {
      const size_t bytes = layout.arrays[i].bytes();
      std::memcpy(run.out[i] + place * bytes, slot + layout.at[i], bytes);
    }
    const auto targets = static_cast<size_t>(shape.targets());
    if (targets > 0) std::memcpy(run.targets + place * targets, slot + layout.target_at, targets * sizeof(int64_t));
  }
};

class DataProcesses::Worker {
 public:
  pid_t pid = 0;
  UniqueFd socket;
  UniqueFd notes;  // the interpreter writes its traceback here on a fatal signal, and on SIGUSR2

  const Slots& slots_of(size_t set, const SampleShape& shape) {
    if (slots_.size() <= set) slots_.resize(set + 1);
    if (!slots_[set]) slots_[set] = make_slots(set, shape);
    return *slots_[set];
  }

 private:
  Slots make_slots(size_t set, const SampleShape& shape) const {
    Slots slots{SlotLayout(shape), nullptr};
    const size_t bytes = slots.layout.bytes * slots.layout.slots;
    const UniqueFd file = memory_file("estrain-samples", "");
    if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
      throw system_error("cannot make memory for samples", errno);
    void* memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED) throw system_error("cannot map memory for samples", errno);
    slots.memory = {static_cast<const std::byte*>(memory),
                    [bytes](const std::byte* first) { ::munmap(const_cast<std::byte*>(first), bytes); }};
    const int passed = file.get();
    send_packet(socket.get(), json_text(slots.layout.to_json(set, shape)), {&passed, 1});
    return slots;
  }

  std::vector<std::optional<Slots>> slots_;
};

// A data worker for one thread. A worker that fails during the lease is not used again.
class DataProcesses::Lease {
 public:
  explicit Lease(DataProcesses& all) : all_(all) {
    std::unique_lock lock(all_.mutex_);
    all_.changed_.wait(lock, [&] { return !all_.free_.empty() || all_.workers_ < all_.code_.most_workers; });
    if (!all_.free_.empty()) {
      worker_ = std::move(all_.free_.back());
      all_.free_.pop_back();
      return;
    }
    ++all_.workers_;
    lock.unlock();
    try {
      worker_ = all_.start_worker();
    } catch (...) {
      give_back(false);
      throw;
    }
  }
  ~Lease() { give_back(is_sound_); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  Worker& worker() { return *worker_; }
  void is_sound() { is_sound_ = true; }

 private:
  void give_back(bool sound) {
    {
      std::lock_guard lock(all_.mutex_);
      if (sound) {
        all_.free_.push_back(std::move(worker_));
      } else {
        --all_.workers_;
      }
    }
    all_.changed_.notify_all();
  }

  DataProcesses& all_;
  std::unique_ptr<Worker> worker_;
  bool is_sound_ = false;
};

DataProcesses::DataProcesses(DataCode code) : code_(std::move(code)) {
  auto [own, other] = packet_sockets();
  Json sets = Json::array();
  for (const std::string& set : code_.sets)
    sets.push_back({{"file", spec::CodePlace(set).file}, {"name", spec::CodePlace(set).name}});
  const UniqueFd lengths = memory_file("estrain-data-lengths", "");
  const UniqueFd job = memory_file(
      "estrain-data-job",
      json_text({{"socket", other.get()}, {"seed", code_.seed}, {"sets", sets}, {"lengths", lengths.get()}}));
  const UniqueFd host = memory_file("estrain-data-host", host_code);
  ChildOptions options;
  options.arguments = {code_.python.program, fmt::format("/proc/self/fd/{}", host.get()), std::to_string(job.get()),
                       "data"};  // for readers of the list of processes
  options.inherited = {other.get(), job.get(), host.get(), lengths.get()};
  // The samples of a job do not depend on the device of the worker.
  options.environment = {{"OMP_NUM_THREADS", "1"},
                         {"MKL_NUM_THREADS", "1"},
                         {"ATEN_CPU_CAPABILITY", ""},
                         {"ONEDNN_MAX_CPU_ISA", ""},
                         {"MKL_CBWR", ""}};
  maker_socket_ = std::move(own);
  keeper_ = std::thread([this, options] { keep_maker(options); });
  try {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return maker_ != Maker::starting; });
      if (refusal_) throw Error(*refusal_);
    }
    other.reset();
    std::string made;
    if (receive_message(maker_socket_.get(), 0, &made) != Heard::message) {
      throw Error::make(Fault::spec, "{}: {} ended before it had made {}", code_.python.setting, code_.python.program,
                        code_.sets.front())
          .advise("name a Python with data.python, such as \"venv/bin/python\"");
    }
    const Json reply = parse_json(made, "the data sets");
    if (is_failure(reply)) throw users_error(reply);
    take_sets(reply.at("sets"), read_memory_file(lengths.get()));
  } catch (...) {
    {
      std::lock_guard lock(mutex_);
      maker_ = Maker::unwanted;
    }
    changed_.notify_all();
    keeper_.join();
    throw;
  }
}

void DataProcesses::take_sets(const Json& sets, std::string_view lengths) {
  for (const Json& set : sets) {
    Set& taken = sets_.emplace_back(Set{set.at("samples"), std::nullopt});
    if (!set.at("classes").is_null()) taken.classes = set.at("classes").get<int64_t>();
    for (const std::string name : set.at("ragged")) {
      std::vector<int64_t>& own = taken.lengths[name];
      own.resize(static_cast<size_t>(taken.samples));
      const size_t bytes = own.size() * sizeof own[0];
      if (lengths.size() < bytes) throw Error::make(Fault::bug, "data processes: lengths of {} are missing", name);
      std::memcpy(own.data(), lengths.data(), bytes);
      lengths.remove_prefix(bytes);
    }
  }
}

DataProcesses::~DataProcesses() {
  free_.clear();
  {
    std::lock_guard lock(maker_mutex_);
    maker_socket_.reset();
  }
  {
    std::lock_guard lock(mutex_);
    maker_ = Maker::unwanted;
  }
  changed_.notify_all();
  keeper_.join();
}

void DataProcesses::keep_maker(const ChildOptions& options) {
  std::unique_lock lock(mutex_);
  try {
    ChildProcess maker = ChildProcess::start(options);
    maker_ = Maker::runs;
    changed_.notify_all();
    changed_.wait(lock, [this] { return maker_ == Maker::unwanted; });
    lock.unlock();
    if (maker.wait_for(kPatience)) return;
    maker.signal(SIGKILL);
    maker.wait();
  } catch (const Error& error) {
    refusal_ = error;
    maker_ = Maker::refused;
    changed_.notify_all();
  }
}

Json DataProcesses::ask_maker(const Json& order, const std::vector<int>& descriptors) {
  std::lock_guard lock(maker_mutex_);
  std::string answer;
  if (!send_packet(maker_socket_.get(), json_text(order), descriptors) ||
      receive_message(maker_socket_.get(), 0, &answer) != Heard::message) {
    throw Error::make(Fault::peer, "the process that made {} has ended", code_.sets.front())
        .advise("its last words are in the worker's log; the system may have run out of memory")
        .caused_by("data_worker_lost");
  }
  return parse_json(answer, "the maker of the data sets");
}

std::unique_ptr<DataProcesses::Worker> DataProcesses::start_worker() {
  auto worker = std::make_unique<Worker>();
  auto [own, other] = packet_sockets();
  worker->notes = memory_file("estrain-data-notes", "");
  worker->pid = ask_maker(Json::object(), {other.get(), worker->notes.get()}).at("pid").get<pid_t>();
  worker->socket = std::move(own);
  return worker;
}

void DataProcesses::report_lost(Worker& worker, size_t set, int64_t index) {
  const std::string how = ask_maker({{"ended", worker.pid}}, {}).at("how");
  throw Error::make(Fault::peer, "{}: sample {}: the data worker that read the sample ended: {}{}", name(set), index,
                    how, users_traceback(worker.notes.get(), [] { return false; }))
      .advise("look for what ends the process: memory, a crash in a library, or os._exit in the code")
      .caused_by("data_worker_lost");
}

void DataProcesses::report_hung(Worker& worker, size_t set, int64_t index) {
  ::kill(worker.pid, SIGUSR2);
  auto waited = 0ms;
  const std::string trace = users_traceback(worker.notes.get(), [&waited] {
    std::this_thread::sleep_for(10ms);
    return (waited += 10ms) < kPatience;
  });
  ::kill(worker.pid, SIGKILL);
  throw Error::make(Fault::peer, "{}: sample {}: the data worker has not read the sample in {:g} s{}", name(set), index,
                    code_.hang_seconds, trace)
      .advise("see where the code waits; data.hang_seconds says how long a sample may take")
      .caused_by("data_worker_hung");
}

void DataProcesses::await_reply(Worker& worker, size_t set, int64_t index, std::string* reply) {
  const Heard heard = receive_message(worker.socket.get(), code_.hang_seconds, reply);
  if (heard == Heard::ended) report_lost(worker, set, index);
  if (heard == Heard::nothing) report_hung(worker, set, index);
}

DataProcesses::FirstSample DataProcesses::first_sample(size_t set) {
  Lease lease(*this);
  send_packet(lease.worker().socket.get(), json_text({{"set", set}, {"epoch", set == 0 ? 0 : -1}}));
  std::string text;
  await_reply(lease.worker(), set, 0, &text);
  const Json reply = parse_json(text, "a data worker");
  if (is_failure(reply)) throw users_error(reply);
  lease.is_sound();
  return {shape_of(reply), reply.at("imported")};
}

void DataProcesses::read(size_t set, const SampleShape& shape, const SampleRun& run, const Take& take) {
  Lease lease(*this);
  Worker& worker = lease.worker();
  const Slots& slots = worker.slots_of(set, shape);
  const auto count = static_cast<int64_t>(run.indices.size());
  std::string reply;
  for (int64_t sent = 0, read = 0; read < count; ++read) {
    for (; sent < count && sent - read < static_cast<int64_t>(slots.layout.slots) && !run.is_abandoned(); ++sent) {
      const int64_t index = run.indices[static_cast<size_t>(sent)];
      const std::array<int64_t, 4> request = {static_cast<int64_t>(set), run.draw(index, 0).epoch().value, index,
                                              sent % static_cast<int64_t>(slots.layout.slots)};
      send_packet(worker.socket.get(), {reinterpret_cast<const char*>(request.data()), sizeof request});
    }
    if (sent == read) break;  // the rest is abandoned
    await_reply(worker, set, run.indices[static_cast<size_t>(read)], &reply);
    if (reply != kDone) throw users_error(parse_json(reply, "a data worker"));
    if (take) {
      slots.give_sample(read, take);
    } else {
      slots.copy_sample(read, shape, run);
    }
  }
  lease.is_sound();
}

}  // namespace estrain::data
