// An object of the whole process that threads may use until exit and that survives a fork.
#pragma once

#include <pthread.h>

#include <new>

namespace jeanie {

// The object is never destroyed: threads may still use it at exit. A forked child has none of the other threads, and
// one of them may have been changing the object, so the child starts with a new one in the same place; a fork handler
// must not allocate. One per type.
template <class T> class ForkSafe {
  alignas(T) static inline unsigned char storage[sizeof(T)];
  static inline T* object = nullptr;
  static void reset() { object = new (storage) T; }

 public:
  ForkSafe() {
    reset();
    pthread_atfork(nullptr, nullptr, reset);
  }
  T* operator->() const { return object; }
};

}  // namespace jeanie
