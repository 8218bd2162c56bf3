// Packs of SIMD registers: lane i of every pack belongs to the i-th pair of a group.
//
// The file is compiled once per instruction set; JEANIE_BYTES is the register width and JEANIE_ISA the
// namespace, so that no two builds of one template can be merged by the linker.
#pragma once

#include <cstdint>
#include <cstring>

#ifndef JEANIE_BYTES
#define JEANIE_BYTES 16
#endif
#ifndef JEANIE_ISA
#define JEANIE_ISA baseline
#endif

namespace JEANIE_ISA {

template <class T> struct register_of {
  typedef T type __attribute__((vector_size(JEANIE_BYTES)));
  typedef T half __attribute__((vector_size(JEANIE_BYTES / 2)));
};
template <class T> using Register = typename register_of<T>::type;
template <class T> using Half = typename register_of<T>::half;
template <class T> constexpr int kWidth = JEANIE_BYTES / int(sizeof(T));

template <class T> struct integer_of;
template <> struct integer_of<float> { using type = int32_t; };
template <> struct integer_of<double> { using type = int64_t; };
template <class T> using Integer = typename integer_of<T>::type;

// L numbers, one a lane, in as many registers as they need.
template <class T, int L> struct Pack {
  static constexpr int kRegisters = L / kWidth<T>;
  Register<T> r[kRegisters];

  static Pack all(T x) {
    Pack p;
    for (int i = 0; i < kRegisters; ++i) p.r[i] = Register<T>{} + x;
    return p;
  }
  static Pack load(const T* x) {
    Pack p;
    std::memcpy(&p, x, sizeof p);
    return p;
  }
  void store(T* x) const { std::memcpy(x, this, sizeof *this); }
  T lane(int i) const { return r[i / kWidth<T>][i % kWidth<T>]; }
  void set(int i, T x) { r[i / kWidth<T>][i % kWidth<T>] = x; }
};

#define JEANIE_EACH(expression)                                \
  do {                                                         \
    for (int i = 0; i < Pack<T, L>::kRegisters; ++i) expression; \
  } while (0)

template <class T, int L> inline Pack<T, L> operator+(Pack<T, L> a, Pack<T, L> b) { JEANIE_EACH(a.r[i] += b.r[i]); return a; }
template <class T, int L> inline Pack<T, L> operator-(Pack<T, L> a, Pack<T, L> b) { JEANIE_EACH(a.r[i] -= b.r[i]); return a; }
template <class T, int L> inline Pack<T, L> operator*(Pack<T, L> a, Pack<T, L> b) { JEANIE_EACH(a.r[i] *= b.r[i]); return a; }
template <class T, int L> inline Pack<T, L> operator&(Pack<T, L> a, Pack<T, L> b) { JEANIE_EACH(a.r[i] &= b.r[i]); return a; }
template <class T, int L> inline Pack<T, L> max(Pack<T, L> a, Pack<T, L> b) { JEANIE_EACH(a.r[i] = a.r[i] > b.r[i] ? a.r[i] : b.r[i]); return a; }
template <class T, int L> inline Pack<T, L> min(Pack<T, L> a, Pack<T, L> b) { JEANIE_EACH(a.r[i] = a.r[i] < b.r[i] ? a.r[i] : b.r[i]); return a; }

// mask (all ones or all zeros a lane) ? a : b
template <class T, int L> inline Pack<T, L> choose(Pack<Integer<T>, L> mask, Pack<T, L> a, Pack<T, L> b) {
  JEANIE_EACH(a.r[i] = mask.r[i] ? a.r[i] : b.r[i]);
  return a;
}
template <int L> inline Pack<int32_t, L> choose(Pack<int32_t, L> mask, Pack<int32_t, L> a, Pack<int32_t, L> b) {
  for (int i = 0; i < Pack<int32_t, L>::kRegisters; ++i) a.r[i] = mask.r[i] ? a.r[i] : b.r[i];
  return a;
}
template <int L> inline Pack<int64_t, L> choose(Pack<int64_t, L> mask, Pack<int64_t, L> a, Pack<int64_t, L> b) {
  for (int i = 0; i < Pack<int64_t, L>::kRegisters; ++i) a.r[i] = mask.r[i] ? a.r[i] : b.r[i];
  return a;
}

template <class T, int L> inline Pack<Integer<T>, L> bits(Pack<T, L> x) {
  Pack<Integer<T>, L> p;
  JEANIE_EACH(p.r[i] = (Register<Integer<T>>)x.r[i]);
  return p;
}
template <int L> inline Pack<float, L> number(Pack<int32_t, L> x) {
  Pack<float, L> p;
  for (int i = 0; i < Pack<float, L>::kRegisters; ++i) p.r[i] = (Register<float>)x.r[i];
  return p;
}
template <int L> inline Pack<double, L> number(Pack<int64_t, L> x) {
  Pack<double, L> p;
  for (int i = 0; i < Pack<double, L>::kRegisters; ++i) p.r[i] = (Register<double>)x.r[i];
  return p;
}

// float -> double and int32 -> int64, lane by lane: one register becomes two.
template <class From, class To, int L> inline Pack<To, L> widened(Pack<From, L> x) {
  Pack<To, L> p;
  for (int i = 0; i < Pack<From, L>::kRegisters; ++i) {
    Half<From> part[2];
    std::memcpy(part, &x.r[i], sizeof x.r[i]);
    p.r[2 * i] = __builtin_convertvector(part[0], Register<To>);
    p.r[2 * i + 1] = __builtin_convertvector(part[1], Register<To>);
  }
  return p;
}
template <int L> inline Pack<double, L> widen(Pack<float, L> x) { return widened<float, double, L>(x); }
template <int L> inline Pack<int64_t, L> widen(Pack<int32_t, L> x) { return widened<int32_t, int64_t, L>(x); }
template <int L> inline Pack<double, L> widen(Pack<double, L> x) { return x; }
template <int L> inline Pack<int64_t, L> widen(Pack<int64_t, L> x) { return x; }

inline void narrow_to(const Register<double>* wide, Register<float>* narrow) {
  Half<float> part[2] = {__builtin_convertvector(wide[0], Half<float>), __builtin_convertvector(wide[1], Half<float>)};
  std::memcpy(narrow, part, sizeof part);
}
template <class C, class M, int L> inline Pack<C, L> narrow(Pack<M, L> x) {
  if constexpr (sizeof(C) == sizeof(M)) {
    return x;
  } else {
    Pack<C, L> p;
    for (int i = 0; i < Pack<C, L>::kRegisters; ++i) narrow_to(&x.r[2 * i], &p.r[i]);
    return p;
  }
}

template <int L> inline bool any(Pack<int32_t, L> mask) {
  Register<int32_t> m = mask.r[0];
  for (int i = 1; i < Pack<int32_t, L>::kRegisters; ++i) m |= mask.r[i];
  int64_t word[JEANIE_BYTES / 8], seen = 0;
  std::memcpy(word, &m, sizeof m);
  for (int i = 0; i < JEANIE_BYTES / 8; ++i) seen |= word[i];
  return seen != 0;
}
template <int L> inline bool any(Pack<int64_t, L> mask) {
  Register<int64_t> m = mask.r[0];
  for (int i = 1; i < Pack<int64_t, L>::kRegisters; ++i) m |= mask.r[i];
  int64_t seen = 0;
  for (int i = 0; i < JEANIE_BYTES / 8; ++i) seen |= m[i];
  return seen != 0;
}
template <class T, int L> inline Pack<Integer<T>, L> less(Pack<T, L> a, Pack<T, L> b) {
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
template <class T, int L> inline Pack<T, L> power_of_two(Pack<Integer<T>, L> n) {
  JEANIE_EACH(n.r[i] = (n.r[i] + Format<T>::kBias) << Format<T>::kMantissa);
  return number(n);
}
template <class T, int L> inline Pack<Integer<T>, L> exponent(Pack<T, L> positive) {
  Pack<Integer<T>, L> n = bits(positive);
  JEANIE_EACH(n.r[i] = (n.r[i] >> Format<T>::kMantissa) - Format<T>::kBias);
  return n;
}
template <class T, int L> inline Pack<T, L> mantissa(Pack<T, L> positive) {
  Pack<Integer<T>, L> n = bits(positive);
  constexpr Integer<T> fraction = (Integer<T>(1) << Format<T>::kMantissa) - 1;
  constexpr Integer<T> one = Integer<T>(Format<T>::kBias) << Format<T>::kMantissa;
  JEANIE_EACH(n.r[i] = (n.r[i] & fraction) | one);
  return number(n);
}
// x * 2^n by adding to the exponent bits; x and the result must be normal
template <class T, int L> inline Pack<T, L> shifted(Pack<T, L> x, Pack<Integer<T>, L> n) {
  Pack<Integer<T>, L> b = bits(x);
  JEANIE_EACH(b.r[i] += n.r[i] << Format<T>::kMantissa);
  return number(b);
}

// 2^f for |f| <= 1/2: minimax polynomials, relative error 2e-9 (float) and 3e-18 (double) before rounding
template <int L> inline Pack<float, L> exp2_fraction(Pack<float, L> f) {
  constexpr float c[] = {1.00000000055e+0f, 6.93147205737e-1f, 2.40226468906e-1f, 5.55032877711e-2f,
                         9.61848895633e-3f, 1.33999311772e-3f, 1.53458121613e-4f};
  Pack<float, L> p = Pack<float, L>::all(c[6]);
  for (int i = 5; i >= 0; --i) p = p * f + Pack<float, L>::all(c[i]);
  return p;
}
template <int L> inline Pack<double, L> exp2_fraction(Pack<double, L> f) {
  constexpr double c[] = {0.9999999999999999971,    0.69314718055994533046,   0.24022650695910156204,
                          0.055504108664819921605,  0.0096181291075883352443, 0.0013333558146789921722,
                          0.00015403530462514432062, 1.5252733489988525649e-5, 1.321543308967639918e-6,
                          1.0178198021671930844e-7, 7.0741056135081427963e-9, 4.4352827069572771511e-10};
  Pack<double, L> p = Pack<double, L>::all(c[11]);
  for (int i = 10; i >= 0; --i) p = p * f + Pack<double, L>::all(c[i]);
  return p;
}

}  // namespace JEANIE_ISA
