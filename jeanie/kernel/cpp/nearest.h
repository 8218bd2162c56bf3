// Sums of squared distances from every block of an example to the nearest block of a window, with windows in 8 bits.
//
// Columns before `first_column` are not multiplied. By Cauchy-Schwarz, their lengths give a distance that is never larger:
//   |x - y|^2 >= |x|^2 + |y|^2 - 2 x_rest y_rest - 2 |x_first| |y_first|
// Products of whole numbers are exact. What the other operations may add to a distance is subtracted.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <vector>

#include "abi.h"
#include "registers.h"
#include "threads.h"

#if defined(__SSE2__) && !defined(__AVX2__)
#include <emmintrin.h>
#endif

namespace JEANIE_ISA {

// Adds the products of pairs of 16-bit numbers: lane i of the result gets x[2i] y[2i] + x[2i + 1] y[2i + 1].
JEANIE_INLINE Register<int32_t> add_products(Register<int32_t> sum, Register<int32_t> x, Register<int32_t> y) {
#if defined(__AVX512BW__)
  return sum + (Register<int32_t>)_mm512_madd_epi16((__m512i)x, (__m512i)y);
#elif defined(__AVX2__)
  return sum + (Register<int32_t>)_mm256_madd_epi16((__m256i)x, (__m256i)y);
#elif defined(__SSE2__)
  return sum + (Register<int32_t>)_mm_madd_epi16((__m128i)x, (__m128i)y);
#else
  const auto a = (Register<int16_t>)x, b = (Register<int16_t>)y;
  for (int w = 0; w < kWidth<int32_t>; ++w) sum[w] += int32_t(a[2 * w]) * b[2 * w] + int32_t(a[2 * w + 1]) * b[2 * w + 1];
  return sum;
#endif
}

JEANIE_INLINE int32_t sum_lanes(Register<int32_t> x) {
#if defined(__AVX2__)
#if JEANIE_BYTES == 64
  const auto half = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) + __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
#else
  const auto half = x;
#endif
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128((__m256i)half), _mm256_extracti128_si256((__m256i)half, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
#else
  return sum_of<int32_t>(x);
#endif
}

class Nearest {
  static constexpr int W = kWidth<int32_t>;
  static constexpr int kTile = 4;                          // registers of example blocks that share what they read
  static constexpr int kGroup = JEANIE_BYTES == 64 ? 4 : 2;  // blocks of a window that do: there are 32 registers, or 16
  static constexpr float kError = 2e-6f;                   // of |x|^2 + |y|^2, by which a distance may be too large

  const JeanieNearest& job;
  const int64_t sides, lanes;    // blocks of the example in all images, and these rounded up to tiles
  const int64_t first, pairs;    // first multiplied column, and pairs of multiplied columns
  struct alignas(JEANIE_BYTES) Line {  // one aligned register
    int16_t numbers[2 * W];
  };
  std::vector<Line> packed;      // [pair, lane, 2]
  const Line last_before, last_after;  // see sum_squares
  std::vector<float> size, rest; // [lane]: |x|^2, and the length of the columns that are not multiplied
  std::atomic<int64_t> next{0};  // window
  std::atomic<int> status{kDone};

  static int32_t get_pair(const int16_t* x) {
    int32_t both;
    std::memcpy(&both, x, sizeof both);
    return both;
  }

  // The numbers of one window, as the products need them.
  struct Window {
    std::vector<int16_t> packed;           // [block, column], then numbers that registers may read
    std::vector<float> half, rest, least;  // [block]: scale |v|^2 / 2, and length of the other columns; [lane]
    float scale, largest;                  // largest |y|^2
  };

  // Sum of the squares of `count` numbers. `last` has ones for those that the last register may count, and zeros for what
  // follows them.
  static int32_t sum_squares(const int16_t* x, int64_t count, const Line& last) {
    Register<int32_t> sum = {};
    int64_t c = 0;
    for (; c + 2 * W < count; c += 2 * W) {
      const auto here = (Register<int32_t>)load(x + c);
      sum = add_products(sum, here, here);
    }
    const auto here = (Register<int32_t>)(load(x + c) & load(last.numbers));
    return sum_lanes(add_products(sum, here, here));
  }
  static Line mark_last(int64_t count) {
    Line last = {};
    std::fill_n(last.numbers, count ? (count - 1) % (2 * W) + 1 : 0, int16_t(-1));
    return last;
  }

  void read(int64_t number, Window& window) const {
    const int8_t* values = job.values + number * job.window_stride;
    window.scale = job.scales[number];
    int16_t* packed = window.packed.data();
    for (int64_t i = 0; i < job.blocks * job.columns; ++i) packed[i] = values[i];
    int32_t largest = 0;
    for (int64_t b = 0; b < job.blocks; ++b, packed += job.columns) {
      const int32_t before = sum_squares(packed, first, last_before), all = before + sum_squares(packed + first, job.columns - first, last_after);
      window.half[b] = 0.5f * window.scale * float(all);
      window.rest[b] = std::sqrt(float(before));
      largest = std::max(largest, all);
    }
    window.largest = window.scale * window.scale * float(largest);
  }

  // Smallest scale |v|^2 / 2 - x v over some blocks v of the window at a time, for one tile of the example
  void sweep(Window& window, int64_t lane) const {
    const Register<float> unit = spread_over(float(job.unit));
    Register<float> least[kTile], length[kTile];
    for (int i = 0; i < kTile; ++i) {
      least[i] = spread_over(std::numeric_limits<float>::infinity());
      length[i] = load(rest.data() + lane + i * W);
    }
    for (int64_t b = 0; b < job.blocks; b += kGroup) {
      const int16_t* blocks[kGroup];
#pragma GCC unroll 4
      for (int k = 0; k < kGroup; ++k) blocks[k] = window.packed.data() + std::min(b + k, job.blocks - 1) * job.columns + first;
      Register<int32_t> sum[kGroup][kTile] = {};
      for (int64_t p = 0; p < pairs; ++p) {
        const Line* x = packed.data() + p * (lanes / W) + lane / W;
        Register<int32_t> here[kTile];
#pragma GCC unroll 4
        for (int i = 0; i < kTile; ++i) here[i] = (Register<int32_t>)load(x[i].numbers);
#pragma GCC unroll 4
        for (int k = 0; k < kGroup; ++k) {
          const Register<int32_t> y = spread_over(get_pair(blocks[k] + 2 * p));
#pragma GCC unroll 4
          for (int i = 0; i < kTile; ++i) sum[k][i] = add_products(sum[k][i], here[i], y);
        }
      }
#pragma GCC unroll 4
      for (int k = 0; k < kGroup; ++k) {
        const int64_t block = std::min(b + k, job.blocks - 1);
        const Register<float> half = spread_over(window.half[block]), beside = spread_over(window.rest[block]);
#pragma GCC unroll 4
        for (int i = 0; i < kTile; ++i) {
          const Register<float> value = half - unit * __builtin_convertvector(sum[k][i], Register<float>) - length[i] * beside;
          least[i] = value < least[i] ? value : least[i];
        }
      }
    }
    for (int i = 0; i < kTile; ++i) store(window.least.data() + lane + i * W, least[i]);
  }

  void sum_up(int64_t number, const Window& window) const {
    const float twice = 2 * window.scale;
    for (int64_t image = 0, at = 0; image < job.images; ++image) {
      float total = 0;
      for (int64_t a = 0; a < job.example_blocks; ++a, ++at)
        total += std::max(0.0f, size[at] + twice * window.least[at] - kError * (size[at] + window.largest));
      static_cast<float*>(job.out)[number * job.images + image] = total;
    }
  }

  static void run_windows(void* context) noexcept {
    auto& all = *static_cast<Nearest*>(context);
    try {
      const int64_t blocks = all.job.blocks, some = 64;
      Window window{std::vector<int16_t>(blocks * all.job.columns + 2 * W), std::vector<float>(blocks), std::vector<float>(blocks),
                    std::vector<float>(all.lanes), 0, 0};
      for (int64_t start; (start = all.next.fetch_add(some)) < all.job.windows;)
        for (int64_t number = start; number < std::min(start + some, all.job.windows); ++number) {
          all.read(number, window);
          for (int64_t lane = 0; lane < all.lanes; lane += kTile * W) all.sweep(window, lane);
          all.sum_up(number, window);
        }
    } catch (const std::bad_alloc&) {
      all.status = kNoMemory;
    }
  }

 public:
  explicit Nearest(const JeanieNearest& job_)
      : job(job_), sides(job.images * job.example_blocks), lanes(rounded_up(sides, kTile * W)), first(job.first_column),
        pairs((job.columns - first + 1) / 2),
        packed(pairs * lanes / W), last_before(mark_last(first)), last_after(mark_last(job.columns - first)), size(lanes), rest(lanes) {
    for (int64_t a = 0; a < sides; ++a) {
      const int16_t* x = job.example + a * job.columns;
      double before = 0, after = 0;
      for (int64_t c = 0; c < first; ++c) before += double(x[c]) * x[c];
      for (int64_t c = first; c < job.columns; ++c) after += double(x[c]) * x[c];
      size[a] = float(job.unit * job.unit * (before + after));
      rest[a] = float(job.unit * std::sqrt(before));
      for (int64_t c = first; c < job.columns; ++c) packed.data()->numbers[2 * ((c - first) / 2 * lanes + a) + (c - first) % 2] = x[c];
    }
  }

  int run() {
    const int64_t worth = int64_t(1) << 22;  // products that are worth a thread
    const int64_t products = sides * job.blocks * (job.columns - first);
    const int64_t helpers = std::min(job.threads, job.windows / std::max<int64_t>(1, worth / products)) - 1;
    jeanie::run_parallel(helpers, &Nearest::run_windows, this);
    return status;
  }
};

}  // namespace JEANIE_ISA
