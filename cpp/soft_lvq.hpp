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
//
// Threads may help with a step of a large model: they share out codevectors, or samples, each of which
// hears of no other until the step is over.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "online.hpp"
#include "stream.hpp"
#include "team.hpp"

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
    Doubles terms;                          // in tiles: sum of g_i d_ij/T_i over the batch
    std::int64_t updates = 0, waiting = 0;  // steps taken; samples of the current batch
    ThreadTeam* team = nullptr;             // who may help, while rows are being learnt

    // Codevectors come sorted by class: those of class c are first_of[c] .. first_of[c + 1] - 1.
    SoftLVQ(const SoftSettings& settings_, int K_, int d_, const double* mu, const double* bias_,
            const double* sharpness_, const double* relevance_, const std::int64_t* first_of,
            std::size_t classes, const double* unit, const double* low, const double* high,
            const double* matrix)
        : settings(settings_), K(K_), d(d_), tiles(mu, K_, d_), bias(padded(), -infinity),
          sharpness(padded(), 0.0), relevance(relevance_, relevance_ + d_), by_mu(tiles.mu),
          by_relevance(relevance), terms(settings_.relevances ? tiles.mu.size() : 0),
          first_of_(first_of, first_of + classes + 1),
          unit_(unit, unit + d_), low_(low, low + d_), high_(high, high + d_),
          matrix_(matrix ? Doubles(matrix, matrix + static_cast<std::size_t>(d_) * d_) : Doubles()),
          readers_(1, RowReader<Divergence>(d_, matrix ? matrix_.data() : nullptr)), asked_(d_),
          told_(classes), beta_(padded()), lambda_(d_) {
        make_room(1);
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
        share_out(tiles.count, [&](int t) { tiles.refresh(t); });
        const Vec unit = Vec::all(1 / settings.T);
        for (std::size_t k = 0; k < beta_.size(); k += W)
            (exp(Vec::load(&sharpness[k])) * unit).store(&beta_[k]);
        weighted_ = settings.relevances;
        for (int j = 0; j < d; ++j) {
            lambda_[j] = relevance[j] == 0 ? 1.0 : std::exp(relevance[j]);
            if (relevance[j] != 0) weighted_ = true;
        }
    }

    // Every s_i becomes s_i + by_i, also on average.
    void shift(const double* by) {
        for (int i = 0; i < K; ++i) {
            bias[i] += by[i];
            by_bias.mean[i] += by[i];
        }
        refresh();
    }

    void answer(const RowPointer& pointer, double* posterior) override {
        answer_averaged(read_row(readers_[0], pointer), posterior);
    }
    void test(const RowPointer& pointer, int y, double w, double* posterior) override {
        step(pointer, y, w, posterior, true);
    }
    void keep(const RowPointer& pointer, int y, double w) override { step(pointer, y, w, nullptr); }

    // Learn a sample of class y; before that, if asked, write p(c|x) of every class to `posterior`,
    // of the newest iterate or of their average.
    void step(const RowPointer& pointer, int y, double w, double* posterior, bool averaged = false) {
        row_[0] = read_row(readers_[0], pointer);
        if (posterior && averaged) answer_averaged(row_[0], posterior);
        if (settings.rate == 0 && (averaged || !posterior)) return;
        measure(row_[0], tiles, weighted_ ? lambda_.data() : nullptr);
        const double total = weigh(0, bias, beta_);
        if (posterior && !averaged) share(total, posterior);
        if (settings.rate == 0) return;
        blame(0, y, w, total);
        accumulate(1);
        if (++waiting == settings.batch) update();
    }

    // Learn some samples, no more than there is room for in the batch under way, for which the
    // parameters stand still: the same bits as one by one, in less time.
    struct Labelled {
        RowPointer row;
        int y;
        double w;
    };
    int room() const {
        return static_cast<int>(std::min<std::int64_t>(settings.batch - waiting, rows_at_once));
    }
    void learn(const Labelled* sample, int n) {
        if (settings.rate == 0) return;
        make_room(static_cast<std::size_t>(n));
        double* measured[rows_at_once];
        for (int m = 0; m < n; ++m) {
            row_[m] = read_row(readers_[m], sample[m].row);
            measured[m] = &divergence_[place(m)];
        }
        const double* lambda = weighted_ ? lambda_.data() : nullptr;
        share_out(tiles.count, [&](int t) { tiles.divergences(t, row_.data(), n, lambda, measured); });
        share_out(n, [&](int m) { blame(m, sample[m].y, sample[m].w, weigh(m, bias, beta_)); });
        accumulate(n);
        if ((waiting += n) == settings.batch) update();
    }

    // How many threads a call for so many samples is worth.
    int threads_for_samples(std::int64_t n, int allowed) const {
        const double work = 2.0 * static_cast<double>(tiles.mu.size());  // of a sample
        const auto worth = static_cast<int>(std::min(work * settings.batch / worth_a_helper, 1e6));
        return std::min({worth, threads_for(work * static_cast<double>(n), allowed), std::max(allowed, 1)});
    }

private:
    std::vector<std::int64_t> first_of_;
    Doubles unit_, low_, high_, matrix_;
    // Samples at a time; for each of them a reader, its row, and by codevector the divergences,
    // exp(s_i - max s) and g_i.
    static constexpr int rows_at_once = 16;
    std::vector<RowReader<Divergence>> readers_;
    std::vector<Row> row_;
    Doubles divergence_, e_, g_;
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
    Doubles beta_, lambda_;  // 1/T_i and lambda_j
    bool weighted_ = false;
    Average average_{tiles, Doubles(padded()), Doubles(d), false, false};
    // Multiplications of a step that are worth a thread of their own: some ten microseconds, beside
    // three meetings of a few tenths of a microsecond each.
    static constexpr double worth_a_helper = 1 << 15;
    // A codevector that is wrong or right about a sample by less does not hear of it.
    static constexpr double least_blame = 1e-6;

    // Calls with 0..count-1, in as many parts as threads: the numbers of a part then stay in the cache
    // of the one core, step for step.
    template <class Function>
    void share_out(int count, Function function) {
        const int parts = team ? std::min(count, team->allowed()) : 1;
        const auto part = [&](int p) {
            for (int k = count * p / parts; k < count * (p + 1) / parts; ++k) function(k);
        };
        parts > 1 ? team->round(parts, part) : part(0);
    }

    // Of sample m, where its part of the arrays begins.
    std::size_t place(int m) const { return static_cast<std::size_t>(m) * padded(); }
    void make_room(std::size_t samples) {
        if (row_.size() >= samples) return;
        while (readers_.size() < samples) readers_.emplace_back(d, matrix());
        row_.resize(samples);
        for (Doubles* each : {&divergence_, &e_, &g_}) each->resize(samples * padded());
    }

    void measure(const Row& row, const Tiles<Divergence>& of, const double* lambda) {
        for (int t = 0; t < of.count; ++t) {
            const Vec value = lambda ? of.divergence(t, row, lambda) : of.divergence(t, row);
            value.store(&divergence_[static_cast<std::size_t>(t) * W]);
        }
    }

    // e_i = exp(s_i - max s) of sample m, returns their sum
    double weigh(int m, const Doubles& b, const Doubles& beta) {
        const double* divergence = &divergence_[place(m)];
        double* e = &e_[place(m)];
        const std::size_t n = padded();
        Vec highest = Vec::all(-infinity);
        for (std::size_t k = 0; k < n; k += W) {
            const Vec s = Vec::load(&b[k]) - Vec::load(&beta[k]) * Vec::load(divergence + k);
            s.store(e + k);
            highest = max(highest, s);
        }
        const Vec top = Vec::all(largest(highest));
        Vec total = Vec::all(0.0);
        for (std::size_t k = 0; k < n; k += W) {
            const Vec value = exp(Vec::load(e + k) - top);
            value.store(e + k);
            total = total + value;
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
        share(weigh(0, by_bias.mean, a.beta), told_.data());
    }

    void share(double total, double* posterior) const {
        for (int c = 0; c < n_classes(); ++c) {
            double part = 0;
            for (std::int64_t i = first_of_[c]; i < first_of_[c + 1]; ++i) part += e_[i];
            posterior[c] = part / total;
        }
    }

    // g_i = w (P(i|x, own class) - P(i|x)) of sample m
    void blame(int m, int y, double w, double total) {
        double *e = &e_[place(m)], *g = &g_[place(m)];
        const double* divergence = &divergence_[place(m)];
        const Vec share = Vec::all(-w / total);
        for (std::size_t k = 0; k < padded(); k += W) (Vec::load(e + k) * share).store(g + k);
        const std::int64_t begin = first_of_[y], end = first_of_[y + 1];
        double own = 0;
        for (std::int64_t i = begin; i < end; ++i) own += e[i];
        if (own > 1e-200) {
            for (std::int64_t i = begin; i < end; ++i) g[i] += w * (e[i] / own);
            return;
        }
        // The sample lies deep in another class: weigh its own class by itself.
        double highest = -infinity;
        for (std::int64_t i = begin; i < end; ++i)
            highest = std::max(highest, bias[i] - beta_[i] * divergence[i]);
        own = 0;
        for (std::int64_t i = begin; i < end; ++i)
            own += e[i] = std::exp(bias[i] - beta_[i] * divergence[i] - highest);
        for (std::int64_t i = begin; i < end; ++i) g[i] += w * (e[i] / own);
    }

    // Add what n samples say to the gradients. Every sum takes them in their order, whether they
    // come together or one by one.
    void accumulate(int n) {
        share_out(tiles.count, [&](int t) { accumulate(t, n); });
    }
    void accumulate(int t, int n) {
        const std::size_t k = static_cast<std::size_t>(t) * W;
        const Row* heard[rows_at_once];
        Vec push[rows_at_once];
        int count = 0;
        for (int m = 0; m < n; ++m) {
            const Vec all = Vec::load(&g_[place(m) + k]), size = max(all, Vec::all(0.0) - all);
            if (!any_above(size, least_blame)) continue;
            const Vec g = zero_unless_above(all, size, Vec::all(least_blame));
            const Vec pushed = g * Vec::load(&beta_[k]);
            add(by_bias.gradient, k, g);
            add(by_sharpness.gradient, k,
                Vec::all(0.0) - pushed * Vec::load(&divergence_[place(m) + k]));
            heard[count] = &row_[m];
            push[count++] = pushed;
        }
        if (count == 0) return;
        settings.relevances ? pull<true>(t, heard, push, count) : pull<false>(t, heard, push, count);
    }
    template <bool Relevances>
    void pull(int t, const Row* const* heard, const Vec* push, int count) {
        int j = 0;  // four features at a time: their sums do not wait for each other
        for (; j + 4 <= d; j += 4) pull<Relevances, 4>(t, j, heard, push, count);
        for (; j < d; ++j) pull<Relevances, 1>(t, j, heard, push, count);
    }
    template <bool Relevances, int features>
    void pull(int t, int j, const Row* const* heard, const Vec* push, int count) {
        const std::size_t k = tiles.offset(t) + static_cast<std::size_t>(j) * W;
        Vec mu[features], sum[features], told[features];
        for (int i = 0; i < features; ++i) {
            mu[i] = Vec::load(&tiles.mu[k + i * W]);
            sum[i] = Vec::load(&by_mu.gradient[k + i * W]);
            if (Relevances) told[i] = Vec::load(&terms[k + i * W]);
        }
        for (int m = 0; m < count; ++m)
            for (int i = 0; i < features; ++i) {
                sum[i] = fmadd(push[m], Vec::all(heard[m]->x[j + i]) - mu[i], sum[i]);
                if (Relevances) told[i] = fmadd(push[m], tiles.term(t, j + i, *heard[m]), told[i]);
            }
        for (int i = 0; i < features; ++i) {
            sum[i].store(&by_mu.gradient[k + i * W]);
            if (Relevances) told[i].store(&terms[k + i * W]);
        }
    }
    static void add(Doubles& into, std::size_t k, Vec value) { (Vec::load(&into[k]) + value).store(&into[k]); }

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
            return over_root(Vec::all(rate * first) * m, Vec::all(second) * v, 1e-8f);
        }
        double operator()(double gradient, double& m, double& v) const {
            m += (1 - first_decay) * (gradient - m);
            v += (1 - second_decay) * (gradient * gradient - v);
            return static_cast<float>(rate * first * m) /
                   (std::sqrt(static_cast<float>(second * v)) + 1e-8f);
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
        const double newest = std::max((late + 1) / (n + late), settings.recent);
        share_out(tiles.count, [&](int t) { move(t, step, mean, newest); });
        if (!settings.temperatures) {  // one temperature for all: everyone hears the same
            double total = 0;
            for (int i = 0; i < K; ++i) total += by_sharpness.gradient[i];
            std::fill(by_sharpness.gradient.begin(), by_sharpness.gradient.end(), total);
        }
        const Vec scale = Vec::all(mean);
        for (std::size_t k = 0; k < bias.size(); k += W) {
            add(bias, k, step(by_bias, k, scale));
            add(sharpness, k, step(by_sharpness, k, scale));
        }
        if (settings.relevances) {
            for (int j = 0; j < d; ++j) {
                const double* of_feature = &terms[static_cast<std::size_t>(j) * W];
                Vec told = Vec::all(0.0);
                for (int t = 0; t < tiles.count; ++t)
                    told = told + Vec::load(of_feature + tiles.offset(t));
                const double gradient = -mean * lambda_[j] * sum(told);
                relevance[j] += step(gradient, by_relevance.first[j], by_relevance.second[j]);
            }
            std::fill(terms.begin(), terms.end(), 0.0);
        }
        waiting = 0;
        refresh();
        average(by_bias.mean, bias, newest);
        average(by_sharpness.mean, sharpness, newest);
        average(by_relevance.mean, relevance, newest);
    }
    // The codevectors of a tile, and their average.
    void move(int t, const Momentum& step, double mean, double newest) {
        for (int j = 0; j < d; ++j) {
            const std::size_t k = tiles.offset(t) + static_cast<std::size_t>(j) * W;
            const Vec ratio = step(by_mu, k, Vec::all(mean * lambda_[j] * unit_[j]));
            Vec mu = Divergence::moved(Vec::load(&tiles.mu[k]), ratio * Vec::all(unit_[j]));
            mu = min(max(mu, Vec::all(low_[j])), Vec::all(high_[j]));
            mu.store(&tiles.mu[k]);
            const Vec before = Vec::load(&by_mu.mean[k]);
            (before + Vec::all(newest) * (mu - before)).store(&by_mu.mean[k]);
        }
    }
    static void average(Doubles& mean, const Doubles& value, double share) {
        for (std::size_t k = 0; k < mean.size(); ++k)
            if (value[k] != mean[k]) mean[k] += share * (value[k] - mean[k]);  // -inf: a prior of 0
    }
};

// A team that helps a model, until it goes out of scope.
template <class Divergence>
class HelpedSteps {
public:
    HelpedSteps(SoftLVQ<Divergence>& model, int threads) : model_(model), team_(threads) {
        if (threads > 1) model.team = &team_;
    }
    HelpedSteps(const HelpedSteps&) = delete;
    ~HelpedSteps() { model_.team = nullptr; }

private:
    SoftLVQ<Divergence>& model_;
    ThreadTeam team_;
};

// Presents samples begin..end in order; row k of `posterior`, if any, is sample begin + k before it
// was learnt. Samples of weight 0 are skipped.
template <class Divergence>
void learn_soft(SoftLVQ<Divergence>& model, const Samples& samples, std::int64_t begin,
                std::int64_t end, double* posterior, bool averaged, int threads) {
    using Labelled = typename SoftLVQ<Divergence>::Labelled;
    const FlushDenormals flush;
    const HelpedSteps<Divergence> helped(model, model.threads_for_samples(end - begin, threads));
    std::vector<Labelled> together;
    for (std::int64_t k = begin; k < end; ++k) {
        const std::int64_t row = samples.row(k, end, model.d);
        const double w = samples.weights ? samples.weights[row] : 1.0;
        if (w == 0) continue;
        const int y = samples.classes[row];
        if (y < 0 || y >= model.n_classes())
            throw std::out_of_range("a row is of a class that does not exist");
        if (posterior) {
            model.step(samples.at(row), y, w, posterior + (k - begin) * model.n_classes(), averaged);
            continue;
        }
        together.push_back({samples.at(row), y, w});
        if (static_cast<int>(together.size()) == model.room()) {
            model.learn(together.data(), model.room());
            together.clear();
        }
    }
    if (!together.empty()) model.learn(together.data(), static_cast<int>(together.size()));
}

}  // namespace annealed
