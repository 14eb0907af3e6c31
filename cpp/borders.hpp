// Clusters of any shape, read off a codebook: codevectors are joined where no border is seen
// (annealing/borders.py; docs/notation.md, "Clusters of any shape").
//
// Codevectors with their weights are a density: f(x) = sum_i rho_i k_i(x), k_i a Gaussian around mu_i.
// Two sides are two clusters where f falls between their peaks, by more than the samples that f rests
// on would let it fall by chance. Distances between codevectors say all that there is to know of where
// they are.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>
#include <vector>

#include "density.hpp"
#include "joins.hpp"

namespace annealed {

// Kernels are widened by this factor at a time.
constexpr double widening = 1.5;
// A border is where the density falls to this share of the lower peak, as between two equal Gaussians
// three standard deviations apart. Without such a rule any dip becomes significant with enough samples,
// and a bent cluster falls into the parts of its bend.
constexpr double deepest_saddle = 2.0 / 3;
// Among the widths that show a border the narrowest draws it best; those count that support it this much
// of the most that any does.
constexpr double support_to_draw = 0.5;
// Saddles are looked for halfway to so many neighbours.
constexpr std::int64_t near_neighbours = 7;
// Codevectors lie more evenly than points at random would: what their places add to the variance of log f
// is this part of what as many random points would have.
constexpr double unevenness = 0.15;

using Members = std::vector<std::int64_t>;

// Codevectors, or some of them, whose clusters are asked for.
struct Places {
    Doubles distances;  // [n][n], squared
    Doubles weights;    // [n]
    double dimensions;
    double narrowest;  // twice the least variance of a kernel
    double samples;    // how many all codevectors together stand for, also those that are not here

    std::int64_t count() const { return static_cast<std::int64_t>(weights.size()); }
    double apart(std::int64_t i, std::int64_t j) const { return distances[i * count() + j]; }
    double weight() const { return std::accumulate(weights.begin(), weights.end(), 0.0); }
    Places some(const Members& members) const {
        const std::size_t n = members.size();
        Places few{Doubles(n * n), Doubles(n), dimensions, narrowest, samples};
        for (std::size_t i = 0; i < n; ++i) {
            few.weights[i] = weights[members[i]];
            for (std::size_t j = 0; j < n; ++j)
                few.distances[i * n + j] = apart(members[i], members[j]);
        }
        return few;
    }
    // Twice their variance in all directions.
    double widest() const {
        double sum = 0;
        for (std::int64_t i = 0; i < count(); ++i) {
            double own = 0;
            for (std::int64_t j = 0; j < count(); ++j) own += weights[j] * apart(i, j);
            sum += weights[i] * own;
        }
        return sum / (weight() * weight());
    }
};

// Pairs of near places, and as many more as it takes to connect all.
inline Edges neighbours(const Places& places) {
    const std::int64_t n = places.count(), k = std::min(near_neighbours, n - 1);
    Edges edges;
    Members nearest;
    for (std::int64_t i = 0; i < n && k > 0; ++i) {
        nearest.clear();  // in order; of equally near ones the first
        for (std::int64_t j = 0; j < n; ++j) {
            const bool full = static_cast<std::int64_t>(nearest.size()) == k;
            if (j == i || (full && places.apart(i, j) >= places.apart(i, nearest.back()))) continue;
            if (full) nearest.pop_back();
            auto at = nearest.end();
            while (at != nearest.begin() && places.apart(i, j) < places.apart(i, *(at - 1))) --at;
            nearest.insert(at, j);
        }
        for (const std::int64_t j : nearest) edges.add(i, j);
    }
    if (!connected(edges, n)) add_spanning_tree(places.distances.data(), n, edges);
    std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
    for (std::int64_t e = 0; e < edges.count(); ++e)
        pairs.push_back(std::minmax(edges.first[e], edges.second[e]));
    std::sort(pairs.begin(), pairs.end());
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    Edges once;
    for (const auto& [a, b] : pairs) once.add(a, b);
    return once;
}

// A density at one width: its peaks, how they are joined, and the clearest border.
struct View {
    Doubles peaks, counts, ripple;  // [n] log f; samples it rests on; what their places add to chance
    Doubles middles, saddles;       // [edges] log f halfway; no higher than either end
    Joins joins;
    Doubles depth;          // [joins] the saddle's share of the lower peak
    double log_places = 0;  // of how many places there are to look at
    std::size_t clearest = 0;
    double support = 0;  // of the clearest border

    // Whether there is any border at all.
    bool several() const {
        return std::any_of(depth.begin(), depth.end(), [](double one) { return one < 1; });
    }

    // How sure a border is, in standard errors: as the lesser of that it is there, and that it is deep.
    //
    // Ripples raise and lower what is there: nothing, where a saddle is empty. Along a line any place
    // may be the peak, and any the saddle, so that chance has m^2 differences to choose from when a
    // border is `searched` for; an empty saddle is not the lowest of many.
    double support_of(std::int64_t low, double saddle, bool searched) const {
        const double root = std::sqrt(2 * counts[low] / (1 + ripple[low] * saddle));
        const double chance = std::sqrt(2 * (searched ? 1 + saddle : 1) * log_places);
        const double there = root * (1 - std::sqrt(saddle)) - chance;
        const double deep = root * (std::sqrt(deepest_saddle) - std::sqrt(saddle));
        return std::min(there, deep);
    }
};

struct Border {
    double support;
    std::vector<char> lower;  // which places lie on the side of the lower peak
};

// Some codevectors as a density whose width can be chosen.
class Density {
public:
    Density(const Places& places, ThreadTeam& team)
        : places_(places), team_(team), edges_(neighbours(places)), widest_(places.widest()),
          log_weights_(places.weights) {
        for (double& each : log_weights_) each = std::log(std::max(each, least_weight));
    }

    double widest() const { return widest_; }

    // Those worth a look.
    std::vector<double> widths() const {
        std::vector<double> found;
        for (double width = places_.narrowest; width < widest_; width *= widening)
            found.push_back(width);
        return found;
    }

    View view(double width) const {
        const std::int64_t n = places_.count();
        const Doubles& weights = places_.weights;
        const double d = places_.dimensions, total = places_.weight();
        View view;
        view.peaks.resize(n);
        Doubles widths(n, width), squares(n);
        measure(widths, view.peaks, squares, nullptr);
        double mean = 0;
        for (std::int64_t i = 0; i < n; ++i) mean += weights[i] / total * view.peaks[i];
        // Every kernel holds about as many samples as any other: f^(-1/d) is the radius of a ball of so
        // much mass. In one dimension the square root is enough (Abramson 1982).
        const double exponent = 2 * std::min(0.5, 1 / d);
        for (std::int64_t i = 0; i < n; ++i)
            widths[i] = std::max(width * std::exp(-exponent * (view.peaks[i] - mean)),
                                 places_.narrowest);
        measure(widths, view.peaks, squares, &view.middles);
        // f rests on N f^2 / sum rho k^2 samples; there are about so many places to look at.
        double m = 0;
        view.counts.resize(n);
        view.ripple.resize(n);
        for (std::int64_t i = 0; i < n; ++i) {
            view.counts[i] = places_.samples * std::exp(2 * view.peaks[i] - squares[i]);
            m += weights[i] * std::exp(squares[i] - 2 * view.peaks[i]);
            // Where codevectors lie is chance too, but for one that is alone under its kernel:
            // var log f = 1/n + unevenness (1 - alone)/m, with m = n K/N that n of N samples belong to.
            const double own = log_weights_[i] + log_height(widths[i]);
            const double alone = std::exp(std::min(own - view.peaks[i], 0.0));
            view.ripple[i] = unevenness * (1 - alone) * places_.samples * total / n;
        }
        // Poisson counts n and n depth: the difference of their square roots has variance 1/2. The
        // largest of m such differences is sqrt(2 log m) by chance; here m places, each at widths of
        // which those count that are a factor 4 apart, the others showing much the same.
        m *= std::log(std::max(widest_ / places_.narrowest, 4.0)) / std::log(4.0);
        view.log_places = std::log(std::max(m, 2.0));
        join(view);
        return view;
    }

    // The border with most support, over all widths.
    Border clearest_border() const {
        std::vector<View> seen;
        std::vector<double> widths = this->widths();
        if (widths.empty()) widths.push_back(places_.narrowest);
        for (const double width : widths) {
            seen.push_back(view(width));
            if (!seen.back().several()) break;  // wider kernels will not part what is one now
        }
        const auto less = [](const View& a, const View& b) { return a.support < b.support; };
        const auto most = std::max_element(seen.begin(), seen.end(), less);
        const double enough = support_to_draw * most->support;
        const auto drawn =
            most->support > 0
                ? std::find_if(seen.begin(), seen.end(),
                               [&](const View& one) { return one.support >= enough; })
                : most;
        return {most->support, lower_side(*drawn)};
    }

    // The support of the borders between given clusters, in standard errors of their sum. Clusters are
    // joined over their highest saddles, as peaks are.
    double support_between(const View& view, const std::int64_t* clusters) const {
        const std::int64_t n = places_.count(), K = 1 + *std::max_element(clusters, clusters + n);
        Members highest(K, -1);
        for (std::int64_t i = 0; i < n; ++i) {
            std::int64_t& top = highest[clusters[i]];
            if (top < 0 || view.peaks[i] >= view.peaks[top]) top = i;
        }
        Roots roots(K);
        double total = 0;
        for (const std::int64_t edge : from_above(view.saddles)) {
            std::int64_t a = roots.find(clusters[edges_.first[edge]]);
            std::int64_t b = roots.find(clusters[edges_.second[edge]]);
            if (a == b) continue;
            if (view.peaks[highest[a]] < view.peaks[highest[b]]) std::swap(a, b);
            const double under = view.saddles[edge] - view.peaks[highest[b]];
            total += view.support_of(highest[b], std::exp(std::min(under, 0.0)), false);
            roots.join(b, a);
        }
        return total / std::sqrt(static_cast<double>(K - 1));
    }

private:
    const Places& places_;
    ThreadTeam& team_;
    const Edges edges_;
    const double widest_;
    Doubles log_weights_;

    // log f and log sum_j rho_j k_j^2 at every codevector, log f between neighbours. Kernels of all
    // widths hold equal mass; the narrowest one would be 1 high.
    void measure(const Doubles& widths, Doubles& peaks, Doubles& squares, Doubles* middles) const {
        const std::size_t n = widths.size();
        Doubles inverse(n), log_mass(n);
        for (std::size_t j = 0; j < n; ++j) {
            inverse[j] = 1 / widths[j];
            log_mass[j] = log_weights_[j] + log_height(widths[j]);
        }
        if (middles) middles->resize(edges_.first.size());
        measure_density({places_.distances.data(), inverse.data(), log_mass.data(),
                         places_.weights.data(), places_.count(), edges_.first.data(),
                         edges_.second.data(), middles ? edges_.count() : 0, peaks.data(),
                         squares.data(), middles ? middles->data() : nullptr},
                        team_);
    }
    double log_height(double width) const {
        return -places_.dimensions / 2 * std::log(width / places_.narrowest);
    }

    static Members from_above(const Doubles& heights) {
        Members order(heights.size());
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
            return heights[a] > heights[b];
        });
        return order;
    }

    // Peaks joined over ever lower saddles, and which of the borders between them is the clearest.
    void join(View& view) const {
        view.saddles.resize(view.middles.size());
        for (std::int64_t e = 0; e < edges_.count(); ++e)
            view.saddles[e] = std::min({view.middles[e], view.peaks[edges_.first[e]],
                                        view.peaks[edges_.second[e]]});
        view.joins = join_peaks(view.peaks.data(), places_.count(), edges_, from_above(view.saddles));
        view.support = -infinity;
        for (std::size_t k = 0; k < view.joins.low.size(); ++k) {
            const std::int64_t low = view.joins.low[k];
            const double under = view.saddles[view.joins.edge[k]] - view.peaks[low];
            view.depth.push_back(std::exp(std::min(under, 0.0)));
            const double support = view.support_of(low, view.depth.back(), true);
            if (support > view.support) {
                view.support = support;
                view.clearest = k;
            }
        }
    }

    // Whose climb ends at the lower peak of the clearest border, or at one joined with it.
    std::vector<char> lower_side(const View& view) const {
        Roots roots(places_.count());
        for (std::size_t k = 0; k < view.joins.low.size(); ++k)
            if (k != view.clearest)
                roots.join(roots.find(view.joins.low[k]), roots.find(view.joins.high[k]));
        const std::int64_t side = roots.find(view.joins.low[view.clearest]);
        std::vector<char> lower;
        for (const std::int64_t peak : climb(view)) lower.push_back(roots.find(peak) == side);
        return lower;
    }

    // The peak each codevector comes to by the steepest way up. Joining by saddles alone hands what lies
    // in a valley to the wrong side.
    Members climb(const View& view) const {
        const std::int64_t n = places_.count();
        Members up(n);
        std::iota(up.begin(), up.end(), 0);
        std::vector<double> steepest(n, 0.0);
        for (std::int64_t e = 0; e < edges_.count(); ++e) {
            std::int64_t start = edges_.first[e], end = edges_.second[e];
            if (view.peaks[start] > view.peaks[end]) std::swap(start, end);
            const double length = std::sqrt(
                std::max(places_.apart(start, end), std::numeric_limits<double>::min()));
            const double slope = (view.peaks[end] - view.peaks[start]) / length;
            if (slope > steepest[start] && view.middles[e] >= view.peaks[start]) {
                steepest[start] = slope;
                up[start] = end;
            }
        }
        for (std::int64_t i = 0; i < n; ++i)
            while (up[i] != up[up[i]]) up[i] = up[up[i]];
        return up;
    }
};

// Codevectors in one cluster more than before.
struct Cut {
    double support;    // of the new border
    Members clusters;  // number of the cluster of each codevector
};

// Divides codevectors at the clearest border, again and again, as long as borders have more support than
// `least`; the first that has not is the last. The k-th cut has k + 2 clusters; the heavier side of a
// border keeps its number.
inline std::vector<Cut> cuts(const Places& places, double least, ThreadTeam& team) {
    const FlushDenormals flush;
    struct Waiting {
        double support;
        std::int64_t first;  // of both sides
        Members low, high;
        bool operator<(const Waiting& other) const {
            return support < other.support || (support == other.support && first > other.first);
        }
    };
    std::priority_queue<Waiting> queue;
    const auto consider = [&](const Members& members) {
        if (members.size() < 2) return;
        const Places here = places.some(members);
        const Border border = Density(here, team).clearest_border();
        Waiting sides{border.support, members.front(), {}, {}};
        for (std::size_t i = 0; i < members.size(); ++i)
            (border.lower[i] ? sides.low : sides.high).push_back(members[i]);
        queue.push(std::move(sides));
    };
    Members all(places.count());
    std::iota(all.begin(), all.end(), 0);
    consider(all);
    std::vector<Cut> found;
    Members clusters(places.count(), 0);
    const auto weight = [&](const Members& members) {
        return std::accumulate(members.begin(), members.end(), 0.0,
                               [&](double sum, std::int64_t i) { return sum + places.weights[i]; });
    };
    while (!queue.empty()) {
        const Waiting sides = queue.top();
        queue.pop();
        const auto number = static_cast<std::int64_t>(found.size()) + 1;
        for (const std::int64_t i : weight(sides.low) > weight(sides.high) ? sides.high : sides.low)
            clusters[i] = number;
        found.push_back({sides.support, clusters});
        if (sides.support <= least || sides.low.empty() || sides.high.empty()) break;
        consider(sides.high);
        consider(sides.low);
    }
    return found;
}

// The support of all borders between given clusters, taken together, at the width where it is largest.
inline double support_between(const Places& places, const std::int64_t* clusters, ThreadTeam& team) {
    const FlushDenormals flush;
    const Density density(places, team);
    double most = -infinity;
    for (const double width : density.widths())
        most = std::max(most, density.support_between(density.view(width), clusters));
    return most;
}

// Which codevectors of a cluster lie apart from it, in groups of fewer than `size` samples. They are
// looked at with kernels that hold so many samples: what is apart then has no place among so many,
// however it was joined.
inline std::vector<char> loose(const Places& places, double size, ThreadTeam& team) {
    const FlushDenormals flush;
    const std::int64_t n = places.count();
    std::vector<char> apart(n, 0);
    if (n < 2) return apart;
    const Density density(places, team);
    const auto held = [&](const View& view) {
        double sum = 0;
        for (std::int64_t i = 0; i < n; ++i) sum += view.counts[i] * places.weights[i];
        return sum / places.weight();
    };
    double width = places.narrowest;
    View view = density.view(width);
    while (width < density.widest() && held(view) < size) view = density.view(width *= widening);
    Roots roots(n);
    std::vector<double> mass;
    std::vector<Members> groups;
    for (std::int64_t i = 0; i < n; ++i) {
        mass.push_back(places.weights[i] * places.samples);
        groups.push_back({i});
    }
    for (std::size_t k = 0; k < view.joins.low.size(); ++k) {
        const std::int64_t a = roots.find(view.joins.low[k]), b = roots.find(view.joins.high[k]);
        const std::int64_t small = mass[a] < mass[b] ? a : b;
        if (view.depth[k] <= deepest_saddle && mass[small] < size)
            for (const std::int64_t i : groups[small]) apart[i] = 1;
        roots.join(a, b);
        mass[b] += mass[a];
        groups[b].insert(groups[b].end(), groups[a].begin(), groups[a].end());
    }
    return apart;
}

}  // namespace annealed
