// One temperature level of Algorithm 1, one sample at a time: the hot loop. It never changes the
// number of codevectors; splitting, merging and pruning happen between levels, in Python.
//
// Per sample (the paper's eq. oda_learning1/2, for the codevectors of the sample's own class):
//     p_i    = rho_i exp(-d(x, mu_i)/T) / sum_j rho_j exp(-d(x, mu_j)/T)
//     rho_i += alpha (p_i - rho_i)
//     mu_i  += (alpha p_i / rho_i) (x - mu_i)          with the new rho_i; sigma_i = rho_i mu_i
// kept as rho_i = g r_i so that weights need no decay pass: with g *= 1 - alpha first,
//     q_i = (alpha/g) e_i / sum_j r_j e_j,   r_i *= 1 + q_i,   mu_i += q_i/(1 + q_i) (x - mu_i).
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "level.hpp"
#include "products.hpp"
#include "samples.hpp"
#include "threads.hpp"

namespace annealed {

// Associations below this count as nothing in the sums of a level.
constexpr double least_association = 1e-7;

// Times an axis turns before it is measured along, a step of power iteration each.
constexpr std::int64_t turns_of_a_level = 3;

// Numbers of a codebook from which samples are learnt sixty-four at a time, by as many threads as there are.
constexpr std::int64_t large_codebook = 16384;

// What a level has learnt beyond the codevectors: per codevector the association-weighted moments
// of y = <u, x - mu> along its split axis, and steps of power iteration of that axis.
struct AxisSums {
    Doubles p, p2, y, y2, y4;  // [K] sums of p, p^2, p y, p y^2, p y^4 over rows that measure
    Doubles mass, spread;      // [K] sums of p, p d(x, mu) over all rows
    Doubles turned;            // [tiles] sum of p y (x - mu) over rows that turn
    double weight = 0, distortion = 0, entropy = 0;
    void clear(std::size_t padded_K) {
        for (Doubles* sums : {&p, &p2, &y, &y2, &y4, &mass, &spread}) sums->assign(padded_K, 0.0);
        weight = distortion = entropy = 0;
    }
};

template <class Divergence>
class OnlineLevel final : public LevelBase {
public:
    LevelSettings settings;
    int K, d;
    Tiles<Divergence> tiles;
    static constexpr int longest_block = largest_block;
    const int block;     // see looks_ahead
    Doubles r, axis, u;  // rho = g r; axis a and its dual u = H a/sqrt(<a, H a>), in tiles
    double g = 1, n = 0;
    int streak = 0;
    AxisSums sums;

    // `memory` says what the axes rest on already: `turned` starts at memory_i axis_i.
    OnlineLevel(const LevelSettings& settings_, int K_, int d_, const double* mu,
                const double* rho, const double* axis_, const double* memory, const double* low,
                const double* high, const double* matrix)
        : settings(settings_), K(K_), d(d_), tiles(mu, K_, d_),
          block(static_cast<std::int64_t>(K_) * d_ < large_codebook ? 16 : longest_block),
          r(static_cast<std::size_t>(tiles.count) * W, 0.0), axis(to_tiles(axis_, K_, d_, false)),
          u(axis.size(), 0.0), low_(low ? Doubles(low, low + d_) : Doubles()),
          high_(high ? Doubles(high, high + d_) : Doubles()),
          matrix_(matrix ? Doubles(matrix, matrix + static_cast<std::size_t>(d_) * d_) : Doubles()),
          reader_(d_, matrix ? matrix_.data() : nullptr), divergence_(r.size()), e_(r.size()),
          stride_(over_all_sets(r.size())), z_stride_(over_all_sets(static_cast<std::size_t>(d_))) {
        std::copy(rho, rho + K, r.begin());
        sums.clear(r.size());
        sums.turned = axis;
        for (std::size_t k = 0; k < axis.size(); ++k) {
            const std::size_t i = k / W / d * W + k % W;
            sums.turned[k] *= i < static_cast<std::size_t>(K) ? memory[i] : 0.0;
        }
    }
    OnlineLevel(const OnlineLevel&) = delete;
    int features() const override { return d; }
    double work_to_share() const override {
        return looks_ahead() && block == longest_block ? static_cast<double>(block) * K * d : 0;
    }

    void step(const RowPointer& pointer, double w, int role) override {
        const Row row = read_row(reader_, pointer);
        ++count;
        if (!settings.by_roles) role = both_roles;
        if (looks_ahead()) {
            pending.insert(pending.end(), row.x, row.x + d);
            pending_weights.push_back(w);
            pending_roles.push_back(role);
            const bool full = static_cast<int>(pending_weights.size()) == block;
            if (full) settle();
            done = (full && converged()) || count >= settings.at_most;
            return;
        }
        steer(count);
        const double alpha = step_size(settings, n, w);
        n += w;
        const double nearest = measure(row);
        const double total = weigh(nearest);
        if (observes(count)) observe(row.x, total, w, role, count, nullptr);
        const double largest_step = move(row, alpha, total);
        streak = largest_step < settings.small_step ? streak + 1 : 0;
        done = converged() || count >= settings.at_most;
    }

    // p_i of a row as the codebook stands, samples that are pending left out.
    void associations(const RowPointer& pointer, double* p) {
        const double total = weigh(measure(read_row(reader_, pointer)));
        for (int i = 0; i < K; ++i) p[i] = r[i] * e_[i] / total;
    }

    double evidence(const RowPointer& pointer, double T) override {
        if (!pending_weights.empty()) return std::numeric_limits<double>::quiet_NaN();
        const double nearest = measure(read_row(reader_, pointer));
        const Vec scale = Vec::all(-1 / T), least = Vec::all(nearest);
        Vec total = Vec::all(0.0), weight = total;
        for (std::size_t k = 0; k < r.size(); k += W) {  // what pads the last tile has no weight
            const Vec mine = Vec::load(&r[k]);
            total = fmadd(mine, exp((Vec::load(&divergence_[k]) - least) * scale), total);
            weight = weight + mine;
        }
        return std::log(sum(total) / sum(weight)) - nearest / T;
    }

    // Called after the state has been filled in from a saved one.
    void refresh() {
        for (int t = 0; t < tiles.count; ++t) tiles.refresh(t);
    }

    // A codebook that has outgrown the first-level cache takes its samples sixteen at a time, a large one
    // sixty-four: with c_i the step of codevector i on sample n,
    //     d(x_j, mu') = (1 - c) d(x_j, mu) + c d(x_j, x_n) - c (1 - c) d(x_n, mu)
    // gives every later distance without touching mu, which is then written once a block; samples
    // are looked at along the axes from where the codevectors stood when it began. Blocks are
    // counted from the start of the level, so how calls cut the stream does not matter; the samples
    // of an unfinished block wait in `pending`, and a level ends with a block.
    Doubles pending, pending_weights, pending_roles;

    static constexpr bool has_blocks = std::is_same<Divergence, SquaredEuclidean>::value;
    bool looks_ahead() const {
        return has_blocks && d >= 48 && static_cast<std::int64_t>(K) * d >= 2048;
    }

    // Learn what is pending.
    void settle() {
        if constexpr (has_blocks) settle_block();
    }

private:
    Doubles low_, high_, matrix_;
    RowReader<Divergence> reader_;
    Doubles divergence_, e_;
    const std::size_t stride_, z_stride_;  // from row to row of what is kept for a block
    Doubles ahead_, moved_;         // [rows][K] distances; the steps c of the codevectors
    Doubles watched_;               // [rows][K] w p of rows that are still to look along the axes
    Doubles along_, of_mu_;         // [rows][K] <u, z>, [K] <u, m>
    Doubles centre_, z_, length_;   // [d] mean of the rows; [rows][d] rows less it, their |z|^2
    Doubles furthest_;              // [K] |m|^2
    int doing_[longest_block] = {};

    void settle_block() {
        const int rows = static_cast<int>(pending_weights.size());
        if (rows == 0) return;
        const std::size_t padded = r.size();
        ahead_.resize(block * stride_);
        moved_.resize(block * stride_);
        watched_.resize(block * stride_);
        int looked = 0;
        const double* x[longest_block];
        double* distances_of[longest_block];
        for (int k = 0; k < rows; ++k) {
            x[k] = &pending[static_cast<std::size_t>(k) * d];
            distances_of[k] = &ahead_[k * stride_];
        }
        Doubles between(static_cast<std::size_t>(rows) * rows);
        centre_rows(x, rows);
        share_out(rows, [&](int m) { distances_to_earlier(x, m, rows, d, between.data()); });
        for (int m = 0; m < rows; ++m)  // read by row
            for (int k = 0; k < m; ++k) between[k * rows + m] = between[m * rows + k];
        measure_block(x, rows, distances_of);
        for (int k = 0; k < rows; ++k) {
            const double* distances = distances_of[k];
            std::copy(distances, distances + padded, divergence_.begin());
            const double alpha = step_size(settings, n, pending_weights[k]);
            n += pending_weights[k];
            Vec least = Vec::all(infinity);
            for (std::size_t i = 0; i < padded; i += W) least = min(least, Vec::load(distances + i));
            const double total = weigh(smallest(least));
            const std::int64_t here = count - rows + k + 1;
            if (turns(here)) {
                look_along_block(looked, k);
                looked = k;
                steer(here);
            }
            doing_[k] = 0;
            if (observes(here))
                doing_[k] = observe(nullptr, total, pending_weights[k],
                                    static_cast<int>(pending_roles[k]), here,
                                    &watched_[k * stride_]);
            g *= 1 - alpha;
            const Vec rate = Vec::all(alpha / g / total);
            Vec largest_step = Vec::all(0.0);
            for (std::size_t i = 0; i < padded; i += W)
                look_ahead(i, k, rows, rate, between.data(), largest_step);
            streak = largest(largest_step) < settings.small_step ? streak + 1 : 0;
            fold();
        }
        look_along_block(looked, rows);
        by_tiles([&](int t, auto wide) { this->template write_block<wide>(t, rows); });
        pending.clear();
        pending_weights.clear();
        pending_roles.clear();
    }

    bool converged() const { return count >= settings.at_least && streak >= settings.patience; }

    // Turn the axes when their time has come; `here` counts the sample about to be learnt.
    bool turns(std::int64_t here) const {
        const std::int64_t since = here - 1 - settings.first_axis;
        const std::int64_t stretch = settings.second_axis - settings.first_axis;
        if (since < 0 || since > stretch) return false;
        const std::int64_t each = std::max<std::int64_t>(stretch / turns_of_a_level, 1);
        return since == stretch || since % each == 0;
    }
    void steer(std::int64_t here) {
        if (!turns(here)) return;
        if (here == settings.first_axis + 1) aim();
        if (here > settings.first_axis + 1 || here == settings.second_axis + 1) turn();
        if (here == settings.second_axis + 1) sums.clear(r.size());
    }

    // A level whose axes nothing depends on never looks along them; it only counts.
    bool observes(std::int64_t here) const {
        return here > std::min(settings.first_axis, settings.second_axis);
    }

    double measure(const Row& row) {
        Vec least = Vec::all(infinity);
        for (int t = 0; t < tiles.count; ++t) {
            const Vec value = tiles.divergence(t, row);
            value.store(&divergence_[static_cast<std::size_t>(t) * W]);
            least = min(least, value);  // padding copies a codevector of its tile: never smaller
        }
        return smallest(least);
    }

    // e_i = exp(-(d_i - d_nearest)/T), returns sum_i r_i e_i
    double weigh(double nearest) {
        const Vec scale = Vec::all(-1 / settings.T), least = Vec::all(nearest);
        Vec total = Vec::all(0.0);
        for (int k = 0; k < tiles.count * W; k += W) {
            const Vec e = exp((Vec::load(&divergence_[k]) - least) * scale);
            e.store(&e_[k]);
            total = fmadd(Vec::load(&r[k]), e, total);
        }
        const double result = sum(total);
        return result > 1e-250 ? result : weigh_from_heaviest();
    }

    // Rare: the nearest codevector has next to no weight, so measure from the one with the
    // largest rho_i exp(-d_i/T) instead.
    double weigh_from_heaviest() {
        double best = -infinity;
        for (int i = 0; i < K; ++i)
            if (r[i] > 0) best = std::max(best, std::log(r[i]) - divergence_[i] / settings.T);
        double total = 0;
        for (int i = 0; i < tiles.count * W; ++i) {
            const double exponent =
                i < K && r[i] > 0 ? std::log(r[i]) - divergence_[i] / settings.T - best : -infinity;
            // p_i = r_i e_i / total must stay finite, and so must e_i itself
            e_[i] = exponent > exp_floor ? std::min(std::exp(exponent) / r[i], 1e250) : 0.0;
            total += r[i] * e_[i];
        }
        return total;
    }

    double move(const Row& row, double alpha, double total) {
        g *= 1 - alpha;
        const Vec rate = Vec::all(alpha / g / total), one = Vec::all(1.0);
        Vec largest_step = Vec::all(0.0);
        for (int t = 0; t < tiles.count; ++t) {
            const int k = t * W;
            const Vec q = Vec::load(&e_[k]) * rate;
            // Less than the rounding of the codevector itself: nothing moves.
            if (!any_above(q, 0x1p-60)) continue;
            const Vec kept = one + q, c = q / kept;
            (Vec::load(&r[k]) * kept).store(&r[k]);
            largest_step = max(largest_step, c * c * Vec::load(&divergence_[k]));
            double* mu = &tiles.mu[tiles.offset(t)];
            for (int j = 0; j < d; ++j) {
                const Vec here = Vec::load(mu + j * W);
                Vec moved = fmadd(c, Vec::all(row.x[j]) - here, here);
                if constexpr (Divergence::bounded)
                    moved = min(max(moved, Vec::all(low_[j])), Vec::all(high_[j]));
                moved.store(mu + j * W);
            }
            tiles.refresh(t);
        }
        fold();
        return largest(largest_step);
    }

    // Put the common factor back into the weights before it underflows.
    void fold() {
        if (g >= 1e-60) return;
        for (double& weight : r) weight *= g;
        g = 1;
    }

    // The rows of a block around their mean, where products lose nothing.
    void centre_rows(const double* const* x, int rows) {
        centre_.assign(z_stride_, 0.0);
        const double share = 1.0 / rows;
        for (int k = 0; k < rows; ++k)
            for (int j = 0; j < d; ++j) centre_[j] += share * x[k][j];
        z_.resize(block * z_stride_);  // what pads a row stays zero
        length_.resize(block);
        share_out(rows, [&](int k) {
            double* z = &z_[k * z_stride_];
            for (int j = 0; j < d; ++j) z[j] = x[k][j] - centre_[j];
            Vec square = Vec::all(0.0);
            for (int j = 0; j < d; j += W) square = fmadd(Vec::load(z + j), Vec::load(z + j), square);
            length_[k] = sum(square);
        });
    }

    // |x - mu_i|^2 = |z|^2 - 2 <z, m_i> + |m_i|^2 with m_i = mu_i - centre, for all rows of a block. Where
    // rounding could be seen in exp(-d/T), by differences.
    void measure_block(const double* const* x, int rows, double* const* distances_of) {
        furthest_.assign(r.size(), 0.0);
        by_tiles([&](int t, auto wide) {
            this->template measure_tiles<wide>(t, rows, distances_of);
        });
        const double size = std::sqrt(*std::max_element(furthest_.begin(), furthest_.end())) +
                            std::sqrt(*std::max_element(length_.begin(), length_.begin() + rows));
        const double doubt = (8.0 * d + 64) * std::numeric_limits<double>::epsilon() * size * size;
        if (doubt <= 1e-6 * settings.T) return;
        Row row[longest_block];
        for (int k = 0; k < rows; ++k) row[k] = {x[k], nullptr, nullptr};
        tiles.divergences(row, rows, nullptr, distances_of);
    }
    template <int T>
    void measure_tiles(int t, int rows, double* const* distances_of) {
        const double* z[longest_block];
        double* out[longest_block];
        Vec square[T];
        for (Vec& each : square) each = Vec::all(0.0);
        for (int k = 0; k < rows; ++k) {
            z[k] = &z_[k * z_stride_];
            out[k] = distances_of[k] + t * W;
            for (int i = 0; i < T; ++i) Vec::all(0.0).store(out[k] + i * W);
        }
        constexpr std::size_t stride = static_cast<std::size_t>(features_together) * W;
        alignas(64) double m[T * stride];
        for (int from = 0; from < d; from += features_together) {
            const int to = std::min(from + features_together, d);
            for (int i = 0; i < T; ++i)
                for (int j = from; j < to; ++j) {
                    const std::size_t here = tiles.offset(t + i) + static_cast<std::size_t>(j) * W;
                    const Vec value = Vec::load(&tiles.mu[here]) - Vec::all(centre_[j]);
                    value.store(m + i * stride + (j - from) * W);
                    square[i] = fmadd(value, value, square[i]);
                }
            add_products<T>(z, rows, from, to, m, stride, out);
        }
        for (int i = 0; i < T; ++i) {
            square[i].store(&furthest_[(t + i) * W]);
            for (int k = 0; k < rows; ++k) {
                double* at = out[k] + i * W;
                const Vec value =
                    fmadd(Vec::all(-2.0), Vec::load(at), square[i] + Vec::all(length_[k]));
                max(value, Vec::all(0.0)).store(at);
            }
        }
    }

    // Sample k moves the codevectors of a tile, from i on: their weights, and what that means for the later rows.
    void look_ahead(std::size_t i, int k, int rows, Vec rate, const double* between,
                    Vec& largest_step) {
        const Vec q = Vec::load(&e_[i]) * rate, one = Vec::all(1.0);
        if (!any_above(q, 0x1p-60)) return Vec::all(0.0).store(&moved_[k * stride_ + i]);
        const Vec grown = one + q, c = q / grown, rest = one - c;
        (Vec::load(&r[i]) * grown).store(&r[i]);
        const Vec here = Vec::load(&divergence_[i]);
        largest_step = max(largest_step, c * c * here);
        const Vec correction = c * rest * here;
        const std::size_t stride = stride_;  // for the compiler: what is stored is none of these
        double* later = &ahead_[k * stride + i];
        const double* apart = &between[static_cast<std::size_t>(k) * rows];
        for (int m = k + 1; m < rows; ++m) {
            later += stride;
            const Vec value = fmadd(rest, Vec::load(later), c * Vec::all(apart[m])) - correction;
            max(value, Vec::all(0.0)).store(later);
        }
        c.store(&moved_[k * stride_ + i]);
    }

    // Calls with the first of every few tiles and, as a constant, how many; threads share them out.
    template <class Function>
    void by_tiles(Function function) {
        const auto few = [&](int piece) {
            const int t = piece * tiles_together;
            with_tiles(std::min(tiles_together, tiles.count - t),
                       [&](auto wide) { function(t, wide); });
        };
        share_out((tiles.count + tiles_together - 1) / tiles_together, few);
    }
    template <class Function>
    void share_out(int pieces, Function function) {
        if (team) return team->round(pieces, function);
        for (int piece = 0; piece < pieces; ++piece) function(piece);
    }

    // mu = kept mu + sum_k share_k x_k with x = z + centre, for the rows that moved anything in T tiles:
    // share_k = c_k prod_{m > k} (1 - c_m), and kept is what the product over all rows leaves.
    template <int T>
    void write_block(int t, int rows) {
        Vec share[(longest_block + 1) * T], kept[T];
        const double* z[longest_block + 1];
        int used = 0;
        for (Vec& each : kept) each = Vec::all(1.0);
        for (int k = rows - 1; k >= 0; --k) {
            bool moved = false;
            for (int i = 0; i < T; ++i) {
                const Vec c = Vec::load(&moved_[k * stride_ + (t + i) * W]);
                share[used * T + i] = c * kept[i];
                kept[i] = kept[i] * (Vec::all(1.0) - c);
                moved = moved || any_above(share[used * T + i], 0x1p-60);
            }
            if (moved) z[used++] = &z_[k * z_stride_];
        }
        if (used == 0) return;
        for (int i = 0; i < T; ++i) share[used * T + i] = Vec::all(1.0) - kept[i];
        z[used++] = centre_.data();
        double* mu = &tiles.mu[tiles.offset(t)];
        const std::size_t apart = tiles.offset(1);
        combine<T>(mu, apart, d, [&](int i, int j) { return kept[i] * Vec::load(mu + i * apart + j * W); },
                   share, z, used);
    }

    // Before the move: associations and divergences of a sample that has not been learnt yet.
    // In a block the look along the axes is put off: w p is left in `later`, and what is to be done.
    int observe(const double* x, double total, double w, int role, std::int64_t here,
                double* later) {
        const bool counting = here > settings.second_axis, looking = here > settings.first_axis;
        const int doing =
            looking ? (role & turns_axes) | (counting ? role & measures_axes : 0) : 0;
        if (!counting && !doing) return 0;
        const Vec inverse = Vec::all(1 / total), weight = Vec::all(w);
        const Vec tiny = Vec::all(1e-300), least = Vec::all(least_association);
        Vec distortion = Vec::all(0.0), plogp = Vec::all(0.0);
        for (int t = 0; t < tiles.count; ++t) {
            const int k = t * W;
            const Vec share = Vec::load(&r[k]) * Vec::load(&e_[k]) * inverse;
            const Vec p = zero_unless_above(share, share, least), wp = p * weight;
            if (later) wp.store(later + k);
            if (!any_above(p, 0.0)) continue;
            if (counting) {
                const Vec spread = p * Vec::load(&divergence_[k]);
                distortion = distortion + spread;
                plogp = fmadd(p, log(max(p, tiny)), plogp);
                add(sums.mass, k, wp);
                add(sums.spread, k, spread * weight);
            }
            if (doing && !later) look_along(t, x, wp, doing);
        }
        if (counting) {
            sums.weight += w;
            sums.distortion += w * sum(distortion);
            sums.entropy -= w * sum(plogp);
        }
        return doing;
    }

    // Project x - mu on the axes of a tile; turn the axes by it or measure the variance along them.
    void look_along(int t, const double* x, Vec wp, int doing) {
        const double* mu = &tiles.mu[tiles.offset(t)];
        const double* dual = &u[tiles.offset(t)];
        Vec even = Vec::all(0.0), odd = even;
        const auto along = [&](int j, Vec so_far) {
            return fmadd(Vec::load(dual + j * W), Vec::all(x[j]) - Vec::load(mu + j * W), so_far);
        };
        int i = 0;
        for (; i + 2 <= d; i += 2) {
            even = along(i, even);
            odd = along(i + 1, odd);
        }
        if (i < d) even = along(i, even);
        const Vec y = even + odd, py = wp * y;
        if (doing & measures_axes) measure_along(t, wp, y);
        if (!(doing & turns_axes)) return;
        double* turned = &sums.turned[tiles.offset(t)];
        for (int j = 0; j < d; ++j)
            fmadd(py, Vec::all(x[j]) - Vec::load(mu + j * W), Vec::load(turned + j * W))
                .store(turned + j * W);
    }
    void measure_along(int t, Vec wp, Vec y) {
        const int k = t * W;
        const Vec py = wp * y;
        add(sums.p, k, wp);
        add(sums.p2, k, wp * wp);
        add(sums.y, k, py);
        add(sums.y2, k, py * y);
        add(sums.y4, k, py * y * (y * y));
    }

    // The same for rows first..last of a block, from where the codevectors stood when it began, by products:
    // y = <u, z> - <u, m> and sum p y (x - mu) = sum p y z - m sum p y round no worse than rows do.
    void look_along_block(int first, int last) {
        int rows[longest_block];
        int n = 0, turning = 0;
        for (int k = first; k < last; ++k)  // those that turn come first
            if (doing_[k] & turns_axes) rows[n++] = k;
        turning = n;
        for (int k = first; k < last; ++k)
            if (doing_[k] && !(doing_[k] & turns_axes)) rows[n++] = k;
        if (n == 0) return;
        along_.resize(block * stride_);
        of_mu_.assign(r.size(), 0.0);
        for (int m = 0; m < n; ++m) std::fill_n(&along_[rows[m] * stride_], r.size(), 0.0);
        by_tiles([&](int t, auto wide) { this->template project_block<wide>(t, rows, n); });
        for (int m = 0; m < n; ++m) {
            const int k = rows[m];
            for (int t = 0; t < tiles.count; ++t) {
                double* wp = &watched_[k * stride_ + t * W];
                const Vec value = Vec::load(wp);
                if (!any_above(value, 0.0)) continue;
                const Vec y = Vec::load(&along_[k * stride_ + t * W]) - Vec::load(&of_mu_[t * W]);
                if (doing_[k] & measures_axes) measure_along(t, value, y);
                (value * y).store(wp);  // from here on it is w p y
            }
        }
        if (turning > 0)
            by_tiles([&](int t, auto wide) { this->template turn_block<wide>(t, rows, turning); });
    }
    // <u, z> and <u, m> of T tiles, for the rows that count there.
    template <int T>
    void project_block(int t, const int* rows, int n) {
        const double* z[longest_block];
        double* out[longest_block];
        int used = 0;
        for (int m = 0; m < n; ++m) {
            bool counts = false;
            for (int i = 0; i < T; ++i)
                counts = counts || any_above(Vec::load(&watched_[rows[m] * stride_ + (t + i) * W]), 0.0);
            if (!counts) continue;
            z[used] = &z_[rows[m] * z_stride_];
            out[used++] = &along_[rows[m] * stride_ + t * W];
        }
        if (used == 0) return;
        const double* mu = &tiles.mu[tiles.offset(t)];
        const double* dual = &u[tiles.offset(t)];
        const std::size_t apart = tiles.offset(1);
        Vec of_mu[T];
        for (Vec& each : of_mu) each = Vec::all(0.0);
        for (int from = 0; from < d; from += features_together) {
            const int to = std::min(from + features_together, d);
            for (int j = from; j < to; ++j)
                for (int i = 0; i < T; ++i) {
                    const std::size_t here = i * apart + j * W;
                    of_mu[i] = fmadd(Vec::load(dual + here),
                                     Vec::load(mu + here) - Vec::all(centre_[j]), of_mu[i]);
                }
            add_products<T>(z, used, from, to, dual + from * W, apart, out);
        }
        for (int i = 0; i < T; ++i) of_mu[i].store(&of_mu_[(t + i) * W]);
    }
    // What turns the axes of T tiles.
    template <int T>
    void turn_block(int t, const int* rows, int n) {
        const double* z[longest_block];
        Vec py[longest_block * T], total[T];
        for (Vec& each : total) each = Vec::all(0.0);
        int used = 0;
        for (int m = 0; m < n; ++m) {
            bool counts = false;
            for (int i = 0; i < T; ++i) {
                py[used * T + i] = Vec::load(&watched_[rows[m] * stride_ + (t + i) * W]);
                counts = counts || any_nonzero(py[used * T + i]);
            }
            if (!counts) continue;
            for (int i = 0; i < T; ++i) total[i] = total[i] + py[used * T + i];
            z[used++] = &z_[rows[m] * z_stride_];
        }
        if (used == 0) return;
        const double* mu = &tiles.mu[tiles.offset(t)];
        double* turned = &sums.turned[tiles.offset(t)];
        const std::size_t apart = tiles.offset(1);
        const auto before = [&](int i, int j) {
            const std::size_t here = i * apart + j * W;
            return Vec::load(turned + here) - total[i] * (Vec::load(mu + here) - Vec::all(centre_[j]));
        };
        combine<T>(turned, apart, d, before, py, z, used);
    }
    static bool any_nonzero(Vec value) { return any_above(value * value, 0.0); }
    static void add(Doubles& into, int k, Vec value) { (Vec::load(&into[k]) + value).store(&into[k]); }

    // u = H(mu) a / sqrt(<a, H(mu) a>): <u, x - mu> then has variance lambda along an eigenvector
    // of C H, and the codevector is unstable below T = lambda (Rose 1998, Theorem 1, for any phi).
    void aim() {
        for (int t = 0; t < tiles.count; ++t) {
            const std::size_t start = tiles.offset(t);
            Vec norm = Vec::all(0.0);
            for (int j = 0; j < d; ++j) {
                const std::size_t k = start + static_cast<std::size_t>(j) * W;
                const Vec a = Vec::load(&axis[k]);
                const Vec Ha = Divergence::hessian(Vec::load(&tiles.mu[k])) * a;
                Ha.store(&u[k]);
                norm = fmadd(a, Ha, norm);
            }
            double scale[W];
            norm.store(scale);
            for (double& s : scale) s = s > 0 ? 1 / std::sqrt(s) : 0.0;
            const Vec factor = Vec::load(scale);
            for (int j = 0; j < d; ++j) {
                const std::size_t k = start + static_cast<std::size_t>(j) * W;
                (Vec::load(&u[k]) * factor).store(&u[k]);
            }
        }
    }

    // A step of power iteration; what has turned the axis so far goes on counting.
    void turn() {
        for (int i = 0; i < K; ++i) {  // an axis nothing was seen along stays as it was
            const std::size_t start = tiles.offset(i / W) + i % W;
            double squared = 0;
            for (int j = 0; j < d; ++j) {
                const double v = sums.turned[start + static_cast<std::size_t>(j) * W];
                squared += v * v;
            }
            if (!(squared > 0)) continue;
            const double scale = 1 / std::sqrt(squared);
            for (int j = 0; j < d; ++j) {
                const std::size_t k = start + static_cast<std::size_t>(j) * W;
                axis[k] = sums.turned[k] * scale;
            }
        }
        aim();
    }
};

// Threads that help some levels, until it goes out of scope.
class Helped {
public:
    Helped(const std::vector<LevelBase*>& levels, int threads) : levels_(levels), team_(most(levels, threads)) {
        if (team_.allowed() < 2) return;
        for (LevelBase* level : levels_)
            if (threads_for(level->work_to_share(), threads) > 1) level->team = &team_;
    }
    Helped(const Helped&) = delete;
    ~Helped() {
        for (LevelBase* level : levels_) level->team = nullptr;
    }

private:
    const std::vector<LevelBase*>& levels_;
    ThreadTeam team_;

    static int most(const std::vector<LevelBase*>& levels, int threads) {
        int found = 1;
        for (const LevelBase* level : levels)
            found = std::max(found, threads_for(level->work_to_share(), threads));
        return found;
    }
};

// Presents samples begin..end in order until one of them completes its class's level. Returns the
// number presented; rows of weight 0 are skipped.
inline std::int64_t learn(const std::vector<LevelBase*>& levels, const Samples& samples,
                          std::int64_t begin, std::int64_t end, int threads) {
    const FlushDenormals flush;
    const Helped helped(levels, threads);
    const int d = levels[0]->features();
    for (std::int64_t k = begin; k < end; ++k) {
        const std::int64_t row = samples.row(k, end, d);
        const double w = samples.weights ? samples.weights[row] : 1.0;
        if (w == 0) continue;
        const std::size_t c = samples.classes ? static_cast<std::size_t>(samples.classes[row]) : 0;
        if (c >= levels.size()) throw std::out_of_range("a row is of a class that does not exist");
        LevelBase& level = *levels[c];
        level.seen += w;
        level.step(samples.at(row), w, samples.roles ? samples.roles[row] : both_roles);
        if (level.done) return k + 1;
    }
    return end;
}

}  // namespace annealed
