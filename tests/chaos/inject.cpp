// Faults from inside a worker, for chaos runs: a library for LD_PRELOAD, so that the program itself contains no fault
// injection.
//
// A reader thread of a worker ("estrain-reader") locks a mutex for every part of a mini-batch. There it looks for a
// command: a file in the folder ESTRAIN_CHAOS_ORDERS, named by the action and its target process. Each command is
// executed once, by the thread that renames the file; NAME.done marks it as done.
//
//   exit-PID       exit(1), as a library that takes a fault for its own to decide about
//   abort-PID      abort()
//   segfault-PID   writes to address zero
//   allocate-PID   takes memory until there is no more: std::bad_alloc in a thread that does not handle it

#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

extern "C" int __pthread_mutex_lock(pthread_mutex_t* mutex);  // glibc's own name for it

namespace {

constexpr size_t kPiece = size_t{1} << 20;
const char* const orders = std::getenv("ESTRAIN_CHAOS_ORDERS");

bool is_reader() {
  static thread_local bool known = false;
  if (known) return true;
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  return known = std::strcmp(name, "estrain-reader") == 0;
}

bool take_order(const char* what) {
  char order[512], done[520];
  std::snprintf(order, sizeof order, "%s/%s-%d", orders, what, static_cast<int>(::getpid()));
  std::snprintf(done, sizeof done, "%s.done", order);
  return ::rename(order, done) == 0;
}

void take_all_memory() noexcept {
  for (;;) std::memset(::operator new(kPiece), 1, kPiece);
}

void write_to_address_zero() {
  volatile int* volatile nowhere = nullptr;
  *nowhere = 1;
}

void obey() {
  if (take_order("exit")) std::exit(1);
  if (take_order("abort")) std::abort();
  if (take_order("segfault")) write_to_address_zero();
  if (take_order("allocate")) take_all_memory();
}

}  // namespace

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  if (orders != nullptr && is_reader()) obey();
  return __pthread_mutex_lock(mutex);
}
