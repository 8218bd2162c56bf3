// Single registers: load, store, and reductions over their lanes.
//
// The file is compiled once per instruction set; JEANIE_BYTES is the register width and JEANIE_ISA the
// namespace, so that no two builds of one template can be merged by the linker.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#ifndef JEANIE_BYTES
#define JEANIE_BYTES 16
#endif
#ifndef JEANIE_ISA
#define JEANIE_ISA baseline
#endif

// Packs must live in registers, never on the stack of a call.
#define JEANIE_INLINE inline __attribute__((always_inline))

namespace JEANIE_ISA {

template <class T> struct register_of {
  typedef T type __attribute__((vector_size(JEANIE_BYTES)));
  typedef T half __attribute__((vector_size(JEANIE_BYTES / 2)));
  typedef T unaligned __attribute__((vector_size(JEANIE_BYTES), aligned(alignof(T)), may_alias));
};
template <class T> using Register = typename register_of<T>::type;
template <class T> using Half = typename register_of<T>::half;
template <class T> using Unaligned = typename register_of<T>::unaligned;
template <class T> constexpr int kWidth = JEANIE_BYTES / int(sizeof(T));

template <class T> JEANIE_INLINE Register<T> load(const T* at) { return *reinterpret_cast<const Unaligned<T>*>(at); }
template <class T> JEANIE_INLINE void store(T* at, Register<T> x) { *reinterpret_cast<Unaligned<T>*>(at) = x; }
template <class T> JEANIE_INLINE Register<T> spread_over(T x) { return x - Register<T>{}; }  // 0 + x would not fold: -0

// Adds halves to halves: in a sum from the first lane to the last, every addition would wait for the one before.
template <class T> JEANIE_INLINE T sum_of(Register<T> x) {
  T part[kWidth<T>];
  for (int w = 0; w < kWidth<T>; ++w) part[w] = x[w];
#pragma GCC unroll 3
  for (int half = kWidth<T> / 2; half; half /= 2)
    for (int w = 0; w < half; ++w) part[w] += part[w + half];
  return part[0];
}

// Bit i is set where lane i of a comparison is true.
template <class I> JEANIE_INLINE uint64_t lanes_of(Register<I> mask) {
#if defined(__AVX2__)
  return sizeof(I) == 4 ? unsigned(_mm256_movemask_ps((__m256)mask)) : unsigned(_mm256_movemask_pd((__m256d)mask));
#else
  uint64_t lanes = 0;
  for (int w = 0; w < kWidth<I>; ++w) lanes |= uint64_t(mask[w] != 0) << w;
  return lanes;
#endif
}

inline int64_t rounded_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

}  // namespace JEANIE_ISA
