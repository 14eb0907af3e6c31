// Codevectors in tiles of W, [tile][feature][lane], with the functions of them a divergence
// caches. Unused lanes of the last tile hold a harmless copy of its first codevector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <vector>

#include "divergences.hpp"

namespace annealed {

// Aligned to a cache line: a Vec that lies across two of them takes twice as long to load.
template <class Number>
struct CacheAligned {
    using value_type = Number;
    CacheAligned() = default;
    template <class Other>
    CacheAligned(const CacheAligned<Other>&) {}
    Number* allocate(std::size_t n) {
        return static_cast<Number*>(::operator new(n * sizeof(Number), std::align_val_t(64)));
    }
    void deallocate(Number* p, std::size_t) { ::operator delete(p, std::align_val_t(64)); }
    bool operator==(const CacheAligned&) const { return true; }
    bool operator!=(const CacheAligned&) const { return false; }
};
using Doubles = std::vector<double, CacheAligned<double>>;

// From row to row of an array that is read column by column: an odd number of cache lines, so that
// rows do not fall on the same few sets of the first-level cache.
inline std::size_t over_all_sets(std::size_t n) {
    constexpr std::size_t line = 64 / sizeof(double);
    return ((n + line - 1) / line | 1) * line;
}

inline int tiles_for(int K) { return (K + W - 1) / W; }

// rows [K][d] -> tiles
inline Doubles to_tiles(const double* rows, int K, int d, bool pad_with_copy) {
    Doubles tiles(static_cast<std::size_t>(tiles_for(K)) * d * W, 0.0);
    for (int i = 0; i < tiles_for(K) * W; ++i) {
        if (i >= K && !pad_with_copy) continue;
        const double* row = rows + static_cast<std::size_t>(i < K ? i : i / W * W) * d;
        double* tile = tiles.data() + static_cast<std::size_t>(i / W) * d * W + i % W;
        for (int j = 0; j < d; ++j) tile[static_cast<std::size_t>(j) * W] = row[j];
    }
    return tiles;
}

// tiles -> rows [K][d]
inline void from_tiles(const Doubles& tiles, int K, int d, double* rows) {
    for (int i = 0; i < K; ++i) {
        const double* tile = tiles.data() + static_cast<std::size_t>(i / W) * d * W + i % W;
        for (int j = 0; j < d; ++j)
            rows[static_cast<std::size_t>(i) * d + j] = tile[static_cast<std::size_t>(j) * W];
    }
}

template <class Divergence>
struct Tiles {
    int K, d, count;
    Doubles mu, a, b;

    Tiles(const double* rows, int K_, int d_)
        : K(K_), d(d_), count(tiles_for(K_)), mu(to_tiles(rows, K_, d_, true)) {
        if (Divergence::codevector_functions > 0) a.resize(mu.size());
        if (Divergence::codevector_functions > 1) b.resize(mu.size());
        for (int t = 0; t < count; ++t) refresh(t);
    }
    std::size_t offset(int t) const { return static_cast<std::size_t>(t) * d * W; }
    void refresh(int t) {
        if constexpr (Divergence::codevector_functions > 0) {
            for (std::size_t k = offset(t); k < offset(t + 1); k += W)
                Divergence::refresh(Vec::load(&mu[k]), &a[k],
                                    Divergence::codevector_functions > 1 ? &b[k] : nullptr);
        }
    }
    const double* first_function(std::size_t k) const {
        return Divergence::codevector_functions > 0 ? &a[k] : nullptr;
    }
    const double* second_function(std::size_t k) const {
        return Divergence::codevector_functions > 1 ? &b[k] : nullptr;
    }
    Vec divergence(int t, const Row& row) const {
        const std::size_t k = offset(t);
        return tile_divergence<Divergence>(row, d, &mu[k], first_function(k), second_function(k));
    }
    // With features weighed by their relevances.
    Vec divergence(int t, const Row& row, const double* relevance) const {
        const std::size_t k = offset(t);
        return tile_divergence<Divergence, true>(row, d, &mu[k], first_function(k),
                                                 second_function(k), relevance);
    }
    // Of several rows, at most largest_block, to all codevectors, or those of a tile: the same bits as
    // one by one; out[m] holds those of a row.
    void divergences(const Row* row, int rows, const double* relevance, double* const* out) const {
        for (int t = 0; t < count; ++t) divergences(t, row, rows, relevance, out);
    }
    void divergences(int t, const Row* row, int rows, const double* relevance,
                     double* const* out) const {
        relevance ? several<true>(t, row, rows, relevance, out)
                  : several<false>(t, row, rows, nullptr, out);
    }
    template <bool Weighted>
    void several(int t, const Row* row, int rows, const double* relevance,
                 double* const* out) const {
        const std::size_t k = offset(t);
        tile_divergences<Divergence, Weighted>(
            row, rows, d, &mu[k], first_function(k), second_function(k), relevance,
            [&](int m, Vec value) { value.store(out[m] + static_cast<std::size_t>(t) * W); });
    }
    // The part of one feature.
    Vec term(int t, int j, const Row& row) const {
        const std::size_t k = offset(t);
        return feature_term<Divergence>(row, j, &mu[k], first_function(k), second_function(k),
                                        Vec::all(0.0));
    }
};

// Rows of a caller's array, read in place whatever their type and strides; a Mahalanobis
// divergence is the squared Euclidean one of x L, so L is applied as the row is read.
template <class Divergence>
class RowReader {
public:
    RowReader(int d, const double* matrix) : d_(d), matrix_(matrix), x_(d), raw_(matrix ? d : 0) {
        if (Divergence::row_functions > 0) f_.resize(d);
        if (Divergence::row_functions > 1) g_.resize(d);
    }
    template <class Number>
    Row read(const Number* row, std::ptrdiff_t stride) {
        if constexpr (std::is_same<Number, double>::value && Divergence::row_functions == 0)
            if (!matrix_ && stride == 1) return {row, nullptr, nullptr};  // as it lies
        double* into = matrix_ ? raw_.data() : x_.data();
        for (int j = 0; j < d_; ++j) into[j] = static_cast<double>(row[j * stride]);
        if (matrix_) {
            std::fill(x_.begin(), x_.end(), 0.0);
            for (int k = 0; k < d_; ++k)
                for (int j = 0; j < d_; ++j)
                    x_[j] += raw_[k] * matrix_[static_cast<std::size_t>(k) * d_ + j];
        }
        if constexpr (Divergence::row_functions > 0) {
            double unused = 0;
            for (int j = 0; j < d_; ++j)
                Divergence::prepare(x_[j], f_[j], Divergence::row_functions > 1 ? g_[j] : unused);
        }
        return {x_.data(), f_.data(), g_.data()};
    }

private:
    int d_;
    const double* matrix_;
    Doubles x_, raw_, f_, g_;
};

}  // namespace annealed
