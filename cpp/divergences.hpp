// Bregman divergences as the kernels see them: a term per feature, a tile of W codevectors at a time.
// Every term is written in differences (x - mu, log x - log mu), never as
// phi(x) - phi(mu) - <grad phi(mu), x - mu>: on data far from the origin that form cancels away.
//
// A divergence names the functions of x and of mu it needs; the kernel stores them beside x
// (once per sample) and beside mu (refreshed when a codevector moves). `moved` takes a step in the
// dual variable theta = grad phi(mu) and maps back: grad phi*(theta + step).
#pragma once

#include <algorithm>
#include <cmath>

#include "simd.hpp"

namespace annealed {

// A sample as the kernel reads it: the features and the functions of them a divergence asks for.
struct Row {
    const double* x;
    const double* f;  // log x, where the divergence has it
    const double* g;  // log(1 - x), likewise
};

// A codevector's features may touch neither end of the domain, data may (0 log 0 = 0): between
// samples they are kept in [low, high], which lies inside the domain.
struct Bounds {
    const double* low;
    const double* high;
};

// x log x needs log 0 only where it is multiplied by 0.
inline double finite_log(double x) { return x > 0 ? std::log(x) : 0.0; }

struct SquaredEuclidean {
    static constexpr int row_functions = 0;
    static constexpr int codevector_functions = 0;
    static constexpr bool bounded = false;
    static void prepare(double, double&, double&) {}
    static Vec term(Vec x, Vec, Vec, Vec mu, Vec, Vec, Vec sum) {
        const Vec difference = x - mu;
        return fmadd(difference, difference, sum);
    }
    static void refresh(Vec, double*, double*) {}
    static Vec hessian(Vec) { return Vec::all(2.0); }
    static Vec moved(Vec mu, Vec step) { return fmadd(step, Vec::all(0.5), mu); }
};

// x log(x/mu) - x + mu; with rows that sum to 1 it is the Kullback-Leibler divergence.
struct IDivergence {
    static constexpr int row_functions = 1;
    static constexpr int codevector_functions = 1;
    static constexpr bool bounded = true;
    static void prepare(double x, double& f, double&) { f = finite_log(x); }
    static Vec term(Vec x, Vec f, Vec, Vec mu, Vec log_mu, Vec, Vec sum) {
        return sum + fmadd(x, f - log_mu, mu - x);
    }
    static void refresh(Vec mu, double* a, double*) { log(mu).store(a); }
    static Vec hessian(Vec mu) { return Vec::all(1.0) / mu; }
    static Vec moved(Vec mu, Vec step) { return mu * exp(step); }
};

// x/mu - log(x/mu) - 1
struct ItakuraSaito {
    static constexpr int row_functions = 1;
    static constexpr int codevector_functions = 2;
    static constexpr bool bounded = true;
    static void prepare(double x, double& f, double&) { f = std::log(x); }
    static Vec term(Vec x, Vec f, Vec, Vec mu, Vec log_mu, Vec inverse_mu, Vec sum) {
        return sum + fmadd(x - mu, inverse_mu, log_mu - f);
    }
    static void refresh(Vec mu, double* a, double* b) {
        log(mu).store(a);
        (Vec::all(1.0) / mu).store(b);
    }
    static Vec hessian(Vec mu) { return Vec::all(1.0) / (mu * mu); }
    // theta = -1/mu must stay negative: no step takes more than half the way there.
    static Vec moved(Vec mu, Vec step) {
        return mu / (Vec::all(1.0) - min(mu * step, Vec::all(0.5)));
    }
};

// x log(x/mu) + (1 - x) log((1 - x)/(1 - mu))
struct Logistic {
    static constexpr int row_functions = 2;
    static constexpr int codevector_functions = 2;
    static constexpr bool bounded = true;
    static void prepare(double x, double& f, double& g) {
        f = finite_log(x);
        g = finite_log(1 - x);
    }
    static Vec term(Vec x, Vec f, Vec g, Vec, Vec log_mu, Vec log_rest, Vec sum) {
        const Vec rest = Vec::all(1.0) - x;
        return fmadd(rest, g - log_rest, fmadd(x, f - log_mu, sum));
    }
    static void refresh(Vec mu, double* a, double* b) {
        log(mu).store(a);
        log(Vec::all(1.0) - mu).store(b);
    }
    static Vec hessian(Vec mu) { return Vec::all(1.0) / (mu * (Vec::all(1.0) - mu)); }
    static Vec moved(Vec mu, Vec step) {
        const Vec rest = Vec::all(1.0) - mu;
        return mu / fmadd(rest, exp(Vec::all(0.0) - step), mu);
    }
};

// The divergences of one sample to the codevectors of a tile laid out [feature][lane].
// Four partial sums keep the adders busy; their order is fixed, so is the rounding.
// `relevance`, if any, weighs the features.
template <class Divergence>
inline Vec feature_term(const Row& row, int j, const double* mu, const double* a, const double* b,
                        Vec sum) {
    const Vec nothing = Vec::all(0.0);
    Vec f = nothing, g = nothing, cached_a = nothing, cached_b = nothing;
    if constexpr (Divergence::row_functions > 0) f = Vec::all(row.f[j]);
    if constexpr (Divergence::row_functions > 1) g = Vec::all(row.g[j]);
    if constexpr (Divergence::codevector_functions > 0) cached_a = Vec::load(a + j * W);
    if constexpr (Divergence::codevector_functions > 1) cached_b = Vec::load(b + j * W);
    return Divergence::term(Vec::all(row.x[j]), f, g, Vec::load(mu + j * W), cached_a, cached_b,
                            sum);
}

// Features from..to of some rows, added to four partial sums of each; `from` is a multiple of four.
template <class Divergence, bool Weighted, int rows>
inline void add_features(const Row* row, int from, int to, const double* mu, const double* a,
                         const double* b, const double* relevance, Vec (*into)[4]) {
    Vec sums[rows][4];
    for (int m = 0; m < rows; ++m)
        for (int part = 0; part < 4; ++part) sums[m][part] = into[m][part];
    const auto add = [&](int j, int part) {
        for (int m = 0; m < rows; ++m) {
            if constexpr (Weighted)
                sums[m][part] =
                    fmadd(Vec::all(relevance[j]),
                          feature_term<Divergence>(row[m], j, mu, a, b, Vec::all(0.0)),
                          sums[m][part]);
            else
                sums[m][part] = feature_term<Divergence>(row[m], j, mu, a, b, sums[m][part]);
        }
    };
    int j = from;
    for (; j + 4 <= to; j += 4) {
        add(j, 0);
        add(j + 1, 1);
        add(j + 2, 2);
        add(j + 3, 3);
    }
    if (j < to) add(j, 0);
    if (j + 1 < to) add(j + 1, 1);
    if (j + 2 < to) add(j + 2, 2);
    for (int m = 0; m < rows; ++m)
        for (int part = 0; part < 4; ++part) into[m][part] = sums[m][part];
}

inline Vec total_of(const Vec* sums) {
    const Vec total = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    return max(total, Vec::all(0.0));  // rounding may leave -1e-17 where x = mu
}

template <class Divergence, bool Weighted = false>
inline Vec tile_divergence(const Row& row, int d, const double* mu, const double* a,
                           const double* b, const double* relevance = nullptr) {
    const Vec nothing = Vec::all(0.0);
    Vec sums[1][4] = {{nothing, nothing, nothing, nothing}};
    add_features<Divergence, Weighted, 1>(&row, 0, d, mu, a, b, relevance, sums);
    return total_of(sums[0]);
}

// The same for many rows, at most `largest_block`: as many features at a time as the first-level cache
// holds of a tile, and so many rows at a time as there are registers for. No sum rounds otherwise.
constexpr int largest_block = 64, features_at_once = 1024 / W;
constexpr int rows_together = ANNEALED_AVX512 ? 4 : 2;

template <class Divergence, bool Weighted, class Store>
inline void tile_divergences(const Row* row, int rows, int d, const double* mu, const double* a,
                             const double* b, const double* relevance, Store store) {
    Vec sums[largest_block][4];
    for (int m = 0; m < rows; ++m)
        for (int part = 0; part < 4; ++part) sums[m][part] = Vec::all(0.0);
    for (int from = 0; from < d; from += features_at_once) {
        const int to = std::min(from + features_at_once, d);
        int m = 0;
        for (; m + rows_together <= rows; m += rows_together)
            add_features<Divergence, Weighted, rows_together>(row + m, from, to, mu, a, b, relevance,
                                                             sums + m);
        for (; m < rows; ++m)
            add_features<Divergence, Weighted, 1>(row + m, from, to, mu, a, b, relevance, sums + m);
    }
    for (int m = 0; m < rows; ++m) store(m, total_of(sums[m]));
}

}  // namespace annealed
