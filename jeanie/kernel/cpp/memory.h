// Workspace that outlives a call: new pages cost more than the arithmetic that fills them.
#pragma once

#include <cstddef>

namespace jeanie {

// Advises the system to use pages of 2 MB for memory that has not been touched yet.
void prefer_large_pages(void* start, size_t bytes);

// Uninitialised memory, aligned for any register. It returns to a small pool, which keeps at most 64 MB.
class Block {
  void* memory = nullptr;
  size_t size = 0;

 public:
  Block() = default;
  explicit Block(size_t bytes);
  Block(Block&& other) noexcept;
  Block& operator=(Block&& other) noexcept;
  ~Block();
  void* start() const { return memory; }
};

}  // namespace jeanie
