// Arrays and numbers on their way in and out, and every check of what comes in.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <vector>

#include "../online.hpp"

namespace annealed {

namespace nb = nanobind;
using namespace nb::literals;

using Anything = nb::ndarray<nb::ro, nb::device::cpu>;
using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Classes = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Statistic = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class Number>
using Array = nb::ndarray<nb::numpy, Number>;

// Lets other threads run Python meanwhile, if there are so many multiplications to do that it is worth
// their while: waking one up, and then waiting for it, takes longer than a short call.
class Unlocked {
public:
    explicit Unlocked(double multiplications) {
        if (multiplications > 1 << 17) released_.emplace();
    }
    Unlocked(const Unlocked&) = delete;

private:
    std::optional<nb::gil_scoped_release> released_;
};

template <class Number>
Array<Number> owned_array(const std::vector<std::size_t>& shape, Number* data) {
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<Number*>(p); });
    return Array<Number>(data, shape.size(), shape.data(), owner);
}
inline std::size_t room_for(const std::vector<std::size_t>& shape) {
    std::size_t size = 1;
    for (std::size_t n : shape) size *= n;
    return size ? size : 1;
}
// Of zeros.
template <class Number>
Array<Number> new_array(const std::vector<std::size_t>& shape, Number*& data) {
    return owned_array(shape, data = new Number[room_for(shape)]());
}
// To be filled by whoever asked: large ones are first touched by the threads that fill them.
template <class Number>
Array<Number> empty_array(const std::vector<std::size_t>& shape, Number*& data) {
    return owned_array(shape, data = new Number[room_for(shape)]);
}
inline Array<double> copy_out(const double* values, std::size_t size) {
    double* data;
    Array<double> array = new_array<double>({size}, data);
    std::copy(values, values + size, data);
    return array;
}
inline Array<double> rows_out(const Doubles& tiles, int K, int d) {
    double* data;
    Array<double> array = new_array<double>({static_cast<std::size_t>(K), static_cast<std::size_t>(d)}, data);
    from_tiles(tiles, K, d, data);
    return array;
}

template <class A>
auto* pointer(const std::optional<A>& array) {
    return array ? array->data() : nullptr;
}

// Sizes are checked wherever arrays come in: a model may have been read from a file nobody vouches
// for, and the loops behind believe what they are told.
inline void require(bool holds, const char* otherwise) {
    if (!holds) throw std::invalid_argument(otherwise);
}
inline int size_of(std::size_t n) {
    require(n > 0 && n < (std::size_t(1) << 30), "no codevectors or features, or too many of them");
    return static_cast<int>(n);
}
inline void require_square(const std::optional<Matrix>& matrix, std::size_t d) {
    require(!matrix || (matrix->shape(0) == d && matrix->shape(1) == d),
            "the matrix of the divergence does not fit the codevectors");
}
inline void require_length(const Vector& vector, std::size_t n, const char* otherwise) {
    require(vector.shape(0) == n, otherwise);
}
// A count or a sum of weights read from a saved state.
inline std::int64_t whole_in(const nb::dict& state, const char* key) {
    const auto value = nb::cast<std::int64_t>(state[key]);
    require(value >= 0 && value < (std::int64_t(1) << 62), "a saved count is out of range");
    return value;
}
inline double amount_in(const nb::dict& state, const char* key) {
    const auto value = nb::cast<double>(state[key]);
    require(value >= 0 && value < infinity, "a saved sum of weights is out of range");
    return value;
}

// Steps 1/(a + b n): anything else may never end (see log_gamma_ratio).
inline void require_steps(const LevelSettings& steps) {
    require(steps.a >= 1 && steps.a < infinity && steps.b > 0 && steps.b < infinity &&
                steps.alpha_min >= 0 && steps.alpha_min < 1,
            "steps 1/(a + b n) need a >= 1, b > 0 and a floor from 0 to below 1");
}

// A saved array, copied over one of the same length.
inline void copy_in(const nb::dict& state, const char* key, double* into, std::size_t size,
                    const char* otherwise) {
    const Vector array = nb::cast<Vector>(state[key]);
    require_length(array, size, otherwise);
    std::copy(array.data(), array.data() + size, into);
}

// Numbers of K codevectors in tiles, `each` of every one, as a build with so many lanes has saved them.
inline void tiles_in(const nb::dict& state, const char* key, Doubles& into, int K, int each,
                     const char* otherwise) {
    const auto lanes = state.contains("lanes") ? nb::cast<std::size_t>(state["lanes"]) : 4;
    require(lanes == 4 || lanes == 8, otherwise);
    if (lanes == static_cast<std::size_t>(W)) return copy_in(state, key, into.data(), into.size(), otherwise);
    const Vector array = nb::cast<Vector>(state[key]);
    const auto count = static_cast<std::size_t>(K), per = static_cast<std::size_t>(each);
    require_length(array, (count + lanes - 1) / lanes * lanes * per, otherwise);
    for (std::size_t i = 0; i < count; ++i)
        for (std::size_t j = 0; j < per; ++j)
            into[(i / W * per + j) * W + i % W] =
                array.data()[(i / lanes * per + j) * lanes + i % lanes];
}

// All rows of X, to be read for a codebook of d features.
inline Samples rows_to_read(const Anything& X, std::size_t d,
                            const std::optional<Classes>& classes = {},
                            const std::optional<Vector>& weights = {}) {
    const bool single = X.dtype() == nb::dtype<float>();
    require(X.ndim() == 2 && (single || X.dtype() == nb::dtype<double>()),
            "rows must be a 2-D float32 or float64 array");
    require(X.shape(1) == d, "rows and codevectors differ in their number of features");
    require((!classes || classes->shape(0) >= X.shape(0)) &&
                (!weights || weights->shape(0) >= X.shape(0)),
            "there are fewer classes or weights than rows");
    return {static_cast<const char*>(X.data()), X.stride(0), X.stride(1), single, nullptr,
            pointer(classes), pointer(weights), nullptr};
}

// Rows order[begin..end) of X (without an order begin..end), to be learnt by codevectors of d
// features. Whether their classes exist is known to whoever learns them.
inline Samples rows_to_learn(const Anything& X, int d, const std::optional<Integers>& order,
                             const std::optional<Classes>& classes,
                             const std::optional<Vector>& weights, std::int64_t begin,
                             std::int64_t end) {
    Samples samples = rows_to_read(X, static_cast<std::size_t>(d), classes, weights);
    const auto rows = static_cast<std::int64_t>(X.shape(0));
    const auto available = order ? static_cast<std::int64_t>(order->shape(0)) : rows;
    if (begin < 0 || begin > end || end > available)
        throw std::out_of_range("rows asked for are not in the array");
    samples.order = pointer(order);
    if (order)
        for (std::int64_t k = begin; k < end; ++k)
            if (samples.order[k] < 0 || samples.order[k] >= rows)
                throw std::out_of_range("the order names a row that is not in the array");
    return samples;
}

}  // namespace annealed
