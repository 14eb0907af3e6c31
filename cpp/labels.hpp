// The likeliest codevector of every row for squared Euclid, by dot products, which take half as many
// operations as differences and cancel. So they only rule codevectors out:
//
//     log_weight_i - |x - mu_i|^2/T = log_weight_i - |m_i|^2/T + 2 <z, m_i>/T - |z|^2/T
//
// with z = x - c, m_i = mu_i - c, c the mean of the codevectors; the last term is common to all. A
// codevector further behind the best than rounding could put it is not the likeliest. Mostly one is
// left; where several are, they are measured by differences. Labels are thus those that differences
// give, also far from the origin. Of groups of codevectors the one with the largest sum of shares is
// taken in the same way, where its lead is more than rounding could make.
#pragma once

#include "associate.hpp"

namespace annealed {

// What all threads share: the codevectors around their mean.
struct CentredBook {
    const Codebook& book;
    Tiles<SquaredEuclidean> tiles;  // as they are
    Doubles centre;                 // [d]
    Doubles dual;                   // 2 m_i/T in tiles; at T = 0 in units of T
    Doubles constant;               // log_weight_i - |m_i|^2/T, -infinity for those that are impossible
    double per_T, furthest = 0, heaviest = 0;

    explicit CentredBook(const Codebook& given)
        : book(given), tiles(given.mu, given.K, given.d), centre(given.d, 0.0), dual(tiles.mu.size()),
          constant(static_cast<std::size_t>(tiles.count) * W, -infinity),
          per_T(given.T == 0 ? 1.0 : 1 / given.T) {
        const int K = book.K, d = book.d;
        for (int i = 0; i < K; ++i)
            for (int j = 0; j < d; ++j) centre[j] += book.mu[static_cast<std::size_t>(i) * d + j] / K;
        for (int i = 0; i < tiles.count * W; ++i) {
            const std::size_t from = tiles.offset(i / W) + i % W;
            double square = 0;
            for (int j = 0; j < d; ++j) {
                const double m = tiles.mu[from + static_cast<std::size_t>(j) * W] - centre[j];
                dual[from + static_cast<std::size_t>(j) * W] = 2 * per_T * m;
                square += m * m;
            }
            furthest = std::max(furthest, std::sqrt(square));
            if (i >= K || book.log_weight[i] == -infinity) continue;
            const double weight = book.T == 0 ? 0.0 : book.log_weight[i];
            heaviest = std::max(heaviest, std::abs(weight));
            constant[i] = weight - per_T * square;
        }
    }
    // How much rounding can move a codevector against another for a row of length |z|, in whichever
    // way they are measured: both ways add up d terms, each no larger than this.
    double doubt(double length) const {
        const double size = length + furthest;
        return (8.0 * book.d + 64) * std::numeric_limits<double>::epsilon() *
               (heaviest + per_T * size * size);
    }
};

// constant_i + <z, dual_i> of R rows and T tiles.
template <int R, int T>
inline void dual_products(const double* const* z, int d, const double* dual,
                          const double* constant, std::size_t stride, double* const* out) {
    Vec sum[R][T];
    for (int m = 0; m < R; ++m)
        for (int t = 0; t < T; ++t) sum[m][t] = Vec::load(constant + t * W);
    for (int j = 0; j < d; ++j)
        for (int m = 0; m < R; ++m)
            for (int t = 0; t < T; ++t)
                sum[m][t] = fmadd(Vec::all(z[m][j]), Vec::load(dual + t * stride + j * W), sum[m][t]);
    for (int m = 0; m < R; ++m)
        for (int t = 0; t < T; ++t) sum[m][t].store(out[m] + t * W);
}

class LabelWorker {
public:
    static constexpr bool in_order = false;

    LabelWorker(const CentredBook& centred, const Samples& samples, std::int64_t rows,
                const Groups& groups, std::int64_t* labels)
        : centred_(centred), book_(centred.book), samples_(samples), rows_(rows), groups_(groups),
          labels_(labels), likeliest_(book_),
          likeliest_group_(groups.of, groups.count, book_.K), z_(static_cast<std::size_t>(rows_at_once) * book_.d),
          value_(rows_at_once * centred.constant.size()), exact_(centred.constant.size()) {
        for (std::int64_t m = 0; m < rows_at_once; ++m) {
            readers_.emplace_back(book_.d, book_.matrix);
            at_[m] = &z_[static_cast<std::size_t>(m) * book_.d];
            out_[m] = &value_[static_cast<std::size_t>(m) * centred.constant.size()];
        }
    }
    void work(std::int64_t block) {
        const std::int64_t each = rows_in_block(book_), end = std::min(rows_, (block + 1) * each);
        for (std::int64_t first = block * each; first < end; first += rows_at_once)
            label(first, std::min(rows_at_once, end - first));
    }
    void settle(std::int64_t) {}

private:
    const FlushDenormals flush_;
    const CentredBook& centred_;
    const Codebook& book_;
    const Samples& samples_;
    std::int64_t rows_;
    const Groups& groups_;
    std::int64_t* labels_;
    Likeliest likeliest_;
    LikeliestGroup likeliest_group_;
    Doubles z_, value_, exact_;
    std::vector<RowReader<SquaredEuclidean>> readers_;
    Row row_[rows_at_once];
    const double* at_[rows_at_once];
    double* out_[rows_at_once];

    void label(std::int64_t first, std::int64_t here) {
        double doubt[rows_at_once];
        for (std::int64_t m = 0; m < here; ++m) {
            row_[m] = read_row(readers_[m], samples_.at(first + m));
            double* z = &z_[static_cast<std::size_t>(m) * book_.d];
            double square = 0;
            for (int j = 0; j < book_.d; ++j) {
                z[j] = row_[m].x[j] - centred_.centre[j];
                square += z[j] * z[j];
            }
            doubt[m] = centred_.doubt(std::sqrt(square));
        }
        multiply(here);
        for (std::int64_t m = 0; m < here; ++m) labels_[first + m] = decide(m, doubt[m]);
    }
    void multiply(std::int64_t here) {
        const int tiles = centred_.tiles.count;
        for (int t = 0; t < tiles; t += 3) {
            const int wide = std::min(3, tiles - t);
            std::int64_t m = 0;
            for (; m + 4 <= here; m += 4)
                wide == 3 ? some<4, 3>(m, t) : wide == 2 ? some<4, 2>(m, t) : some<4, 1>(m, t);
            for (; m < here; ++m)
                wide == 3 ? some<1, 3>(m, t) : wide == 2 ? some<1, 2>(m, t) : some<1, 1>(m, t);
        }
    }
    template <int R, int T>
    void some(std::int64_t m, int t) {
        const std::size_t from = static_cast<std::size_t>(t) * W;
        double* out[R];
        for (int k = 0; k < R; ++k) out[k] = out_[m + k] + from;
        dual_products<R, T>(at_ + m, book_.d, &centred_.dual[centred_.tiles.offset(t)],
                            &centred_.constant[from], centred_.tiles.offset(1), out);
    }
    std::int64_t decide(std::int64_t m, double doubt) {
        const double* value = out_[m];
        const int size = static_cast<int>(centred_.constant.size());
        Vec most[2] = {Vec::all(-infinity), Vec::all(-infinity)};  // of every other tile
        for (int i = 0, t = 0; i < size; i += W, t ^= 1) most[t] = max(Vec::load(value + i), most[t]);
        const double highest = largest(max(most[0], most[1]));
        const double bar = highest - doubt;
        if (groups_.of) return decide_group(m, highest, doubt);
        int left = 0, last = 0;
        for (int i = 0; i < size; i += W)
            if (any_above(Vec::load(value + i), bar))
                for (int k = i; k < i + W; ++k)
                    if (value[k] > bar) ++left, last = k;
        // Where nothing can be told (every difference is lost, or all are impossible) all are left.
        const bool told = highest - bar > 1e-290;
        if (told && left == 1) return last;
        measure(m, told ? bar : -infinity);
        return likeliest_(exact_);
    }
    std::int64_t decide_group(std::int64_t m, double highest, double doubt) {
        double lead;
        if (highest > -infinity) {
            const std::int64_t best = likeliest_group_(out_[m], highest, lead);
            if (lead > 2 * doubt) return best;
        }
        measure(m, highest - doubt - LikeliestGroup::least_seen);
        const double exact = likeliest_.exponent[likeliest_(exact_)];
        return likeliest_group_(likeliest_.exponent.data(), exact, lead);
    }
    // Differences of the codevectors that lie above a bar; the others are infinitely far away.
    void measure(std::int64_t m, double bar) {
        for (int t = 0; t < centred_.tiles.count; ++t) {
            const bool near = !(bar > -infinity) || any_above(Vec::load(out_[m] + t * W), bar);
            (near ? centred_.tiles.divergence(t, row_[m]) : Vec::all(infinity)).store(&exact_[t * W]);
        }
    }
};

inline void labels_by_products(const Codebook& book, const Samples& samples, std::int64_t rows,
                               int threads, const Groups& groups, std::int64_t* out) {
    const FlushDenormals flush;
    const CentredBook centred(book);
    const std::int64_t each = rows_in_block(book);
    const double work = static_cast<double>(rows) * book.K * (book.d + 8);
    in_threads((rows + each - 1) / each, threads_for(work, threads),
               [&] { return LabelWorker(centred, samples, rows, groups, out); });
}

}  // namespace annealed
