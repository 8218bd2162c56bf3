#include "memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "fork_safe.h"

namespace jeanie {

namespace {
constexpr size_t kAlignment = 64;
constexpr size_t kPage = size_t(2) << 20, kLarge = size_t(256) << 10;  // a large page; what is worth one
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kPooled = 0;  // the sanitizer sees the end of every block
#else
constexpr size_t kPooled = size_t(64) << 20;
#endif

struct Pool {
  std::mutex lock;
  size_t held = 0;
  std::vector<std::pair<size_t, void*>> blocks;
};
ForkSafe<Pool> pool;  // a forked child leaves the blocks of its parent alone
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
#if defined(__SANITIZE_ADDRESS__)
  size = bytes;
#else
  size = (bytes + unit - 1) / unit * unit;
#endif
  {
    std::lock_guard<std::mutex> guard(pool->lock);
    for (auto block = pool->blocks.begin(); block != pool->blocks.end(); ++block)
      if (block->first == size) {
        memory = block->second;
        pool->held -= size;
        pool->blocks.erase(block);
        return;
      }
  }
  if (posix_memalign(&memory, unit, size ? size : unit)) throw std::bad_alloc();
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
  std::lock_guard<std::mutex> guard(pool->lock);
  while (!pool->blocks.empty() && pool->held + size > kPooled) {  // the oldest block goes first
    pool->held -= pool->blocks.front().first;
    std::free(pool->blocks.front().second);
    pool->blocks.erase(pool->blocks.begin());
  }
  if (size <= kPooled) {
    try {
      pool->blocks.emplace_back(size, memory);
      pool->held += size;
      return;
    } catch (...) {  // a destructor must not throw: the pool does without this block
    }
  }
  std::free(memory);
}

}  // namespace jeanie
