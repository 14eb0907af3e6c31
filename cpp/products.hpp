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
    constexpr int together = 4;
    const auto some = [&](int first, int n) {
        const double* other[together];
        Vec sums[together];
        for (int k = 0; k < together; ++k) {
            other[k] = x[first + std::min(k, n - 1)];
            sums[k] = Vec::all(0.0);
        }
        int j = 0;
        for (; j + W <= d; j += W)
            for (int k = 0; k < together; ++k) {
                const Vec apart = Vec::load(x[m] + j) - Vec::load(other[k] + j);
                sums[k] = fmadd(apart, apart, sums[k]);
            }
        for (int k = 0; k < together; ++k) {  // a constant number of them: they stay in registers
            double total = sum(sums[k]);
            for (int i = j; i < d; ++i) total += (x[m][i] - other[k][i]) * (x[m][i] - other[k][i]);
            if (k < n) between[static_cast<std::size_t>(m) * rows + first + k] = total;
        }
    };
    for (int k = 0; k < m; k += together) some(k, std::min(together, m - k));
}

}  // namespace annealed
