// Places that become one: peaks of a density joined over ever lower saddles, and the shortest edges that
// connect all (borders.hpp).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace annealed {

// Sets that are joined (union-find).
class Roots {
public:
    explicit Roots(std::int64_t n) : parent_(static_cast<std::size_t>(n)) {
        for (std::int64_t i = 0; i < n; ++i) parent_[i] = i;
    }
    std::int64_t find(std::int64_t a) {
        while (parent_[a] != a) a = parent_[a] = parent_[parent_[a]];
        return a;
    }
    void join(std::int64_t lower, std::int64_t higher) { parent_[lower] = higher; }

private:
    std::vector<std::int64_t> parent_;
};

// Undirected edges between places.
struct Edges {
    std::vector<std::int64_t> first, second;

    std::int64_t count() const { return static_cast<std::int64_t>(first.size()); }
    void add(std::int64_t a, std::int64_t b) {
        first.push_back(a);
        second.push_back(b);
    }
};

// Joins of sets, one after the other: the root with the lower peak joined the other, over which edge.
struct Joins {
    std::vector<std::int64_t> low, high, edge;
};

// Edges between places with such peaks, taken in the given order. Of equal peaks that of the second end
// is the lower.
inline Joins join_peaks(const double* peaks, std::int64_t n, const Edges& edges,
                        const std::vector<std::int64_t>& order) {
    Roots roots(n);
    Joins joins;
    for (const std::int64_t edge : order) {
        if (static_cast<std::int64_t>(joins.low.size()) == n - 1) break;
        std::int64_t a = roots.find(edges.first[edge]), b = roots.find(edges.second[edge]);
        if (a == b) continue;
        if (peaks[a] < peaks[b]) std::swap(a, b);
        joins.low.push_back(b);
        joins.high.push_back(a);
        joins.edge.push_back(edge);
        roots.join(b, a);
    }
    return joins;
}

// Whether edges connect all n places.
inline bool connected(const Edges& edges, std::int64_t n) {
    Roots roots(n);
    std::int64_t sets = n;
    for (std::int64_t k = 0; k < edges.count(); ++k) {
        const std::int64_t a = roots.find(edges.first[k]), b = roots.find(edges.second[k]);
        if (a == b) continue;
        roots.join(a, b);
        --sets;
    }
    return sets <= 1;
}

// The shortest edges that connect all n places (Prim); distances [n][n].
inline void add_spanning_tree(const double* distances, std::int64_t n, Edges& edges) {
    std::vector<double> nearest(distances, distances + n);
    std::vector<std::int64_t> parent(static_cast<std::size_t>(n), 0);
    std::vector<char> within(static_cast<std::size_t>(n), 0);
    within[0] = 1;
    for (std::int64_t k = 1; k < n; ++k) {
        std::int64_t next = -1;
        for (std::int64_t i = 0; i < n; ++i)
            if (!within[i] && (next < 0 || nearest[i] < nearest[next])) next = i;
        within[next] = 1;
        edges.add(next, parent[next]);
        const double* here = distances + next * n;
        for (std::int64_t i = 0; i < n; ++i)
            if (!within[i] && here[i] < nearest[i]) {
                nearest[i] = here[i];
                parent[i] = next;
            }
    }
}

}  // namespace annealed
