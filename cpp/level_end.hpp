// What a level has seen of its codevectors, from its sums: critical temperatures along the split axes,
// their standard errors, and distortions.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

namespace annealed {

// Sums of a level over its samples, a number for each codevector: of p, p^2, p y, p y^2, p y^4 along
// the axis (y), and of p and p d(x, mu) over all samples that were observed.
struct LevelSums {
    const double *p, *p2, *y, *y2, *y4, *mass, *spread;
};

// What the levels before knew: critical temperature and error (nan: nothing yet), and the mass they
// rest on.
struct Known {
    const double *critical, *error, *mass;
};

struct Found {
    double *critical, *error, *mass, *distortion;
};

// The variance of a codevector's samples along its axis changes little from one level to the next, a
// single level's estimate much by chance: they are averaged, each level further back counting half
// as much. `again` is how often rows have come, where they come again: those say nothing new, and no
// error is smaller than that of all of them.
inline void measure_level(const LevelSums& sums, const Known& before, double again, std::size_t K,
                          const Found& found) {
    constexpr double nothing = std::numeric_limits<double>::quiet_NaN();
    for (std::size_t i = 0; i < K; ++i) {
        const double p = sums.p[i], seen = p > 0 ? p : 1;  // where nothing was seen all sums are zero
        const double mean = sums.y[i] / seen, second = sums.y2[i] / seen;
        const double scatter = std::fmax(sums.y4[i] / seen - second * second, 0.0) * sums.p2[i];
        const bool known = std::isfinite(before.critical[i]);
        const double older = known ? 0.5 * before.mass[i] : 0, total = older + p;
        found.mass[i] = total;
        found.critical[i] = found.error[i] = nothing;
        if (total > 0) {
            const double a = older / total, b = p / total;
            const double error = std::isfinite(before.error[i]) ? before.error[i] : 0;
            found.critical[i] = a * (known ? before.critical[i] : 0) + b * (second - mean * mean);
            found.error[i] = std::hypot(a * error, b * std::sqrt(scatter) / seen);
        }
        if (again > 0) found.error[i] = std::fmax(found.error[i], std::sqrt(again * scatter) / seen);
        found.distortion[i] = sums.mass[i] > 0 ? sums.spread[i] / sums.mass[i] : nothing;
    }
}

}  // namespace annealed
