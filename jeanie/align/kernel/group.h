// Which pairs share the lanes of one sweep, and which cells each of them may visit.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "job.h"
#include "pack.h"

namespace JEANIE_ISA {

inline int64_t views_of(const JeanieJob& job) {
  return std::accumulate(job.grid, job.grid + job.axes, int64_t(1), std::multiplies<int64_t>());
}
inline std::vector<int64_t> grid_of(const JeanieJob& job) { return {job.grid, job.grid + job.axes}; }

// Pairs in an order that puts equal lengths together, so that lanes end at the same cell.
inline std::vector<int64_t> by_length(const JeanieJob& job) {
  std::vector<int64_t> order(job.pairs);
  std::iota(order.begin(), order.end(), int64_t(0));
  if (job.rows_of)
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return std::make_pair(job.rows_of[a], job.columns_of[a]) < std::make_pair(job.rows_of[b], job.columns_of[b]);
    });
  return order;
}

template <class I, int L> struct Group {
  int lanes = 0;               // lanes in use; the others repeat the first pair and are never written
  int64_t pair[L], rows_of[L], columns_of[L];
  int64_t rows = 0;            // largest length
  std::vector<int64_t> first, last;  // columns that any lane visits, a row
  bool ragged = false;         // lanes differ: masks are needed
  std::vector<Pack<I, L>> lane_first, lane_last;

  void set(const JeanieJob& job, const int64_t* chosen, int count) {
    lanes = count;
    ragged = false;
    rows = 0;
    for (int l = 0; l < L; ++l) {
      pair[l] = chosen[l < count ? l : 0];
      rows_of[l] = job.rows_of ? job.rows_of[pair[l]] : job.rows;
      columns_of[l] = job.columns_of ? job.columns_of[pair[l]] : job.columns;
      ragged |= rows_of[l] != rows_of[0] || columns_of[l] != columns_of[0];
      rows = std::max(rows, rows_of[l]);
    }
    first.resize(rows);
    last.resize(rows);
    if (ragged) {
      lane_first.resize(rows);
      lane_last.resize(rows);
    }
    for (int64_t t = 0; t < rows; ++t) reach(job.band, t);
  }

  // Cells of row t with |t / tau - s / tau'| <= band (and 1e-9 for rounding)
  void reach(double band, int64_t t) {
    first[t] = INT64_MAX / 2;
    last[t] = -1;
    for (int l = 0; l < (ragged ? L : 1); ++l) {
      int64_t low = 0, high = columns_of[l] - 1;
      if (band >= 0) {
        double slack = (band + 1e-9) * double(rows_of[l]) * double(columns_of[l]), at = double(t) * double(columns_of[l]);
        low = std::max<int64_t>(low, int64_t(std::ceil(std::max(0.0, at - slack) / double(rows_of[l]))));
        high = int64_t(std::min(double(high), std::floor((at + slack) / double(rows_of[l]))));
      }
      if (t >= rows_of[l]) low = 1, high = 0;
      if (ragged) lane_first[t].set(l, I(low)), lane_last[t].set(l, I(high));
      if (low <= high) first[t] = std::min(first[t], low), last[t] = std::max(last[t], high);
    }
    if (last[t] < 0) first[t] = 0;
  }

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
      if (rows_of[l] - 1 == t && columns_of[l] - 1 == s) where->set(l, -1), some = true;
    return some;
  }
};

}  // namespace JEANIE_ISA
