// Lets what GCC 12 links run with the libstdc++ of GCC 11, that of RHEL 9: std::condition_variable::wait() is in both,
// but GCC 12's has a version of its own, GLIBCXX_3.4.30. CMakeLists.txt has the linker take this function instead, by
// --wrap.

#include <pthread.h>

#include <condition_variable>
#include <mutex>

// Waits as libstdc++ does. pthread_cond_wait() fails only for a mutex that this thread does not hold.
extern "C" void __wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(std::condition_variable& condition,
                                                                                 std::unique_lock<std::mutex>& lock) {
  pthread_cond_wait(condition.native_handle(), lock.mutex()->native_handle());
}
