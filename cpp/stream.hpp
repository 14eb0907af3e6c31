// A labelled sample of a stream, and everyone it concerns: the level of its class learns it; runners
// (soft LVQ, nearest neighbours) are tested on it and then learn it; others only take it in. Whoever
// has a share answers: one runner, several together, or the levels themselves. Who takes part is
// decided elsewhere and rarely.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "level.hpp"

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
    // The levels answer at temperature T where it is above 0 and no runner has a share; `before` is
    // the weight of the samples that each class had before its level.
    double T = 0;
    Doubles before;

    int classes() const { return static_cast<int>(levels.size()); }

    // Learn a sample; whether the answer was another class than y. In a race answers go to their
    // row `at`.
    bool learn(const RowPointer& row, int y, double w, std::size_t at) {
        LevelBase& level = *levels[static_cast<std::size_t>(y)];
        level.seen += w;
        level.step(row, w, both_roles);
        if (tested.empty() && kept.empty()) return false;
        const double counted = w * factor[static_cast<std::size_t>(y)];
        prepare();
        for (const Tested& each : tested) {
            each.runner->test(row, y, counted, one_.data());
            if (each.answers)
                std::copy(one_.begin(), one_.end(), each.answers + at * one_.size());
            add(each.share);
        }
        for (Runner* each : kept) each->keep(row, y, counted);
        return likeliest() != y;
    }

    // p(c|x) before calibration; false where nobody can say.
    bool answer(const RowPointer& row) {
        prepare();
        bool anyone = false;
        for (const Tested& each : tested) {
            if (each.share == 0) continue;
            anyone = true;
            each.runner->answer(row, one_.data());
            add(each.share);
        }
        return anyone || levels_answer(row);
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

}  // namespace annealed
