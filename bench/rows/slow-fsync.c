/* Loaded before libc: every fsync takes 30 ms longer, as on a slow or busy disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

static int slowly(const char *name, int descriptor) {
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
  int result = real(descriptor);
  struct timespec delay = {0, 30 * 1000 * 1000};
  nanosleep(&delay, 0);
  return result;
}

int fsync(int descriptor) { return slowly("fsync", descriptor); }
int fdatasync(int descriptor) { return slowly("fdatasync", descriptor); }
