// Between rows of memory (one per pair) and packs (one number per pair): square transposes in registers.
#pragma once

#include "pack.h"

namespace JEANIE_ISA {

template <int W> struct Square;

template <> struct Square<2> {
  template <class V> static JEANIE_INLINE void transpose(V* a) {
    V x = a[0], y = a[1];
    a[0] = __builtin_shufflevector(x, y, 0, 2);
    a[1] = __builtin_shufflevector(x, y, 1, 3);
  }
};

// Four double in 32 bytes: the 128-bit halves are swapped last. Four float in 16 bytes: no halves to swap.
template <> struct Square<4> {
  template <class V> static JEANIE_INLINE void transpose(V* a) {
#if JEANIE_BYTES == 32
    V t0 = __builtin_shufflevector(a[0], a[1], 0, 4, 2, 6), t1 = __builtin_shufflevector(a[0], a[1], 1, 5, 3, 7);
    V t2 = __builtin_shufflevector(a[2], a[3], 0, 4, 2, 6), t3 = __builtin_shufflevector(a[2], a[3], 1, 5, 3, 7);
    a[0] = __builtin_shufflevector(t0, t2, 0, 1, 4, 5);
    a[1] = __builtin_shufflevector(t1, t3, 0, 1, 4, 5);
    a[2] = __builtin_shufflevector(t0, t2, 2, 3, 6, 7);
    a[3] = __builtin_shufflevector(t1, t3, 2, 3, 6, 7);
#else
    V t0 = __builtin_shufflevector(a[0], a[1], 0, 4, 1, 5), t1 = __builtin_shufflevector(a[0], a[1], 2, 6, 3, 7);
    V t2 = __builtin_shufflevector(a[2], a[3], 0, 4, 1, 5), t3 = __builtin_shufflevector(a[2], a[3], 2, 6, 3, 7);
    a[0] = __builtin_shufflevector(t0, t2, 0, 1, 4, 5);
    a[1] = __builtin_shufflevector(t0, t2, 2, 3, 6, 7);
    a[2] = __builtin_shufflevector(t1, t3, 0, 1, 4, 5);
    a[3] = __builtin_shufflevector(t1, t3, 2, 3, 6, 7);
#endif
  }
};

template <> struct Square<8> {
  template <class V> static JEANIE_INLINE void transpose(V* a) {
    V t[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i += 2) {
      t[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
      t[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    V u[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i += 4) {
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) {
        u[i + 2 * j] = __builtin_shufflevector(t[i + j], t[i + 2 + j], 0, 1, 8, 9, 4, 5, 12, 13);
        u[i + 2 * j + 1] = __builtin_shufflevector(t[i + j], t[i + 2 + j], 2, 3, 10, 11, 6, 7, 14, 15);
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < 4; ++i) {
      a[i] = __builtin_shufflevector(u[i], u[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
      a[i + 4] = __builtin_shufflevector(u[i], u[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
  }
};

// out[i] lane l = row[l][i] for i < count
template <class T, int L> void gather(const T* const* row, int64_t count, Pack<T, L>* out) {
  constexpr int W = kWidth<T>;
  if (count < W) {
    for (int l = 0; l < L; ++l)
      for (int64_t i = 0; i < count; ++i) reinterpret_cast<T*>(out + i)[l] = row[l][i];
    return;
  }
  for (int part = 0; part < L / W; ++part) {
    const T* at[W];
#pragma GCC unroll 8
    for (int j = 0; j < W; ++j) at[j] = row[part * W + j];
    for (int64_t i = 0; i < count; i += W) {
      if (i + W > count) i = count - W;  // the last square may overlap the one before
      Register<T> a[W];
#pragma GCC unroll 8
      for (int j = 0; j < W; ++j) a[j] = *reinterpret_cast<const Unaligned<T>*>(at[j] + i);
      Square<W>::transpose(a);
#pragma GCC unroll 8
      for (int j = 0; j < W; ++j) out[i + j].r[part] = a[j];
    }
  }
}

// row[l][i] = in[i] lane l for i < count and l < lanes
template <class T, int L> void scatter(const Pack<T, L>* in, int64_t count, T* const* row, int lanes) {
  constexpr int W = kWidth<T>;
  if (count < W) {
    for (int l = 0; l < lanes; ++l)
      for (int64_t i = 0; i < count; ++i) row[l][i] = reinterpret_cast<const T*>(in + i)[l];
    return;
  }
  for (int part = 0; part * W < lanes; ++part) {
    T* at[W];
    const int used = lanes - part * W < W ? lanes - part * W : W;
#pragma GCC unroll 8
    for (int j = 0; j < W; ++j) at[j] = row[part * W + (j < used ? j : 0)];
    for (int64_t i = 0; i < count; i += W) {
      if (i + W > count) i = count - W;
      Register<T> a[W];
#pragma GCC unroll 8
      for (int j = 0; j < W; ++j) a[j] = in[i + j].r[part];
      Square<W>::transpose(a);
      // from the last lane down: an unused lane writes where the first one then overwrites it
#pragma GCC unroll 8
      for (int j = W - 1; j >= 0; --j) *reinterpret_cast<Unaligned<T>*>(at[j] + i) = a[j];
    }
  }
}

}  // namespace JEANIE_ISA
