// Products of small matrices that lie in the cache, by blocks whose sums stay in registers.
#pragma once

#include <cstdint>

#include "registers.h"

namespace JEANIE_ISA {

#if defined(__AVX512F__)
constexpr int kRegisterCount = 32;
#else
constexpr int kRegisterCount = 16;
#endif

// c[r, v] += sum over k of a[r * row + k * step] * b[k * wide + v] for R rows and V registers
template <class T, int R, int V>
inline void add_block(const T* a, int64_t row, int64_t step, const T* b, T* c, int64_t depth, int64_t wide) {
  constexpr int W = kWidth<T>;
  Register<T> sum[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sum[r][v] = load(c + r * wide + v * W);
  for (int64_t k = 0; k < depth; ++k, a += step, b += wide) {
    Register<T> right[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) right[v] = load(b + v * W);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Register<T> left = spread_over(a[r * row]);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sum[r][v] += left * right[v];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) store(c + r * wide + v * W, sum[r][v]);
}

// The same for V registers of all rows
template <class T, int V>
void add_columns(const T* a, int64_t row, int64_t step, const T* b, T* c, int64_t rows, int64_t depth, int64_t wide) {
  constexpr int kBlock = V == 1 ? 12 : kRegisterCount / 16 * 12 / V;  // rows
  int64_t r = 0;
  for (; r + kBlock <= rows; r += kBlock) add_block<T, kBlock, V>(a + r * row, row, step, b, c + r * wide, depth, wide);
  for (; r + 4 <= rows; r += 4) add_block<T, 4, V>(a + r * row, row, step, b, c + r * wide, depth, wide);
  for (; r < rows; ++r) add_block<T, 1, V>(a + r * row, row, step, b, c + r * wide, depth, wide);
}

// c[r, v] += sum over k of a[r * row + k * step] * b[k, v]; b and c have `wide` numbers per row, whole registers.
template <class T>
void add_product(const T* a, int64_t row, int64_t step, const T* b, T* c, int64_t rows, int64_t depth, int64_t wide) {
  constexpr int W = kWidth<T>;
  int64_t v = 0;
  while (v < wide) {
    const int64_t left = (wide - v) / W;
    if (left == 3 || left > 4) {
      add_columns<T, 3>(a, row, step, b + v, c + v, rows, depth, wide);
      v += 3 * W;
    } else if (left > 1) {
      add_columns<T, 2>(a, row, step, b + v, c + v, rows, depth, wide);
      v += 2 * W;
    } else {
      add_columns<T, 1>(a, row, step, b + v, c + v, rows, depth, wide);
      v += W;
    }
  }
}

}  // namespace JEANIE_ISA
