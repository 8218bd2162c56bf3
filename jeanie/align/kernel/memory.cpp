#include "memory.h"

#include <pthread.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace jeanie {

namespace {
constexpr size_t kAlignment = 64, kKept = size_t(64) << 20;
constexpr size_t kPage = size_t(2) << 20, kLarge = size_t(256) << 10;  // a large page; what is worth one

struct Pool {
  std::mutex lock;
  size_t held = 0;
  std::vector<std::pair<size_t, void*>> free;
};
// Never destroyed: threads may still give back at exit. A forked child leaves alone what another thread may have been
// changing, and begins with an empty one.
Pool* shared = nullptr;
void renew() { shared = new Pool; }
struct Setup {
  Setup() {
    renew();
    pthread_atfork(nullptr, nullptr, renew);
  }
} setup;
}  // namespace

void prefer_large_pages(void* start, size_t bytes) {
#if defined(MADV_HUGEPAGE)
  const uintptr_t from = (reinterpret_cast<uintptr_t>(start) + kPage - 1) / kPage * kPage;
  const uintptr_t to = (reinterpret_cast<uintptr_t>(start) + bytes) / kPage * kPage;
  if (from < to) madvise(reinterpret_cast<void*>(from), to - from, MADV_HUGEPAGE);  // advice only: may fail
#else
  (void)start, (void)bytes;
#endif
}

Block::Block(size_t bytes) {
  const size_t unit = bytes < kLarge ? kAlignment : kPage;
  size = (bytes + unit - 1) / unit * unit;
  {
    Pool& p = *shared;
    std::lock_guard<std::mutex> guard(p.lock);
    for (auto at = p.free.begin(); at != p.free.end(); ++at)
      if (at->first == size) {
        memory = at->second;
        p.held -= size;
        p.free.erase(at);
        return;
      }
  }
  memory = std::aligned_alloc(unit, size ? size : unit);
  if (!memory) throw std::bad_alloc();
  if (bytes >= kLarge) prefer_large_pages(memory, size);
}

Block::Block(Block&& other) noexcept : memory(std::exchange(other.memory, nullptr)), size(other.size) {}

Block& Block::operator=(Block&& other) noexcept {
  std::swap(memory, other.memory);
  std::swap(size, other.size);
  return *this;
}

Block::~Block() {
  if (!memory) return;
  Pool& p = *shared;
  std::lock_guard<std::mutex> guard(p.lock);
  while (!p.free.empty() && p.held + size > kKept) {  // the oldest goes first
    p.held -= p.free.front().first;
    std::free(p.free.front().second);
    p.free.erase(p.free.begin());
  }
  if (size > kKept) {
    std::free(memory);
  } else {
    p.held += size;
    p.free.emplace_back(size, memory);
  }
}

}  // namespace jeanie
