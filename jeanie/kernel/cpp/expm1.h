// exp(u) - 1 in registers, as precise as its argument.
#pragma once

#include <cmath>

#include "registers.h"

namespace JEANIE_ISA {

template <class T> constexpr T inverse_factorial(int n) { return n < 2 ? T(1) : inverse_factorial<T>(n - 1) / T(n); }

// expm1(u) and exp(u) for u <= 0, to rounding: expm1(n ln 2 + r) = 2^n expm1(r) + (2^n - 1)
template <class T> JEANIE_INLINE Register<T> expm1_below(Register<T> u, Register<T>* exp) {
  using P = Pack<T, kWidth<T>>;
  constexpr T lowest = sizeof(T) == 4 ? T(-60) : T(-600), round = Format<T>::kRound;
  // ln 2 with so few bits that n times it is exact, and the rest
  constexpr T coarse = sizeof(T) == 4 ? T(0x1.62e4p-1) : T(0x1.62e42feep-1);
  constexpr T fine = sizeof(T) == 4 ? T(0x1.7f7d1cf79abcap-20) : T(0x1.a39ef35793c76p-33);
  constexpr int terms = sizeof(T) == 4 ? 9 : 15;
  u = u > lowest ? u : spread_over<T>(lowest);
  const Register<T> rounded = u * T(M_LOG2E) + round, n = rounded - round;
  const Register<T> r = (u - n * coarse) - n * fine;
  Register<T> q = spread_over<T>(inverse_factorial<T>(terms));  // expm1(r) / r
#pragma GCC unroll 16
  for (int i = terms - 1; i > 0; --i) q = q * r + inverse_factorial<T>(i);
  P whole;
  whole.r[0] = rounded;
  const Register<T> power = power_of_two<T>(bits(whole) - bits(P::all(round))).r[0];
  *exp = power * (r * q) + power;
  return power * (r * q) + (power - T(1));
}

}  // namespace JEANIE_ISA
