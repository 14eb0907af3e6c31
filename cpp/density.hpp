// The density of a codebook, f(x) = sum_j rho_j k_j(x), k_j = exp(h_j - |x - mu_j|^2 / w_j), at its
// codevectors and halfway between some of them (borders.hpp). All distances follow from those between
// codevectors:
//     |(a + b)/2 - mu|^2 = (|a - mu|^2 + |b - mu|^2)/2 - |a - b|^2/4
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "team.hpp"
#include "tiles.hpp"

namespace annealed {

// A codevector of no weight at all counts as one of this.
constexpr double least_weight = 1e-300;

struct DensityOfCodebook {
    const double* distances;  // [n][n], squared
    const double* inverse;    // [n], 1/w_j
    const double* log_mass;   // [n], log rho_j + h_j
    const double* weights;    // [n], rho_j
    std::int64_t n;
    const std::int64_t *first, *second;  // [middles], between which codevectors
    std::int64_t middles;
    double *at_points, *squares, *at_middles;  // log f, log sum_j rho_j k_j^2; log f

    std::int64_t places() const { return n + middles; }
};

// All places, in pieces; every place by itself.
class DensityMeasure {
public:
    DensityMeasure(const DensityOfCodebook& density, int pieces)
        : density_(density), padded_((static_cast<std::size_t>(density.n) + W - 1) / W * W),
          pieces_(pieces), exponents_(padded_ * static_cast<std::size_t>(pieces)),
          inverse_(padded_, 0.0), log_mass_(padded_, -infinity), over_weight_(padded_, 0.0) {
        const auto n = static_cast<std::size_t>(density.n);
        std::copy(density.inverse, density.inverse + n, inverse_.begin());
        std::copy(density.log_mass, density.log_mass + n, log_mass_.begin());
        for (std::size_t j = 0; j < n; ++j)
            over_weight_[j] = 1 / std::max(density.weights[j], least_weight);
    }
    void measure(int piece) {
        double* exponent = &exponents_[padded_ * static_cast<std::size_t>(piece)];
        const std::int64_t all = density_.places(), end = all * (piece + 1) / pieces_;
        for (std::int64_t place = all * piece / pieces_; place < end; ++place)
            place < density_.n ? at_point(place, exponent)
                               : at_middle(place - density_.n, exponent);
    }

private:
    const DensityOfCodebook& density_;
    const std::size_t padded_;
    const int pieces_;
    Doubles exponents_;  // [pieces][padded]
    Doubles inverse_, log_mass_, over_weight_;  // padded: with codevectors of no mass

    void at_point(std::int64_t i, double* exponent) {
        const double* here = density_.distances + i * density_.n;
        const double top = weigh(exponent, [&](std::int64_t j, auto load) { return load(here + j); });
        Vec total = Vec::all(0.0), squares = total;
        for_each_seen(exponent, top, [&](std::size_t j, Vec share) {
            total = total + share;
            squares = fmadd(share * share, Vec::load(&over_weight_[j]), squares);
        });
        density_.at_points[i] = std::log(sum(total)) + top;
        density_.squares[i] = std::log(sum(squares)) + 2 * top;
    }

    void at_middle(std::int64_t k, double* exponent) {
        const std::int64_t n = density_.n, a = density_.first[k], b = density_.second[k];
        const double *to_a = density_.distances + a * n, *to_b = density_.distances + b * n;
        const Vec half = Vec::all(0.5), apart = Vec::all(to_a[b] / 4), zero = Vec::all(0.0);
        const double top = weigh(exponent, [&](std::int64_t j, auto load) {
            return max((load(to_a + j) + load(to_b + j)) * half - apart, zero);
        });
        Vec total = zero;
        for_each_seen(exponent, top, [&](std::size_t, Vec share) { total = total + share; });
        density_.at_middles[k] = std::log(sum(total)) + top;
    }

    // Where clusters are apart, most codevectors are too far away to count.
    template <class Add>
    void for_each_seen(const double* exponent, double top, Add add) {
        for (std::size_t j = 0; j < padded_; j += W) {
            const Vec here = Vec::load(exponent + j);
            if (any_above(here, top - least_seen)) add(j, exp(here - Vec::all(top)));
        }
    }

    // exponent_j = log(rho_j k_j); returns the largest. `distance(j, load)` is that of W codevectors, read
    // by `load`: of the last few there may be fewer.
    template <class Distance>
    double weigh(double* exponent, Distance distance) {
        const std::int64_t n = density_.n, whole = n / W * W;
        Vec most = Vec::all(-infinity);
        std::int64_t j = 0;
        const auto put = [&](Vec apart) {
            const Vec value = Vec::load(&log_mass_[j]) - apart * Vec::load(&inverse_[j]);
            value.store(exponent + j);
            most = max(most, value);
        };
        for (; j < whole; j += W) put(distance(j, [](const double* from) { return Vec::load(from); }));
        if (j < n) {
            put(distance(j, [&](const double* from) {
                alignas(64) double few[W];
                for (int k = 0; k < W; ++k) few[k] = from[k < n - j ? k : 0];
                return Vec::load(few);
            }));
        }
        return largest(most);
    }
};

inline void measure_density(const DensityOfCodebook& density, ThreadTeam& team) {
    constexpr std::int64_t worth_sharing = 1 << 13;  // kernels looked at
    const bool shared = team.allowed() > 1 && density.places() * density.n > worth_sharing;
    const int pieces = shared ? 4 * team.allowed() : 1;
    DensityMeasure all(density, pieces);
    if (shared)
        team.round(pieces, [&](int piece) { all.measure(piece); });
    else
        all.measure(0);
}

}  // namespace annealed
