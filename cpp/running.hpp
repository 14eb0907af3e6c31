// Means and spreads that follow a stream: every row is standardised by what is known once it is
// learnt (Welford's update).
#pragma once

#include <cmath>
#include <cstdint>

namespace annealed {

// IN/OUT: count, mean and m2 (sum of squared deviations) of every feature. A missing cell (nan)
// changes no statistic; `fill` stands in for it, or the mean where that is nan. A feature that has
// never varied comes out as 0: nothing is known of its scale.
inline void running_standardise(const double* X, std::int64_t rows, std::int64_t d, double* count,
                                double* mean, double* m2, const double* fill, double* out) {
    for (std::int64_t k = 0; k < rows; ++k)
        for (std::int64_t j = 0; j < d; ++j) {
            double x = X[k * d + j];
            if (std::isnan(x)) {
                x = std::isnan(fill[j]) ? mean[j] : fill[j];
            } else {
                count[j] += 1;
                const double delta = x - mean[j];
                mean[j] += delta / count[j];
                // Not fused with the sum: the NumPy version rounds the product, and both give the
                // same bits.
                const volatile double square = delta * (x - mean[j]);
                m2[j] += square;
            }
            const double spread = std::sqrt(m2[j] / (count[j] > 1 ? count[j] : 1));
            // Over infinity, not 0: the NumPy version keeps the sign of zero.
            out[k * d + j] = (x - mean[j]) / (spread > 0 ? spread : HUGE_VAL);
        }
}

// One row by what is known, and nothing learnt; a missing cell that nothing stands in for is 0.
inline void standardise(const double* x, std::int64_t d, const double* count, const double* mean,
                        const double* m2, const double* fill, double* out) {
    for (std::int64_t j = 0; j < d; ++j) {
        const double spread = std::sqrt(m2[j] / (count[j] > 1 ? count[j] : 1));
        const double value = std::isnan(x[j]) ? fill[j] : x[j];
        out[j] = std::isnan(value) ? 0.0 : (value - mean[j]) / (spread > 0 ? spread : HUGE_VAL);
    }
}

}  // namespace annealed
