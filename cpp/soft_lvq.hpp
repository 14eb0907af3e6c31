// Soft learning vector quantization on the model's own Gibbs associations (robust soft LVQ, Seo and
// Obermayer 2003, for any Bregman divergence): stochastic ascent of log p(c|x), where
//     p(c|x) ~ sum_{i in c} exp(s_i),     s_i = b_i - d_lambda(x, mu_i)/T_i,
//     d_lambda(x, mu) = sum_j lambda_j d_j(x_j, mu_j).
// With g_i = P(i|x, own class) - P(i|x) the gradient is, in the dual variable theta = grad phi(mu),
//     theta_ij: g_i lambda_j (x_j - mu_ij)/T_i      b_i: g_i
//     log 1/T_i: -g_i d_i/T_i                       log lambda_j: -sum_i g_i lambda_j d_ij/T_i
// without a Hessian, and mapping back by mu = grad phi*(theta) never leaves the domain.
//
// Steps are Adam's (Kingma and Ba 2015) over a few samples at a time, in units of the spread of each
// feature, and the model read is the average of the iterates, the late ones counting more (Shamir and
// Zhang 2013): neither needs tuning to the data. Everything is counted in samples, so how calls cut
// them cannot be seen.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "online.hpp"
#include "stream.hpp"

namespace annealed {

struct SoftSettings {
    double rate = 0.05;         // step in units of each parameter's spread; 0 tests and learns nothing
    int batch = 16;             // samples per step
    bool temperatures = false;  // a temperature for every codevector, or one for all
    bool relevances = false;    // whether lambda moves
    double T = 1;               // the unit of temperatures
    double recent = 0;          // the newest iterate counts at least this much in the average
};

// A parameter's gradient over the current batch, Adam's moments, and the average of its iterates.
struct Ascent {
    Doubles gradient, first, second, mean;
    explicit Ascent(const Doubles& value = {})
        : gradient(value.size()), first(value.size()), second(value.size()), mean(value) {}
};

template <class Divergence>
class SoftLVQ final : public Runner {
public:
    SoftSettings settings;
    int K, d;
    Tiles<Divergence> tiles;
    Doubles bias, sharpness, relevance;  // b_i, log T/T_i, log lambda_j
    Ascent by_mu, by_bias, by_sharpness, by_relevance;
    Doubles terms;                          // [feature][lane]: sum of g_i d_ij/T_i over the batch
    std::int64_t updates = 0, waiting = 0;  // steps taken; samples of the current batch

    // Codevectors come sorted by class: those of class c are first_of[c] .. first_of[c + 1] - 1.
    SoftLVQ(const SoftSettings& settings_, int K_, int d_, const double* mu, const double* bias_,
            const double* sharpness_, const double* relevance_, const std::int64_t* first_of,
            std::size_t classes, const double* unit, const double* low, const double* high,
            const double* matrix)
        : settings(settings_), K(K_), d(d_), tiles(mu, K_, d_), bias(padded(), -infinity),
          sharpness(padded(), 0.0), relevance(relevance_, relevance_ + d_), by_mu(tiles.mu),
          by_relevance(relevance), terms(static_cast<std::size_t>(d_) * W), first_of_(first_of, first_of + classes + 1),
          unit_(unit, unit + d_), low_(low, low + d_), high_(high, high + d_),
          matrix_(matrix ? Doubles(matrix, matrix + static_cast<std::size_t>(d_) * d_) : Doubles()),
          reader_(d_, matrix ? matrix_.data() : nullptr), divergence_(padded()), e_(padded()),
          g_(padded()), beta_(padded()), lambda_(d_), asked_(d_), told_(classes) {
        std::copy(bias_, bias_ + K, bias.begin());
        std::copy(sharpness_, sharpness_ + K, sharpness.begin());
        by_bias = Ascent(bias);
        by_sharpness = Ascent(sharpness);
        refresh();
    }
    SoftLVQ(const SoftLVQ&) = delete;

    const double* matrix() const { return matrix_.empty() ? nullptr : matrix_.data(); }
    int features() const override { return d; }
    int n_classes() const override { return static_cast<int>(first_of_.size()) - 1; }
    std::size_t padded() const { return static_cast<std::size_t>(tiles_for(K)) * W; }

    // What follows from the parameters; called when they have changed.
    void refresh() {
        average_.known = told_known_ = false;
        for (int t = 0; t < tiles.count; ++t) tiles.refresh(t);
        for (int i = 0; i < K; ++i) beta_[i] = std::exp(sharpness[i]) / settings.T;
        weighted_ = settings.relevances;
        for (int j = 0; j < d; ++j) {
            lambda_[j] = std::exp(relevance[j]);
            if (relevance[j] != 0) weighted_ = true;
        }
    }

    void answer(const RowPointer& pointer, double* posterior) override {
        answer_averaged(read_row(reader_, pointer), posterior);
    }
    void test(const RowPointer& pointer, int y, double w, double* posterior) override {
        step(pointer, y, w, posterior, true);
    }
    void keep(const RowPointer& pointer, int y, double w) override { step(pointer, y, w, nullptr); }

    // Learn a sample of class y; before that, if asked, write p(c|x) of every class to `posterior`,
    // of the newest iterate or of their average.
    void step(const RowPointer& pointer, int y, double w, double* posterior, bool averaged = false) {
        const Row row = read_row(reader_, pointer);
        if (posterior && averaged) answer_averaged(row, posterior);
        if (settings.rate == 0 && (averaged || !posterior)) return;
        measure(row, tiles, weighted_ ? lambda_.data() : nullptr);
        const double total = weigh(bias, beta_);
        if (posterior && !averaged) share(total, posterior);
        if (settings.rate == 0) return;
        blame(y, w, total);
        accumulate(row);
        if (++waiting == settings.batch) update();
    }

private:
    std::vector<std::int64_t> first_of_;
    Doubles unit_, low_, high_, matrix_;
    RowReader<Divergence> reader_;
    Doubles divergence_, e_, g_, beta_, lambda_;
    bool weighted_ = false;
    // What follows from the averages, made when it is asked for.
    struct Average {
        Tiles<Divergence> tiles;
        Doubles beta, lambda;
        bool weighted, known;
    };
    // The last sample the average was asked about, and what it told: who predicts a sample mostly
    // learns it next.
    Doubles asked_, told_;
    bool told_known_ = false;
    Average average_{tiles, Doubles(padded()), Doubles(d), false, false};
    // A codevector that is wrong or right about a sample by less does not hear of it.
    static constexpr double least_blame = 1e-6;

    void measure(const Row& row, const Tiles<Divergence>& of, const double* lambda) {
        for (int t = 0; t < of.count; ++t) {
            const Vec value = lambda ? of.divergence(t, row, lambda) : of.divergence(t, row);
            value.store(&divergence_[static_cast<std::size_t>(t) * W]);
        }
    }

    // e_i = exp(s_i - max s), returns their sum
    double weigh(const Doubles& b, const Doubles& beta) {
        Vec highest = Vec::all(-infinity);
        for (std::size_t k = 0; k < e_.size(); k += W) {
            const Vec s = Vec::load(&b[k]) - Vec::load(&beta[k]) * Vec::load(&divergence_[k]);
            s.store(&e_[k]);
            highest = max(highest, s);
        }
        const Vec top = Vec::all(largest(highest));
        Vec total = Vec::all(0.0);
        for (std::size_t k = 0; k < e_.size(); k += W) {
            const Vec e = exp(Vec::load(&e_[k]) - top);
            e.store(&e_[k]);
            total = total + e;
        }
        return sum(total);
    }

    void answer_averaged(const Row& row, double* posterior) {
        if (!told_known_ || !std::equal(asked_.begin(), asked_.end(), row.x)) {
            measure_average(row);
            std::copy(row.x, row.x + d, asked_.begin());
            told_known_ = true;
        }
        std::copy(told_.begin(), told_.end(), posterior);
    }

    void measure_average(const Row& row) {
        Average& a = average_;
        if (!a.known) {
            a.tiles.mu = by_mu.mean;
            for (int t = 0; t < a.tiles.count; ++t) a.tiles.refresh(t);
            for (int i = 0; i < K; ++i) a.beta[i] = std::exp(by_sharpness.mean[i]) / settings.T;
            a.weighted = settings.relevances;
            for (int j = 0; j < d; ++j) {
                a.lambda[j] = std::exp(by_relevance.mean[j]);
                if (by_relevance.mean[j] != 0) a.weighted = true;
            }
            a.known = true;
        }
        measure(row, a.tiles, a.weighted ? a.lambda.data() : nullptr);
        share(weigh(by_bias.mean, a.beta), told_.data());
    }

    void share(double total, double* posterior) const {
        for (int c = 0; c < n_classes(); ++c) {
            double part = 0;
            for (std::int64_t i = first_of_[c]; i < first_of_[c + 1]; ++i) part += e_[i];
            posterior[c] = part / total;
        }
    }

    // g_i = w (P(i|x, own class) - P(i|x))
    void blame(int y, double w, double total) {
        const Vec share = Vec::all(-w / total);
        for (std::size_t k = 0; k < e_.size(); k += W) (Vec::load(&e_[k]) * share).store(&g_[k]);
        const std::int64_t begin = first_of_[y], end = first_of_[y + 1];
        double own = 0;
        for (std::int64_t i = begin; i < end; ++i) own += e_[i];
        if (own > 1e-200) {
            for (std::int64_t i = begin; i < end; ++i) g_[i] += w * (e_[i] / own);
            return;
        }
        // The sample lies deep in another class: weigh its own class by itself.
        double highest = -infinity;
        for (std::int64_t i = begin; i < end; ++i)
            highest = std::max(highest, bias[i] - beta_[i] * divergence_[i]);
        own = 0;
        for (std::int64_t i = begin; i < end; ++i)
            own += e_[i] = std::exp(bias[i] - beta_[i] * divergence_[i] - highest);
        for (std::int64_t i = begin; i < end; ++i) g_[i] += w * (e_[i] / own);
    }

    void accumulate(const Row& row) {
        for (int t = 0; t < tiles.count; ++t) {
            const int k = t * W;
            const Vec all = Vec::load(&g_[k]), size = max(all, Vec::all(0.0) - all);
            if (!any_above(size, least_blame)) continue;
            const Vec g = zero_unless_above(all, size, Vec::all(least_blame));
            const Vec push = g * Vec::load(&beta_[k]);
            add(by_bias.gradient, k, g);
            add(by_sharpness.gradient, k, Vec::all(0.0) - push * Vec::load(&divergence_[k]));
            const double* mu = &tiles.mu[tiles.offset(t)];
            double* into = &by_mu.gradient[tiles.offset(t)];
            for (int j = 0; j < d; ++j)
                fmadd(push, Vec::all(row.x[j]) - Vec::load(mu + j * W), Vec::load(into + j * W))
                    .store(into + j * W);
            if (settings.relevances)
                for (int j = 0; j < d; ++j)
                    fmadd(push, tiles.term(t, j, row), Vec::load(&terms[j * W])).store(&terms[j * W]);
        }
    }
    static void add(Doubles& into, int k, Vec value) { (Vec::load(&into[k]) + value).store(&into[k]); }

    // Adam's moments and the ratio that makes the step; `scale` turns the sum over the batch into
    // the mean, in units of the parameter's spread.
    struct Momentum {
        double rate, first, second;  // with the corrections for the first few steps
        Vec operator()(Ascent& by, std::size_t k, Vec scale) const {
            const Vec gradient = Vec::load(&by.gradient[k]) * scale;
            Vec m = Vec::load(&by.first[k]), v = Vec::load(&by.second[k]);
            m = fmadd(Vec::all(1 - first_decay), gradient - m, m);
            v = fmadd(Vec::all(1 - second_decay), gradient * gradient - v, v);
            m.store(&by.first[k]);
            v.store(&by.second[k]);
            Vec::all(0.0).store(&by.gradient[k]);
            return Vec::all(rate * first) * m / (sqrt(Vec::all(second) * v) + Vec::all(1e-8));
        }
        double operator()(double gradient, double& m, double& v) const {
            m += (1 - first_decay) * (gradient - m);
            v += (1 - second_decay) * (gradient * gradient - v);
            return rate * first * m / (std::sqrt(second * v) + 1e-8);
        }
    };
    // With these two no step exceeds `rate`, however rare the samples that ask for it.
    static constexpr double first_decay = 0.9, second_decay = 0.99;
    // Iterate t counts as t^3 in the average: about the last quarter of them make it up.
    static constexpr double late = 3;

    void update() {
        ++updates;
        const double n = static_cast<double>(updates), mean = 1.0 / settings.batch;
        const Momentum step{settings.rate, 1 / (1 - std::pow(first_decay, n)),
                            1 / (1 - std::pow(second_decay, n))};
        for (int t = 0; t < tiles.count; ++t)
            for (int j = 0; j < d; ++j) {
                const std::size_t k = tiles.offset(t) + static_cast<std::size_t>(j) * W;
                const Vec ratio = step(by_mu, k, Vec::all(mean * lambda_[j] * unit_[j]));
                const Vec moved = Divergence::moved(Vec::load(&tiles.mu[k]), ratio * Vec::all(unit_[j]));
                min(max(moved, Vec::all(low_[j])), Vec::all(high_[j])).store(&tiles.mu[k]);
            }
        if (!settings.temperatures) {  // one temperature for all: everyone hears the same
            double total = 0;
            for (int i = 0; i < K; ++i) total += by_sharpness.gradient[i];
            std::fill(by_sharpness.gradient.begin(), by_sharpness.gradient.end(), total);
        }
        const Vec scale = Vec::all(mean);
        for (std::size_t k = 0; k < bias.size(); k += W) {
            add(bias, static_cast<int>(k), step(by_bias, k, scale));
            add(sharpness, static_cast<int>(k), step(by_sharpness, k, scale));
        }
        if (settings.relevances)
            for (int j = 0; j < d; ++j) {
                const double gradient = -mean * lambda_[j] * sum(Vec::load(&terms[j * W]));
                relevance[j] += step(gradient, by_relevance.first[j], by_relevance.second[j]);
            }
        std::fill(terms.begin(), terms.end(), 0.0);
        waiting = 0;
        refresh();
        const double share = std::max((late + 1) / (n + late), settings.recent);
        average(by_mu.mean, tiles.mu, share);
        average(by_bias.mean, bias, share);
        average(by_sharpness.mean, sharpness, share);
        average(by_relevance.mean, relevance, share);
    }
    static void average(Doubles& mean, const Doubles& value, double share) {
        for (std::size_t k = 0; k < mean.size(); ++k)
            if (value[k] != mean[k]) mean[k] += share * (value[k] - mean[k]);  // -inf: a prior of 0
    }

};

// Presents samples begin..end in order; row k of `posterior`, if any, is sample begin + k before it
// was learnt. Samples of weight 0 are skipped.
template <class Divergence>
void learn_soft(SoftLVQ<Divergence>& model, const Samples& samples, std::int64_t begin,
                std::int64_t end, double* posterior, bool averaged) {
    const FlushDenormals flush;
    for (std::int64_t k = begin; k < end; ++k) {
        const std::int64_t row = samples.order ? samples.order[k] : k;
        const double w = samples.weights ? samples.weights[row] : 1.0;
        if (w == 0) continue;
        if (samples.classes[row] < 0 || samples.classes[row] >= model.n_classes())
            throw std::out_of_range("a row is of a class that does not exist");
        model.step(samples.at(row), samples.classes[row], w, posterior ? posterior + (k - begin) * model.n_classes() : nullptr,
                   averaged);
    }
}

}  // namespace annealed
