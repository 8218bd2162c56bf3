#include "memory.h"

#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace jeanie {

namespace {
constexpr size_t kAlignment = 64, kKept = size_t(64) << 20;

struct Pool {
  std::mutex lock;
  size_t held = 0;
  std::vector<std::pair<size_t, void*>> free;
};
Pool& pool() {
  static Pool* const shared = new Pool;  // never destroyed: threads may still give back at exit
  return *shared;
}
}  // namespace

Block::Block(size_t bytes) : size((bytes + kAlignment - 1) / kAlignment * kAlignment) {
  {
    Pool& p = pool();
    std::lock_guard<std::mutex> guard(p.lock);
    for (auto at = p.free.begin(); at != p.free.end(); ++at)
      if (at->first == size) {
        memory = at->second;
        p.held -= size;
        p.free.erase(at);
        return;
      }
  }
  memory = std::aligned_alloc(kAlignment, size ? size : kAlignment);
  if (!memory) throw std::bad_alloc();
}

Block::Block(Block&& other) noexcept : memory(std::exchange(other.memory, nullptr)), size(other.size) {}

Block& Block::operator=(Block&& other) noexcept {
  std::swap(memory, other.memory);
  std::swap(size, other.size);
  return *this;
}

Block::~Block() {
  if (!memory) return;
  Pool& p = pool();
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
