// Winner takes all, one sample at a time: stochastic vector quantization (the paper's Definition
// sVQ) and learning vector quantization (its Section on LVQ) on the tiles of the annealer.
//
// Per sample, with w the nearest codevector and alpha = alpha(v_w), v_w its own number of updates:
//     vq     mu_w += alpha (x - mu_w)
//     lvq1   the same where the classes agree, away from x where they do not (the paper's d^l)
//     glvq   the nearest of the own class (+) is attracted, the nearest of the others (-) repelled,
//            c+ = 4 s alpha d-/(d+ + d-)^2,  c- = 4 s alpha d+/(d+ + d-)^2    (Sato & Yamada 1996)
//            s a divergence typical of the data, so that c is a number without units; c <= 1
//
// The gradient of d(x, mu) in mu is -H(mu)(x - mu); in the dual variable theta = grad phi(mu) it is
// -(x - mu): no Hessian. Attraction takes that step in mu itself, a convex combination that neither
// leaves the domain nor goes past x. Repulsion is no convex combination and takes it in theta,
//     mu <- grad phi*(grad phi(mu) - c H(mu)(x - mu)),
// which agrees with mu - c (x - mu) to first order in c and cannot leave the domain.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "online.hpp"

namespace annealed {

enum class WinnerRule { vq, lvq1, glvq };

struct WinnerSettings {
    WinnerRule rule = WinnerRule::vq;
    LevelSettings steps;   // a, b, alpha_min
    double scale = 1;      // s of glvq
    bool simplex = false;  // codevectors sum to one (Kullback-Leibler)
};

// grad phi*(grad phi(mu) + h(mu) delta) for one feature.
template <class Divergence>
struct DualStep;
template <>
struct DualStep<SquaredEuclidean> {
    static double from(double mu, double delta) { return mu + delta; }
};
template <>
struct DualStep<IDivergence> {
    static double from(double mu, double delta) { return mu * std::exp(delta / mu); }
};
template <>
struct DualStep<ItakuraSaito> {
    // theta = -1/mu must stay negative, that is delta < mu. A feature at most doubles in one step.
    static double from(double mu, double delta) {
        return mu / (1 - std::min(delta / mu, 0.5));
    }
};
template <>
struct DualStep<Logistic> {
    static double from(double mu, double delta) {
        // logit(mu) + delta/(mu (1 - mu)), without the cancellation of 1 - sigmoid
        const double odds = mu / (1 - mu) * std::exp(delta / (mu * (1 - mu)));
        return std::isinf(odds) ? 1.0 : odds / (1 + odds);
    }
};

class WinnerBase {
public:
    std::int64_t count = 0;  // samples presented
    double seen = 0;         // their weight
    double distortion = 0;   // sum of w d(x, nearest), each before it was learnt
    double errors = 0;       // weight of samples whose nearest codevector has another class
    virtual ~WinnerBase() = default;
    virtual int features() const = 0;
    virtual int n_classes() const = 0;
    // Rows at once; how a stream is cut into blocks changes no bit.
    virtual int block() const = 0;
    virtual void present(const RowPointer* rows, const std::int32_t* classes, const double* weights,
                         int count) = 0;
};

template <class Divergence>
class WinnerRun final : public WinnerBase {
public:
    WinnerSettings settings;
    int K, d, classes;
    Tiles<Divergence> tiles;
    Doubles updates;                  // [K] v_i, in units of weight
    std::vector<std::int32_t> label;  // [K]

    WinnerRun(const WinnerSettings& settings_, int K_, int d_, const double* mu,
              const std::int32_t* label_, double updates_, const double* low, const double* high,
              const double* matrix)
        : settings(settings_), K(K_), d(d_), tiles(mu, K_, d_), updates(K_, updates_),
          label(label_, label_ + K_), low_(low, low + d_), high_(high, high + d_),
          matrix_(matrix ? Doubles(matrix, matrix + static_cast<std::size_t>(d_) * d_) : Doubles()),
          padded_(static_cast<std::size_t>(tiles.count) * W), distance_(most_rows * padded_),
          next_(K_, step_size(settings_.steps, updates_, 1.0)), dirty_(tiles.count, 0) {
        classes = 1 + *std::max_element(label.begin(), label.end());
        changed_.reserve(tiles.count);
        for (int k = 0; k < most_rows; ++k)
            readers_.emplace_back(d_, matrix ? matrix_.data() : nullptr);
    }
    WinnerRun(const WinnerRun&) = delete;
    int features() const override { return d; }
    int n_classes() const override { return classes; }
    int block() const override {
        // A codebook that has outgrown the first-level cache is better read for several rows.
        return static_cast<std::int64_t>(K) * d >= 2048 ? most_rows : 1;
    }
    // Called after the state has been filled in from a saved one.
    void refresh() {
        for (int t = 0; t < tiles.count; ++t) tiles.refresh(t);
        for (int i = 0; i < K; ++i) next_[i] = step_size(settings.steps, updates[i], 1.0);
    }

    void present(const RowPointer* pointers, const std::int32_t* sample_classes,
                 const double* weights, int rows) override {
        if (settings.rule == WinnerRule::glvq && own_.empty()) tell_classes_apart();
        Row row[most_rows];
        for (int k = 0; k < rows; ++k) row[k] = read_row(readers_[k], pointers[k]);
        for (int t = 0; t < tiles.count; ++t) measure(t, row, rows);
        changed_.clear();
        for (int k = 0; k < rows; ++k) {
            // What the rows before have moved is measured again, by the same arithmetic.
            for (const int t : changed_) store(t, k, tiles.divergence(t, row[k]));
            learn_one(row[k], &distance_[k * padded_], sample_classes[k], weights[k]);
        }
        for (const int t : changed_) dirty_[t] = 0;
    }

private:
    static constexpr int most_rows = 4;
    Doubles low_, high_, matrix_;
    std::vector<RowReader<Divergence>> readers_;
    std::size_t padded_;
    Doubles distance_;           // [rows][padded K]
    Doubles next_;               // [K] step of the next sample of weight 1, off the critical path
    Doubles own_, other_;        // [class][padded K] 0 where a codevector takes part, else infinity
    std::vector<int> changed_;   // tiles that moved since the block was measured
    std::vector<char> dirty_;    // [tiles] whether it is among them

    // Not before the first sample: a model that only reads never needs classes x codevectors.
    void tell_classes_apart() {
        own_.assign(static_cast<std::size_t>(classes) * padded_, infinity);
        other_.assign(static_cast<std::size_t>(classes) * padded_, infinity);
        for (int c = 0; c < classes; ++c)
            for (int i = 0; i < K; ++i) (label[i] == c ? own_ : other_)[c * padded_ + i] = 0;
    }

    void store(int t, int k, Vec value) {
        double* into = &distance_[k * padded_ + static_cast<std::size_t>(t) * W];
        value.store(into);
        if (t == tiles.count - 1)
            for (int i = K; i < tiles.count * W; ++i) into[i - t * W] = infinity;  // padding
    }

    void measure(int t, const Row* row, int rows) {
        const std::size_t at = tiles.offset(t);
        const double* mu = &tiles.mu[at];
        const double* a = Divergence::codevector_functions > 0 ? &tiles.a[at] : nullptr;
        const double* b = Divergence::codevector_functions > 1 ? &tiles.b[at] : nullptr;
        int k = 0;
        for (; k + 2 <= rows; k += 2) {
            Vec first, second;
            two_divergences(row[k], row[k + 1], mu, a, b, first, second);
            store(t, k, first);
            store(t, k + 1, second);
        }
        if (k < rows) store(t, k, tile_divergence<Divergence>(row[k], d, mu, a, b));
    }

    // `tile_divergence` of two rows with one reading of the codevectors, sum for sum the same.
    void two_divergences(const Row& x, const Row& y, const double* mu, const double* a,
                         const double* b, Vec& of_x, Vec& of_y) const {
        const Vec nothing = Vec::all(0.0);
        Vec p[4] = {nothing, nothing, nothing, nothing}, q[4] = {nothing, nothing, nothing, nothing};
        const auto add = [&](int j, Vec& into_x, Vec& into_y) {
            Vec fx = nothing, gx = nothing, fy = nothing, gy = nothing, ca = nothing, cb = nothing;
            if constexpr (Divergence::row_functions > 0)
                fx = Vec::all(x.f[j]), fy = Vec::all(y.f[j]);
            if constexpr (Divergence::row_functions > 1)
                gx = Vec::all(x.g[j]), gy = Vec::all(y.g[j]);
            if constexpr (Divergence::codevector_functions > 0) ca = Vec::load(a + j * W);
            if constexpr (Divergence::codevector_functions > 1) cb = Vec::load(b + j * W);
            const Vec m = Vec::load(mu + j * W);
            into_x = Divergence::term(Vec::all(x.x[j]), fx, gx, m, ca, cb, into_x);
            into_y = Divergence::term(Vec::all(y.x[j]), fy, gy, m, ca, cb, into_y);
        };
        int j = 0;
        for (; j + 4 <= d; j += 4)
            for (int r = 0; r < 4; ++r) add(j + r, p[r], q[r]);
        for (int r = 0; j + r < d; ++r) add(j + r, p[r], q[r]);
        of_x = max((p[0] + p[1]) + (p[2] + p[3]), nothing);
        of_y = max((q[0] + q[1]) + (q[2] + q[3]), nothing);
    }

    // Index of the smallest distance + mask, the first of equals; -1 if there is none.
    int nearest(const double* distance, const double* mask) const {
        Vec least = Vec::all(infinity);
        for (std::size_t i = 0; i < padded_; i += W) least = min(least, masked(distance, mask, i));
        const double value = smallest(least);
        if (!(value < infinity)) return -1;
        // Which it was can not be foreseen: sixteen tiles are compared without a branch.
        for (std::size_t start = 0; start < padded_; start += 64) {
            std::uint64_t equal = 0;
            const std::size_t end = std::min(start + 64, padded_);
            for (std::size_t i = start; i < end; i += W)
                equal |= static_cast<std::uint64_t>(equal_lanes(masked(distance, mask, i), value))
                         << (i - start);
            if (equal) return static_cast<int>(start) + first_bit(equal);
        }
        return -1;
    }
    static int first_bit(std::uint64_t bits) {
#if defined(__GNUC__) || defined(__clang__)
        return __builtin_ctzll(bits);
#else
        int n = 0;
        for (; !(bits & 1); bits >>= 1) ++n;
        return n;
#endif
    }
    static Vec masked(const double* distance, const double* mask, std::size_t i) {
        const Vec value = Vec::load(distance + i);
        return mask ? value + Vec::load(mask + i) : value;
    }

    void learn_one(const Row& row, const double* distance, std::int32_t c, double w) {
        ++count;
        seen += w;
        if (settings.rule == WinnerRule::glvq) {
            // A class that no codevector carries has an `other`, but nothing to attract.
            const int own = c < classes ? nearest(distance, &own_[c * padded_]) : -1;
            const int other = nearest(distance, c < classes ? &other_[c * padded_] : nullptr);
            const double d_own = own < 0 ? infinity : distance[own];
            const double d_other = other < 0 ? infinity : distance[other];
            const double d_least = std::min(d_own, d_other);
            if (d_least < infinity) distortion += w * d_least;
            if (!(d_own <= d_other)) errors += w;
            const double total = d_own + d_other;
            if (!(total > 0) || !(total < infinity)) return;  // nothing to attract or to repel
            const double rate = 4 * settings.scale / total;
            const double attract = rate * (d_other / total), repel = rate * (d_own / total);
            move(own, row, std::min(attract * step(own, w), 1.0), true);
            move(other, row, std::min(repel * step(other, w), 1.0), false);
            return;
        }
        const int winner = nearest(distance, nullptr);
        if (winner < 0) return;  // every divergence has overflowed
        distortion += w * distance[winner];
        const bool agrees = settings.rule == WinnerRule::vq || label[winner] == c;
        if (!agrees) errors += w;
        move(winner, row, step(winner, w), agrees);
    }

    double step(int i, double w) {
        const double alpha = w == 1 ? next_[i] : step_size(settings.steps, updates[i], w);
        updates[i] += w;
        next_[i] = step_size(settings.steps, updates[i], 1.0);
        return alpha;
    }

    void move(int i, const Row& row, double c, bool attracts) {
        const int t = i / W, lane = i % W;
        double* mu = &tiles.mu[tiles.offset(t)];
        if (attracts) {
            // The other lanes are moved by nothing: mu + 0 (x - mu) is mu to the last bit.
            double share[W] = {};
            share[lane] = c;
            const Vec shares = Vec::load(share);
            for (int j = 0; j < d; ++j) {
                const Vec here = Vec::load(mu + j * W);
                Vec moved = fmadd(shares, Vec::all(row.x[j]) - here, here);
                if constexpr (Divergence::bounded)
                    moved = min(max(moved, Vec::all(low_[j])), Vec::all(high_[j]));
                moved.store(mu + j * W);
            }
        } else {
            double total = 0;
            for (int j = 0; j < d; ++j) {
                double& here = mu[j * W + lane];
                here = DualStep<Divergence>::from(here, -c * (row.x[j] - here));
                total += here;
            }
            if constexpr (Divergence::bounded) {
                const double factor = settings.simplex && total > 0 ? 1 / total : 1.0;
                for (int j = 0; j < d; ++j) {
                    double& here = mu[j * W + lane];
                    here = std::min(std::max(here * factor, low_[j]), high_[j]);
                }
            }
        }
        tiles.refresh(t);
        if (block() > 1 && !dirty_[t]) {
            dirty_[t] = 1;
            changed_.push_back(t);
        }
    }
};

// Presents samples begin..end in order; rows of weight 0 are skipped.
inline void compete(WinnerBase& run, const Samples& samples, std::int64_t begin, std::int64_t end) {
    const FlushDenormals flush;
    const std::size_t item = samples.single_precision ? sizeof(float) : sizeof(double);
    constexpr int most = 16;
    RowPointer rows[most];
    std::int32_t classes[most];
    double weights[most];
    const int block = std::min(run.block(), most);
    int waiting = 0;
    for (std::int64_t k = begin; k < end; ++k) {
        const std::int64_t row = samples.row(k, end, run.features());
        const double w = samples.weights ? samples.weights[row] : 1.0;
        if (w == 0) continue;
        rows[waiting] = {samples.data + static_cast<std::ptrdiff_t>(item) * row * samples.row_stride,
                         samples.feature_stride, samples.single_precision};
        classes[waiting] = samples.classes ? samples.classes[row] : 0;
        if (classes[waiting] < 0) throw std::out_of_range("a row is of a class that does not exist");
        weights[waiting++] = w;
        if (waiting == block) {
            run.present(rows, classes, weights, waiting);
            waiting = 0;
        }
    }
    if (waiting) run.present(rows, classes, weights, waiting);
}

}  // namespace annealed
