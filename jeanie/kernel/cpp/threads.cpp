#include "threads.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "fork_safe.h"

namespace jeanie {

namespace {

constexpr int64_t kMostHelpers = 1023;

struct Task {
  void (*work)(void*) noexcept;
  void* context;
  int64_t open;         // helpers that may still join
  int64_t running = 0;  // helpers at work
  std::condition_variable done;
};

class ThreadPool {
  std::mutex lock;
  std::condition_variable wake;
  std::vector<Task*> tasks;  // of all callers
  int64_t threads = 0;

  Task* find_open_task() {
    for (Task* task : tasks)
      if (task->open) return task;
    return nullptr;
  }
  void serve() {
    std::unique_lock<std::mutex> guard(lock);
    for (;;) {
      Task* task = find_open_task();
      if (!task) {
        wake.wait(guard);
        continue;
      }
      --task->open, ++task->running;
      guard.unlock();
      task->work(task->context);
      guard.lock();
      if (!--task->running) task->done.notify_one();
    }
  }

 public:
  void run(Task& task) {
    const int64_t helpers = task.open;
    {
      std::lock_guard<std::mutex> guard(lock);
      tasks.push_back(&task);
      try {
        for (; threads < helpers; ++threads) std::thread(&ThreadPool::serve, this).detach();
      } catch (...) {  // the system has no more threads: the existing ones and the caller do the work
      }
    }
    for (int64_t i = 0; i < helpers; ++i) wake.notify_one();
    task.work(task.context);
    std::unique_lock<std::mutex> guard(lock);
    task.open = 0;
    tasks.erase(std::find(tasks.begin(), tasks.end(), &task));
    task.done.wait(guard, [&] { return !task.running; });
  }
};

ForkSafe<ThreadPool> pool;

}  // namespace

void run_parallel(int64_t helpers, void (*work)(void*) noexcept, void* context) {
  if (helpers <= 0) return work(context);
  Task task{work, context, std::min(helpers, kMostHelpers), 0, {}};
  pool->run(task);
}

}  // namespace jeanie
