// Checks of a job before anything reads its pointers: null pointers, sizes, enum values, products that overflow.
#pragma once

#include <cmath>
#include <initializer_list>

#include "abi.h"

namespace jeanie {

constexpr int64_t kMostBlocks = int64_t(1) << 30;  // rows, columns, views and features: indices fit into 32 bits
constexpr int64_t kMostWidth = int64_t(1) << 16;   // numbers of a row of an MLP
constexpr int64_t kMostBytes = int64_t(1) << 60;
constexpr int64_t kMostColumns = 256;  // 16-bit times 8-bit numbers: the sum of so many products fits into 32 bits

inline bool is_count(int64_t n, int64_t most = kMostBlocks) { return 1 <= n && n <= most; }

// Whether `factors` numbers of at most 1024 bytes each (a cell of one SIMD group) can be addressed.
inline bool is_addressable(std::initializer_list<int64_t> factors) {
  int64_t product = 1024;
  for (int64_t n : factors)
    if (n < 0 || __builtin_mul_overflow(product, n, &product) || product > kMostBytes) return false;
  return true;
}

inline bool are_lengths_valid(const JeanieAlign& job) {
  if (!job.row_counts != !job.column_counts) return false;
  for (int64_t p = 0; job.row_counts && p < job.pairs; ++p)
    if (!is_count(job.row_counts[p], job.rows) || !is_count(job.column_counts[p], job.columns)) return false;
  return true;
}

// Whether every row of every pair lies within `size` numbers.
inline bool is_layout_valid(const JeanieAlign& job, int64_t row, const int64_t* offsets, int64_t stride, int64_t size) {
  int64_t end;
  if (!offsets || stride < 0 || __builtin_mul_overflow(job.rows - 1, stride, &end)) return false;
  if (__builtin_add_overflow(end, row, &end) || end > size) return false;
  for (int64_t p = 0; p < job.pairs; ++p)
    if (offsets[p] < 0 || offsets[p] > size - end) return false;
  return true;
}

// The checks that align and matched share.
inline bool is_table_valid(const JeanieAlign& job) {
  return is_count(job.pairs, job.pair_size) && job.pair_size <= kMostBytes && is_count(job.rows) &&
         is_count(job.columns) && is_count(job.threads) && job.value &&
         std::isfinite(job.gamma) && job.gamma >= 0 && std::isfinite(job.band) &&
         is_addressable({job.pairs, job.rows + job.columns}) && are_lengths_valid(job);
}

inline bool is_valid(const JeanieAlign& job) {
  if (!is_table_valid(job) || !job.cost || job.axes < 0 || job.axes > 4) return false;
  if (job.shift < 0 || job.shift > kMostBlocks) return false;
  int64_t views = 1;
  for (int64_t a = 0; a < job.axes; ++a) {
    if (!is_count(job.grid[a]) || __builtin_mul_overflow(views, job.grid[a], &views) || views > kMostBlocks) return false;
  }
  if (!is_addressable({job.rows + 1, job.columns + 2, views})) return false;
  if (!job.path != !job.path_lengths || (job.path && job.gamma > 0)) return false;
  const int64_t row = job.columns * views;
  if (job.plan && job.rows > 1 && job.plan_stride < row) return false;  // rows that are written must not overlap
  return is_layout_valid(job, row, job.cost_offsets, job.cost_stride, job.cost_size) &&
         (!job.plan || is_layout_valid(job, row, job.plan_offsets, job.plan_stride, job.plan_size));
}

inline bool is_valid(const JeanieMatched& job) {
  const JeanieAlign& table = job.align;
  return is_table_valid(table) && job.x && job.y && table.gamma > 0 && is_count(job.features) &&
         kEuclidean <= job.metric && job.metric <= kRbf && std::isfinite(job.sigma) && job.sigma > 0 &&
         std::isfinite(job.repair_below) && is_addressable({table.rows + 1, table.columns + 2}) &&
         is_addressable({table.pairs, table.rows + table.columns, job.features});
}

inline bool is_valid(const JeanieSquares& job) {
  return job.out && job.x && job.y && is_count(job.batch, kMostBytes) && is_count(job.rows, kMostBytes) &&
         is_count(job.columns, kMostBytes) && is_count(job.features) && is_count(job.threads) &&
         std::isfinite(job.repair_below) && is_addressable({job.batch, job.rows, job.features}) &&
         is_addressable({job.batch, job.columns, job.features}) && is_addressable({job.batch, job.rows, job.columns});
}

inline bool is_valid(const JeanieScale& job) {
  return job.out && job.x && job.factors && is_count(job.rows, kMostBytes) && is_count(job.size, kMostBytes) &&
         is_count(job.threads) && is_addressable({job.rows, job.size});
}

inline bool are_all_given(const JeanieLayer& layer) { return layer.weight && layer.bias && layer.scale && layer.shift; }

inline bool is_valid(const JeanieMlp& job) {
  if (!job.x || !job.out == !job.grad_out || (job.grad_x && !job.grad_out)) return false;
  if (!is_count(job.items, kMostBytes) || !is_count(job.frames) || !is_count(job.joints) || !is_count(job.channels) ||
      !is_count(job.threads) || !std::isfinite(job.epsilon) || job.epsilon < 0)
    return false;
  if (!is_addressable({job.items, job.joints, job.frames, job.channels})) return false;
  const int64_t counts[] = {job.items, job.frames, job.joints, job.channels};
  int64_t end = 1, reach;
  for (int a = 0; a < 4; ++a)
    if (job.strides[a] < 0 || __builtin_mul_overflow(counts[a] - 1, job.strides[a], &reach) ||
        __builtin_add_overflow(end, reach, &end))
      return false;
  if (end > job.x_size) return false;
  int64_t inputs = job.frames * job.channels;
  for (int l = 0; l < kMlpLayers; ++l) {
    if (!are_all_given(job.layers[l]) || (job.grad_out && !are_all_given(job.gradients[l]))) return false;
    if (!is_count(inputs, kMostWidth) || !is_count(job.sizes[l], kMostWidth)) return false;
    if (!is_addressable({job.items, job.joints, job.sizes[l]})) return false;
    inputs = job.sizes[l];
  }
  return true;
}

inline bool is_valid(const JeanieNearest& job) {
  int64_t end;
  if (!job.out || !job.values || !job.scales || !job.example || !std::isfinite(job.unit) || job.unit <= 0) return false;
  if (!is_count(job.windows, kMostBytes) || !is_count(job.blocks) || !is_count(job.images) || !is_count(job.example_blocks) ||
      !is_count(job.threads) || !is_count(job.columns, kMostColumns) || job.first_column < 0 || job.first_column >= job.columns)
    return false;
  if (!is_addressable({job.images, job.example_blocks, job.columns + 2}) || !is_addressable({job.blocks, job.columns}) ||
      !is_addressable({job.windows, job.images}))
    return false;
  if (job.window_stride < 0 || __builtin_mul_overflow(job.windows - 1, job.window_stride, &end)) return false;
  return !__builtin_add_overflow(end, job.blocks * job.columns, &end) && end <= job.values_size;
}

}  // namespace jeanie
