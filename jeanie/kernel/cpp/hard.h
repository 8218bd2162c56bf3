// The hard minimum (gamma = 0): the same sweep with min and plus, and the best path walked back exactly.
#pragma once

#include <limits>

#include "group.h"
#include "transpose.h"
#include "window.h"

namespace JEANIE_ISA {

template <class C, int L> class HardSweep {
  using P = Pack<C, L>;
  using Lane = Integer<C>;
  static constexpr C kInfinity = std::numeric_limits<C>::infinity();

  const JeanieAlign& job;
  const std::vector<int64_t> grid;
  const int64_t views, width;
  const bool keep;  // all rows are needed to walk back
  std::vector<Slide<Min, Register<C>>> windows;
  Group<Lane, L> group;
  std::vector<P> best, cost, scratch;
  std::vector<Register<C>> line;
  P broken = P::all(0);

 public:
  explicit HardSweep(const JeanieAlign& job_)
      : job(job_), grid(copy_grid(job_)), views(count_views(job_)), width(job_.columns + 1), keep(job_.plan || job_.path),
        windows(slides<Min, Register<C>>(grid, job_.shift, P::kRegisters)),
        best((keep ? job_.rows + 1 : 2) * width * views), cost(job_.columns * views), scratch(views), line(views) {}

  JeanieStatus run(const int64_t* chosen, int count) {
    group.set(job, chosen, count);
    if (!group.has_path) return kNoPath;
    for (int64_t i = 0; i < width * views; ++i) best[slot(-1) * width * views + i] = P::all(kInfinity);
    for (int64_t t = 0; t < group.rows; ++t) {
      forward(t);
      for (int l = 0; l < group.lanes; ++l)
        if (group.row_counts[l] - 1 == t)
          static_cast<C*>(job.value)[group.pair[l]] = value(t, group.column_counts[l] - 1, l, nullptr);
    }
    for (int l = 0; l < L; ++l)
      if (!(broken.lane(l) == 0)) return kNotFinite;
    for (int l = 0; l < group.lanes; ++l)
      if (static_cast<C*>(job.value)[group.pair[l]] == kInfinity) return kNoPath;
    if (keep)
      for (int l = 0; l < group.lanes; ++l) walk(l);
    return kDone;
  }

 private:
  int64_t slot(int64_t t) const { return keep ? t + 1 : (t + 1) & 1; }
  P* at(int64_t t, int64_t s) { return best.data() + (slot(t) * width + s + 1) * views; }

  void forward(int64_t t) {
    const int64_t first = group.first[t], last = group.last[t];
    for (int64_t s = -1; s < job.columns; ++s)
      if (s < first || s > last)
        for (int64_t v = 0; v < views; ++v) at(t, s)[v] = P::all(kInfinity);
    if (first > last) return;
    const C* row[L];
    for (int l = 0; l < L; ++l)
      row[l] = static_cast<const C*>(job.cost) + job.cost_offsets[group.pair[l]] + t * job.cost_stride + first * views;
    gather<C, L>(row, (last - first + 1) * views, cost.data());
    for (int64_t s = first; s <= last; ++s) {
      const P *above = at(t - 1, s), *left = at(t, s - 1), *corner = at(t - 1, s - 1);
      for (int64_t v = 0; v < views; ++v) scratch[v] = min(above[v], min(left[v], corner[v]));
      if (t == 0 && s == 0)
        for (int64_t v = 0; v < views; ++v) scratch[v] = P::all(0);
      else
        for (const auto& slide : windows) slide(scratch[0].r, line.data());
      finish(t, s, cost.data() + (s - first) * views);
    }
  }

  void finish(int64_t t, int64_t s, P* here) {
    P* out = at(t, s);
    Pack<Lane, L> inside = group.ragged ? group.inside(t, s) : Pack<Lane, L>::all(-1);
    for (int64_t v = 0; v < views; ++v) {
      P c = group.ragged ? choose(inside, here[v], P::all(0)) : here[v];
      broken = c * P::all(0) + broken;
      out[v] = scratch[v] + c;
      if (group.ragged) out[v] = choose(inside, out[v], P::all(kInfinity));
    }
  }

  // smallest value over the views of a cell, and where
  C value(int64_t t, int64_t s, int lane, int64_t* view) {
    C least = kInfinity;
    for (int64_t v = 0; v < views; ++v) {
      C x = at(t, s)[v].lane(lane);
      if (x < least) {
        least = x;
        if (view) *view = v;
      }
    }
    return least;
  }

  // Best view of cell (t, s) within `shift` of `from` on every axis
  void nearby(int64_t t, int64_t s, int lane, int64_t from, C* least, int64_t* view) {
    int64_t low[4], high[4], index[4], stride[4], rest = views;
    const int axes = int(grid.size());
    for (int a = 0; a < axes; ++a) {
      rest /= grid[a];
      stride[a] = rest;
      int64_t here = from / rest % grid[a];
      low[a] = index[a] = std::max<int64_t>(0, here - job.shift);
      high[a] = std::min(grid[a] - 1, here + job.shift);
    }
    for (;;) {
      int64_t v = 0;
      for (int a = 0; a < axes; ++a) v += index[a] * stride[a];
      C x = at(t, s)[v].lane(lane);
      if (x < *least) *least = x, *view = v;
      int a = axes - 1;
      while (a >= 0 && index[a] == high[a]) index[a] = low[a], --a;
      if (a < 0) return;
      ++index[a];
    }
  }

  // From the best end back to the start; ties prefer the diagonal, then the lower view
  void walk(int lane) {
    const int64_t p = group.pair[lane];
    int64_t t = group.row_counts[lane] - 1, s = group.column_counts[lane] - 1, view = 0, steps = 0;
    value(t, s, lane, &view);
    int64_t* path = job.path ? job.path + p * (job.rows + job.columns - 1) * 3 : nullptr;
    for (;; ++steps) {
      if (path) path[3 * steps] = t, path[3 * steps + 1] = s, path[3 * steps + 2] = view;
      if (job.plan) static_cast<C*>(job.plan)[job.plan_offsets[p] + t * job.plan_stride + s * views + view] = 1;
      if (t == 0 && s == 0) break;
      C least = kInfinity;
      int64_t to = view, back_t = 0, back_s = 0;
      for (int step = 0; step < 3; ++step) {
        const int64_t dt = step != 1, ds = step != 2;
        if (t < dt || s < ds) continue;
        C before = least;
        nearby(t - dt, s - ds, lane, view, &least, &to);
        if (least < before) back_t = dt, back_s = ds;
      }
      t -= back_t, s -= back_s, view = to;
    }
    if (path)
      for (int64_t i = 0, j = steps; i < j; ++i, --j)
        for (int c = 0; c < 3; ++c) std::swap(path[3 * i + c], path[3 * j + c]);
    if (job.path_lengths) job.path_lengths[p] = steps + 1;
  }
};

}  // namespace JEANIE_ISA
