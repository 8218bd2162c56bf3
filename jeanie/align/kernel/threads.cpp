#include "threads.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace jeanie {

namespace {

struct Task {
  void (*work)(void*);
  void* context;
  int64_t open;        // helpers that may still join
  int64_t inside = 0;  // helpers at work
  std::condition_variable done;
};

class Crew {
  std::mutex lock;
  std::condition_variable called;
  std::vector<Task*> tasks;  // of all callers
  int64_t threads = 0;

  Task* next() {
    for (Task* task : tasks)
      if (task->open) return task;
    return nullptr;
  }
  void help() {
    std::unique_lock<std::mutex> guard(lock);
    for (;;) {
      Task* task = next();
      if (!task) {
        called.wait(guard);
        continue;
      }
      --task->open, ++task->inside;
      guard.unlock();
      task->work(task->context);
      guard.lock();
      if (!--task->inside) task->done.notify_one();
    }
  }

 public:
  void run(Task& task) {
    const int64_t helpers = task.open;
    {
      std::lock_guard<std::mutex> guard(lock);
      tasks.push_back(&task);
      try {
        for (; threads < helpers; ++threads) std::thread(&Crew::help, this).detach();
      } catch (const std::system_error&) {  // no more threads to be had: those that are there, and the caller, do it
      }
    }
    for (int64_t i = 0; i < helpers; ++i) called.notify_one();
    task.work(task.context);
    std::unique_lock<std::mutex> guard(lock);
    task.open = 0;
    tasks.erase(std::find(tasks.begin(), tasks.end(), &task));
    task.done.wait(guard, [&] { return !task.inside; });
  }
};

// Never destroyed: its threads still wait at exit. A forked child has none of them, and gets a crew of its own.
Crew* crew = nullptr;
void renew() { crew = new Crew; }
struct Setup {
  Setup() {
    renew();
    pthread_atfork(nullptr, nullptr, renew);
  }
} setup;

}  // namespace

void together(int64_t helpers, void (*work)(void*), void* context) {
  if (helpers <= 0) return work(context);
  Task task{work, context, helpers, 0, {}};
  crew->run(task);
}

}  // namespace jeanie
