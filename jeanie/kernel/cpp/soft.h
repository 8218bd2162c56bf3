// Numbers P = exp(-R / gamma) of the soft recursion, far beyond any float's range, in two representations.
//
// OwnExponents:   every view of every cell has its own mantissa in [1, 2) and its own exponent. No precision is lost.
// SharedExponent: double mantissas with one exponent per cell and pair. Views merge by a multiply-add and windows are
//                 plain sums. It is valid while the views of a cell are within 2^900 of each other; otherwise it
//                 returns kSpread.
//
// Both know how to weigh a cost, merge three predecessors, slide the view window, and finish a cell.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "abi.h"
#include "pack.h"
#include "window.h"

namespace JEANIE_ISA {

#if defined(__FMA__) || defined(__aarch64__)
constexpr bool kFused = true;
#else
constexpr bool kFused = false;
#endif

template <class I> constexpr I kDead = sizeof(I) == 4 ? I(-(1 << 29)) : I(-(int64_t(1) << 60));

// exp(-cost / gamma) = fraction * 2^whole, |log2 fraction| <= 1/2
template <class C, int L> struct Weight {
  Pack<C, L> fraction;
  Pack<Integer<C>, L> whole;
};

template <class C> struct Scale {
  C hi, lo, unit_hi, unit_lo;
  double full;
  explicit Scale(const JeanieAlign& job)
      : hi(C(job.scale_hi)), lo(C(job.scale_lo)), unit_hi(C(job.unit_hi)), unit_lo(C(job.unit_lo)),
        full(job.scale_hi + job.scale_lo) {}

  template <int L> static JEANIE_INLINE Pack<Integer<C>, L> integer(Pack<C, L> rounded) {
    return bits(rounded) - bits(Pack<C, L>::all(Format<C>::kRound));
  }

  template <int L> JEANIE_INLINE Weight<C, L> operator()(Pack<C, L> cost) const {
    const Pack<C, L> round = Pack<C, L>::all(Format<C>::kRound);
    if constexpr (kFused) {
      // contracted to fused multiply-adds, so that the fraction keeps every bit of cost * scale
      Pack<C, L> rounded = cost * Pack<C, L>::all(hi) + round;
      Pack<C, L> fraction = cost * Pack<C, L>::all(hi) - (rounded - round);
      fraction = cost * Pack<C, L>::all(lo) + fraction;
      return {exp2_fraction(fraction), integer(rounded)};
    } else if constexpr (sizeof(C) == 4) {
      const Pack<double, L> wide_round = Pack<double, L>::all(Format<double>::kRound);
      Pack<double, L> y = widen(cost) * Pack<double, L>::all(full);
      Pack<double, L> whole = (y + wide_round) - wide_round;
      return {exp2_fraction(narrow<C>(y - whole)), integer(narrow<C>(whole) + round)};
    } else {
      Pack<C, L> rounded = cost * Pack<C, L>::all(hi) + round;
      Pack<C, L> whole = rounded - round;  // whole * unit_hi is exact: 35 + 18 bits
      Pack<C, L> rest = (cost + whole * Pack<C, L>::all(unit_hi)) + whole * Pack<C, L>::all(unit_lo);
      return {exp2_fraction(rest * Pack<C, L>::all(hi)), integer(rounded)};
    }
  }
};

// Whether all costs so far are finite, and the largest of them. The bits of |cost| compare like the numbers;
// infinity and NaN are above all of them.
template <class C> struct Watch {
  using Bits = Integer<C>;
  Register<Bits> largest = {};
  template <int L> JEANIE_INLINE void see(Pack<C, L> cost) {
    const Pack<Bits, L> size = bits(cost) & Pack<Bits, L>::all(std::numeric_limits<Bits>::max());
    for (int i = 0; i < Pack<C, L>::kRegisters; ++i) largest = largest > size.r[i] ? largest : size.r[i];
  }
  C bound() const {
    Bits most = 0;
    for (int l = 0; l < kWidth<C>; ++l) most = std::max<Bits>(most, largest[l]);
    C x;
    std::memcpy(&x, &most, sizeof x);
    return x;
  }
};

template <class M, class I> struct Cell {
  M* m;  // one pack per view
  I* k;
};

// The only view of a cell in registers, `at` cells after x. Copied register by register: GCC 12 would copy a pack in
// halves, and the following loads would stall.
template <class M, class I> struct Value {
  M m;
  I k;
};
template <class M, class I> JEANIE_INLINE Value<M, I> value(Cell<M, I> x, int64_t at) {
  Value<M, I> v;
  for (int i = 0; i < M::kRegisters; ++i) v.m.r[i] = x.m[at].r[i];
  for (int i = 0; i < I::kRegisters; ++i) v.k.r[i] = x.k[at].r[i];
  return v;
}
template <class M, class I> JEANIE_INLINE void keep(const Value<M, I>& v, Cell<M, I> x, int64_t at) {
  for (int i = 0; i < M::kRegisters; ++i) x.m[at].r[i] = v.m.r[i];
  for (int i = 0; i < I::kRegisters; ++i) x.k[at].r[i] = v.k.r[i];
}

template <class C, int L_, int FixedViews> struct OwnExponents {
  static constexpr int L = L_;
  using Cost = C;
  using M = Pack<C, L>;
  using I = Pack<Integer<C>, L>;
  using CellT = Cell<M, I>;
  using Number = Value<M, I>;
  static constexpr int kBias = Format<C>::kBias;
  static constexpr bool kSingle = FixedViews == 1;
  static constexpr int kAtOnce = kFused ? 4 : 1;  // without fused multiply-adds each register becomes two of double

  const int64_t many;
  const std::vector<Axis> axes;
  const int64_t shift;
  const Scale<C> scale;
  Watch<C> watch;
  std::vector<M> line_m;
  std::vector<I> line_k;

  OwnExponents(const JeanieAlign& job, int64_t views_, const std::vector<int64_t>& grid)
      : many(views_), axes(axes_of(grid, job.shift)), shift(job.shift), scale(job),
        line_m(views_), line_k(views_) {}

  static std::vector<Axis> axes_of(const std::vector<int64_t>& grid, int64_t shift) {
    std::vector<Axis> all;
    for (const auto& s : slides<Add, Register<C>>(grid, shift, 1)) all.push_back(s.axis);
    return all;
  }
  int64_t views() const { return FixedViews ? FixedViews : many; }
  int64_t exponents() const { return views(); }

  // Several registers at once, since each of them waits long for its polynomial. Copies of `scale` and `watch` stay in
  // registers, because the compiler must assume that stores change the members.
  void weigh(const Pack<C, L>* cost, int64_t cells, CellT w) {
    const auto* from = reinterpret_cast<const Register<C>*>(cost);
    auto* fraction = reinterpret_cast<Register<C>*>(w.m);
    auto* whole = reinterpret_cast<Register<Integer<C>>*>(w.k);
    const int64_t count = cells * views() * I::kRegisters;
    const auto scale = this->scale;
    auto watch = this->watch;
    auto some = [&](auto width, int64_t at) __attribute__((always_inline)) {
      constexpr int n = decltype(width)::value;
      Pack<C, n * kWidth<C>> costs;
      for (int i = 0; i < n; ++i) costs.r[i] = from[at + i];
      watch.see(costs);
      const auto x = scale(costs);
      for (int i = 0; i < n; ++i) fraction[at + i] = x.fraction.r[i], whole[at + i] = x.whole.r[i];
    };
    int64_t at = 0;
    for (; at + kAtOnce <= count; at += kAtOnce) some(std::integral_constant<int, kAtOnce>(), at);
    for (; at < count; ++at) some(std::integral_constant<int, 1>(), at);
    this->watch = watch;
  }

  // 2^(k - top) for k <= top; results below the exponent range are 0
  static JEANIE_INLINE M relative(I k, I top) {
    I e = max(k - (top - I::all(kBias)), I::all(0));
    for (int i = 0; i < I::kRegisters; ++i) e.r[i] <<= Format<C>::kMantissa;
    return number(e);
  }
  // a chain of cells waits for c, so c is used last
  static JEANIE_INLINE Number sum(Number a, Number b, Number c) {
    const I top = max(c.k, max(a.k, b.k));
    return {c.m * relative(c.k, top) + (a.m * relative(a.k, top) + b.m * relative(b.k, top)), top};
  }
  // Mantissas may leave [1, 2): a cell multiplies them by 2^-0.5 to 3 * 2^0.5, so about 15 cells in a row are safe
  static JEANIE_INLINE Number product(Number x, Number w) { return {x.m * w.m, x.k + w.k}; }
  static JEANIE_INLINE Number normal(Number x) {
    return {mantissa(x.m), (x.k - I::all(kBias)) + biased_exponent(x.m)};
  }
  // P H for an H that began with the bias in its exponent; 0 where the exponent is out of range
  static JEANIE_INLINE Pack<C, L> share(Number p, Number h) {
    I e = max(p.k + h.k, I::all(0));
    for (int i = 0; i < I::kRegisters; ++i) e.r[i] <<= Format<C>::kMantissa;
    return (p.m * h.m) * number(e);
  }

  // m 2^(k - top) for m >= 1, at least 2^-126 (float); smaller values do not matter
  static JEANIE_INLINE M aligned(M m, I k, I top) { return shifted(m, max(k - top, I::all(1 - kBias))); }

  JEANIE_INLINE void merge(CellT a, CellT b, CellT c, CellT out) const {
    for (int64_t v = 0; v < views(); ++v) {
      const Number x = sum({a.m[v], a.k[v]}, {b.m[v], b.k[v]}, {c.m[v], c.k[v]});
      out.m[v] = x.m, out.k[v] = x.k;
    }
  }

  void window(CellT x) {
    if constexpr (FixedViews == 1) return;
    for (const Axis& axis : axes)
      for (int64_t o = 0; o < axis.outer; ++o)
        for (int64_t q = 0; q < axis.inner; ++q) slide(x, o * axis.size * axis.inner + q, axis);
  }
  void slide(CellT x, int64_t start, const Axis& axis) {
    M* m = line_m.data();
    I* k = line_k.data();
    for (int64_t i = 0; i < axis.size; ++i) {
      m[i] = x.m[start + i * axis.inner];
      k[i] = x.k[start + i * axis.inner];
    }
    for (int64_t i = 0; i < axis.size; ++i) {
      int64_t first = std::max<int64_t>(0, i - shift), last = std::min(axis.size - 1, i + shift);
      I top = k[first];
      for (int64_t j = first + 1; j <= last; ++j) top = max(top, k[j]);
      M sum = aligned(m[first], k[first], top);
      for (int64_t j = first + 1; j <= last; ++j) sum = sum + aligned(m[j], k[j], top);
      x.m[start + i * axis.inner] = sum;
      x.k[start + i * axis.inner] = top;
    }
  }

  JEANIE_INLINE bool finish(CellT x, CellT w, CellT out) const {
    for (int64_t v = 0; v < views(); ++v) {
      const Number p = normal(product({x.m[v], x.k[v]}, {w.m[v], w.k[v]}));
      out.m[v] = p.m, out.k[v] = p.k;
    }
    return true;
  }

  void kill(CellT x) const {
    for (int64_t v = 0; v < views(); ++v) x.m[v] = M::all(1), x.k[v] = I::all(kDead<Integer<C>>);
  }
  JEANIE_INLINE void kill(CellT x, I keep) const {
    for (int64_t v = 0; v < views(); ++v) x.k[v] = choose(keep, x.k[v], I::all(kDead<Integer<C>>));
  }
  // Where a path begins, or ends and is followed back
  void begin(CellT x, I where, Number start) const {
    for (int64_t v = 0; v < views(); ++v) {
      x.m[v] = choose(where, start.m, x.m[v]);
      x.k[v] = choose(where, start.k, x.k[v]);
    }
  }
  // 1 / Z with the bias that `share` needs
  static Number reciprocal(const double* z_m, const int64_t* z_k) {
    Number h;
    for (int l = 0; l < L; ++l) h.m.set(l, C(2 / z_m[l])), h.k.set(l, Integer<C>(kBias - 1 - z_k[l]));
    return h;
  }

  // sum over the views of one lane as mantissa and exponent
  void total(CellT x, int lane, double* m, int64_t* k) const {
    int64_t top = x.k[0].lane(lane);
    for (int64_t v = 1; v < views(); ++v) top = std::max<int64_t>(top, x.k[v].lane(lane));
    double sum = 0;
    for (int64_t v = 0; v < views(); ++v)
      sum += std::ldexp(double(x.m[v].lane(lane)), int(std::max<int64_t>(x.k[v].lane(lane) - top, -2000)));
    int e;
    *m = 2 * std::frexp(sum, &e);
    *k = top + e - 1;
  }

  JEANIE_INLINE void plan(CellT p, CellT h, Pack<C, L>* out) const {
    for (int64_t v = 0; v < views(); ++v) out[v] = share({p.m[v], p.k[v]}, {h.m[v], h.k[v]});
  }
};

template <class C, int L_> struct SharedExponent {
  static constexpr int L = L_;
  using Cost = C;
  using M = Pack<double, L>;
  using I = Pack<Integer<C>, L>;
  using CellT = Cell<M, I>;
  using Number = Value<M, I>;
  static constexpr bool kSingle = false;
  static constexpr int kSmallest = -900;  // log2 of the smallest safe mantissa

  const int64_t many;
  const std::vector<Slide<Add, Register<double>>> windows;
  const Scale<C> scale;
  Watch<C> watch;
  bool spread = false;
  std::vector<Register<double>> line;

  SharedExponent(const JeanieAlign& job, int64_t views_, const std::vector<int64_t>& grid)
      : many(views_), windows(slides<Add, Register<double>>(grid, job.shift, M::kRegisters)), scale(job), line(views_) {}

  int64_t views() const { return many; }
  int64_t exponents() const { return 2; }  // of the mantissas' unit, and of the largest view

  void weigh(const Pack<C, L>* cost, int64_t cells, CellT w) {
    for (int64_t i = 0; i < cells; ++i) weigh(cost + i * many, CellT{w.m + i * many, w.k + i * exponents()});
  }
  JEANIE_INLINE void weigh(const Pack<C, L>* cost, CellT w) {
    Pack<C, L> least = cost[0], most = cost[0], broken = Pack<C, L>::all(0);
    for (int64_t v = 0; v < many; ++v) {
      broken = cost[v] * Pack<C, L>::all(0) + broken;  // NaN and inf leave NaN
      least = min(least, cost[v]);
      most = max(most, cost[v]);
    }
    watch.see(max(most, Pack<C, L>::all(0) - least) + broken);
    const Pack<C, L> round = Pack<C, L>::all(Format<C>::kRound);
    I top = Scale<C>::integer(least * Pack<C, L>::all(scale.hi) + round);
    I bottom = Scale<C>::integer(most * Pack<C, L>::all(scale.hi) + round);
    spread |= any(positive(top - bottom + I::all(kSmallest)));
    for (int64_t v = 0; v < many; ++v) {
      Weight<C, L> x = scale(cost[v]);
      w.m[v] = shifted(widen(x.fraction), widen(x.whole - top));
    }
    w.k[0] = top;
  }
  static JEANIE_INLINE I positive(I a) {
    for (int i = 0; i < I::kRegisters; ++i) a.r[i] = a.r[i] > 0;
    return a;
  }
  static JEANIE_INLINE M relative(I k, I top) { return power_of_two<double>(widen(max(k - top, I::all(-1000)))); }

  JEANIE_INLINE void merge(CellT a, CellT b, CellT c, CellT out) const {
    const int64_t many = this->many;
    I top = max(a.k[1], max(b.k[1], c.k[1]));
    M sa = relative(a.k[0], top), sb = relative(b.k[0], top), sc = relative(c.k[0], top);
    for (int64_t v = 0; v < many; ++v) out.m[v] = a.m[v] * sa + (b.m[v] * sb + c.m[v] * sc);
    out.k[0] = top;
  }
  void window(CellT x) {
    for (const auto& slide : windows) slide(x.m[0].r, line.data());
  }
  JEANIE_INLINE bool finish(CellT x, CellT w, CellT out) {
    M most = x.m[0] * w.m[0], least = most;
    for (int64_t v = 0; v < many; ++v) {
      M p = x.m[v] * w.m[v];
      most = max(most, p);
      least = min(least, p);
      out.m[v] = p;
    }
    I unit = x.k[0] + w.k[0];
    out.k[0] = unit;
    out.k[1] = unit + narrow<Integer<C>>(exponent(most));
    return !spread && !any(less(least, M::all(0x1p-900)));
  }
  void kill(CellT x) const {
    for (int64_t v = 0; v < many; ++v) x.m[v] = M::all(1);
    x.k[0] = x.k[1] = I::all(kDead<Integer<C>>);
  }
  JEANIE_INLINE void kill(CellT x, I keep) const {
    for (int i = 0; i < 2; ++i) x.k[i] = choose(keep, x.k[i], I::all(kDead<Integer<C>>));
  }
  void begin(CellT x, I where, Number start) const {
    Pack<int64_t, L> wide = widen(where);
    for (int64_t v = 0; v < many; ++v) x.m[v] = choose(wide, start.m, x.m[v]);
    x.k[0] = choose(where, start.k, x.k[0]);
  }
  static Number reciprocal(const double* z_m, const int64_t* z_k) {
    Number h;
    for (int l = 0; l < L; ++l) h.m.set(l, 1 / z_m[l]), h.k.set(l, Integer<C>(-z_k[l]));
    return h;
  }
  void total(CellT x, int lane, double* m, int64_t* k) const {
    double sum = 0;
    for (int64_t v = 0; v < many; ++v) sum += x.m[v].lane(lane);
    int e;
    *m = 2 * std::frexp(sum, &e);
    *k = x.k[0].lane(lane) + e - 1;
  }
  // P and H may both be far from 1, so each takes half of the exponent
  JEANIE_INLINE void plan(CellT p, CellT h, Pack<C, L>* out) const {
    I e = max(p.k[0] + h.k[0], I::all(-2000));
    I half = e;
    for (int i = 0; i < I::kRegisters; ++i) half.r[i] >>= 1;
    M first = power_of_two<double>(widen(half)), second = power_of_two<double>(widen(e - half));
    for (int64_t v = 0; v < many; ++v) out[v] = narrow<C>((p.m[v] * first) * (h.m[v] * second));
  }
};

}  // namespace JEANIE_ISA
