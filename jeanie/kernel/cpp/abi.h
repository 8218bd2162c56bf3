// The C interface of the shared library. jeanie/kernel/library.py mirrors every struct of this file
// and compares kAbiVersion and the struct sizes when it loads the library. Raise kAbiVersion with every change here.
#pragma once

#include <cstdint>

extern "C" {

constexpr int64_t kAbiVersion = 4;

enum JeanieDtype : int { kFloat32 = 0, kFloat64 = 1 };

// One alignment per pair. Row r of pair p starts at cost[cost_offsets[p] + r * cost_stride] and has columns * views
// numbers; the plan has the same layout with its own offsets and stride.
struct JeanieAlign {
  const void* cost;
  void* plan;                    // gradient of the value by the cost; null if no gradient is needed
  void* value;                   // [pair]
  int64_t* path;                 // [pair, rows + columns - 1, 3] of (row, column, flat view); null, or gamma is 0
  int64_t* path_lengths;         // [pair]; null if path is
  const int64_t* cost_offsets;   // [pair], in numbers
  const int64_t* plan_offsets;
  const int64_t* row_counts;     // [pair] lengths; null: every pair has all rows and columns
  const int64_t* column_counts;
  int64_t cost_stride, plan_stride;
  int64_t cost_size, plan_size;  // numbers that may be read from cost, and written to plan
  int64_t pair_size;             // entries that every array with one entry per pair has
  int64_t pairs, rows, columns;
  int64_t axes, grid[4];         // view axes
  int64_t shift, threads;
  double gamma;                  // 0: the hard minimum
  double scale_hi, scale_lo;     // -1 / (gamma ln 2) as an unevaluated sum, scale_hi rounded to the cost's dtype
  double unit_hi, unit_lo;       // gamma ln 2 as an unevaluated sum, unit_hi with 18 significant bits
  double band;                   // largest |t / tau - s / tau'|; negative: no band
};

enum JeanieMetric : int64_t { kEuclidean = 0, kSquared = 1, kRbf = 2 };  // the order of METRICS in base_distance.py

// Distances of pairs from their features: x [pair, rows, features], y [pair, columns, features]; no views, gamma > 0.
struct JeanieMatched {
  JeanieAlign align;             // without costs, plan and path, which exist for a few pairs at a time only
  const void *x, *y;
  void *grad_x, *grad_y;         // derivatives of every pair's value, like x and y; null if not needed
  int64_t features, metric;      // JeanieMetric
  double sigma;                  // of kRbf
  double repair_below;           // as in JeanieSquares
};

// Squared distances from matrix products: x [batch, rows, features], y [batch, columns, features].
struct JeanieSquares {
  void* out;                     // [batch, rows, columns]; in: the products, out: the squared distances
  const void *x, *y;
  int64_t batch, rows, columns, features, threads;
  double repair_below;           // share of |x|^2 + |y|^2 below which the plain sum of squares replaces the product
  int64_t may_refuse;            // return kCancels and leave `out` alone if most entries need the plain sum
};

// out[row, i] = x[row, i] * factors[row]
struct JeanieScale {
  void* out;
  const void *x, *factors;
  int64_t rows, size, threads;
};

constexpr int kMlpLayers = 3;

// Parameters of a linear layer and of the LayerNorm after it, or their gradients.
struct JeanieLayer {
  void* weight;                  // [output, input]
  void *bias, *scale, *shift;    // [output]; scale and shift are those of LayerNorm
};

// The MLP per joint: every row is the numbers of one joint in all frames of a block. Exactly one of out and grad_out is
// given: with grad_out, the call writes gradients instead of the outputs.
struct JeanieMlp {
  const void* x;                 // [item, frame, joint, channel], with strides
  const void* noise;             // [item, joint, sizes[1]] factors of the inputs of the last layer; null: no dropout
  void* out;                     // [item, joint, sizes[2]]
  const void* grad_out;          // like out
  void* grad_x;                  // [item, frame, joint, channel]; null if not needed
  JeanieLayer layers[kMlpLayers], gradients[kMlpLayers];
  int64_t items, frames, joints, channels;
  int64_t strides[4];            // of x, in numbers
  int64_t x_size;                // numbers that may be read from x
  int64_t sizes[kMlpLayers];     // outputs of the layers
  int64_t threads;
  double epsilon;                // of LayerNorm
};

// Sums over the blocks of an example of the smallest squared distance to a block of a window; float32 only. Numbers of a
// window are its scale times whole numbers, those of the example are `unit` times whole numbers.
struct JeanieNearest {
  void* out;                     // [window, image]: never above the true sum
  const int8_t* values;          // block b of window w starts at values[w * window_stride + b * columns]
  const float* scales;           // [window]
  const int16_t* example;        // [image, example block, column]
  int64_t values_size;           // bytes that may be read from values
  int64_t window_stride, windows, blocks, columns, images, example_blocks;
  int64_t first_column;          // columns before it contribute by their lengths only, which is faster
  int64_t threads;
  double unit;
};

enum JeanieStatus : int {
  kDone = 0,
  kNotFinite = 1,     // NaN or infinity where a path may pass
  kOutOfRange = 2,    // exponents may overflow in this dtype
  kNoPath = 3,        // the band leaves no path
  kNoMemory = 4,
  kSpread = 5,        // internal: views differ too much for one shared exponent
  kCancels = 6,       // squared distances: subtract a common offset first
  kBadArguments = 7,  // a null pointer, a size or an enum value out of range
  kFailed = 8,        // any other C++ exception
};

}  // extern "C"
