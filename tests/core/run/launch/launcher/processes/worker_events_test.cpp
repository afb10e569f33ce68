#include "core/run/launch/launcher/processes/worker_events.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <map>
#include <optional>

namespace estrain::launch {
namespace {

using decisions::WorkerId;
using Events = std::vector<WorkerEvents::Event>;

struct Worker {
  UniqueFd socket{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)}, process{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

void ring(const UniqueFd& descriptor) { CHECK(::eventfd_write(descriptor.get(), 1) == 0); }

struct Watched {
  std::map<WorkerId, Worker> workers;
  WorkerEvents events;

  Events take() {
    events.watch(workers, [](const Worker& one) { return std::pair(one.socket.get(), one.process.get()); });
    return events.take();
  }
  bool is_readable() const {
    pollfd polled{events.descriptor(), POLLIN, 0};
    return ::poll(&polled, 1, 0) == 1;
  }
};

TEST_CASE("each worker with an event is told of once, in the order of the workers, a message before the end") {
  Watched watched;
  for (const int64_t id : {7, 3, 500, 4}) watched.workers[WorkerId(id)];
  CHECK(watched.take().empty());
  CHECK_FALSE(watched.is_readable());
  ring(watched.workers[WorkerId(500)].process);
  ring(watched.workers[WorkerId(7)].process);
  ring(watched.workers[WorkerId(7)].socket);
  ring(watched.workers[WorkerId(3)].socket);
  CHECK(watched.is_readable());
  const Events expected = {{WorkerId(3), true}, {WorkerId(7), true}, {WorkerId(500), false}};
  CHECK(watched.take() == expected);
  CHECK(watched.take() == expected);  // nobody has read
  eventfd_t rings = 0;
  CHECK(::eventfd_read(watched.workers[WorkerId(7)].socket.get(), &rings) == 0);
  CHECK(watched.take() == Events{{WorkerId(3), true}, {WorkerId(7), false}, {WorkerId(500), false}});
}

TEST_CASE("of many workers with events each is told of, a message before the end") {
  constexpr int64_t kWorkers = 150;
  Watched watched;
  Events expected;
  for (int64_t id = 0; id < kWorkers; ++id) {
    const bool has_message = id % 3 != 0;
    ring(watched.workers[WorkerId(id)].process);
    if (has_message) ring(watched.workers[WorkerId(id)].socket);
    expected.push_back({WorkerId(id), has_message});
  }
  CHECK(watched.take() == expected);
  CHECK(watched.take() == expected);
}

TEST_CASE("workers come and go; the descriptors of one that has gone may serve another") {
  Watched watched;
  watched.workers[WorkerId(1)], watched.workers[WorkerId(2)];
  CHECK(watched.take().empty());
  const int socket = watched.workers[WorkerId(1)].socket.get();
  watched.workers.erase(WorkerId(1));
  watched.workers[WorkerId(3)];  // as many as before
  CHECK(watched.workers[WorkerId(3)].socket.get() == socket);
  ring(watched.workers[WorkerId(3)].socket);
  ring(watched.workers[WorkerId(2)].process);
  CHECK(watched.take() == Events{{WorkerId(2), false}, {WorkerId(3), true}});
  watched.workers.clear();
  CHECK(watched.take().empty());
}

TEST_CASE("a descriptor that somebody else still holds tells nothing once its worker has gone") {
  Watched watched;
  watched.workers[WorkerId(1)], watched.workers[WorkerId(2)];
  CHECK(watched.take().empty());
  const UniqueFd copy(::dup(watched.workers[WorkerId(1)].socket.get()));
  watched.workers.erase(WorkerId(1));
  ring(copy);
  CHECK(watched.take().empty());
}

TEST_CASE("a worker without a process is watched by its socket alone") {
  Watched watched;
  watched.workers[WorkerId(1)].process = UniqueFd();
  ring(watched.workers[WorkerId(1)].socket);
  CHECK(watched.take() == Events{{WorkerId(1), true}});
}

}  // namespace
}  // namespace estrain::launch
