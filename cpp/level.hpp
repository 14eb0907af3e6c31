// What every run of a class has in common: settings of a level, step sizes, and the warm-up that
// comes before the first level.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "team.hpp"
#include "tiles.hpp"

namespace annealed {

// A row where it lies in the caller's array.
struct RowPointer {
    const void* data;
    std::ptrdiff_t stride;  // between features, in elements
    bool single_precision;
};

// Settings of a level. Thresholds are absolute here: the caller has multiplied by T.
struct LevelSettings {
    double T = 1;
    double small_step = 0;       // a step is small when (alpha p_i/rho_i)^2 d(x, mu_i) is below
    double a = 1, b = 0.9;       // alpha_n = 1/(a + b n)
    double alpha_min = 0;
    std::int64_t first_axis = 0;   // samples after which the split axes start to turn
    std::int64_t second_axis = 0;  // samples after which they have turned and are measured, and sums begin
    std::int64_t at_least = 0;     // samples before the level may end
    std::int64_t at_most = 0;      // samples after which it ends regardless
    int patience = 5;              // consecutive small steps that end it
    bool by_roles = true;          // whether a row does only what its role says
};

// prod_{k=1..w} (1 - alpha_{n+k}) for real w, by Gamma functions; log for accuracy.
// f(z) = log Gamma(z) - log Gamma(z + s) = -s log z + ..., from Stirling's series beyond z = 32.
inline double log_gamma_ratio(double z, double s) {
    double shift = 0;
    while (z < 32) {
        shift += std::log1p(s / z);
        z += 1;
    }
    const double y = z + s;
    const auto tail = [](double t) {
        const double i = 1 / t, i2 = i * i;
        return i * (1.0 / 12 - i2 * (1.0 / 360 - i2 * (1.0 / 1260 - i2 / 1680)));
    };
    return shift - (z - 0.5) * std::log1p(s / z) - s * std::log(y) + s + (tail(z) - tail(y));
}

// The step size worth w presentations of one sample after n of them (w = 1: 1/(a + b (n + 1))).
inline double step_size(const LevelSettings& s, double n, double w) {
    double alpha;
    if (w == 1) {
        alpha = 1 / (s.a + s.b * (n + 1));
        return alpha > s.alpha_min ? alpha : s.alpha_min;
    }
    const double z = n + 1 + (s.a - 1) / s.b, inverse_b = 1 / s.b;
    alpha = -std::expm1(log_gamma_ratio(z + w, inverse_b) - log_gamma_ratio(z, inverse_b));
    const double least = s.alpha_min > 0 ? -std::expm1(w * std::log1p(-s.alpha_min)) : 0.0;
    return alpha > least ? alpha : least;
}

// What a sample may do for the split axes. Along an axis its own samples turned, the variance is too
// large by up to (1 + sqrt(d/n))^2, so a row that comes again does only one of the two; a sample of
// a stream comes once and does both, each at its own time.
constexpr int turns_axes = 1, measures_axes = 2, both_roles = 3;

class LevelBase {
public:
    std::int64_t count = 0;  // samples learnt
    double seen = 0;         // their weight
    bool done = false;
    ThreadTeam* team = nullptr;  // who may help, while rows are being learnt
    virtual ~LevelBase() = default;
    virtual void step(const RowPointer& row, double w, int role) = 0;
    virtual int features() const = 0;
    // Multiplications of a round that threads can share; 0 where there is none.
    virtual double work_to_share() const { return 0; }
    // log sum_i rho_i exp(-d(x, mu_i)/T); nan where it cannot say
    virtual double evidence(const RowPointer&, double) {
        return std::numeric_limits<double>::quiet_NaN();
    }
};

template <class Divergence>
Row read_row(RowReader<Divergence>& reader, const RowPointer& row) {
    return row.single_precision ? reader.read(static_cast<const float*>(row.data), row.stride)
                                : reader.read(static_cast<const double*>(row.data), row.stride);
}

// Before the first level of a class: its mean and per-feature variances (Welford, weighted), from
// which the unit of temperature follows, and trace(C^2), from which a bound of the largest
// eigenvalue does: E <a, b>^2 for a, b the differences of two samples each, divided by sqrt(2).
class WarmUp final : public LevelBase {
public:
    int d;
    std::int64_t at_least;
    // squares: sum of w (x - mean)^2; last: the latest sample; lowest, highest: the range
    Doubles mean, squares, last, lowest, highest;
    Doubles difference;  // of the first two of every four samples
    double crossed = 0;  // sum over fours of <difference, difference of the other two>^2

    WarmUp(int d_, std::int64_t at_least_, const double* matrix)
        : d(d_), at_least(at_least_), mean(d_), squares(d_), last(d_),
          lowest(d_, infinity), highest(d_, -infinity), difference(d_),
          matrix_(matrix ? Doubles(matrix, matrix + static_cast<std::size_t>(d_) * d_) : Doubles()),
          reader_(d_, matrix ? matrix_.data() : nullptr) {}
    WarmUp(const WarmUp&) = delete;
    void step(const RowPointer& pointer, double w, int) override {
        const Row row = read_row(reader_, pointer);
        const double share = w / seen;
        if (count % 4 == 1)
            for (int j = 0; j < d; ++j) difference[j] = row.x[j] - last[j];
        if (count % 4 == 3) {
            double product = 0;
            for (int j = 0; j < d; ++j) product += difference[j] * (row.x[j] - last[j]);
            crossed += product * product;
        }
        for (int j = 0; j < d; ++j) {
            const double before = row.x[j] - mean[j];
            mean[j] += share * before;
            squares[j] += w * before * (row.x[j] - mean[j]);
            last[j] = row.x[j];
            lowest[j] = std::min(lowest[j], row.x[j]);
            highest[j] = std::max(highest[j], row.x[j]);
        }
        done = ++count >= at_least;
    }
    int features() const override { return d; }

private:
    Doubles matrix_;
    RowReader<SquaredEuclidean> reader_;
};

}  // namespace annealed
