/* SPDX-License-Identifier: Apache-2.0
 *
 * Marks the phases of a program for the statistics and the trace of Fairlead, and for the profilers of NVIDIA
 * and AMD (docs/tools/statistics.md):
 *
 *     fairlead_phase_begin("halo exchange");
 *     ...
 *     fairlead_phase_end();
 *
 * Phases may be nested, and each thread has its own. The program links no library: if Fairlead is not loaded
 * or records nothing, a mark costs a few nanoseconds and has no effect. (Before glibc 2.34, link with -ldl.)
 */
#ifndef FAIRLEAD_PHASES_H
#define FAIRLEAD_PHASES_H

#include <dlfcn.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Looked up once in each source file that uses it; concurrent first calls find the same function. */
static inline void* fairlead_phase_function(int which) {
  static void* found[2];
  static int looked;
  if (!__atomic_load_n(&looked, __ATOMIC_ACQUIRE)) {
    void* program = dlopen(NULL, RTLD_LAZY);
    if (program) {
      __atomic_store_n(&found[0], dlsym(program, "fairlead_phase_begin"), __ATOMIC_RELAXED);
      __atomic_store_n(&found[1], dlsym(program, "fairlead_phase_end"), __ATOMIC_RELAXED);
    }
    __atomic_store_n(&looked, 1, __ATOMIC_RELEASE);
  }
  return __atomic_load_n(&found[which], __ATOMIC_RELAXED);
}

static inline void fairlead_phase_begin(const char* name) {
  void* function = fairlead_phase_function(0);
  if (function) ((void (*)(const char*))function)(name);
}

static inline void fairlead_phase_end(void) {
  void* function = fairlead_phase_function(1);
  if (function) ((void (*)(void))function)();
}

#ifdef __cplusplus
}

namespace fairlead {

/* Marks a phase during its lifetime. */
class Phase {
 public:
  explicit Phase(const char* name) { fairlead_phase_begin(name); }
  ~Phase() { fairlead_phase_end(); }
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;
};

}  // namespace fairlead
#endif
#endif
