// Nearest neighbours at a temperature, for streams: codevectors are the latest samples themselves,
// or the running mean of every class, and
//     p(c|x) ~ sum_{i in c} exp(s_i),   s_i = b_i - r age_i - beta d_lambda(x, mu_i),
// b_i the log weight and age_i the samples since mu_i was met. What is fitted, by stochastic ascent of
// log p(c|x) before each sample is taken in, is how near is near (beta), which features count
// (lambda_j) and, for samples, how soon they are out of date (r). With g_i = P(i|x, own class) - P(i|x)
//     log beta: -beta sum_i g_i d_i      log lambda_j: -beta lambda_j sum_i g_i d_ij
//     log r: -r sum_i g_i age_i
// in steps of Adam (Kingma and Ba 2015), all of them logarithms, so that one rate suits them all.
// beta is counted in units of the running mean of the divergence to the nearest: neither the scale of
// the data nor the number of samples kept has to be known.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "online.hpp"
#include "stream.hpp"

namespace annealed {

struct NearestSettings {
    double rate = 0.05;   // step of the logarithms
    int batch = 4;        // samples per step
    double recency = 0;   // r at the start; its bounds follow from it
    bool means = false;   // running means of the classes, or samples
    bool relevances = true;
};

template <class Divergence>
class Nearest final : public Runner {
public:
    NearestSettings settings;
    int K, d, classes;  // room for codevectors
    Tiles<Divergence> tiles;
    Doubles owner, born, log_weight;  // class (-1: none), when it was met, log of its weight
    double sharpness = 0, log_recency, nearest = 0, apart = 0;  // beta's numerator; running means
    Doubles relevance, gradient, first, second;  // gradients: sharpness, recency, relevances
    std::int64_t seen = 0, measured = 0, updates = 0, waiting = 0;
    std::int64_t at = 0;  // where the next sample goes, unless what lies there is to stay

    Nearest(const NearestSettings& settings_, int K_, int d_, int classes_, const double* start,
            const double* low, const double* high, const double* matrix)
        : settings(settings_), K(K_), d(d_), classes(classes_), tiles(repeated(start, K_, d_).data(), K_, d_),
          owner(padded(), -1.0), born(padded(), 0.0), log_weight(padded(), -infinity),
          log_recency(std::log(settings_.recency)), relevance(d_, 0.0), gradient(d_ + 2, 0.0),
          first(d_ + 2, 0.0), second(d_ + 2, 0.0), start_(start, start + d_), low_(low, low + d_),
          high_(high, high + d_),
          matrix_(matrix ? Doubles(matrix, matrix + static_cast<std::size_t>(d_) * d_) : Doubles()),
          reader_(d_, matrix ? matrix_.data() : nullptr), lambda_(d_, 1.0), asked_(d_, 0.0) {
        resize();
    }
    Nearest(const Nearest&) = delete;

    std::size_t padded() const { return static_cast<std::size_t>(tiles_for(K)) * W; }
    const double* matrix() const { return matrix_.empty() ? nullptr : matrix_.data(); }
    // T, and how much the newest counts more than one a sample older
    double temperature() const { return unit() * std::exp(-sharpness); }
    double recency() const { return std::exp(log_recency); }
    int features() const override { return d; }
    int n_classes() const override { return classes; }
    double age(int i) const { return static_cast<double>(seen) - born[i]; }

    void know_classes(int n) {
        if (n <= classes) return;
        classes = n;
        known_ = false;
        recount();
        if (!settings.means) return;
        Doubles rows(static_cast<std::size_t>(n) * d);
        from_tiles(tiles.mu, K, d, rows.data());
        for (int i = K; i < n; ++i) std::copy(start_.begin(), start_.end(), rows.begin() + static_cast<std::size_t>(i) * d);
        const Doubles was[] = {owner, born, log_weight};
        const int before = K;
        K = n;
        tiles = Tiles<Divergence>(rows.data(), K, d);
        owner.assign(padded(), -1.0), born.assign(padded(), 0.0), log_weight.assign(padded(), -infinity);
        std::copy(was[0].begin(), was[0].begin() + before, owner.begin());
        std::copy(was[1].begin(), was[1].begin() + before, born.begin());
        std::copy(was[2].begin(), was[2].begin() + before, log_weight.begin());
        resize();
    }

    // What follows from the parameters; called when they have changed.
    void refresh() {
        recount();
        for (int t = 0; t < tiles.count; ++t) tiles.refresh(t);
        renew();
    }

    // p(c|x); what was measured is kept for when the sample itself comes.
    void answer(const RowPointer& pointer, double* posterior) override {
        const Row row = read_row(reader_, pointer);
        weigh(row);
        share(posterior);
    }

    // Learn a sample of class y; before that, if asked, write p(c|x) of every class.
    void step(const RowPointer& pointer, int y, double w, double* posterior) {
        const Row row = read_row(reader_, pointer);
        weigh(row);
        if (posterior) share(posterior);
        if (total_ > 0) {
            blame(row, y, w);
            if (++waiting == settings.batch) update();
            ++measured;
            const double a = std::max(1.0 / static_cast<double>(measured), 1.0 / remembered);
            nearest += a * (lowest_ - nearest);
            apart += a * (highest_ - apart);
        }
        take(row, y, w);
    }

    void test(const RowPointer& pointer, int y, double w, double* posterior) override {
        step(pointer, y, w, posterior);
    }
    void keep(const RowPointer& pointer, int y, double w) override { take(read_row(reader_, pointer), y, w); }

    // Let go of all samples but the latest few; a class that none of them is of keeps its own.
    void forget(std::int64_t kept) {
        const auto old = [&](std::size_t i) { return age(static_cast<int>(i)) > static_cast<double>(kept); };
        std::vector<bool> met(static_cast<std::size_t>(classes), false);
        for (std::size_t i = 0; i < owner.size(); ++i)
            if (owner[i] >= 0 && !old(i)) met[static_cast<std::size_t>(owner[i])] = true;
        for (std::size_t i = 0; i < owner.size(); ++i)
            if (owner[i] >= 0 && old(i) && met[static_cast<std::size_t>(owner[i])])
                owner[i] = -1, log_weight[i] = -infinity;
        recount();
        known_ = false;
    }

private:
    std::vector<std::int64_t> count_;  // samples of every class
    Doubles start_, low_, high_, matrix_;
    RowReader<Divergence> reader_;
    Doubles lambda_, asked_, divergence_, e_;
    std::vector<std::int32_t> slot_;  // of every codevector: its class and lane, in `by_class_`
    Doubles by_class_;                // sums of e_ by class and lane; last those of no class
    Doubles g_;                       // of codevectors in tiles that are `blamed_`
    std::vector<int> blamed_;
    double total_ = 0, lowest_ = 0, highest_ = 0;
    bool known_ = false, weighted_ = false;  // whether all is measured for `asked_`
    static constexpr double least_blame = 1e-6, first_decay = 0.9, second_decay = 0.99;
    // Samples over which the divergence to the nearest is averaged; and the least that is taken for
    // it, in units of that to the farthest: samples may be equal.
    static constexpr double remembered = 200, least_unit = 1e-9;
    // An exponent this far below the largest adds nothing that a sum of a million would show.
    static constexpr double negligible = -50;
    // Bounds of the logarithms: beyond them nothing changes any more, and the way back would be long.
    static constexpr double widest = 8;

    static Doubles repeated(const double* row, int K, int d) {
        Doubles rows(static_cast<std::size_t>(K) * d);
        for (int i = 0; i < K; ++i) std::copy(row, row + d, rows.begin() + static_cast<std::size_t>(i) * d);
        return rows;
    }
    void recount() {
        count_.assign(static_cast<std::size_t>(classes), 0);
        slot_.resize(owner.size());
        for (std::size_t i = 0; i < owner.size(); ++i) {
            if (owner[i] >= 0) ++count_[static_cast<std::size_t>(owner[i])];
            note_class(static_cast<int>(i));
        }
    }
    void note_class(int i) {
        slot_[i] = (owner[i] >= 0 ? static_cast<int>(owner[i]) : classes) * W + i % W;
    }
    void resize() {
        recount();
        divergence_.assign(padded(), 0.0), e_.assign(padded(), 0.0);
        g_.assign(padded(), 0.0);
        known_ = false;
    }
    double unit() const { return std::max(std::max(nearest, least_unit * apart), 1e-300); }

    void renew() {
        weighted_ = false;
        for (int j = 0; j < d; ++j) {
            lambda_[j] = std::exp(relevance[j]);
            if (relevance[j] != 0) weighted_ = true;
        }
        known_ = false;
    }

    // e_i = exp(s_i - max s), their sum, and the least and the largest divergence
    void weigh(const Row& row) {
        if (known_ && std::equal(asked_.begin(), asked_.end(), row.x)) return;
        std::copy(row.x, row.x + d, asked_.begin());
        known_ = true;
        const Vec beta = Vec::all(-1 / temperature()), r = Vec::all(settings.means ? settings.recency : recency());
        const Vec now = Vec::all(static_cast<double>(seen)), none = Vec::all(-infinity);
        Vec highest = none, near = none, far = Vec::all(0.0);
        for (int t = 0; t < tiles.count; ++t) {
            const std::size_t k = static_cast<std::size_t>(t) * W;
            const Vec value = weighted_ ? tiles.divergence(t, row, lambda_.data()) : tiles.divergence(t, row);
            value.store(&divergence_[k]);
            const Vec weight = Vec::load(&log_weight[k]);
            const Vec s = fmadd(beta, value, fmadd(r, Vec::load(&born[k]) - now, weight));
            s.store(&e_[k]);
            highest = max(highest, s);
            // Where there is nothing the weight is -inf.
            near = max(near, min(Vec::all(0.0) - value, weight + Vec::all(1e300)));
            far = max(far, min(value, weight + Vec::all(1e300)));
        }
        const double top = largest(highest);
        total_ = 0;
        if (top == -infinity) return;
        lowest_ = -largest(near), highest_ = largest(far);
        Vec total = Vec::all(0.0);
        by_class_.assign(static_cast<std::size_t>(classes + 1) * W, 0.0);
        double *each = e_.data(), *by_class = by_class_.data();
        const std::int32_t* slot = slot_.data();
        const std::size_t padded = e_.size();
        for (std::size_t k = 0; k < padded; k += W) {
            const Vec s = Vec::load(each + k) - Vec::all(top);
            if (!any_above(s, negligible)) {
                Vec::all(0.0).store(each + k);
                continue;
            }
            const Vec e = exp(s);
            e.store(each + k);
            total = total + e;
            // A sum for each lane: four short chains of additions instead of one long one.
            for (std::size_t i = k; i < k + W; ++i) by_class[slot[i]] += each[i];
        }
        total_ = sum(total);
    }
    double of_class(int c) const { return sum(Vec::load(&by_class_[static_cast<std::size_t>(c) * W])); }

    void share(double* posterior) const {
        // Summed in another order, a sure class might come to 1 + 2e-16.
        for (int c = 0; c < classes; ++c)
            posterior[c] = total_ > 0 ? std::min(of_class(c) / total_, 1.0) : 1.0 / classes;
    }

    void blame(const Row& row, int y, double w) {
        const double own = of_class(y);
        // Deep in another class, or the first of its own: nothing to be learnt of distances.
        if (!(own > 1e-12 * total_)) return;
        const double beta = 1 / temperature(), r = recency(), now = static_cast<double>(seen);
        const Vec mine = Vec::all(y), of_own = Vec::all(1 / own), of_all = Vec::all(1 / total_);
        Vec by_beta = Vec::all(0.0), by_age = by_beta;
        blamed_.clear();
        for (int t = 0; t < tiles.count; ++t) {
            const std::size_t k = static_cast<std::size_t>(t) * W;
            const Vec e = Vec::load(&e_[k]);
            if (!any_above(e, least_blame * own)) continue;  // |g_i| is at most e_i/own
            const Vec all = zero_unless_equal(e * of_own, Vec::load(&owner[k]), mine) - e * of_all;
            const Vec size = max(all, Vec::all(0.0) - all);
            if (!any_above(size, least_blame)) continue;
            const Vec g = zero_unless_above(all * Vec::all(w), size, Vec::all(least_blame));
            by_beta = fmadd(g, Vec::load(&divergence_[k]), by_beta);
            by_age = fmadd(g, Vec::all(now) - Vec::load(&born[k]), by_age);
            g.store(&g_[k]);
            blamed_.push_back(t);
        }
        if (settings.relevances) {
            int j = 0;
            for (; j + 4 <= d; j += 4) blame_features<4>(row, j, beta);
            for (; j < d; ++j) blame_features<1>(row, j, beta);
        }
        gradient[0] -= beta * sum(by_beta);
        if (!settings.means) gradient[1] -= r * sum(by_age);
    }

    // log lambda_j of some features: -beta lambda_j sum_i g_i d_ij
    template <int n>
    void blame_features(const Row& row, int j, double beta) {
        Vec total[n];
        for (Vec& each : total) each = Vec::all(0.0);
        for (const int t : blamed_) {
            const Vec g = Vec::load(&g_[static_cast<std::size_t>(t) * W]);
            for (int k = 0; k < n; ++k) total[k] = fmadd(g, tiles.term(t, j + k, row), total[k]);
        }
        for (int k = 0; k < n; ++k) gradient[j + k + 2] -= beta * lambda_[j + k] * sum(total[k]);
    }

    void update() {
        ++updates;
        waiting = 0;
        const double n = static_cast<double>(updates);
        const double one = 1 - std::pow(first_decay, n), two = 1 - std::pow(second_decay, n);
        const auto moved = [&](double value, int k, double low, double high) {
            const double g = gradient[k] / settings.batch;
            gradient[k] = 0;
            first[k] += (1 - first_decay) * (g - first[k]);
            second[k] += (1 - second_decay) * (g * g - second[k]);
            const double step = settings.rate * (first[k] / one) / (std::sqrt(second[k] / two) + 1e-8);
            return std::min(std::max(value + step, low), high);
        };
        sharpness = moved(sharpness, 0, -widest, widest);
        if (!settings.means) {
            const double begun = std::log(settings.recency);
            log_recency = moved(log_recency, 1, begun - 3, std::max(begun, 0.0) + 1);
        }
        if (settings.relevances)
            for (int j = 0; j < d; ++j) relevance[j] = moved(relevance[j], j + 2, -widest, widest);
        renew();
    }

    // The oldest sample gives way, unless it is one of the last few of its class: what has not been met
    // for long is not forgotten. Half of the room is for those.
    int free_place() {
        const int share = K / (2 * classes);
        for (;;) {
            const int i = static_cast<int>(at);
            at = (at + 1) % K;
            if (owner[i] < 0) return i;
            std::int64_t& there = count_[static_cast<std::size_t>(owner[i])];
            if (there > share) return --there, i;
        }
    }

    void take(const Row& row, int y, double w) {
        const int i = settings.means ? y : free_place();
        const double now = static_cast<double>(seen);
        double a = 1;
        if (settings.means && owner[i] >= 0) {
            const double weight = std::exp(log_weight[i] + settings.recency * (born[i] - now)) + w;
            a = w / weight;
            log_weight[i] = std::log(weight);
        } else {
            log_weight[i] = std::log(w);
        }
        if (!settings.means) ++count_[static_cast<std::size_t>(y)];
        owner[i] = y;
        note_class(i);
        born[i] = now;
        double* mu = &tiles.mu[tiles.offset(i / W) + static_cast<std::size_t>(i % W)];
        for (int j = 0; j < d; ++j) {
            const double old = mu[static_cast<std::size_t>(j) * W];
            const double x = a == 1 ? row.x[j] : old + a * (row.x[j] - old);
            mu[static_cast<std::size_t>(j) * W] =
                Divergence::bounded ? std::min(std::max(x, low_[j]), high_[j]) : x;
        }
        tiles.refresh(i / W);
        ++seen;
        known_ = false;
    }
};

// Presents samples begin..end in order; row k of `posterior`, if any, is sample begin + k before it
// was learnt. Without `tests` they are only taken in. Samples of weight 0 are skipped.
template <class Divergence>
void learn_nearest(Nearest<Divergence>& model, const Samples& samples, std::int64_t begin,
                   std::int64_t end, bool tests, double* posterior) {
    const FlushDenormals flush;
    for (std::int64_t k = begin; k < end; ++k) {
        const std::int64_t row = samples.row(k, end, model.d);
        const double w = samples.weights ? samples.weights[row] : 1.0;
        if (w == 0) continue;
        const int y = samples.classes[row];
        if (y < 0 || y >= model.classes)
            throw std::out_of_range("a row is of a class that does not exist");
        const RowPointer pointer = samples.at(row);
        if (tests)
            model.step(pointer, y, w, posterior ? posterior + (k - begin) * model.classes : nullptr);
        else
            model.keep(pointer, y, w);
    }
}

}  // namespace annealed
