// A driver that starts, with the name of NVIDIA's (libcuda.so.1), and, by LD_PRELOAD, a machine that shows one.
#include <dlfcn.h>
#include <unistd.h>

#include <cstring>

extern "C" int cuInit(unsigned) { return 0; }

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
