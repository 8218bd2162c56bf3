// Packs of SIMD registers: lane i of every pack belongs to the i-th pair of a group.
#pragma once

#include "registers.h"

namespace JEANIE_ISA {

template <class T> struct integer_of;
template <> struct integer_of<float> { using type = int32_t; };
template <> struct integer_of<double> { using type = int64_t; };
template <class T> using Integer = typename integer_of<T>::type;

// L numbers, one per lane, in as many registers as they need.
template <class T, int L> struct Pack {
  static constexpr int kRegisters = L / kWidth<T>;
  Register<T> r[kRegisters];

  static JEANIE_INLINE Pack all(T x) {
    Pack p;
    for (int i = 0; i < kRegisters; ++i) p.r[i] = Register<T>{} + x;
    return p;
  }
  T lane(int i) const { return r[i / kWidth<T>][i % kWidth<T>]; }
  void set(int i, T x) { r[i / kWidth<T>][i % kWidth<T>] = x; }
};

#define JEANIE_EACH(expression)                                \
  do {                                                         \
    for (int i = 0; i < Pack<T, L>::kRegisters; ++i) expression; \
  } while (0)

template <class T, int L> JEANIE_INLINE Pack<T, L> operator+(Pack<T, L> a, Pack<T, L> b) { JEANIE_EACH(a.r[i] += b.r[i]); return a; }
template <class T, int L> JEANIE_INLINE Pack<T, L> operator-(Pack<T, L> a, Pack<T, L> b) { JEANIE_EACH(a.r[i] -= b.r[i]); return a; }
template <class T, int L> JEANIE_INLINE Pack<T, L> operator*(Pack<T, L> a, Pack<T, L> b) { JEANIE_EACH(a.r[i] *= b.r[i]); return a; }
template <class T, int L> JEANIE_INLINE Pack<T, L> operator&(Pack<T, L> a, Pack<T, L> b) { JEANIE_EACH(a.r[i] &= b.r[i]); return a; }
template <class T, int L> JEANIE_INLINE Pack<T, L> max(Pack<T, L> a, Pack<T, L> b) { JEANIE_EACH(a.r[i] = a.r[i] > b.r[i] ? a.r[i] : b.r[i]); return a; }
template <class T, int L> JEANIE_INLINE Pack<T, L> min(Pack<T, L> a, Pack<T, L> b) { JEANIE_EACH(a.r[i] = a.r[i] < b.r[i] ? a.r[i] : b.r[i]); return a; }

// mask (all ones or all zeros per lane) ? a : b
template <class T, int L> JEANIE_INLINE Pack<T, L> choose(Pack<Integer<T>, L> mask, Pack<T, L> a, Pack<T, L> b) {
  JEANIE_EACH(a.r[i] = mask.r[i] ? a.r[i] : b.r[i]);
  return a;
}
template <int L> JEANIE_INLINE Pack<int32_t, L> choose(Pack<int32_t, L> mask, Pack<int32_t, L> a, Pack<int32_t, L> b) {
  for (int i = 0; i < Pack<int32_t, L>::kRegisters; ++i) a.r[i] = mask.r[i] ? a.r[i] : b.r[i];
  return a;
}
template <int L> JEANIE_INLINE Pack<int64_t, L> choose(Pack<int64_t, L> mask, Pack<int64_t, L> a, Pack<int64_t, L> b) {
  for (int i = 0; i < Pack<int64_t, L>::kRegisters; ++i) a.r[i] = mask.r[i] ? a.r[i] : b.r[i];
  return a;
}

template <class T, int L> JEANIE_INLINE Pack<Integer<T>, L> bits(Pack<T, L> x) {
  Pack<Integer<T>, L> p;
  JEANIE_EACH(p.r[i] = (Register<Integer<T>>)x.r[i]);
  return p;
}
template <int L> JEANIE_INLINE Pack<float, L> number(Pack<int32_t, L> x) {
  Pack<float, L> p;
  for (int i = 0; i < Pack<float, L>::kRegisters; ++i) p.r[i] = (Register<float>)x.r[i];
  return p;
}
template <int L> JEANIE_INLINE Pack<double, L> number(Pack<int64_t, L> x) {
  Pack<double, L> p;
  for (int i = 0; i < Pack<double, L>::kRegisters; ++i) p.r[i] = (Register<double>)x.r[i];
  return p;
}

template <class V> JEANIE_INLINE auto low_half(V x) {
#if JEANIE_BYTES == 32
  return __builtin_shufflevector(x, x, 0, 1, 2, 3);
#else
  return __builtin_shufflevector(x, x, 0, 1);
#endif
}
template <class V> JEANIE_INLINE auto high_half(V x) {
#if JEANIE_BYTES == 32
  return __builtin_shufflevector(x, x, 4, 5, 6, 7);
#else
  return __builtin_shufflevector(x, x, 2, 3);
#endif
}
template <class V> JEANIE_INLINE auto joined(V low, V high) {
#if JEANIE_BYTES == 32
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
#else
  return __builtin_shufflevector(low, high, 0, 1, 2, 3);
#endif
}

// Half a register to a whole one of twice the element size, and back. GCC 12 splits the generic form in two.
template <class To, class H> JEANIE_INLINE Register<To> grown(H x) { return __builtin_convertvector(x, Register<To>); }
template <class To, class V> JEANIE_INLINE Half<To> shrunk(V x) { return __builtin_convertvector(x, Half<To>); }
#if defined(__AVX2__)
template <> JEANIE_INLINE Register<double> grown<double, Half<float>>(Half<float> x) { return _mm256_cvtps_pd(x); }
template <> JEANIE_INLINE Register<int64_t> grown<int64_t, Half<int32_t>>(Half<int32_t> x) {
  return (Register<int64_t>)_mm256_cvtepi32_epi64((__m128i)x);
}
template <> JEANIE_INLINE Half<float> shrunk<float, Register<double>>(Register<double> x) { return _mm256_cvtpd_ps(x); }
#endif

// float -> double and int32 -> int64, lane by lane: one register becomes two.
template <class From, class To, int L> JEANIE_INLINE Pack<To, L> widened(Pack<From, L> x) {
  Pack<To, L> p;
  for (int i = 0; i < Pack<From, L>::kRegisters; ++i) {
    p.r[2 * i] = grown<To, Half<From>>(low_half(x.r[i]));
    p.r[2 * i + 1] = grown<To, Half<From>>(high_half(x.r[i]));
  }
  return p;
}
template <int L> JEANIE_INLINE Pack<double, L> widen(Pack<float, L> x) { return widened<float, double, L>(x); }
template <int L> JEANIE_INLINE Pack<int64_t, L> widen(Pack<int32_t, L> x) { return widened<int32_t, int64_t, L>(x); }
template <int L> JEANIE_INLINE Pack<double, L> widen(Pack<double, L> x) { return x; }
template <int L> JEANIE_INLINE Pack<int64_t, L> widen(Pack<int64_t, L> x) { return x; }

template <class To, class From, int L> JEANIE_INLINE Pack<To, L> narrowed(Pack<From, L> x) {
  Pack<To, L> p;
  for (int i = 0; i < Pack<To, L>::kRegisters; ++i)
    p.r[i] = joined(shrunk<To, Register<From>>(x.r[2 * i]), shrunk<To, Register<From>>(x.r[2 * i + 1]));
  return p;
}
// to the type C, which may be the same
template <class C, class M, int L> JEANIE_INLINE Pack<C, L> narrow(Pack<M, L> x) {
  if constexpr (sizeof(C) == sizeof(M))
    return x;
  else
    return narrowed<C, M, L>(x);
}

template <class V> JEANIE_INLINE bool any_bit(V x) {
#if defined(__AVX2__)
  return !_mm256_testz_si256((__m256i)x, (__m256i)x);
#else
  int64_t word[JEANIE_BYTES / 8], seen = 0;
  std::memcpy(word, &x, sizeof x);
  for (int i = 0; i < JEANIE_BYTES / 8; ++i) seen |= word[i];
  return seen != 0;
#endif
}
template <class I, int L> JEANIE_INLINE bool any(Pack<I, L> mask) {
  for (int i = 1; i < Pack<I, L>::kRegisters; ++i) mask.r[0] |= mask.r[i];
  return any_bit(mask.r[0]);
}
template <class T, int L> JEANIE_INLINE Pack<Integer<T>, L> less(Pack<T, L> a, Pack<T, L> b) {
  Pack<Integer<T>, L> p;
  JEANIE_EACH(p.r[i] = a.r[i] < b.r[i]);
  return p;
}

// ---- the exponent of a floating-point number as an integer, and back
template <class T> struct Format;
template <> struct Format<float> {
  static constexpr int kMantissa = 23, kBias = 127;
  static constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
};
template <> struct Format<double> {
  static constexpr int kMantissa = 52, kBias = 1023;
  static constexpr double kRound = 6755399441055744.0;
};

// 2^n for n inside the exponent range of T
template <class T, int L> JEANIE_INLINE Pack<T, L> power_of_two(Pack<Integer<T>, L> n) {
  JEANIE_EACH(n.r[i] = (n.r[i] + Format<T>::kBias) << Format<T>::kMantissa);
  return number(n);
}
template <class T, int L> JEANIE_INLINE Pack<Integer<T>, L> biased_exponent(Pack<T, L> positive) {
  Pack<Integer<T>, L> n = bits(positive);
  JEANIE_EACH(n.r[i] >>= Format<T>::kMantissa);
  return n;
}
template <class T, int L> JEANIE_INLINE Pack<Integer<T>, L> exponent(Pack<T, L> positive) {
  return biased_exponent(positive) - Pack<Integer<T>, L>::all(Format<T>::kBias);
}
template <class T, int L> JEANIE_INLINE Pack<T, L> mantissa(Pack<T, L> positive) {
  Pack<Integer<T>, L> n = bits(positive);
  constexpr Integer<T> fraction = (Integer<T>(1) << Format<T>::kMantissa) - 1;
  constexpr Integer<T> one = Integer<T>(Format<T>::kBias) << Format<T>::kMantissa;
  JEANIE_EACH(n.r[i] = (n.r[i] & fraction) | one);
  return number(n);
}
// x * 2^n by adding to the exponent bits; x and the result must be normal
template <class T, int L> JEANIE_INLINE Pack<T, L> shifted(Pack<T, L> x, Pack<Integer<T>, L> n) {
  Pack<Integer<T>, L> b = bits(x);
  JEANIE_EACH(b.r[i] += n.r[i] << Format<T>::kMantissa);
  return number(b);
}

// 2^f for |f| <= 1/2: minimax polynomials, relative error 2e-9 (float) and 3e-18 (double) before rounding
template <int L> JEANIE_INLINE Pack<float, L> exp2_fraction(Pack<float, L> f) {
  constexpr float c[] = {1.00000000055e+0f, 6.93147205737e-1f, 2.40226468906e-1f, 5.55032877711e-2f,
                         9.61848895633e-3f, 1.33999311772e-3f, 1.53458121613e-4f};
  Pack<float, L> p = Pack<float, L>::all(c[6]);
  for (int i = 5; i >= 0; --i) p = p * f + Pack<float, L>::all(c[i]);
  return p;
}
template <int L> JEANIE_INLINE Pack<double, L> exp2_fraction(Pack<double, L> f) {
  constexpr double c[] = {0.9999999999999999971,    0.69314718055994533046,   0.24022650695910156204,
                          0.055504108664819921605,  0.0096181291075883352443, 0.0013333558146789921722,
                          0.00015403530462514432062, 1.5252733489988525649e-5, 1.321543308967639918e-6,
                          1.0178198021671930844e-7, 7.0741056135081427963e-9, 4.4352827069572771511e-10};
  Pack<double, L> p = Pack<double, L>::all(c[11]);
  for (int i = 10; i >= 0; --i) p = p * f + Pack<double, L>::all(c[i]);
  return p;
}

}  // namespace JEANIE_ISA
