// The density of a codebook, f(x) = sum_j m_j exp(-|x - mu_j|^2 / w_j), at its codevectors and halfway
// between some of them (annealing/borders.py). All distances follow from those between codevectors:
//     |(a + b)/2 - mu|^2 = (|a - mu|^2 + |b - mu|^2)/2 - |a - b|^2/4
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "threads.hpp"
#include "tiles.hpp"

namespace annealed {

struct DensityOfCodebook {
    const double* distances;  // [n][n], squared
    const double* inverse;    // [n], 1/w_j
    const double* mass;       // [n], m_j
    const double* squared;    // [n], what exp(-2 |x - mu_j|^2 / w_j) counts in the sum of squares
    std::int64_t n;
    const std::int64_t *first, *second;  // [middles], between which codevectors
    std::int64_t middles;
    double *at_points, *squares, *at_middles;  // log f, log of the sum of squares; log f

    std::int64_t places() const { return n + middles; }
};

// Does some places; every place by itself.
class DensityWorker {
public:
    static constexpr bool in_order = false;
    static constexpr std::int64_t places_in_block = 32;

    explicit DensityWorker(const DensityOfCodebook& density)
        : density_(density), padded_((static_cast<std::size_t>(density.n) + W - 1) / W * W),
          exponent_(padded_, -infinity), inverse_(padded_, 0.0), mass_(padded_, 0.0),
          squared_(padded_, 0.0) {
        std::copy(density.inverse, density.inverse + density.n, inverse_.begin());
        for (std::size_t j = density.n; j < padded_; ++j) inverse_[j] = inverse_[density.n / W * W];
        std::copy(density.mass, density.mass + density.n, mass_.begin());
        std::copy(density.squared, density.squared + density.n, squared_.begin());
    }
    void work(std::int64_t block) {
        const std::int64_t end = std::min((block + 1) * places_in_block, density_.places());
        for (std::int64_t place = block * places_in_block; place < end; ++place)
            place < density_.n ? at_point(place) : at_middle(place - density_.n);
    }
    void settle(std::int64_t) {}

private:
    const FlushDenormals flush_;
    const DensityOfCodebook& density_;
    const std::size_t padded_;
    Doubles exponent_, inverse_, mass_, squared_;  // padded: with codevectors of no mass

    void at_point(std::int64_t i) {
        const double* here = density_.distances + i * density_.n;
        const double top = weigh([&](std::int64_t j, auto load) { return load(here + j); });
        Vec total = Vec::all(0.0), squares = total;
        for (std::size_t j = 0; j < padded_; j += W) {
            const Vec kernel = exp(Vec::load(&exponent_[j]) - Vec::all(top));
            total = fmadd(kernel, Vec::load(&mass_[j]), total);
            squares = fmadd(kernel * kernel, Vec::load(&squared_[j]), squares);
        }
        density_.at_points[i] = std::log(sum(total)) + top;
        density_.squares[i] = std::log(sum(squares)) + 2 * top;
    }

    void at_middle(std::int64_t k) {
        const std::int64_t n = density_.n, a = density_.first[k], b = density_.second[k];
        const double *to_a = density_.distances + a * n, *to_b = density_.distances + b * n;
        const Vec half = Vec::all(0.5), apart = Vec::all(to_a[b] / 4), zero = Vec::all(0.0);
        const double top = weigh([&](std::int64_t j, auto load) {
            return max((load(to_a + j) + load(to_b + j)) * half - apart, zero);
        });
        Vec total = zero;
        for (std::size_t j = 0; j < padded_; j += W)
            total = fmadd(exp(Vec::load(&exponent_[j]) - Vec::all(top)), Vec::load(&mass_[j]), total);
        density_.at_middles[k] = std::log(sum(total)) + top;
    }

    // exponent_j = -distance_j / w_j; returns the largest. `distance(j, load)` is that of W codevectors,
    // read by `load`: of the last few there may be fewer.
    template <class Distance>
    double weigh(Distance distance) {
        const std::int64_t n = density_.n, whole = n / W * W;
        Vec least = Vec::all(infinity);
        std::int64_t j = 0;
        const auto put = [&](Vec apart) {
            const Vec scaled = apart * Vec::load(&inverse_[j]);
            (Vec::all(0.0) - scaled).store(&exponent_[j]);
            least = min(least, scaled);
        };
        for (; j < whole; j += W) put(distance(j, [](const double* from) { return Vec::load(from); }));
        if (j < n) {
            put(distance(j, [&](const double* from) {
                alignas(64) double few[W];
                for (int k = 0; k < W; ++k) few[k] = from[k < n - j ? k : 0];
                return Vec::load(few);
            }));
        }
        return -smallest(least);
    }
};

inline void measure_density(const DensityOfCodebook& density, int threads) {
    const std::int64_t each = DensityWorker::places_in_block;
    const double work = 16.0 * static_cast<double>(density.places()) * static_cast<double>(density.n);
    in_threads((density.places() + each - 1) / each, threads_for(work, threads),
               [&] { return DensityWorker(density); });
}

}  // namespace annealed
