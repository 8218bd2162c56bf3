// The recursion over the cells of a group of pairs, forward for the value and back for the plan.
//
//   P[t, s] = w W (P[t-1, s] + P[t, s-1] + P[t-1, s-1])      w = exp(-cost / gamma), W the window over views
//   H[t, s] = W (G[t+1, s] + G[t, s+1] + G[t+1, s+1]),  G = w H
//   value   = -gamma log Z,  Z = sum over views of P at the last cell;  plan = P H / Z
//
// P of all cells lives only in this workspace, one group at a time.
#pragma once

#include "group.h"
#include "memory.h"
#include "soft.h"
#include "transpose.h"

namespace JEANIE_ISA {

template <class Policy> class Sweep {
  static constexpr int L = Policy::L;
  using C = typename Policy::Cost;
  using M = typename Policy::M;
  using I = typename Policy::I;
  using CellT = typename Policy::CellT;
  using Lane = Integer<C>;

  // Cells of one or all rows, with a dead cell before the first column and one after the last.
  struct Store {
    jeanie::Block memory;
    M* m = nullptr;
    I* k = nullptr;
    int64_t views = 0, exponents = 0, width = 0;
    void shape(int64_t rows, int64_t columns, const Policy& policy) {
      views = policy.views(), exponents = policy.exponents(), width = columns + 2;
      const int64_t cells = rows * width;
      memory = jeanie::Block(cells * (views * sizeof(M) + exponents * sizeof(I)));
      m = static_cast<M*>(memory.start());
      k = reinterpret_cast<I*>(m + cells * views);
    }
    CellT at(int64_t row, int64_t column) {
      int64_t i = row * width + column + 1;
      return {m + i * views, k + i * exponents};
    }
  };

  const JeanieAlign& job;
  Policy policy;
  Group<Lane, L> group;
  Store prefix, suffix, weight, scratch;
  std::vector<Pack<C, L>> cost, plan;
  double z_m[L];
  int64_t z_k[L];
  typename Policy::Number inverse;  // 1 / Z

 public:
  explicit Sweep(const JeanieAlign& job_) : job(job_), policy(job_, count_views(job_), copy_grid(job_)) {
    const int64_t views = policy.views();
    prefix.shape(job.plan ? job.rows + 1 : 2, job.columns, policy);
    weight.shape(1, job.columns, policy);
    scratch.shape(1, 1, policy);
    cost.resize(job.columns * views);
    if (job.plan) {
      suffix.shape(2, job.columns, policy);
      plan.resize(job.columns * views);
    }
  }

  JeanieStatus run(const int64_t* chosen, int count) {
    group.set(job, chosen, count);
    if (!group.has_path) return kNoPath;
    std::fill(z_k, z_k + L, int64_t(kDead<Lane>));
    bool whole = true;
    for (int64_t t = 0; t < group.rows && whole; ++t) whole = forward(t);
    if (!std::isfinite(policy.watch.bound())) return kNotFinite;
    // the exponent of a path must stay far from that of dead cells
    double steps = double(job.rows + job.columns), limit = sizeof(C) == 4 ? 0x1p28 : 0x1p50;
    double largest = double(policy.watch.bound()) * std::fabs(job.scale_hi);
    if (!(largest * steps < limit) || !(largest < (sizeof(C) == 4 ? 0x1p22 : 0x1p34))) return kOutOfRange;
    if (!whole) return kSpread;
    for (int l = 0; l < group.lanes; ++l) {
      if (z_k[l] < kDead<Lane> / 2) return kNoPath;
      static_cast<C*>(job.value)[group.pair[l]] = C(-job.gamma * (double(z_k[l]) * M_LN2 + std::log(z_m[l])));
    }
    if (!job.plan) return kDone;
    inverse = Policy::reciprocal(z_m, z_k);
    for (int64_t t = group.rows - 1; t >= 0 && whole; --t) whole = backward(t);
    return whole ? kDone : kSpread;
  }

 private:
  int64_t slot(int64_t t) const { return job.plan ? t + 1 : (t + 1) & 1; }

  // Costs of row t for the columns that are visited
  void fetch(int64_t t) {
    const int64_t views = policy.views(), first = group.first[t], last = group.last[t];
    const C* row[L];
    for (int l = 0; l < L; ++l)
      row[l] = static_cast<const C*>(job.cost) + job.cost_offsets[group.pair[l]] + t * job.cost_stride + first * views;
    gather<C, L>(row, (last - first + 1) * views, cost.data());
  }
  // and their weights
  void weigh(int64_t t) {
    const int64_t views = policy.views(), first = group.first[t], last = group.last[t];
    fetch(t);
    for (int64_t s = first; group.ragged && s <= last; ++s) {
      Pack<C, L>* here = cost.data() + (s - first) * views;
      const I keep = group.inside(t, s);
      for (int64_t v = 0; v < views; ++v) here[v] = choose(keep, here[v], Pack<C, L>::all(0));
    }
    policy.weigh(cost.data(), last - first + 1, weight.at(0, first));
  }

  bool forward(int64_t t) {
    const int64_t first = group.first[t], last = group.last[t], now = slot(t), before = slot(t - 1);
    if (t == 0)
      for (int64_t s = -1; s < job.columns; ++s) policy.kill(prefix.at(before, s));
    // cells outside the band are dead for this row and the next one
    policy.kill(prefix.at(now, first - 1));
    int64_t beyond = t + 1 < group.rows ? group.last[t + 1] : last;
    for (int64_t s = last + 1; s <= beyond; ++s) policy.kill(prefix.at(now, s));
    if (first > last) return true;
    bool good = true;
    if constexpr (Policy::kSingle)
      group.ragged ? forward_single<true>(t) : forward_single<false>(t);
    else
      good = forward_views(t);
    for (int l = 0; l < L; ++l)
      if (group.row_counts[l] - 1 == t) {
        bool reached = group.column_counts[l] - 1 <= last;
        if (reached) policy.total(prefix.at(now, group.column_counts[l] - 1), l, &z_m[l], &z_k[l]);
        if (!reached) z_k[l] = kDead<Lane>;
      }
    return good;
  }

  bool forward_views(int64_t t) {
    const int64_t now = slot(t), before = slot(t - 1);
    weigh(t);
    bool good = true;
    CellT x = scratch.at(0, 0);
    for (int64_t s = group.first[t]; s <= group.last[t]; ++s) {
      if (t == 0 && s == 0) {
        policy.begin(x, I::all(-1), {M::all(1), I::all(0)});
      } else {
        policy.merge(prefix.at(before, s), prefix.at(now, s - 1), prefix.at(before, s - 1), x);
        policy.window(x);
      }
      CellT out = prefix.at(now, s);
      good &= policy.finish(x, weight.at(0, s), out);
      if (group.ragged) policy.kill(out, group.inside(t, s));
    }
    return good;
  }

  // One view: the values that the next cell needs first stay in registers.
  template <bool kRagged> void forward_single(int64_t t) {
    const int64_t first = group.first[t], last = group.last[t];
    const CellT here = prefix.at(slot(t), 0), above = prefix.at(slot(t - 1), 0), w = weight.at(0, 0);
    weigh(t);
    if (t == 0) keep({M::all(1), I::all(0)}, above, -1);  // where all paths come from
    auto left = value(here, first - 1), corner = value(above, first - 1);
    for (int64_t s = first; s <= last; ++s) {
      const auto up = value(above, s);
      left = Policy::product(Policy::sum(up, corner, left), value(w, s));
      if (normalises(t, s)) left = Policy::normal(left);
      if (kRagged) left.k = choose(group.inside(t, s), left.k, I::all(kDead<Lane>));
      corner = up;
      keep(left, here, s);
    }
  }
  // No path takes more than 15 cells from one of these to the next
  static bool normalises(int64_t t, int64_t s) { return t % 8 == 0 || s % 8 == 0; }

  bool backward(int64_t t) {
    const int64_t first = group.first[t], last = group.last[t], now = t & 1, after = (t + 1) & 1;
    if (first > last) return true;
    if (t == group.rows - 1)
      for (int64_t s = 0; s <= job.columns; ++s) policy.kill(suffix.at(after, s));
    // cells that the previous row may read but no lane visits here (a longer lane of it may have ended)
    const int64_t beyond = std::max(last, t ? group.last[t - 1] : last) + 1;
    for (int64_t s = last + 1; s <= beyond; ++s) policy.kill(suffix.at(now, s));
    for (int64_t s = t ? group.first[t - 1] : first; s < first; ++s) policy.kill(suffix.at(now, s));
    bool good = true;
    if constexpr (Policy::kSingle)
      group.ragged ? backward_single<true>(t) : backward_single<false>(t);
    else
      good = backward_views(t);
    const int64_t views = policy.views();
    C* row[L];
    for (int l = 0; l < L; ++l)
      row[l] = static_cast<C*>(job.plan) + job.plan_offsets[group.pair[l]] + t * job.plan_stride + first * views;
    scatter<C, L>(plan.data(), (last - first + 1) * views, row, group.lanes);
    return good;
  }

  bool backward_views(int64_t t) {
    const int64_t first = group.first[t], last = group.last[t], now = t & 1, after = (t + 1) & 1;
    weigh(t);
    bool good = true;
    CellT x = scratch.at(0, 0);
    for (int64_t s = last; s >= first; --s) {
      policy.merge(suffix.at(after, s), suffix.at(now, s + 1), suffix.at(after, s + 1), x);
      policy.window(x);
      I ending;
      if (ends(t, s, &ending)) policy.begin(x, ending, inverse);
      policy.plan(prefix.at(t + 1, s), x, plan.data() + (s - first) * policy.views());
      CellT out = suffix.at(now, s);
      good &= policy.finish(x, weight.at(0, s), out);
      if (group.ragged) policy.kill(out, group.inside(t, s));
    }
    return good;
  }

  template <bool kRagged> void backward_single(int64_t t) {
    const int64_t first = group.first[t], last = group.last[t];
    const CellT here = suffix.at(t & 1, 0), below = suffix.at((t + 1) & 1, 0), reached = prefix.at(slot(t), 0);
    const CellT w = weight.at(0, 0);
    Pack<C, L>* plans = plan.data() - first;
    weigh(t);
    if (!kRagged && t == group.rows - 1) keep(inverse, below, last + 1);  // where all paths go to
    auto right = value(here, last + 1), corner = value(below, last + 1);
    for (int64_t s = last; s >= first; --s) {
      const auto down = value(below, s);
      auto x = Policy::sum(down, corner, right);
      I ending;
      if (kRagged && ends(t, s, &ending)) x = {choose(ending, inverse.m, x.m), choose(ending, inverse.k, x.k)};
      plans[s] = Policy::share(value(reached, s), x);
      right = Policy::product(x, value(w, s));
      if (normalises(t, s)) right = Policy::normal(right);
      if (kRagged) right.k = choose(group.inside(t, s), right.k, I::all(kDead<Lane>));
      corner = down;
      keep(right, here, s);
    }
  }
  bool ends(int64_t t, int64_t s, I* where) const {
    return (group.ragged || (t == group.rows - 1 && s == group.last[t])) && group.ends(t, s, where);
  }
};

}  // namespace JEANIE_ISA
