// Everything a caller may hand over in one call: rows in any order, with classes, weights and roles.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "level.hpp"

namespace annealed {

// A function that only asks for memory does nothing as far as GCC sees, and is dropped unless it is
// inlined before that is asked.
#if defined(__GNUC__) || defined(__clang__)
#define ANNEALED_INLINE inline __attribute__((always_inline))
ANNEALED_INLINE void bring_near(const void* address) { __builtin_prefetch(address); }
#else
#define ANNEALED_INLINE inline
ANNEALED_INLINE void bring_near(const void*) {}
#endif

struct Samples {
    const char* data;
    std::ptrdiff_t row_stride, feature_stride;  // in elements
    bool single_precision;
    const std::int64_t* order;   // or null: rows as they lie
    const std::int32_t* classes;  // per row of the array, or null: all of class 0
    const double* weights;        // per row of the array, or null: all 1
    const std::uint8_t* roles;    // per row of the array, or null: all both

    RowPointer at(std::int64_t row) const {
        return {data + static_cast<std::ptrdiff_t>(item()) * row * row_stride, feature_stride,
                single_precision};
    }
    // Which row is the k-th of those up to `end`, d features each. Where the order is random no
    // processor foresees the next ones, and waiting for memory would take longer than learning them.
    ANNEALED_INLINE std::int64_t row(std::int64_t k, std::int64_t end, int d) const {
        if (!order) return k;
        if (k + ahead < end) expect(order[k + ahead], d);
        return order[k];
    }

private:
    static constexpr std::int64_t ahead = 8;
    // Bytes that come together; after so many the processor goes on by itself.
    static constexpr std::size_t line = 64, most_asked_for = 1024;

    std::size_t item() const { return single_precision ? sizeof(float) : sizeof(double); }
    ANNEALED_INLINE void expect(std::int64_t row, int d) const {
        if (classes) bring_near(classes + row);
        if (weights) bring_near(weights + row);
        if (roles) bring_near(roles + row);
        if (feature_stride != 1) return;
        const char* begin = static_cast<const char*>(at(row).data);
        const char* last = begin + std::min(item() * static_cast<std::size_t>(d), most_asked_for) - 1;
        for (const char* here = begin; here < last; here += line) bring_near(here);
        bring_near(last);  // rows do not begin where lines do
    }
};
#undef ANNEALED_INLINE

}  // namespace annealed
