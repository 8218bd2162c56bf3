// Which pairs share the lanes of one sweep, and which cells each of them may visit.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "abi.h"
#include "pack.h"

namespace JEANIE_ISA {

inline int64_t count_views(const JeanieAlign& job) {
  return std::accumulate(job.grid, job.grid + job.axes, int64_t(1), std::multiplies<int64_t>());
}
inline std::vector<int64_t> copy_grid(const JeanieAlign& job) { return {job.grid, job.grid + job.axes}; }

// Pairs in an order that puts equal lengths together, so that lanes end at the same cell.
inline std::vector<int64_t> order_by_length(const JeanieAlign& job) {
  std::vector<int64_t> order(job.pairs);
  std::iota(order.begin(), order.end(), int64_t(0));
  if (job.row_counts)
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return std::make_pair(job.row_counts[a], job.column_counts[a]) < std::make_pair(job.row_counts[b], job.column_counts[b]);
    });
  return order;
}

template <class I, int L> struct Group {
  int lanes = 0;               // lanes in use; the others repeat the first pair and are never written
  int64_t pair[L], row_counts[L], column_counts[L];
  int64_t rows = 0;            // largest length
  std::vector<int64_t> first, last;  // columns that any lane visits, per row
  bool ragged = false;         // lanes differ: masks are needed
  bool has_path = true;        // the band lets every pair through
  std::vector<Pack<I, L>> lane_first, lane_last;

  void set(const JeanieAlign& job, const int64_t* chosen, int count) {
    lanes = count;
    ragged = false;
    has_path = true;
    rows = 0;
    for (int l = 0; l < L; ++l) {
      pair[l] = chosen[l < count ? l : 0];
      row_counts[l] = job.row_counts ? job.row_counts[pair[l]] : job.rows;
      column_counts[l] = job.column_counts ? job.column_counts[pair[l]] : job.columns;
      ragged |= row_counts[l] != row_counts[0] || column_counts[l] != column_counts[0];
      rows = std::max(rows, row_counts[l]);
    }
    first.resize(rows);
    last.resize(rows);
    if (ragged) {
      lane_first.resize(rows);
      lane_last.resize(rows);
    }
    for (int l = 0; l < L; ++l) previous[l] = -1;
    for (int64_t t = 0; t < rows; ++t) set_range(job.band, t);
  }

 private:
  int64_t previous[L];  // last column of the row above, per lane

  // Cells of row t with |t / tau - s / tau'| <= band (and 1e-9 for rounding)
  void set_range(double band, int64_t t) {
    first[t] = INT64_MAX / 2;
    last[t] = -1;
    for (int l = 0; l < (ragged ? L : 1); ++l) {
      int64_t low = 0, high = column_counts[l] - 1;
      if (band >= 0) {
        double slack = (band + 1e-9) * double(row_counts[l]) * double(column_counts[l]), at = double(t) * double(column_counts[l]);
        low = std::max<int64_t>(low, int64_t(std::ceil(std::max(0.0, at - slack) / double(row_counts[l]))));
        high = int64_t(std::min(double(high), std::floor((at + slack) / double(row_counts[l]))));
      }
      if (t >= row_counts[l]) {
        low = 1, high = 0;
      } else {
        // `low` never falls from row to row, so each row only has to touch the row above
        has_path &= low <= high && low <= previous[l] + 1 && (t < row_counts[l] - 1 || high == column_counts[l] - 1);
        previous[l] = high;
      }
      if (ragged) lane_first[t].set(l, I(low)), lane_last[t].set(l, I(high));
      if (low <= high) first[t] = std::min(first[t], low), last[t] = std::max(last[t], high);
    }
    if (last[t] < 0) first[t] = 0;
  }

 public:

  // all ones where the lane may visit (t, s)
  Pack<I, L> inside(int64_t t, int64_t s) const {
    Pack<I, L> p;
    for (int i = 0; i < Pack<I, L>::kRegisters; ++i)
      p.r[i] = (lane_first[t].r[i] <= I(s)) & (lane_last[t].r[i] >= I(s));
    return p;
  }
  // all ones where the lane's path ends in (t, s)
  bool ends(int64_t t, int64_t s, Pack<I, L>* where) const {
    bool some = false;
    *where = Pack<I, L>::all(0);
    for (int l = 0; l < L; ++l)
      if (row_counts[l] - 1 == t && column_counts[l] - 1 == s) where->set(l, -1), some = true;
    return some;
  }
};

}  // namespace JEANIE_ISA
