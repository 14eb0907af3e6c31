// Four doubles at a time, eight with AVX-512. AVX2 + FMA where the compiler may use them, plain loops
// elsewhere (which every compiler turns into SSE2 or NEON). All arithmetic that decides a model goes
// through `fmadd` explicitly and the build forbids implicit contraction, so the same expression
// rounds the same way wherever it is inlined: chunking a stream differently cannot change a bit.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define ANNEALED_AVX512 1
#define ANNEALED_AVX2 0
#include <immintrin.h>
#elif defined(__AVX2__) && defined(__FMA__)
#define ANNEALED_AVX512 0
#define ANNEALED_AVX2 1
#include <immintrin.h>
#else
#define ANNEALED_AVX512 0
#define ANNEALED_AVX2 0
#endif
#if defined(__SSE2__) || defined(_M_X64)
#include <xmmintrin.h>
#endif

namespace annealed {

constexpr int W = ANNEALED_AVX512 ? 8 : 4;  // lanes of a Vec
constexpr double infinity = std::numeric_limits<double>::infinity();

#if ANNEALED_AVX512

struct Vec {
    __m512d v;
    static Vec load(const double* p) { return {_mm512_loadu_pd(p)}; }
    static Vec all(double x) { return {_mm512_set1_pd(x)}; }
    void store(double* p) const { _mm512_storeu_pd(p, v); }
};
// Twice as many in single precision, for what is made sure of in double precision afterwards.
struct Floats {
    __m512 v;
    static Floats load(const float* p) { return {_mm512_loadu_ps(p)}; }
    static Floats all(float x) { return {_mm512_set1_ps(x)}; }
    void store(float* p) const { _mm512_storeu_ps(p, v); }
};
inline Floats fmadd(Floats a, Floats b, Floats c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Floats max(Floats a, Floats b) { return {_mm512_max_ps(a.v, b.v)}; }
inline bool any_above(Floats a, float b) {
    return _mm512_cmp_ps_mask(a.v, _mm512_set1_ps(b), _CMP_GT_OQ) != 0;
}
inline Vec operator+(Vec a, Vec b) { return {_mm512_add_pd(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm512_sub_pd(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm512_mul_pd(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm512_div_pd(a.v, b.v)}; }
inline Vec fmadd(Vec a, Vec b, Vec c) { return {_mm512_fmadd_pd(a.v, b.v, c.v)}; }
inline Vec max(Vec a, Vec b) { return {_mm512_max_pd(a.v, b.v)}; }
inline Vec min(Vec a, Vec b) { return {_mm512_min_pd(a.v, b.v)}; }
inline Vec sqrt(Vec a) { return {_mm512_sqrt_pd(a.v)}; }
// a/(sqrt(b) + c) in single precision, correctly rounded on every machine, at a third of the cost
inline Vec over_root(Vec a, Vec b, float c) {
    const __m256 root = _mm256_add_ps(_mm256_sqrt_ps(_mm512_cvtpd_ps(b.v)), _mm256_set1_ps(c));
    return {_mm512_cvtps_pd(_mm256_div_ps(_mm512_cvtpd_ps(a.v), root))};
}
inline bool any_above(Vec a, double b) {
    return _mm512_cmp_pd_mask(a.v, _mm512_set1_pd(b), _CMP_GT_OQ) != 0;
}
// bit k is set where lane k of a equals b
inline int equal_lanes(Vec a, double b) {
    return _mm512_cmp_pd_mask(a.v, _mm512_set1_pd(b), _CMP_EQ_OQ);
}
// a where a > b, otherwise 0
inline Vec zero_unless_above(Vec value, Vec a, Vec b) {
    return {_mm512_maskz_mov_pd(_mm512_cmp_pd_mask(a.v, b.v, _CMP_GT_OQ), value.v)};
}
// a where b equals c, otherwise 0
inline Vec zero_unless_equal(Vec value, Vec b, Vec c) {
    return {_mm512_maskz_mov_pd(_mm512_cmp_pd_mask(b.v, c.v, _CMP_EQ_OQ), value.v)};
}
// 2^n for whole n in [-1022, 1023]
inline Vec power_of_two(Vec n) {
    const __m512i whole = _mm512_cvtpd_epi64(n.v);
    return {_mm512_castsi512_pd(
        _mm512_slli_epi64(_mm512_add_epi64(whole, _mm512_set1_epi64(1023)), 52))};
}
inline Vec round_whole(Vec a) {
    return {_mm512_roundscale_pd(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// x = mantissa * 2^exponent with the mantissa in [sqrt(1/2), sqrt(2)), x normal and positive
inline void split_exponent(Vec x, Vec& mantissa, Vec& exponent) {
    const __m512i shift = _mm512_set1_epi64(0x3fe6a09e667f3bcdLL);  // bits of sqrt(1/2)
    const __m512i bits = _mm512_castpd_si512(x.v);
    const __m512i whole = _mm512_srai_epi64(_mm512_sub_epi64(bits, shift), 52);
    exponent = {_mm512_cvtepi64_pd(whole)};
    mantissa = {_mm512_castsi512_pd(_mm512_sub_epi64(bits, _mm512_slli_epi64(whole, 52)))};
}

#elif ANNEALED_AVX2

struct Vec {
    __m256d v;
    static Vec load(const double* p) { return {_mm256_loadu_pd(p)}; }
    static Vec all(double x) { return {_mm256_set1_pd(x)}; }
    void store(double* p) const { _mm256_storeu_pd(p, v); }
};
struct Floats {
    __m256 v;
    static Floats load(const float* p) { return {_mm256_loadu_ps(p)}; }
    static Floats all(float x) { return {_mm256_set1_ps(x)}; }
    void store(float* p) const { _mm256_storeu_ps(p, v); }
};
inline Floats fmadd(Floats a, Floats b, Floats c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
inline Floats max(Floats a, Floats b) { return {_mm256_max_ps(a.v, b.v)}; }
inline bool any_above(Floats a, float b) {
    return _mm256_movemask_ps(_mm256_cmp_ps(a.v, _mm256_set1_ps(b), _CMP_GT_OQ)) != 0;
}
inline Vec operator+(Vec a, Vec b) { return {_mm256_add_pd(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm256_sub_pd(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm256_mul_pd(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm256_div_pd(a.v, b.v)}; }
inline Vec fmadd(Vec a, Vec b, Vec c) { return {_mm256_fmadd_pd(a.v, b.v, c.v)}; }
inline Vec max(Vec a, Vec b) { return {_mm256_max_pd(a.v, b.v)}; }
inline Vec min(Vec a, Vec b) { return {_mm256_min_pd(a.v, b.v)}; }
inline Vec sqrt(Vec a) { return {_mm256_sqrt_pd(a.v)}; }
// a/(sqrt(b) + c) in single precision, correctly rounded on every machine, at a third of the cost
inline Vec over_root(Vec a, Vec b, float c) {
    const __m128 root = _mm_add_ps(_mm_sqrt_ps(_mm256_cvtpd_ps(b.v)), _mm_set1_ps(c));
    return {_mm256_cvtps_pd(_mm_div_ps(_mm256_cvtpd_ps(a.v), root))};
}
inline bool any_above(Vec a, double b) {
    return _mm256_movemask_pd(_mm256_cmp_pd(a.v, _mm256_set1_pd(b), _CMP_GT_OQ)) != 0;
}
// bit k is set where lane k of a equals b
inline int equal_lanes(Vec a, double b) {
    return _mm256_movemask_pd(_mm256_cmp_pd(a.v, _mm256_set1_pd(b), _CMP_EQ_OQ));
}
// a where a > b, otherwise 0
inline Vec zero_unless_above(Vec value, Vec a, Vec b) {
    return {_mm256_and_pd(value.v, _mm256_cmp_pd(a.v, b.v, _CMP_GT_OQ))};
}
// a where b equals c, otherwise 0
inline Vec zero_unless_equal(Vec value, Vec b, Vec c) {
    return {_mm256_and_pd(value.v, _mm256_cmp_pd(b.v, c.v, _CMP_EQ_OQ))};
}
// 2^n for whole n in [-1022, 1023]
inline Vec power_of_two(Vec n) {
    const __m256d magic = _mm256_set1_pd(6755399441055744.0);  // 1.5 * 2^52
    __m256i bits = _mm256_castpd_si256(_mm256_add_pd(n.v, magic));
    bits = _mm256_add_epi64(bits, _mm256_set1_epi64x(1023));
    return {_mm256_castsi256_pd(_mm256_slli_epi64(bits, 52))};
}
inline Vec round_whole(Vec a) {
    return {_mm256_round_pd(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// x = mantissa * 2^exponent with the mantissa in [sqrt(1/2), sqrt(2)), x normal and positive
inline void split_exponent(Vec x, Vec& mantissa, Vec& exponent) {
    const __m256i shift = _mm256_set1_epi64x(0x3fe6a09e667f3bcdLL);  // bits of sqrt(1/2)
    const __m256i bits = _mm256_sub_epi64(_mm256_castpd_si256(x.v), shift);
    // arithmetic shift right by 52 of a 64-bit lane, through the biased trick
    const __m256i biased = _mm256_srli_epi64(
        _mm256_add_epi64(bits, _mm256_set1_epi64x(1LL << 62)), 52);  // exponent + 1024
    const __m256d magic = _mm256_set1_pd(4503599627370496.0);        // 2^52
    const __m256d whole =
        _mm256_sub_pd(_mm256_or_pd(_mm256_castsi256_pd(biased), magic), magic);
    exponent = {_mm256_sub_pd(whole, _mm256_set1_pd(1024.0))};
    const __m256i high = _mm256_slli_epi64(_mm256_sub_epi64(biased, _mm256_set1_epi64x(1024)), 52);
    mantissa = {_mm256_castsi256_pd(_mm256_sub_epi64(_mm256_castpd_si256(x.v), high))};
}

#else

struct Vec {
    double v[W];
    static Vec load(const double* p) {
        Vec r;
        std::memcpy(r.v, p, sizeof r.v);
        return r;
    }
    static Vec all(double x) { return {{x, x, x, x}}; }
    void store(double* p) const { std::memcpy(p, v, sizeof v); }
};
#define ANNEALED_LANES(expression)                            \
    do {                                                      \
        for (int k = 0; k < W; ++k) r.v[k] = (expression);    \
    } while (0)
struct Floats {
    float v[2 * W];
    static Floats load(const float* p) {
        Floats r;
        std::memcpy(r.v, p, sizeof r.v);
        return r;
    }
    static Floats all(float x) {
        Floats r;
        for (float& lane : r.v) lane = x;
        return r;
    }
    void store(float* p) const { std::memcpy(p, v, sizeof v); }
};
inline Floats fmadd(Floats a, Floats b, Floats c) {
    for (int k = 0; k < 2 * W; ++k) c.v[k] = a.v[k] * b.v[k] + c.v[k];
    return c;
}
inline Floats max(Floats a, Floats b) {
    for (int k = 0; k < 2 * W; ++k) a.v[k] = a.v[k] > b.v[k] ? a.v[k] : b.v[k];
    return a;
}
inline bool any_above(Floats a, float b) {
    bool any = false;
    for (int k = 0; k < 2 * W; ++k) any |= a.v[k] > b;
    return any;
}
inline Vec operator+(Vec a, Vec b) { Vec r; ANNEALED_LANES(a.v[k] + b.v[k]); return r; }
inline Vec operator-(Vec a, Vec b) { Vec r; ANNEALED_LANES(a.v[k] - b.v[k]); return r; }
inline Vec operator*(Vec a, Vec b) { Vec r; ANNEALED_LANES(a.v[k] * b.v[k]); return r; }
inline Vec operator/(Vec a, Vec b) { Vec r; ANNEALED_LANES(a.v[k] / b.v[k]); return r; }
inline Vec fmadd(Vec a, Vec b, Vec c) { Vec r; ANNEALED_LANES(a.v[k] * b.v[k] + c.v[k]); return r; }
inline Vec max(Vec a, Vec b) { Vec r; ANNEALED_LANES(a.v[k] > b.v[k] ? a.v[k] : b.v[k]); return r; }
inline Vec min(Vec a, Vec b) { Vec r; ANNEALED_LANES(a.v[k] < b.v[k] ? a.v[k] : b.v[k]); return r; }
inline Vec sqrt(Vec a) { Vec r; ANNEALED_LANES(std::sqrt(a.v[k])); return r; }
inline Vec over_root(Vec a, Vec b, float c) {
    Vec r;
    ANNEALED_LANES(static_cast<float>(a.v[k]) / (std::sqrt(static_cast<float>(b.v[k])) + c));
    return r;
}
inline bool any_above(Vec a, double b) {
    return (a.v[0] > b) | (a.v[1] > b) | (a.v[2] > b) | (a.v[3] > b);
}
inline int equal_lanes(Vec a, double b) {
    return (a.v[0] == b) | (a.v[1] == b) << 1 | (a.v[2] == b) << 2 | (a.v[3] == b) << 3;
}
inline Vec zero_unless_above(Vec value, Vec a, Vec b) {
    Vec r;
    ANNEALED_LANES(a.v[k] > b.v[k] ? value.v[k] : 0.0);
    return r;
}
inline Vec zero_unless_equal(Vec value, Vec b, Vec c) {
    Vec r;
    ANNEALED_LANES(b.v[k] == c.v[k] ? value.v[k] : 0.0);
    return r;
}
inline Vec power_of_two(Vec n) {
    Vec r;
    for (int k = 0; k < W; ++k) {
        const double shifted = n.v[k] + 6755399441055744.0;
        std::uint64_t bits;
        std::memcpy(&bits, &shifted, sizeof bits);
        bits = (bits + 1023) << 52;
        std::memcpy(&r.v[k], &bits, sizeof bits);
    }
    return r;
}
inline Vec round_whole(Vec a) {
    Vec r;
    ANNEALED_LANES((a.v[k] + 6755399441055744.0) - 6755399441055744.0);
    return r;
}
inline void split_exponent(Vec x, Vec& mantissa, Vec& exponent) {
    for (int k = 0; k < W; ++k) {
        std::uint64_t bits;
        std::memcpy(&bits, &x.v[k], sizeof bits);
        const std::uint64_t biased = (bits - 0x3fe6a09e667f3bcdULL + (1ULL << 62)) >> 52;
        exponent.v[k] = static_cast<double>(static_cast<std::int64_t>(biased)) - 1024.0;
        bits -= (biased - 1024) << 52;
        std::memcpy(&mantissa.v[k], &bits, sizeof bits);
    }
}

#endif

// The lanes taken together, halves at a time, in an order that is always the same.
template <class Operation>
inline double over_lanes(Vec a, Operation operation) {
    double t[W];
    a.store(t);
    for (int half = W / 2; half > 0; half /= 2)
        for (int k = 0; k < half; ++k) t[k] = operation(t[k], t[k + half]);
    return t[0];
}
inline double sum(Vec a) {
    return over_lanes(a, [](double x, double y) { return x + y; });
}
inline double largest(Vec a) {
    return over_lanes(a, [](double x, double y) { return x > y ? x : y; });
}
inline double smallest(Vec a) {
    return over_lanes(a, [](double x, double y) { return x < y ? x : y; });
}

constexpr double exp_floor = -700.0;  // below this exp is taken as exactly 0
// Of what is less than the largest term by so much, as a logarithm, a few thousand change no sum.
constexpr double least_seen = 45.0;

// exp(x) for x <= 700 (about 1 ulp): 2^n times a Taylor polynomial on |r| <= ln(2)/2.
inline Vec exp(Vec x) {
    const Vec clamped = max(x, Vec::all(exp_floor));
    const Vec n = round_whole(clamped * Vec::all(1.4426950408889634074));
    Vec r = fmadd(n, Vec::all(-6.93147180369123816490e-01), clamped);
    r = fmadd(n, Vec::all(-1.90821492927058770002e-10), r);
    // Estrin's scheme: three short chains instead of one long one.
    const Vec r2 = r * r, r4 = r2 * r2, r8 = r4 * r4;
    const Vec a = fmadd(r, Vec::all(1.0), Vec::all(1.0));
    const Vec b = fmadd(r, Vec::all(1.0 / 6), Vec::all(1.0 / 2));
    const Vec c = fmadd(r, Vec::all(1.0 / 120), Vec::all(1.0 / 24));
    const Vec d = fmadd(r, Vec::all(1.0 / 5040), Vec::all(1.0 / 720));
    const Vec e = fmadd(r, Vec::all(1.0 / 362880), Vec::all(1.0 / 40320));
    const Vec f = fmadd(r, Vec::all(1.0 / 39916800), Vec::all(1.0 / 3628800));
    const Vec g = fmadd(r, Vec::all(1.0 / 6227020800.0), Vec::all(1.0 / 479001600));
    const Vec low = fmadd(fmadd(d, r2, c), r4, fmadd(b, r2, a));
    const Vec high = fmadd(g, r4, fmadd(f, r2, e));
    const Vec value = fmadd(high, r8, low) * power_of_two(n);
    return zero_unless_above(value, x, Vec::all(exp_floor));
}

// log(x) for normal x > 0 (about 2 ulp): 2 artanh((m - 1)/(m + 1)) + exponent ln(2).
inline Vec log(Vec x) {
    Vec m, e;
    split_exponent(x, m, e);
    const Vec one = Vec::all(1.0);
    const Vec s = (m - one) / (m + one), z = s * s;
    Vec p = Vec::all(2.0 / 21);
    p = fmadd(p, z, Vec::all(2.0 / 19));
    p = fmadd(p, z, Vec::all(2.0 / 17));
    p = fmadd(p, z, Vec::all(2.0 / 15));
    p = fmadd(p, z, Vec::all(2.0 / 13));
    p = fmadd(p, z, Vec::all(2.0 / 11));
    p = fmadd(p, z, Vec::all(2.0 / 9));
    p = fmadd(p, z, Vec::all(2.0 / 7));
    p = fmadd(p, z, Vec::all(2.0 / 5));
    p = fmadd(p, z, Vec::all(2.0 / 3));
    p = fmadd(p * z, s, s + s);
    p = fmadd(e, Vec::all(1.90821492927058770002e-10), p);
    return fmadd(e, Vec::all(6.93147180369123816490e-01), p);
}

// Denormals cost a hundred cycles each and mean nothing here: treat them as 0 inside a kernel,
// restore the caller's setting on the way out.
class FlushDenormals {
public:
#if defined(__SSE2__) || defined(_M_X64)
    FlushDenormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | 0x8040); }
    ~FlushDenormals() { _mm_setcsr(saved_); }

private:
    unsigned saved_;
#endif
};

}  // namespace annealed
