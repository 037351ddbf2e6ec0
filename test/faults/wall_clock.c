// Copyright 2026 The remote_inference contributors
// SPDX-License-Identifier: Apache-2.0
// Preloaded into one process: its wall clock is the real one plus the seconds that stand in a shared file.
// Deadlines on the wall clock are taken back to the real one, by which the system waits.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define OTHER_CLOCK_MAX_S 500000000  // a deadline up to here is not on the wall clock

static const volatile long *offset_s;

__attribute__((constructor)) static void map_offset(void) {
  int file = open(getenv("WALL_CLOCK_OFFSET"), O_RDONLY);
  offset_s = mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
  close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = (int)syscall(SYS_clock_gettime, clock, now);
  if (offset_s != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *offset_s;
  return result;
}

static struct timespec real(const struct timespec *deadline) {
  struct timespec changed = *deadline;
  if (changed.tv_sec > OTHER_CLOCK_MAX_S) changed.tv_sec -= *offset_s;
  return changed;
}

#define WITH_REAL_DEADLINE(name, ...)                                        \
  struct timespec changed = real(deadline);                                  \
  static int (*next)();                                                      \
  if (next == NULL) next = (int (*)())dlsym(RTLD_NEXT, name);                \
  return next(__VA_ARGS__, &changed);

int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *deadline) {
  WITH_REAL_DEADLINE("pthread_mutex_timedlock", mutex)
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *deadline) {
  WITH_REAL_DEADLINE("pthread_cond_timedwait", condition, mutex)
}

int sem_timedwait(sem_t *semaphore, const struct timespec *deadline) {
  WITH_REAL_DEADLINE("sem_timedwait", semaphore)
}
