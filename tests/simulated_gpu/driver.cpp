// A driver that starts, with the name of NVIDIA's (libcuda.so.1), and, by LD_PRELOAD, a machine that shows one.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

const pid_t loaded_by = ::getpid();

}  // namespace

// With ESTRAIN_SIMULATED_FAULT="copies", as a driver that has already started in the process which was copied.
extern "C" int cuInit(unsigned) {
  const char* const fault = std::getenv("ESTRAIN_SIMULATED_FAULT");
  const bool refuses = fault != nullptr && std::string_view(fault) == "copies";
  return refuses && ::getpid() != loaded_by ? 3 : 0;
}

// Queried by LibTorch: whether this process and this thread use a device.
extern "C" int cuCtxGetCurrent(void** context) {
  static int any = 0;
  *context = &any;
  return 0;
}
extern "C" int cuDevicePrimaryCtxGetState(int, unsigned* flags, int* is_active) {
  *flags = 0;
  *is_active = 1;
  return 0;
}

extern "C" int access(const char* path, int mode) noexcept {
  if (std::strcmp(path, "/dev/nvidiactl") == 0) return 0;
  static const auto of_libc = reinterpret_cast<int (*)(const char*, int)>(::dlsym(RTLD_NEXT, "access"));
  return of_libc(path, mode);
}
