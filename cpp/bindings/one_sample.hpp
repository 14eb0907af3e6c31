// One Python sample at a time: taken as it comes, or left for the caller to look at.
#pragma once

#include "arrays.hpp"

namespace annealed {

// What a sample must be to be taken as it comes: a dict with just these keys, or a sequence of
// numbers, all of them between the bounds.
struct SampleFormat {
    nb::object keys;  // a tuple, or None where samples are sequences
    double low, high;
};

// The sample's numbers, valid until the next call; null where it is out of the ordinary.
const double* read_sample(nb::handle x, const SampleFormat& format, int d);

// A contiguous array of as many doubles; false where it is anything else.
bool read_array(PyObject* sample, Doubles& values);

inline bool is_weight(double w) { return w > 0 && w < infinity; }

}  // namespace annealed
