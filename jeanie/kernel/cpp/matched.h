// From features to values and gradients, one group of pairs after another: costs and plans never leave the cache.
#pragma once

#include <cmath>

#include "expm1.h"
#include "features.h"
#include "sweep.h"

namespace JEANIE_ISA {

template <class C, int L> class Matched {
  static constexpr int W = kWidth<C>;
  const JeanieMatched& all;
  const int64_t width, area;  // of one pair's costs: a row, all rows
  const bool wants_plan, in_place, has_slope;
  jeanie::Block memory;
  C *cost, *plan, *slope;  // derivative of the named distance by the squared one, where that is not 1
  C value[L];
  bool offset[L];
  int64_t at[L], row_counts[L], column_counts[L], lane[L];
  JeanieAlign job;
  Features<C> features;
  Sweep<OwnExponents<C, L, 1>> sweep;

 public:
  explicit Matched(const JeanieMatched& all_)
      : all(all_), width(rounded_up(all_.align.columns, W)),
        area(width * all_.align.rows + 64 / sizeof(C)),  // pairs a power of two apart would share few lines of the cache
        wants_plan(all_.grad_x || all_.grad_y),
        in_place(!all_.align.row_counts && all_.align.band < 0),  // elsewhere cells that are not visited must read as 0
        has_slope(wants_plan && all_.metric != kSquared),
        memory(sizeof(C) * L * area * (1 + (wants_plan && !in_place) + has_slope)),
        cost(static_cast<C*>(memory.start())), plan(!wants_plan ? nullptr : in_place ? cost : cost + L * area),
        slope(has_slope ? plan + L * area : nullptr), job(local()),
        features(all_.align.rows, all_.align.columns, all_.features), sweep(job) {}

  JeanieStatus run(const int64_t* chosen, int count) {
    for (int l = 0; l < count; ++l) {
      const int64_t p = chosen[l];
      row_counts[l] = all.align.row_counts ? all.align.row_counts[p] : job.rows;
      column_counts[l] = all.align.row_counts ? all.align.column_counts[p] : job.columns;
      set(p, l);
      if (l + 1 < count) features.expect(left(chosen[l + 1]), right(chosen[l + 1]));
      if (!features.squares(cost + at[l], width, C(all.repair_below), &offset[l])) return kNotFinite;
      for (int64_t t = 0; t < row_counts[l]; ++t) {
        const int64_t row = at[l] + t * width;
        base(cost + row, has_slope ? slope + row : nullptr, column_counts[l]);
      }
    }
    if (wants_plan && !in_place) std::fill(plan, plan + count * area, C(0));
    const JeanieStatus status = sweep.run(lane, count);
    if (status != kDone) return status;
    for (int l = 0; l < count; ++l) {
      static_cast<C*>(all.align.value)[chosen[l]] = value[l];
      if (wants_plan) slopes(chosen[l], l);
    }
    return kDone;
  }

 private:
  JeanieAlign local() {
    JeanieAlign one = all.align;
    for (int l = 0; l < L; ++l) lane[l] = l, at[l] = l * area;
    one.cost = cost, one.plan = plan, one.value = value, one.path = nullptr;
    one.cost_offsets = one.plan_offsets = at, one.cost_stride = one.plan_stride = width;
    one.row_counts = row_counts, one.column_counts = column_counts, one.pairs = L, one.axes = 0;
    return one;
  }
  const C* left(int64_t pair) const { return static_cast<const C*>(all.x) + pair * job.rows * all.features; }
  const C* right(int64_t pair) const { return static_cast<const C*>(all.y) + pair * job.columns * all.features; }
  void set(int64_t pair, int l) { features.set(left(pair), row_counts[l], right(pair), column_counts[l]); }

  // Converts a row of squared distances, padded to a whole register, to the named distance
  void base(C* row, C* slopes, int64_t count) const {
    const C rbf = C(-0.5 / (all.sigma * all.sigma));
    for (int64_t s = 0; all.metric == kRbf && s < count; s += W) {
      Register<C> exp;
      const Register<C> expm1 = expm1_below<C>(load(row + s) * rbf, &exp);
      store(row + s, C(-2) * expm1);
      if (slopes) store(slopes + s, C(-2) * rbf * exp);
    }
    if (all.metric != kEuclidean) return;
    for (int64_t s = 0; s < count; ++s) row[s] = std::sqrt(row[s]);
    for (int64_t s = 0; slopes && s < count; ++s) slopes[s] = row[s] == 0 ? C(0) : C(0.5) / row[s];
  }

  void slopes(int64_t pair, int l) {
    C* w = plan + at[l];
    for (int64_t t = 0; t < row_counts[l]; ++t) {
      const int64_t row = t * width, end = column_counts[l];
      for (int64_t s = 0; has_slope && s < end; ++s) w[row + s] *= slope[at[l] + row + s];
      std::fill(w + row + end, w + row + rounded_up(end, W), C(0));
    }
    set(pair, l);
    C* grad_x = static_cast<C*>(all.grad_x);
    C* grad_y = static_cast<C*>(all.grad_y);
    if (grad_x) grad_x += pair * job.rows * all.features;
    if (grad_y) grad_y += pair * job.columns * all.features;
    features.slopes(w, width, offset[l], grad_x, grad_y);
    if (grad_x) std::fill(grad_x + row_counts[l] * all.features, grad_x + job.rows * all.features, C(0));
    if (grad_y) std::fill(grad_y + column_counts[l] * all.features, grad_y + job.columns * all.features, C(0));
  }
};

}  // namespace JEANIE_ISA
