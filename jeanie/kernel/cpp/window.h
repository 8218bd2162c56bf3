// Sliding windows along the view axes, in place: x[i] <- op of x[j] over |i - j| <= shift, clipped at the grid's edge.
#pragma once

#include <algorithm>
#include <vector>

#include "pack.h"

namespace JEANIE_ISA {

struct Add {
  template <class V> static V of(V a, V b) { return a + b; }
};
struct Min {
  template <class V> static V of(V a, V b) { return a < b ? a : b; }
};

// One view axis: `outer` blocks of `size` steps of `inner` registers each.
struct Axis {
  int64_t size, outer, inner;
};

template <class Op, class V, int N, int S> void slide_fixed(V* x, const Axis& axis, int64_t, V*) {
  for (int64_t o = 0; o < axis.outer; ++o, x += N * axis.inner)
    for (int64_t q = 0; q < axis.inner; ++q) {
      V a[N];
#pragma GCC unroll 16
      for (int i = 0; i < N; ++i) a[i] = x[i * axis.inner + q];
#pragma GCC unroll 16
      for (int i = 0; i < N; ++i) {
        V sum = a[i > S ? i - S : 0];
#pragma GCC unroll 16
        for (int j = (i > S ? i - S : 0) + 1; j <= (i + S < N - 1 ? i + S : N - 1); ++j) sum = Op::of(sum, a[j]);
        x[i * axis.inner + q] = sum;
      }
    }
}

// The window covers the axis: one total for all.
template <class Op, class V> void slide_whole(V* x, const Axis& axis, int64_t, V*) {
  for (int64_t o = 0; o < axis.outer; ++o, x += axis.size * axis.inner)
    for (int64_t q = 0; q < axis.inner; ++q) {
      V total = x[q];
      for (int64_t i = 1; i < axis.size; ++i) total = Op::of(total, x[i * axis.inner + q]);
      for (int64_t i = 0; i < axis.size; ++i) x[i * axis.inner + q] = total;
    }
}

template <class Op, class V> void slide_any(V* x, const Axis& axis, int64_t shift, V* line) {
  for (int64_t o = 0; o < axis.outer; ++o, x += axis.size * axis.inner)
    for (int64_t q = 0; q < axis.inner; ++q) {
      for (int64_t i = 0; i < axis.size; ++i) line[i] = x[i * axis.inner + q];
      for (int64_t i = 0; i < axis.size; ++i) {
        int64_t first = std::max<int64_t>(0, i - shift), last = std::min(axis.size - 1, i + shift);
        V sum = line[first];
        for (int64_t j = first + 1; j <= last; ++j) sum = Op::of(sum, line[j]);
        x[i * axis.inner + q] = sum;
      }
    }
}

// The slide of one axis: unrolled for the usual small grids, general for the rest.
template <class Op, class V> struct Slide {
  using Function = void (*)(V*, const Axis&, int64_t, V*);
  Axis axis;
  int64_t shift;
  Function run;

  Slide(Axis axis_, int64_t shift_) : axis(axis_), shift(shift_), run(choose(axis_.size, shift_)) {}
  void operator()(V* x, V* line) const { run(x, axis, shift, line); }

  template <int N> static Function sized(int64_t shift) {
    if constexpr (N > 2)
      if (shift == 1) return slide_fixed<Op, V, N, 1>;
    if constexpr (N > 3)
      if (shift == 2) return slide_fixed<Op, V, N, 2>;
    if constexpr (N > 4)
      if (shift == 3) return slide_fixed<Op, V, N, 3>;
    return slide_any<Op, V>;
  }
  static Function choose(int64_t size, int64_t shift) {
    if (shift >= size - 1) return slide_whole<Op, V>;
    switch (size) {
      case 3: return sized<3>(shift);
      case 4: return sized<4>(shift);
      case 5: return sized<5>(shift);
      case 6: return sized<6>(shift);
      case 7: return sized<7>(shift);
      case 8: return sized<8>(shift);
      case 9: return sized<9>(shift);
      default: return slide_any<Op, V>;
    }
  }
};

// Windows of every axis longer than one view, `registers` registers per view; nothing is done if shift is 0.
template <class Op, class V>
std::vector<Slide<Op, V>> slides(const std::vector<int64_t>& grid, int64_t shift, int64_t registers) {
  std::vector<Slide<Op, V>> all;
  int64_t views = 1, outer = 1;
  for (int64_t n : grid) views *= n;
  for (int64_t n : grid) {
    int64_t inner = views / (outer * n) * registers;
    if (n > 1 && shift > 0) all.push_back({Axis{n, outer, inner}, shift});
    outer *= n;
  }
  return all;
}

}  // namespace JEANIE_ISA
