// Reading a codebook: divergences, Gibbs associations, hard assignment. Nothing here writes to
// the model, and nothing holds an (samples x codevectors) array unless the caller asks for one.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "online.hpp"
#include "threads.hpp"

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

// Rows are read and measured sixteen at a time; every sum is the same as for one. A block is what a
// thread takes at a time.
constexpr std::int64_t rows_at_once = 16;
inline std::int64_t rows_in_block(const Codebook& book) {
    const std::int64_t cost = static_cast<std::int64_t>(book.K) * (book.d + 8);
    const std::int64_t rows = (1 << 18) / cost / rows_at_once * rows_at_once;
    return std::min<std::int64_t>(std::max<std::int64_t>(rows, rows_at_once), 1024);
}

// What a thread needs to read rows of its own. Visitor is called with the number of a row, the row
// and its divergences; where it is to come in order, its `settle` follows with the block's rows.
template <class Divergence, class Visitor>
class RowsWorker {
public:
    static constexpr bool in_order = Visitor::in_order;

    RowsWorker(const Codebook& book, const Tiles<Divergence>& tiles, const Samples& samples,
               std::int64_t rows, Visitor visitor)
        : book_(book), tiles_(tiles), samples_(samples), rows_(rows), visitor_(std::move(visitor)) {
        const std::int64_t most = std::min(rows_at_once, std::max<std::int64_t>(rows, 1));
        for (std::int64_t m = 0; m < most; ++m) {
            readers_.emplace_back(book.d, book.matrix);
            divergence_.emplace_back(static_cast<std::size_t>(tiles.count) * W);
        }
        for (Doubles& values : divergence_) out_.push_back(values.data());
    }
    void work(std::int64_t block) {
        const std::int64_t end = end_of(block);
        for (std::int64_t first = begin_of(block); first < end; first += rows_at_once) {
            const std::int64_t here = std::min(rows_at_once, end - first);
            for (std::int64_t m = 0; m < here; ++m)
                row_[m] = read_row(readers_[m], samples_.at(first + m));
            tiles_.divergences(row_, static_cast<int>(here), book_.relevance, out_.data());
            for (std::int64_t m = 0; m < here; ++m) visitor_(first + m, row_[m], divergence_[m]);
        }
    }
    void settle(std::int64_t block) { visitor_.settle(begin_of(block), end_of(block)); }

private:
    const FlushDenormals flush_;
    const Codebook& book_;
    const Tiles<Divergence>& tiles_;
    const Samples& samples_;
    std::int64_t rows_;
    Visitor visitor_;
    std::vector<RowReader<Divergence>> readers_;
    std::vector<Doubles> divergence_;
    std::vector<double*> out_;
    Row row_[rows_at_once];

    std::int64_t begin_of(std::int64_t block) const { return block * rows_in_block(book_); }
    std::int64_t end_of(std::int64_t block) const {
        return std::min(rows_, begin_of(block + 1));
    }
};

// Visits all rows, in as many threads as are allowed and worth their while; every thread has a
// visitor of its own, a copy of the one given.
template <class Divergence, class Visitor>
void for_each_row(const Codebook& book, const Samples& samples, std::int64_t rows, int threads,
                  const Visitor& visitor) {
    const Tiles<Divergence> tiles = [&] {
        const FlushDenormals flush;
        return Tiles<Divergence>(book.mu, book.K, book.d);
    }();
    const std::int64_t each = rows_in_block(book);
    const double work = static_cast<double>(rows) * book.K * (book.d + 8);
    in_threads((rows + each - 1) / each, threads_for(work, threads), [&] {
        return RowsWorker<Divergence, Visitor>(book, tiles, samples, rows, visitor);
    });
}

// A visitor whose rows have nothing to do with each other.
template <class Visit>
struct EachRow {
    static constexpr bool in_order = false;
    Visit visit;
    void operator()(std::int64_t k, const Row& row, Doubles& values) { visit(k, row, values); }
    void settle(std::int64_t, std::int64_t) {}
};
template <class Visit>
EachRow<Visit> each_row(Visit visit) {
    return {std::move(visit)};
}

template <class Divergence>
void divergences(const Codebook& book, const Samples& samples, std::int64_t rows, int threads,
                 double* out) {
    for_each_row<Divergence>(book, samples, rows, threads,
                             each_row([&](std::int64_t k, const Row&, Doubles& values) {
                                 std::copy(values.begin(), values.begin() + book.K,
                                           out + k * book.K);
                             }));
}

// Finds the codevector with the largest log_weight - d/T_i, the first of equals; and keeps the
// exponents, in tiles, of which those of no codevector are impossible.
class Likeliest {
public:
    Doubles exponent;

    explicit Likeliest(const Codebook& book)
        : exponent(static_cast<std::size_t>(tiles_for(book.K)) * W, -infinity),
          cold_(book.T == 0), weight_(exponent), scale_(exponent.size(), 0.0) {
        for (int i = 0; i < book.K; ++i) {
            weight_[i] = book.log_weight[i];
            // At T = 0 what is impossible is infinitely far away.
            scale_[i] = cold_ ? (weight_[i] == -infinity ? infinity : 0.0)
                              : (book.sharpness ? -book.sharpness[i] / book.T : -1 / book.T);
        }
        if (cold_) std::fill(scale_.begin() + book.K, scale_.end(), infinity);
    }
    int operator()(const Doubles& divergence) { return cold_ ? nearest(divergence) : warm(divergence); }

private:
    bool cold_;
    Doubles weight_, scale_;

    int warm(const Doubles& divergence) {
        Vec most[2] = {Vec::all(-infinity), Vec::all(-infinity)};  // of every other tile
        for (std::size_t i = 0, t = 0; i < exponent.size(); i += W, t ^= 1) {
            const Vec value =
                Vec::load(&weight_[i]) + Vec::load(&scale_[i]) * Vec::load(&divergence[i]);
            value.store(&exponent[i]);
            most[t] = max(value, most[t]);
        }
        return first_equal(exponent, largest(max(most[0], most[1])), 0);
    }
    int nearest(const Doubles& divergence) {
        Vec least[2] = {Vec::all(infinity), Vec::all(infinity)};
        for (std::size_t i = 0, t = 0; i < exponent.size(); i += W, t ^= 1) {
            const Vec value = Vec::load(&divergence[i]) + Vec::load(&scale_[i]);
            value.store(&exponent[i]);
            least[t] = min(value, least[t]);
        }
        const double distance = smallest(min(least[0], least[1]));
        int best = first_equal(exponent, distance, 0);
        if (distance == infinity) return 0;
        for (int i = best; (i = first_equal(exponent, distance, i + 1)) > 0;)
            if (weight_[i] > weight_[best]) best = i;
        return best;
    }
    // The first from there on; 0 if there is none.
    static int first_equal(const Doubles& values, double value, int from) {
        const int size = static_cast<int>(values.size());
        int i = from;
        for (; i % W; ++i)
            if (values[i] == value) return i;
        for (; i < size; i += W)
            if (equal_lanes(Vec::load(&values[i]), value)) {
                while (values[i] != value) ++i;
                return i;
            }
        return 0;
    }
};

// Finds the group of codevectors with the largest sum of shares, the first of equals.
class LikeliestGroup {
public:
    struct Answer {
        std::int64_t group;
        double lead;  // the logarithm of how many times its sum is that of the next
    };

    LikeliestGroup(const std::int64_t* group, std::int64_t groups, int K)
        : group_(group), K_(K), share_(static_cast<std::size_t>(groups), 0.0) {}

    // Of exponents in tiles, none of them above `highest`.
    Answer operator()(const double* exponent, double highest) {
        seen_.clear();
        for (int i = 0; i < K_; i += W) {
            const Vec here = Vec::load(exponent + i);
            if (!any_above(here, highest - least_seen)) continue;
            alignas(64) double e[W];
            exp(here - Vec::all(highest)).store(e);
            for (int k = 0; k < std::min(W, K_ - i); ++k) {
                double& share = share_[group_[i + k]];
                if (share == 0) seen_.push_back(group_[i + k]);
                share += e[k];
            }
        }
        if (seen_.empty()) return {group_[0], 0.0};  // nothing can be told: all are impossible
        std::int64_t best = seen_.front();
        double most = -1, next = 0;
        for (const std::int64_t group : seen_) {
            double& share = share_[group];
            if (share > most || (share == most && group < best)) {
                next = std::max(next, most);
                most = share;
                best = group;
            } else {
                next = std::max(next, share);
            }
            share = 0;
        }
        return {best, std::log(most / next)};
    }

private:
    const std::int64_t* group_;
    const int K_;
    Doubles share_;
    std::vector<std::int64_t> seen_;
};

// Which codevectors belong together; all apart where `of` is null.
struct Groups {
    const std::int64_t* of = nullptr;  // [K]
    std::int64_t count = 0;
};

template <class Divergence>
void assign(const Codebook& book, const Samples& samples, std::int64_t rows, int threads,
            const Groups& groups, std::int64_t* labels) {
    for_each_row<Divergence>(
        book, samples, rows, threads,
        each_row([=, likeliest = Likeliest(book),
                  likeliest_group = LikeliestGroup(groups.of, groups.count, book.K)](
                     std::int64_t k, const Row&, Doubles& values) mutable {
            labels[k] = likeliest(values);
            if (!groups.of) return;
            const Doubles& exponent = likeliest.exponent;
            labels[k] = likeliest_group(exponent.data(), exponent[labels[k]]).group;
        }));
}

// Per row: the posterior of each group of codevectors (a class, or a single codevector),
// log sum_i weight_i exp(-d_i/T), and the expected divergence sum_i p_i d_i.
template <class Divergence>
void associate(const Codebook& book, const Samples& samples, std::int64_t rows, int threads,
               const std::int64_t* group, std::int64_t groups, double* posterior,
               double* log_total, double* distortion) {
    const auto visit = [&, likeliest = Likeliest(book)](std::int64_t k, const Row&,
                                                        Doubles& values) mutable {
        Doubles& exponent = likeliest.exponent;
        double* shares = posterior + k * groups;
        std::fill(shares, shares + groups, 0.0);
        const int best = likeliest(values);
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
        const double highest = exponent[best];
        Vec total = Vec::all(0.0), expected = Vec::all(0.0);
        for (std::size_t i = 0; i < exponent.size(); i += W) {
            const Vec e = exp(Vec::load(&exponent[i]) - Vec::all(highest));
            e.store(&exponent[i]);
            total = total + e;
            expected = fmadd(e, Vec::load(&values[i]), expected);
        }
        const double sum_e = sum(total);
        for (int i = 0; i < book.K; ++i) shares[group[i]] += exponent[i];
        for (std::int64_t c = 0; c < groups; ++c) shares[c] /= sum_e;
        log_total[k] = highest + std::log(sum_e);
        distortion[k] = sum(expected) / sum_e;
    };
    for_each_row<Divergence>(book, samples, rows, threads, each_row(visit));
}

// For each of some temperatures T/factor the sum over the rows of -log p(own class|x).
class LossVisitor {
public:
    static constexpr bool in_order = true;

    LossVisitor(const Codebook& book, const Samples& samples, const std::int64_t* group,
                const double* factors, int count, double* loss)
        : samples_(samples), factors_(factors), count_(count), loss_(loss),
          classes_(*std::max_element(group, group + book.K) + 1),
          exponent_(static_cast<std::size_t>(tiles_for(book.K)) * W), scale_(exponent_.size()),
          log_weight_(exponent_.size(), -infinity),
          inside_(static_cast<std::size_t>(classes_) * exponent_.size(), -infinity) {
        for (int i = 0; i < book.K; ++i) {
            log_weight_[i] = book.log_weight[i];
            scale_[i] = (book.sharpness ? -book.sharpness[i] : -1.0) / book.T;
            inside_[static_cast<std::size_t>(group[i]) * exponent_.size() + i] = 0;
        }
    }

    void operator()(std::int64_t k, const Row&, Doubles& values) {
        const std::size_t n = exponent_.size();
        const auto own_class = static_cast<std::size_t>(samples_.classes[k]);
        for (int f = 0; f < count_; ++f) {
            if (samples_.classes[k] >= classes_) {  // there is no codevector of it
                pending_.push_back(infinity);
                continue;
            }
            const double* inside = &inside_[own_class * n];
            Vec highest = Vec::all(-infinity), own_highest = highest;
            for (std::size_t i = 0; i < n; i += W) {
                const Vec divergence = Vec::all(factors_[f]) * Vec::load(&values[i]);
                const Vec s = fmadd(Vec::load(&scale_[i]), divergence, Vec::load(&log_weight_[i]));
                s.store(&exponent_[i]);
                highest = max(highest, s);
                own_highest = max(own_highest, s + Vec::load(inside + i));
            }
            // Both sums from their own highest: deep in another class the own one would vanish.
            const double top = largest(highest), own_top = largest(own_highest);
            if (own_top == -infinity) {  // a prior of 0
                pending_.push_back(infinity);
                continue;
            }
            Vec total = Vec::all(0.0), own = total;
            for (std::size_t i = 0; i < n; i += W) {
                const Vec s = Vec::load(&exponent_[i]);
                total = total + exp(s - Vec::all(top));
                own = own + exp(s + Vec::load(inside + i) - Vec::all(own_top));
            }
            pending_.push_back(top - own_top + std::log(sum(total) / sum(own)));
        }
    }
    void settle(std::int64_t, std::int64_t) {
        for (std::size_t k = 0; k < pending_.size(); ++k)
            loss_[k % static_cast<std::size_t>(count_)] += pending_[k];
        pending_.clear();
    }

private:
    const Samples& samples_;
    const double* factors_;
    int count_;
    double* loss_;
    std::int64_t classes_;
    Doubles exponent_, scale_, log_weight_;
    Doubles inside_;   // of each class and codevector 0 where it is of the class, else -inf
    Doubles pending_;  // of the block's rows, a value for each factor
};

template <class Divergence>
void losses(const Codebook& book, const Samples& samples, std::int64_t rows, int threads,
            const std::int64_t* group, const double* factors, int count, double* loss) {
    std::fill(loss, loss + count, 0.0);
    for_each_row<Divergence>(book, samples, rows, threads,
                             LossVisitor(book, samples, group, factors, count, loss));
}

// One pass of hard clustering (T = 0): per codevector the weight and the weighted sum of the rows
// nearest to it, and the sum of their divergences; x is the row as the kernel reads it (times L, if
// any).
struct HardSums {
    double* weight;  // [K]
    double* total;   // [K][d]
    double distortion;
};

class HardVisitor {
public:
    static constexpr bool in_order = true;

    HardVisitor(const Codebook& book, const Samples& samples, std::int64_t* labels, HardSums& sums)
        : book_(book), samples_(samples), labels_(labels), sums_(sums) {}

    void operator()(std::int64_t k, const Row& row, Doubles& values) {
        const auto nearest = std::min_element(values.begin(), values.begin() + book_.K);
        labels_[k] = nearest - values.begin();
        nearest_.push_back(*nearest);
        rows_.insert(rows_.end(), row.x, row.x + book_.d);
    }
    void settle(std::int64_t first, std::int64_t last) {
        const double* x = rows_.data();
        for (std::int64_t k = first; k < last; ++k, x += book_.d) {
            const double w = samples_.weights ? samples_.weights[k] : 1.0;
            if (w == 0) continue;
            const auto best = static_cast<std::size_t>(labels_[k]);
            sums_.weight[best] += w;
            sums_.distortion += w * nearest_[static_cast<std::size_t>(k - first)];
            double* total = sums_.total + best * static_cast<std::size_t>(book_.d);
            for (int j = 0; j < book_.d; ++j) total[j] += w * x[j];
        }
        nearest_.clear();
        rows_.clear();
    }

private:
    const Codebook& book_;
    const Samples& samples_;
    std::int64_t* labels_;
    HardSums& sums_;
    Doubles nearest_, rows_;  // of the block
};

template <class Divergence>
void hard_sums(const Codebook& book, const Samples& samples, std::int64_t rows, int threads,
               std::int64_t* labels, HardSums& sums) {
    for_each_row<Divergence>(book, samples, rows, threads,
                             HardVisitor(book, samples, labels, sums));
}

// Lowest and highest value of every column.
template <class Number>
class RangeWorker {
public:
    static constexpr bool in_order = true;  // one thread after the other adds what it has found
    static constexpr std::int64_t numbers_in_block = 1 << 16;

    RangeWorker(const Samples& samples, std::int64_t rows, std::int64_t d, double* low, double* high,
                bool& finite)
        : samples_(samples), rows_(rows), d_(d), low_(low), high_(high), finite_(finite),
          lowest_(d), highest_(d), wrong_(d) {}
    static std::int64_t rows_in_block(std::int64_t d) {
        return std::max<std::int64_t>(numbers_in_block / std::max<std::int64_t>(d, 1), 1);
    }
    void work(std::int64_t block) {
        std::fill(lowest_.begin(), lowest_.end(), std::numeric_limits<Number>::infinity());
        std::fill(highest_.begin(), highest_.end(), -std::numeric_limits<Number>::infinity());
        const std::int64_t begin = block * rows_in_block(d_);
        const std::int64_t end = std::min(rows_, begin + rows_in_block(d_));
        const Number* data = reinterpret_cast<const Number*>(samples_.data);
        const auto see = [&](std::int64_t k, std::int64_t j) {
            const Number x = data[k * samples_.row_stride + j * samples_.feature_stride];
            lowest_[j] = x < lowest_[j] ? x : lowest_[j];
            highest_[j] = x > highest_[j] ? x : highest_[j];
            wrong_[j] += x - x;  // not 0 of what is not finite
        };
        if (samples_.feature_stride == 1) {
            for (std::int64_t k = begin; k < end; ++k)
                for (std::int64_t j = 0; j < d_; ++j) see(k, j);
        } else {
            for (std::int64_t j = 0; j < d_; ++j)
                for (std::int64_t k = begin; k < end; ++k) see(k, j);
        }
    }
    void settle(std::int64_t) {
        for (std::int64_t j = 0; j < d_; ++j) {
            low_[j] = std::min<double>(low_[j], lowest_[j]);
            high_[j] = std::max<double>(high_[j], highest_[j]);
            finite_ = finite_ && wrong_[j] == 0;
        }
    }

private:
    const Samples& samples_;
    std::int64_t rows_, d_;
    double *low_, *high_;
    bool& finite_;
    std::vector<Number> lowest_, highest_, wrong_;
};

template <class Number>
bool ranges_of(const Samples& samples, std::int64_t rows, std::int64_t d, int threads, double* low,
               double* high) {
    const std::int64_t each = RangeWorker<Number>::rows_in_block(d);
    bool finite = true;
    in_threads((rows + each - 1) / each, threads_for(static_cast<double>(rows) * d, threads), [&] {
        return RangeWorker<Number>(samples, rows, d, low, high, finite);
    });
    return finite;
}

// Whether all values are finite.
inline bool column_ranges(const Samples& samples, std::int64_t rows, std::int64_t d, int threads,
                          double* low, double* high) {
    std::fill(low, low + d, infinity);
    std::fill(high, high + d, -infinity);
    return samples.single_precision ? ranges_of<float>(samples, rows, d, threads, low, high)
                                    : ranges_of<double>(samples, rows, d, threads, low, high);
}

}  // namespace annealed
