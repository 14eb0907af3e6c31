// Many rows and many codevectors at once, by products: half as many operations as by differences, and
// nothing is read more often than it has to be. Whoever calls sees to it that nothing cancels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "tiles.hpp"

namespace annealed {

// As many tiles and rows as there are registers for, and as many features as the first-level cache
// holds of those tiles.
constexpr int tiles_together = 3, features_together = 768 / W;

// out[m] += <x_m, v_i> over features from..to, for R rows and T tiles that lie `stride` apart;
// `v` begins with feature `from`.
template <int R, int T>
inline void add_products(const double* const* x, int from, int to, const double* v,
                         std::size_t stride, double* const* out) {
    Vec sum[R][T];
    for (int m = 0; m < R; ++m)
        for (int t = 0; t < T; ++t) sum[m][t] = Vec::load(out[m] + t * W);
    for (int j = from; j < to; ++j) {
        Vec here[T];
        for (int t = 0; t < T; ++t) here[t] = Vec::load(v + t * stride + (j - from) * W);
        for (int m = 0; m < R; ++m)
            for (int t = 0; t < T; ++t) sum[m][t] = fmadd(Vec::all(x[m][j]), here[t], sum[m][t]);
    }
    for (int m = 0; m < R; ++m)
        for (int t = 0; t < T; ++t) sum[m][t].store(out[m] + t * W);
}

// The same for any number of rows.
template <int T>
inline void add_products(const double* const* x, int rows, int from, int to, const double* v,
                         std::size_t stride, double* const* out) {
    constexpr int R = T == 1 ? 8 : 4;
    int m = 0;
    for (; m + R <= rows; m += R) add_products<R, T>(x + m, from, to, v, stride, out + m);
    for (; m < rows; ++m) add_products<1, T>(x + m, from, to, v, stride, out + m);
}

// Calls with `tiles`, from one to tiles_together, as a constant.
template <class Function>
inline void with_tiles(int tiles, Function function) {
    switch (tiles) {
        case 3: return function(std::integral_constant<int, 3>());
        case 2: return function(std::integral_constant<int, 2>());
        default: return function(std::integral_constant<int, 1>());
    }
}

// v_j = start(t, j) + sum_k share_k x_k[j] for the codevectors of T tiles that lie `stride` apart;
// share[k T + t] is that of row k in tile t.
template <int T, class Start>
inline void combine(double* v, std::size_t stride, int d, Start start, const Vec* share,
                    const double* const* x, int rows) {
    constexpr int together = ANNEALED_AVX512 ? 8 : 4;
    const auto some = [&](int j, auto features) {
        constexpr int M = decltype(features)::value;
        Vec sum[T][M];
        for (int t = 0; t < T; ++t)
            for (int m = 0; m < M; ++m) sum[t][m] = start(t, j + m);
        for (int k = 0; k < rows; ++k) {
            const double* here = x[k] + j;
            for (int m = 0; m < M; ++m)
                for (int t = 0; t < T; ++t)
                    sum[t][m] = fmadd(share[k * T + t], Vec::all(here[m]), sum[t][m]);
        }
        for (int t = 0; t < T; ++t)
            for (int m = 0; m < M; ++m) sum[t][m].store(v + t * stride + (j + m) * W);
    };
    int j = 0;
    for (; j + together <= d; j += together) some(j, std::integral_constant<int, together>());
    for (; j < d; ++j) some(j, std::integral_constant<int, 1>());
}

// |x_m - x_k|^2 of row m and every row k before it, into between[m rows + k].
inline void distances_to_earlier(const double* const* x, int m, int rows, int d, double* between) {
    const double* here = x[m];
    double* out = between + static_cast<std::size_t>(m) * rows;
    const auto add = [](const double* a, const double* b, Vec so_far) {
        const Vec apart = Vec::load(a) - Vec::load(b);
        return fmadd(apart, apart, so_far);
    };
    for (int k = 0; k < m; k += 4) {  // by name: an array of sums would not stay in registers
        const double *p = x[k], *q = x[std::min(k + 1, m)], *r = x[std::min(k + 2, m)],
                     *s = x[std::min(k + 3, m)];
        Vec to_p = Vec::all(0.0), to_q = to_p, to_r = to_p, to_s = to_p;
        int j = 0;
        for (; j + W <= d; j += W) {
            to_p = add(here + j, p + j, to_p);
            to_q = add(here + j, q + j, to_q);
            to_r = add(here + j, r + j, to_r);
            to_s = add(here + j, s + j, to_s);
        }
        double total[4] = {sum(to_p), sum(to_q), sum(to_r), sum(to_s)};
        for (; j < d; ++j) {
            const double* other[4] = {p, q, r, s};
            for (int n = 0; n < 4; ++n)
                total[n] += (here[j] - other[n][j]) * (here[j] - other[n][j]);
        }
        std::copy(total, total + std::min(4, m - k), out + k);
    }
}

}  // namespace annealed
