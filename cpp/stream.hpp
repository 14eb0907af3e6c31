// A labelled sample of a stream, and everyone it concerns: the level of its class learns it; runners
// (soft LVQ, nearest neighbours) are tested on it and then learn it; others only take it in. Whoever
// has a share answers: one runner, several together, or the levels themselves. Who takes part is
// decided elsewhere and rarely.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "online.hpp"

namespace annealed {

// What answers and learns, one sample at a time.
class Runner {
public:
    virtual ~Runner() = default;
    virtual int features() const = 0;
    virtual int n_classes() const = 0;
    // p(c|x) of every class.
    virtual void answer(const RowPointer& row, double* posterior) = 0;
    // The same, and then learn the sample.
    virtual void test(const RowPointer& row, int y, double w, double* posterior) = 0;
    // Take the sample in without looking how well it is told.
    virtual void keep(const RowPointer& row, int y, double w) = 0;
};

struct Tested {
    Runner* runner;
    double share;    // in the answer
    float* answers;  // a row for each sample of a race; or null
};

struct Stream {
    std::vector<LevelBase*> levels;  // one for each class
    std::vector<Tested> tested;
    std::vector<Runner*> kept;
    Doubles factor;  // how much a sample of each class counts for runners
    // Of a race, a row for each sample: its class and how much it counts; or null.
    std::int32_t* classes_met = nullptr;
    double* counted = nullptr;
    std::size_t room = 0;
    // The levels answer at temperature T where it is above 0, and then no runner has a share;
    // `before` is the weight of the samples that each class had before its level.
    double T = 0;
    Doubles before;

    int classes() const { return static_cast<int>(levels.size()); }

    // Learn a sample; whether the answer was another class than y. In a race answers go to their
    // row `at`.
    bool learn(const RowPointer& row, int y, double w, std::size_t at) {
        prepare();
        const bool told = levels_answer(row);
        const bool wrong = told && likeliest() != y;
        LevelBase& level = *levels[static_cast<std::size_t>(y)];
        level.seen += w;
        level.step(row, w, both_roles);
        if (tested.empty() && kept.empty()) return wrong;
        const double weight = w * factor[static_cast<std::size_t>(y)];
        if (classes_met) classes_met[at] = y, counted[at] = weight;
        for (const Tested& each : tested) {
            each.runner->test(row, y, weight, one_.data());
            if (each.answers)
                std::copy(one_.begin(), one_.end(), each.answers + at * one_.size());
            add(each.share);
        }
        for (Runner* each : kept) each->keep(row, y, weight);
        return told ? wrong : likeliest() != y;
    }

    // p(c|x) before calibration; false where nobody can say.
    bool answer(const RowPointer& row) {
        prepare();
        bool anyone = levels_answer(row);
        for (const Tested& each : tested) {
            if (each.share == 0) continue;
            anyone = true;
            each.runner->answer(row, one_.data());
            add(each.share);
        }
        return anyone;
    }
    const Doubles& posterior() const { return all_; }
    int likeliest() const {
        return static_cast<int>(std::max_element(all_.begin(), all_.end()) - all_.begin());
    }

private:
    Doubles one_, all_;  // p(c|x) of a runner, and of all by their shares

    void prepare() {
        one_.resize(levels.size());
        all_.assign(levels.size(), 0.0);
    }
    void add(double share) {
        if (share == 0) return;
        for (std::size_t c = 0; c < all_.size(); ++c) all_[c] += share * one_[c];
    }

    // p(c|x) ~ n_c sum_{i in c} rho_i exp(-d(x, mu_i)/T), n_c the weight of the class's samples
    bool levels_answer(const RowPointer& row) {
        if (!(T > 0)) return false;
        double highest = -infinity, total = 0;
        for (std::size_t c = 0; c < levels.size(); ++c) {
            all_[c] = levels[c]->evidence(row, T);
            if (std::isnan(all_[c])) return false;
            highest = std::max(highest, all_[c]);
        }
        for (std::size_t c = 0; c < levels.size(); ++c) {
            all_[c] = std::exp(all_[c] - highest) * (before[c] + levels[c]->seen);
            total += all_[c];
        }
        for (double& share : all_) share /= total;
        return true;
    }
};

// Presents rows begin..end in order until one completes its class's level; how far it came. Whether
// each was told wrong goes to `wrong`, nan for rows of weight 0, which are skipped. In a race answers
// go to rows from `at` on.
inline std::int64_t learn_stream(Stream& stream, const Samples& samples, std::int64_t begin,
                                 std::int64_t end, std::size_t at, double* wrong) {
    const FlushDenormals flush;
    for (std::int64_t k = begin; k < end; ++k) {
        const double w = samples.weights ? samples.weights[k] : 1.0;
        wrong[k - begin] = std::numeric_limits<double>::quiet_NaN();
        if (w == 0) continue;
        const int y = samples.classes[k];
        if (y < 0 || y >= stream.classes())
            throw std::out_of_range("a row is of a class that does not exist");
        if (stream.classes_met && at >= stream.room)
            throw std::out_of_range("a race has no room for another sample");
        wrong[k - begin] = stream.learn(samples.at(k), y, w, at++);
        if (stream.levels[static_cast<std::size_t>(y)]->done) return k + 1;
    }
    return end;
}

}  // namespace annealed
