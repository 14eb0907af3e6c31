// Reading a codebook: divergences, Gibbs associations, hard assignment. Nothing here writes to
// the model, and nothing holds an (samples x codevectors) array unless the caller asks for one.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "online.hpp"

namespace annealed {

// The codebook as the caller holds it. log_weight may carry class priors; T = 0 is the limit T -> 0:
// the nearest codevector, and of equally near ones each as far as its weight goes. A fine-tuned one may have a temperature T_i = T/sharpness_i for each
// codevector and a relevance for each feature.
struct Codebook {
    const double* mu;          // [K][d]
    const double* log_weight;  // [K]
    int K, d;
    double T;
    const double* matrix;     // Mahalanobis only: mu is given as mu L
    const double* sharpness;  // [K], or null: all 1
    const double* relevance;  // [d], or null: all 1

    // log_weight_i - d_i/T_i
    double exponent(int i, double divergence) const {
        const double scale = sharpness ? -sharpness[i] / T : -1 / T;
        return log_weight[i] + scale * divergence;
    }
};

// A codebook that has outgrown the first-level cache is read once for sixteen rows; every sum is the
// same as for one.
template <class Divergence, class Visit>
void for_each_row(const Codebook& book, const Samples& samples, std::int64_t rows, Visit visit) {
    const FlushDenormals flush;
    const Tiles<Divergence> tiles(book.mu, book.K, book.d);
    const std::int64_t block = std::min<std::int64_t>(
        tiles.mu.size() > 2048 ? 16 : 1, std::max<std::int64_t>(rows, 1));
    std::vector<RowReader<Divergence>> readers;
    for (std::int64_t m = 0; m < block; ++m) readers.emplace_back(book.d, book.matrix);
    std::vector<Doubles> divergence(static_cast<std::size_t>(block),
                                    Doubles(static_cast<std::size_t>(tiles.count) * W));
    std::vector<Row> row(static_cast<std::size_t>(block));
    const std::size_t item = samples.single_precision ? sizeof(float) : sizeof(double);
    for (std::int64_t first = 0; first < rows; first += block) {
        const std::int64_t here = std::min(block, rows - first);
        for (std::int64_t m = 0; m < here; ++m)
            row[m] = read_row(readers[m], {samples.data + static_cast<std::ptrdiff_t>(item) *
                                                              (first + m) * samples.row_stride,
                                           samples.feature_stride, samples.single_precision});
        for (int t = 0; t < tiles.count; ++t)
            for (std::int64_t m = 0; m < here; ++m)
                (book.relevance ? tiles.divergence(t, row[m], book.relevance)
                                : tiles.divergence(t, row[m]))
                    .store(&divergence[m][static_cast<std::size_t>(t) * W]);
        for (std::int64_t m = 0; m < here; ++m) visit(first + m, row[m], divergence[m]);
    }
}

template <class Divergence>
void divergences(const Codebook& book, const Samples& samples, std::int64_t rows, double* out) {
    for_each_row<Divergence>(book, samples, rows, [&](std::int64_t k, const Row&, Doubles& values) {
        std::copy(values.begin(), values.begin() + book.K, out + k * book.K);
    });
}

// The codevector with the largest log_weight - d/T_i; the first of equals.
inline int likeliest(const Codebook& book, const Doubles& divergence) {
    int best = 0;
    double highest = -infinity;
    if (book.T == 0) {
        double nearest = infinity;
        for (int i = 0; i < book.K; ++i) {
            const double weight = book.log_weight[i];
            if (weight == -infinity) continue;  // impossible at any temperature
            if (divergence[i] < nearest || (divergence[i] == nearest && weight > highest))
                nearest = divergence[i], highest = weight, best = i;
        }
        return best;
    }
    for (int i = 0; i < book.K; ++i) {
        const double value = book.exponent(i, divergence[i]);
        if (value > highest) highest = value, best = i;
    }
    return best;
}

template <class Divergence>
void assign(const Codebook& book, const Samples& samples, std::int64_t rows, std::int64_t* labels) {
    for_each_row<Divergence>(book, samples, rows, [&](std::int64_t k, const Row&, Doubles& values) {
        labels[k] = likeliest(book, values);
    });
}

// Per row: the posterior of each group of codevectors (a class, or a single codevector),
// log sum_i weight_i exp(-d_i/T), and the expected divergence sum_i p_i d_i.
template <class Divergence>
void associate(const Codebook& book, const Samples& samples, std::int64_t rows,
               const std::int64_t* group, std::int64_t groups, double* posterior,
               double* log_total, double* distortion) {
    Doubles exponent(static_cast<std::size_t>(tiles_for(book.K)) * W, -infinity);
    const auto visit = [&](std::int64_t k, const Row&, Doubles& values) {
        double* shares = posterior + k * groups;
        std::fill(shares, shares + groups, 0.0);
        const int best = likeliest(book, values);
        if (book.T == 0) {
            double total = 0;
            for (int i = 0; i < book.K; ++i) {
                if (values[i] != values[best]) continue;
                const double share = i == best ? 1.0 : std::exp(book.log_weight[i] - book.log_weight[best]);
                shares[group[i]] += share;
                total += share;
            }
            for (std::int64_t c = 0; c < groups; ++c) shares[c] /= total;
            log_total[k] = -infinity;
            distortion[k] = values[best];
            return;
        }
        const double highest = book.exponent(best, values[best]);
        for (int i = 0; i < book.K; ++i) exponent[i] = book.exponent(i, values[i]) - highest;
        Vec total = Vec::all(0.0), expected = Vec::all(0.0);
        for (std::size_t i = 0; i < exponent.size(); i += W) {
            const Vec e = exp(min(Vec::load(&exponent[i]), Vec::all(0.0)));
            e.store(&exponent[i]);
            total = total + e;
            expected = fmadd(e, Vec::load(&values[i]), expected);
        }
        const double sum_e = sum(total);
        for (int i = 0; i < book.K; ++i) shares[group[i]] += exponent[i];
        for (std::int64_t c = 0; c < groups; ++c) shares[c] /= sum_e;
        std::fill(exponent.begin() + book.K, exponent.end(), -infinity);
        log_total[k] = highest + std::log(sum_e);
        distortion[k] = sum(expected) / sum_e;
    };
    for_each_row<Divergence>(book, samples, rows, visit);
}

// For each of some temperatures T/factor the sum over the rows of -log p(own class|x).
template <class Divergence>
void losses(const Codebook& book, const Samples& samples, std::int64_t rows,
            const std::int64_t* group, const double* factors, int count, double* loss) {
    Doubles exponent(static_cast<std::size_t>(tiles_for(book.K)) * W, -infinity);
    std::fill(loss, loss + count, 0.0);
    const auto visit = [&](std::int64_t k, const Row&, Doubles& values) {
        for (int f = 0; f < count; ++f) {
            double highest = -infinity, own_highest = -infinity, own = 0;
            for (int i = 0; i < book.K; ++i) {
                exponent[i] = book.exponent(i, factors[f] * values[i]);
                highest = std::max(highest, exponent[i]);
                if (group[i] == samples.classes[k]) own_highest = std::max(own_highest, exponent[i]);
            }
            // Both sums from their own highest: deep in another class the own one would vanish.
            Vec total = Vec::all(0.0);
            for (std::size_t i = 0; i < exponent.size(); i += W)
                total = total + exp(Vec::load(&exponent[i]) - Vec::all(highest));
            for (int i = 0; i < book.K; ++i)
                if (group[i] == samples.classes[k] && exponent[i] > own_highest - 40)
                    own += std::exp(exponent[i] - own_highest);
            loss[f] += highest - own_highest + std::log(sum(total) / own);
        }
    };
    for_each_row<Divergence>(book, samples, rows, visit);
}

// One pass of hard clustering (T = 0): per codevector the weight and the weighted sum of the rows
// nearest to it, per row its divergence; x is the row as the kernel reads it (times L, if any).
template <class Divergence>
double hard_sums(const Codebook& book, const Samples& samples, std::int64_t rows, double* weight,
                 double* total, std::int64_t* labels) {
    double distortion = 0;
    const auto visit = [&](std::int64_t k, const Row& row, Doubles& values) {
        const double w = samples.weights ? samples.weights[k] : 1.0;
        const int best = static_cast<int>(
            std::min_element(values.begin(), values.begin() + book.K) - values.begin());
        labels[k] = best;
        if (w == 0) return;
        weight[best] += w;
        distortion += w * values[best];
        for (int j = 0; j < book.d; ++j) total[static_cast<std::size_t>(best) * book.d + j] += w * row.x[j];
    };
    for_each_row<Divergence>(book, samples, rows, visit);
    return distortion;
}

}  // namespace annealed
