// Peaks of a density joined over ever lower saddles (annealing/borders.py).
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

// Edges first[k], second[k] between n places, in the given order. Where one joins two sets, the root
// with the lower peak joins the other (of equal ones that of the second end); low, high and used say
// which did, over which edge. Returns how many joins there were, at most n - 1.
inline std::int64_t join_peaks(const double* peaks, std::int64_t n, const std::int64_t* first,
                               const std::int64_t* second, const std::int64_t* order,
                               std::int64_t edges, std::int64_t* low, std::int64_t* high,
                               std::int64_t* used) {
    Roots roots(n);
    std::int64_t joins = 0;
    for (std::int64_t k = 0; k < edges && joins < n - 1; ++k) {
        const std::int64_t edge = order[k];
        std::int64_t a = roots.find(first[edge]), b = roots.find(second[edge]);
        if (a == b) continue;
        if (peaks[a] < peaks[b]) std::swap(a, b);
        low[joins] = b;
        high[joins] = a;
        used[joins++] = edge;
        roots.join(b, a);
    }
    return joins;
}

}  // namespace annealed
