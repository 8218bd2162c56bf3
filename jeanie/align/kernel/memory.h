// Workspace that outlives a call: fresh pages cost more than the arithmetic that fills them.
#pragma once

#include <cstddef>

namespace jeanie {

// Asks for pages of 2 MB where the memory has not been touched yet: a fault for each page of 4 KB costs more than the
// arithmetic that fills it.
void prefer_large_pages(void* start, size_t bytes);

// Uninitialised memory, aligned for any register. Given back to a small pool, which keeps at most 64 MB.
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
