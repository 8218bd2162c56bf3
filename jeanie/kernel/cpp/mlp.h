// The MLP per joint of the graph encoder and its derivatives, tile by tile, so that all activations stay in the cache.
//
// A layer is z = W a + b, LayerNorm y = s (z - mean) / deviation + t, and a' = max(y, 0) except after the last layer.
// Factors of dropout multiply the input of the last layer. The backward pass computes the activations of a tile again.
// Rows of a tile have their numbers padded with zeros to whole registers.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <new>

#include "abi.h"
#include "memory.h"
#include "product.h"
#include "threads.h"

namespace JEANIE_ISA {

template <class T> class Mlp {
  static constexpr int W = kWidth<T>, kLayers = kMlpLayers;
  static constexpr int64_t kTile = 48;       // rows; divisible by the rows of every block of a product
  static constexpr int64_t kMostChunks = 64;  // sums of gradients depend on the rows only, not on the threads
  static constexpr int64_t kShare = 2048;     // rows that are worth a chunk

  // Parameters of a layer, padded; also the layout of the sums of its gradients.
  struct Layer {
    int64_t inputs, outputs, wide_inputs, wide_outputs;
    T *by_input, *by_output;  // W as [input, wide output] and as [output, wide input]
    T *bias, *scale, *shift;
    T* is_number;             // 1 for outputs, 0 for padding
  };
  // Sums over rows: W as [output, wide input]
  struct Sums {
    T *weight, *bias, *scale, *shift;
  };
  // Activations of a tile
  struct Tile {
    T* input;             // [row, wide input]
    T *normal[kLayers];   // (z - mean) / deviation
    T *active[kLayers];   // input of the next layer
    T *inverse[kLayers];  // 1 / deviation
    T *noise, *grad, *grad_before;
  };

  const JeanieMlp& job;
  const bool is_backward = job.grad_out != nullptr;
  const int64_t rows = job.items * job.joints, chunks = std::min(kMostChunks, (rows + kShare - 1) / kShare);
  Layer layers[kLayers];
  jeanie::Block memory, sums_memory;
  int64_t sums_size = 0, tile_size = 0;
  std::atomic<int64_t> next{0};  // chunk
  std::atomic<int> status{kDone};

  // Hands out parts of one block; without a block it counts them.
  struct Arena {
    T* start;
    int64_t used = 0;
    T* take(int64_t count) {
      T* part = start ? start + used : nullptr;
      used += (count + W - 1) / W * W;
      return part;
    }
  };

  int64_t lay_out_layers(T* start) {
    Arena arena{start};
    for (Layer& layer : layers) {
      layer.by_input = arena.take(layer.inputs * layer.wide_outputs);
      layer.by_output = arena.take(layer.outputs * layer.wide_inputs);
      for (T** part : {&layer.bias, &layer.scale, &layer.shift, &layer.is_number}) *part = arena.take(layer.wide_outputs);
    }
    return arena.used;
  }
  int64_t lay_out_sums(T* start, Sums* sums) const {
    Arena arena{start};
    for (int l = 0; l < kLayers; ++l) {
      sums[l].weight = arena.take(layers[l].outputs * layers[l].wide_inputs);
      for (T** part : {&sums[l].bias, &sums[l].scale, &sums[l].shift}) *part = arena.take(layers[l].wide_outputs);
    }
    return arena.used;
  }
  int64_t lay_out_tile(T* start, Tile& tile) const {
    Arena arena{start};
    int64_t widest = layers[0].wide_inputs;
    tile.input = arena.take(kTile * widest);
    for (int l = 0; l < kLayers; ++l) {
      tile.normal[l] = arena.take(kTile * layers[l].wide_outputs);
      tile.active[l] = arena.take(kTile * layers[l].wide_outputs);
      tile.inverse[l] = arena.take(kTile);
      widest = std::max(widest, layers[l].wide_outputs);
    }
    tile.noise = arena.take(kTile * layers[kLayers - 1].wide_inputs);
    tile.grad = arena.take(kTile * widest);
    tile.grad_before = arena.take(kTile * widest);
    return arena.used;
  }

  void pack() {
    for (int l = 0; l < kLayers; ++l) {
      Layer& layer = layers[l];
      const T* weight = static_cast<const T*>(job.layers[l].weight);
      for (int64_t o = 0; o < layer.outputs; ++o)
        for (int64_t i = 0; i < layer.inputs; ++i) {
          layer.by_input[i * layer.wide_outputs + o] = weight[o * layer.inputs + i];
          layer.by_output[o * layer.wide_inputs + i] = weight[o * layer.inputs + i];
        }
      std::copy_n(static_cast<const T*>(job.layers[l].bias), layer.outputs, layer.bias);
      std::copy_n(static_cast<const T*>(job.layers[l].scale), layer.outputs, layer.scale);
      std::copy_n(static_cast<const T*>(job.layers[l].shift), layer.outputs, layer.shift);
      std::fill_n(layer.is_number, layer.outputs, T(1));
    }
  }

  // Copies `count` rows of `size` numbers and pads them; rows after them are 0.
  static void copy_rows(const void* from, int64_t first, int64_t count, int64_t size, int64_t wide, T* to) {
    for (int64_t r = 0; r < count; ++r) {
      std::copy_n(static_cast<const T*>(from) + (first + r) * size, size, to + r * wide);
      std::fill(to + r * wide + size, to + (r + 1) * wide, T(0));
    }
    std::fill(to + count * wide, to + kTile * wide, T(0));
  }

  // Calls visit(item, joint, first number of the row in a tile) for some rows.
  template <class Visit> void for_each_row(int64_t first, int64_t count, Visit visit) const {
    int64_t item = first / job.joints, joint = first % job.joints;
    for (int64_t r = 0; r < count; ++r) {
      visit(item, joint, r * layers[0].wide_inputs);
      if (++joint == job.joints) joint = 0, ++item;
    }
  }
  void read_input(int64_t first, int64_t count, T* input) const {
    const int64_t* strides = job.strides;
    for_each_row(first, count, [&](int64_t item, int64_t joint, int64_t to) {
      const T* from = static_cast<const T*>(job.x) + item * strides[0] + joint * strides[2];
      for (int64_t f = 0; f < job.frames; ++f)
        for (int64_t c = 0; c < job.channels; ++c) input[to++] = from[f * strides[1] + c * strides[3]];
    });
  }
  void write_input_gradient(int64_t first, int64_t count, const T* grad) const {
    for_each_row(first, count, [&](int64_t item, int64_t joint, int64_t from) {
      for (int64_t f = 0; f < job.frames; ++f)
        std::copy_n(grad + from + f * job.channels, job.channels,
                    static_cast<T*>(job.grad_x) + ((item * job.frames + f) * job.joints + joint) * job.channels);
    });
  }

  // LayerNorm and ReLU of the products in `active`
  void normalise(const Layer& layer, bool is_last, T* normal, T* active, T* inverse, const T* noise) const {
    const int64_t wide = layer.wide_outputs;
    const T share = T(1) / T(layer.outputs), epsilon = T(job.epsilon);
    for (int64_t r = 0; r < kTile; ++r) {
      T *z = active + r * wide, *x = normal + r * wide;
      Register<T> total{}, squares{};
      for (int64_t v = 0; v < wide; v += W) total += load(z + v);
      const Register<T> mean = spread_over(sum_of<T>(total) * share);
      for (int64_t v = 0; v < wide; v += W) {
        const Register<T> centred = (load(z + v) - mean) * load(layer.is_number + v);
        store(x + v, centred);
        squares += centred * centred;
      }
      inverse[r] = T(1) / std::sqrt(sum_of<T>(squares) * share + epsilon);
      const Register<T> factor = spread_over(inverse[r]);
      for (int64_t v = 0; v < wide; v += W) {
        const Register<T> hat = load(x + v) * factor, y = hat * load(layer.scale + v) + load(layer.shift + v);
        Register<T> a = is_last ? y : (y < Register<T>{} ? Register<T>{} : y);  // NaN stays NaN
        if (noise) a *= load(noise + r * wide + v);
        store(x + v, hat);
        store(z + v, a);
      }
    }
  }

  void run_forward(int64_t first, int64_t count, const Tile& tile) const {
    read_input(first, count, tile.input);
    const T* input = tile.input;
    if (job.noise) copy_rows(job.noise, first, count, layers[kLayers - 1].inputs, layers[kLayers - 1].wide_inputs, tile.noise);
    for (int l = 0; l < kLayers; ++l) {
      const Layer& layer = layers[l];
      for (int64_t r = 0; r < kTile; ++r) std::copy_n(layer.bias, layer.wide_outputs, tile.active[l] + r * layer.wide_outputs);
      add_product(input, layer.wide_inputs, 1, layer.by_input, tile.active[l], kTile, layer.inputs, layer.wide_outputs);
      const T* noise = job.noise && l == kLayers - 2 ? tile.noise : nullptr;
      normalise(layer, l == kLayers - 1, tile.normal[l], tile.active[l], tile.inverse[l], noise);
      input = tile.active[l];
    }
  }

  // From the gradient of a layer's output in `grad` to that of z, in place; adds the sums over rows.
  void differentiate_norm(const Layer& layer, const T* normal, const T* inverse, T* grad, const Sums& sums) const {
    const int64_t wide = layer.wide_outputs;
    const T share = T(1) / T(layer.outputs);
    for (int64_t v = 0; v < wide; v += W) {
      Register<T> scale = load(sums.scale + v), shift = load(sums.shift + v);
      for (int64_t r = 0; r < kTile; ++r) {
        const Register<T> g = load(grad + r * wide + v);
        shift += g;
        scale += g * load(normal + r * wide + v);
      }
      store(sums.scale + v, scale);
      store(sums.shift + v, shift);
    }
    for (int64_t r = 0; r < kTile; ++r) {
      T* g = grad + r * wide;
      const T* x = normal + r * wide;
      Register<T> total{}, along{};
      for (int64_t v = 0; v < wide; v += W) {
        const Register<T> part = load(g + v) * load(layer.scale + v);
        total += part;
        along += part * load(x + v);
      }
      const Register<T> mean = spread_over(sum_of<T>(total) * share), slope = spread_over(sum_of<T>(along) * share);
      const Register<T> factor = spread_over(inverse[r]);
      for (int64_t v = 0; v < wide; v += W)
        store(g + v, (load(g + v) * load(layer.scale + v) - mean * load(layer.is_number + v) - load(x + v) * slope) * factor);
    }
    for (int64_t v = 0; v < wide; v += W) {
      Register<T> bias = load(sums.bias + v);
      for (int64_t r = 0; r < kTile; ++r) bias += load(grad + r * wide + v);
      store(sums.bias + v, bias);
    }
  }

  // Gradient of a layer's output where ReLU let it through, times the factors of dropout
  void differentiate_relu(int64_t wide, const T* active, const T* noise, T* grad) const {
    for (int64_t i = 0; i < kTile * wide; i += W) {
      const Register<T> g = noise ? load(grad + i) * load(noise + i) : load(grad + i);
      store(grad + i, load(active + i) <= Register<T>{} ? Register<T>{} : g);
    }
  }

  void run_backward(int64_t first, int64_t count, Tile tile, const Sums* sums) const {
    const Layer& last = layers[kLayers - 1];
    copy_rows(job.grad_out, first, count, last.outputs, last.wide_outputs, tile.grad);
    for (int l = kLayers - 1; l >= 0; --l) {
      const Layer& layer = layers[l];
      if (l < kLayers - 1) {
        const T* noise = job.noise && l == kLayers - 2 ? tile.noise : nullptr;
        differentiate_relu(layer.wide_outputs, tile.active[l], noise, tile.grad);
      }
      differentiate_norm(layer, tile.normal[l], tile.inverse[l], tile.grad, sums[l]);
      const T* input = l ? tile.active[l - 1] : tile.input;
      add_product(tile.grad, 1, layer.wide_outputs, input, sums[l].weight, layer.outputs, kTile, layer.wide_inputs);
      if (!l && !job.grad_x) return;
      std::fill_n(tile.grad_before, kTile * layer.wide_inputs, T(0));
      add_product(tile.grad, layer.wide_outputs, 1, layer.by_output, tile.grad_before, kTile, layer.outputs, layer.wide_inputs);
      std::swap(tile.grad, tile.grad_before);
    }
    write_input_gradient(first, count, tile.grad);
  }

  void run_chunk(int64_t chunk, T* workspace) {
    Tile tile;
    Sums sums[kLayers];
    lay_out_tile(workspace, tile);
    std::fill_n(workspace, tile_size, T(0));
    if (is_backward) lay_out_sums(static_cast<T*>(sums_memory.start()) + chunk * sums_size, sums);
    const int64_t end = rows * (chunk + 1) / chunks;
    for (int64_t first = rows * chunk / chunks; first < end; first += kTile) {
      const int64_t count = std::min(kTile, end - first);
      run_forward(first, count, tile);
      if (is_backward) {
        run_backward(first, count, tile, sums);
      } else {
        const Layer& last = layers[kLayers - 1];
        for (int64_t r = 0; r < count; ++r)
          std::copy_n(tile.active[kLayers - 1] + r * last.wide_outputs, last.outputs,
                      static_cast<T*>(job.out) + (first + r) * last.outputs);
      }
    }
  }

  static void run_chunks(void* context) noexcept {
    auto& all = *static_cast<Mlp*>(context);
    try {
      jeanie::Block workspace(size_t(all.tile_size) * sizeof(T));
      for (int64_t chunk; (chunk = all.next.fetch_add(1)) < all.chunks;)
        all.run_chunk(chunk, static_cast<T*>(workspace.start()));
    } catch (const std::bad_alloc&) {
      all.status = kNoMemory;
    }
  }

  // Adds the sums of all chunks in their order.
  void add_chunks() {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      Sums sums[kLayers];
      lay_out_sums(static_cast<T*>(sums_memory.start()) + chunk * sums_size, sums);
      for (int l = 0; l < kLayers; ++l) {
        const Layer& layer = layers[l];
        const auto add = [&](void* to, const T* from, int64_t count, int64_t size, int64_t wide) {
          T* out = static_cast<T*>(to);
          for (int64_t o = 0; o < count; ++o)
            for (int64_t i = 0; i < size; ++i) out[o * size + i] = from[o * wide + i] + (chunk ? out[o * size + i] : T(0));
        };
        add(job.gradients[l].weight, sums[l].weight, layer.outputs, layer.inputs, layer.wide_inputs);
        add(job.gradients[l].bias, sums[l].bias, 1, layer.outputs, layer.wide_outputs);
        add(job.gradients[l].scale, sums[l].scale, 1, layer.outputs, layer.wide_outputs);
        add(job.gradients[l].shift, sums[l].shift, 1, layer.outputs, layer.wide_outputs);
      }
    }
  }

 public:
  explicit Mlp(const JeanieMlp& job_) : job(job_) {
    int64_t inputs = job.frames * job.channels;
    for (int l = 0; l < kLayers; ++l) {
      layers[l].inputs = inputs, layers[l].wide_inputs = (inputs + W - 1) / W * W;
      inputs = layers[l].outputs = job.sizes[l];
      layers[l].wide_outputs = (inputs + W - 1) / W * W;
    }
    const int64_t size = lay_out_layers(nullptr);
    memory = jeanie::Block(size_t(size) * sizeof(T));
    std::fill_n(static_cast<T*>(memory.start()), size, T(0));
    lay_out_layers(static_cast<T*>(memory.start()));
    pack();
    Tile tile;
    tile_size = lay_out_tile(nullptr, tile);
    if (is_backward) {
      Sums sums[kLayers];
      sums_size = lay_out_sums(nullptr, sums);
      sums_memory = jeanie::Block(size_t(sums_size * chunks) * sizeof(T));
      std::fill_n(static_cast<T*>(sums_memory.start()), sums_size * chunks, T(0));
    }
  }

  int run() {
    jeanie::run_parallel(std::min(job.threads, chunks) - 1, &Mlp::run_chunks, this);
    if (is_backward && status == kDone) add_chunks();
    return status;
  }
};

}  // namespace JEANIE_ISA
