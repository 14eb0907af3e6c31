// The likeliest codevector of every row for squared Euclid, by dot products in single precision, which take
// a quarter of the time of differences in double precision, and cancel. So they only rule codevectors out:
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

constexpr int FW = 2 * W;  // lanes of Floats
using Singles = std::vector<float, CacheAligned<float>>;

// What all threads share: the codevectors around their mean.
struct CentredBook {
    const Codebook& book;
    Tiles<SquaredEuclidean> tiles;  // as they are
    Doubles centre;                 // [d]
    int wide_tiles;                 // tiles of FW codevectors
    Singles dual;                   // [tile][feature][lane] 2 unit m_i/T; T is unit^2 where it is 0
    Singles constant;               // log_weight_i - |m_i|^2/T, -infinity for those that are impossible
    double per_T, furthest = 0, heaviest = 0;
    double unit = 1;  // that z is measured in: neither it nor the products leave the range of floats

    explicit CentredBook(const Codebook& given)
        : book(given), tiles(given.mu, given.K, given.d), centre(given.d, 0.0),
          wide_tiles((tiles.count + 1) / 2),
          dual(static_cast<std::size_t>(wide_tiles) * FW * given.d, 0.0f),
          constant(static_cast<std::size_t>(wide_tiles) * FW, -std::numeric_limits<float>::infinity()),
          per_T(1 / given.T) {
        const int K = book.K, d = book.d;
        for (int i = 0; i < K; ++i)
            for (int j = 0; j < d; ++j) centre[j] += book.mu[static_cast<std::size_t>(i) * d + j] / K;
        Doubles square(K, 0.0);
        for (int i = 0; i < K; ++i) {
            for (int j = 0; j < d; ++j) {
                const double m = book.mu[static_cast<std::size_t>(i) * d + j] - centre[j];
                square[i] += m * m;
            }
            furthest = std::max(furthest, std::sqrt(square[i]));
        }
        if (furthest > 0 && furthest < infinity) unit = std::ldexp(1.0, std::ilogb(furthest));
        if (book.T == 0) per_T = 1 / unit / unit;
        for (int i = 0; i < K; ++i) {
            const std::size_t from = static_cast<std::size_t>(i / FW) * FW * d + i % FW;
            for (int j = 0; j < d; ++j)
                dual[from + static_cast<std::size_t>(j) * FW] = static_cast<float>(
                    2 * per_T * unit * (book.mu[static_cast<std::size_t>(i) * d + j] - centre[j]));
            if (book.log_weight[i] == -infinity) continue;
            const double weight = book.T == 0 ? 0.0 : book.log_weight[i];
            heaviest = std::max(heaviest, std::abs(weight));
            constant[i] = static_cast<float>(weight - per_T * square[i]);
        }
    }
    // How much rounding can move a codevector against another for a row of length |z|, in whichever way
    // they are measured; infinity where floats do not reach.
    //
    // By products, u = 2^-24: z and dual are off by u of themselves, and a sum of d terms by FMA by d u
    // of the sum of their sizes (Jeannerod and Rump 2013), which is at most P = 2 |z| |m|/T; the constant c
    // is off by u |c|, and adding it by u (|c| + P): u ((d + 3) P + 2 |c|) in all, for each of two. What
    // is flushed to zero is less than 1e-37 a term, in units of either factor. By differences, which add
    // up d terms no larger than (|z| + |m|)^2/T, the same in double precision.
    double doubt(double length) const {
        constexpr double large = 1e30;
        const double square = per_T * furthest * furthest, products = 2 * per_T * length * furthest;
        const double apart = length / unit, size = length + furthest;
        if (!(apart < large && square < large && products < large)) return infinity;
        if (!(furthest * furthest > 1e-290)) return infinity;  // too close together for squares
        const double by_products = (book.d + 8.0) * products + 8 * (heaviest + square);
        const double by_differences = (8.0 * book.d + 64) * (heaviest + per_T * size * size);
        return std::numeric_limits<float>::epsilon() * by_products +
               std::numeric_limits<double>::epsilon() * by_differences +
               1e-37 * book.d * (1 + apart);
    }
};

// constant_i + <z, dual_i> of R rows and T tiles; the constant, which may be large, comes last.
template <int R, int T>
inline void dual_products(const float* const* z, int d, const float* dual, const float* constant,
                          std::size_t stride, float* const* out) {
    Floats sum[R][T];
    for (int m = 0; m < R; ++m)
        for (int t = 0; t < T; ++t) sum[m][t] = Floats::all(0.0f);
    for (int j = 0; j < d; ++j)
        for (int m = 0; m < R; ++m)
            for (int t = 0; t < T; ++t)
                sum[m][t] =
                    fmadd(Floats::all(z[m][j]), Floats::load(dual + t * stride + j * FW), sum[m][t]);
    for (int m = 0; m < R; ++m)
        for (int t = 0; t < T; ++t)
            fmadd(Floats::all(1.0f), Floats::load(constant + t * FW), sum[m][t]).store(out[m] + t * FW);
}

class LabelWorker {
public:
    static constexpr bool in_order = false;

    LabelWorker(const CentredBook& centred, const Samples& samples, std::int64_t rows,
                const Groups& groups, std::int64_t* labels)
        : centred_(centred), book_(centred.book), samples_(samples), rows_(rows), groups_(groups),
          labels_(labels), likeliest_(book_),
          likeliest_group_(groups.of, groups.count, book_.K),
          z_(static_cast<std::size_t>(rows_at_once) * book_.d),
          value_(rows_at_once * centred.constant.size()), doubles_(centred.constant.size()),
          exact_(static_cast<std::size_t>(centred.tiles.count) * W) {
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
    Singles z_, value_;
    Doubles doubles_, exact_;
    std::vector<RowReader<SquaredEuclidean>> readers_;
    Row row_[rows_at_once];
    const float* at_[rows_at_once];
    float* out_[rows_at_once];

    void label(std::int64_t first, std::int64_t here) {
        double doubt[rows_at_once];
        const double per_unit = 1 / centred_.unit;
        for (std::int64_t m = 0; m < here; ++m) {
            row_[m] = read_row(readers_[m], samples_.at(first + m));
            float* z = &z_[static_cast<std::size_t>(m) * book_.d];
            double square = 0;
            for (int j = 0; j < book_.d; ++j) {
                const double apart = row_[m].x[j] - centred_.centre[j];
                z[j] = static_cast<float>(apart * per_unit);
                square += apart * apart;
            }
            doubt[m] = centred_.doubt(std::sqrt(square));
        }
        multiply(here);
        for (std::int64_t m = 0; m < here; ++m) labels_[first + m] = decide(m, doubt[m]);
    }
    void multiply(std::int64_t here) {
        const int tiles = centred_.wide_tiles;
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
        const std::size_t from = static_cast<std::size_t>(t) * FW;
        const std::size_t stride = static_cast<std::size_t>(FW) * book_.d;
        float* out[R];
        for (int k = 0; k < R; ++k) out[k] = out_[m + k] + from;
        dual_products<R, T>(at_ + m, book_.d, &centred_.dual[static_cast<std::size_t>(t) * stride],
                            &centred_.constant[from], stride, out);
    }
    std::int64_t decide(std::int64_t m, double doubt) {
        const float* value = out_[m];
        const int size = static_cast<int>(centred_.constant.size());
        const Floats nothing = Floats::all(-std::numeric_limits<float>::infinity());
        Floats most[2] = {nothing, nothing};  // of every other tile
        for (int i = 0, t = 0; i < size; i += FW, t ^= 1)
            most[t] = max(Floats::load(value + i), most[t]);
        alignas(64) float each[FW];
        max(most[0], most[1]).store(each);
        const double highest = *std::max_element(each, each + FW);
        // Where nothing can be told (every difference is lost, all are impossible, or numbers are too large)
        // all are left.
        const double bar = highest - doubt;
        const bool told = bar > -infinity && bar < infinity;
        if (groups_.of) return decide_group(m, highest, doubt, told);
        if (told) {
            const float above = just_below(bar);
            int left = 0, last = 0;
            for (int i = 0; i < size; i += FW)
                if (any_above(Floats::load(value + i), above))
                    for (int k = i; k < i + FW; ++k)
                        if (value[k] > above) ++left, last = k;
            if (left == 1) return last;
        }
        measure(m, told ? bar : -infinity);
        return likeliest_(exact_);
    }
    std::int64_t decide_group(std::int64_t m, double highest, double doubt, bool told) {
        if (told) {
            std::copy(out_[m], out_[m] + doubles_.size(), doubles_.begin());
            const LikeliestGroup::Answer found = likeliest_group_(doubles_.data(), highest);
            if (found.lead > 2 * doubt) return found.group;
        }
        measure(m, told ? highest - doubt - least_seen : -infinity);
        const double exact = likeliest_.exponent[likeliest_(exact_)];
        return likeliest_group_(likeliest_.exponent.data(), exact).group;
    }
    // Differences of the codevectors that lie above a bar; the others are infinitely far away.
    void measure(std::int64_t m, double bar) {
        const float above = just_below(bar);
        for (int t = 0; t < centred_.tiles.count; ++t) {
            const Floats here = Floats::load(out_[m] + t / 2 * FW);
            const bool near = !(bar > -infinity) || any_above(here, above);
            (near ? centred_.tiles.divergence(t, row_[m]) : Vec::all(infinity)).store(&exact_[t * W]);
        }
    }
    static float just_below(double bar) {
        return std::nextafter(static_cast<float>(bar), -std::numeric_limits<float>::infinity());
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
